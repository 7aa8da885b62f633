"""Evidence as the evaluator sees it: what still holds, changed files as diffs, the newest result of each command."""

from __future__ import annotations

import difflib
import re

from duckflow.engine.kit import Kit
from duckflow.prompts.results import Result, envelope
from duckflow.safety.change import content_hash
from duckflow.safety.paths import PathMissing, PathRefused
from duckflow.state.objective import Evidence

MOST_BYTES = 2_000_000
BLOCK_TOKENS = 3000
EXCERPT_LINES = 200
_TELLING = (
    r"(?i)\b(?:tell|told|explain|describe|report|answer|say|name|list|summari[sz]e|inform|state)\w*\b"
    r"|説明|教え|報告|伝え|述べ|回答|答え|要約|挙げ|示され|示す"
)


def mine(kit: Kit, run: str) -> tuple[Evidence, ...]:
    return kit.session.state.evidence.get(kit.session.run(run).objective or "", ())


def read_now(kit: Kit, path: str) -> bytes | None:
    """The file as it is; None when it is not there or not ours to read."""
    try:
        place = kit.workspace.locate(path)
        if place.where != "inside" or place.secret:
            return None
        return kit.workspace.read_bytes(place.path, MOST_BYTES)
    except (PathMissing, PathRefused, OSError):
        return None


def current_hash(kit: Kit, path: str) -> str | None:
    return content_hash(read_now(kit, path))


def holding(kit: Kit, run: str) -> list[Evidence]:
    """Evidence that still holds: of commands until the next change, of files while they have that content."""
    found = mine(kit, run)
    paths = {str(e.facts["path"]) for e in found if e.facts.get("path")}
    hashes = {path: current_hash(kit, path) for path in paths}
    effects = kit.session.state.effects
    return [e for e in found if e.ok and e.fresh(effects, hashes)]


def supporting(kit: Kit, run: str) -> dict[str, frozenset[str]]:
    """By requirement, the evidence that may support it. A reply supports only what asks to be told something."""
    objective = kit.session.objective(run)
    assert objective is not None
    held = holding(kit, run)
    facts = frozenset(e.id for e in held if e.kind != "reply")
    words = frozenset([e.id for e in held if e.kind == "reply"][-1:])
    return {
        r.id: facts | words if objective.profile == "analysis" or re.search(_TELLING, r.text) else facts
        for r in objective.requirements
    }


def change_evidence(kit: Kit, run: str) -> dict[str, Evidence]:
    """The newest change of each file."""
    return {str(e.facts["path"]): e for e in mine(kit, run) if e.kind == "change" and e.facts.get("path")}


def changed_files(kit: Kit, run: str) -> list[str]:
    """Files that differ from the start of the objective, by actions or by commands."""
    objective = kit.session.objective(run)
    if objective is None:
        return []
    by_actions = [path for path, before in objective.originals.items() if before != current_hash(kit, path)]
    by_commands = [p for e in mine(kit, run) if e.kind == "command" for p in e.facts.get("changed", ())]
    return sorted({*by_actions, *by_commands})


def shown_evidence(kit: Kit, run: str) -> list[str]:
    """One block per fact: diffs, newest command results, excerpts of what was read, the reply itself."""
    held = holding(kit, run)
    blocks = [_diff(kit, run, path, e) for path, e in change_evidence(kit, run).items() if e in held]
    commands = {e.facts.get("command"): e for e in held if e.kind == "command"}
    blocks += [command_block(kit, e, e.id) for e in commands.values()]
    reads = {str(sorted(e.facts.items(), key=str)): e for e in held if e.kind == "read"}
    changed = set(change_evidence(kit, run))
    blocks += [_read(kit, e) for e in reads.values() if e.facts.get("path") not in changed]
    replies = [e for e in held if e.kind == "reply"]
    blocks += [_reply(e) for e in replies[-1:]]
    return blocks


def _diff(kit: Kit, run: str, path: str, evidence: Evidence) -> str:
    """A changed file against the start of the objective."""
    objective = kit.session.objective(run)
    blob = objective.originals.get(path) if objective else None
    before = (kit.session.store.get(blob) or b"") if blob else b""
    after = read_now(kit, path) or b""
    old, new = (data.decode("utf-8", "replace").splitlines() for data in (before, after))
    lines = list(difflib.unified_diff(old, new, "before", "now", lineterm="", n=3))[2:]
    added = sum(line.startswith("+") for line in lines)
    removed = sum(line.startswith("-") for line in lines)
    what = "created" if blob is None else "deleted" if not after and evidence.facts.get("hash") is None else "changed"
    head = Result(evidence.id, what, path, facts=(f"+{added} -{removed}",), text="\n".join(lines))
    return envelope(head, BLOCK_TOKENS)


def command_block(kit: Kit, evidence: Evidence, name: str) -> str:
    """What a command gave, under this name."""
    output = kit.session.state.outputs.get(evidence.action, "") or str(evidence.facts.get("tail", ""))
    facts = [f"exit {evidence.facts.get('exit')}"]
    changed = evidence.facts.get("changed", ())
    if changed:
        facts.append(f"changed {', '.join(changed[:20])}")
        output += "".join(_excerpt(kit, path) for path in changed[:5])
    head = Result(name, "command", str(evidence.facts.get("command", "")), facts=tuple(facts), text=output)
    return envelope(head, BLOCK_TOKENS)


def _excerpt(kit: Kit, path: str, most: int = 60) -> str:
    data = read_now(kit, path)
    if data is None or b"\0" in data[:4000]:
        return ""
    lines = data.decode("utf-8", "replace").splitlines()[:most]
    return f"\n--- {path} now\n" + "\n".join(lines)


def _read(kit: Kit, evidence: Evidence) -> str:
    if not evidence.facts.get("hash"):  # a listing or a search: what it found is in its facts
        found = tuple(f"{key} {value}" for key, value in evidence.facts.items() if value not in ("", None))
        return envelope(Result(evidence.id, "looked", "", facts=found), BLOCK_TOKENS)
    path = str(evidence.facts.get("path", ""))
    lines = str(evidence.facts.get("lines", ""))
    data = read_now(kit, path) if path else None
    text = ""
    if data is not None:
        span = re.match(r"(\d+)-(\d+)", lines)
        first, last = (int(span[1]), int(span[2])) if span else (1, EXCERPT_LINES)
        text = "\n".join(data.decode("utf-8", "replace").splitlines()[first - 1 : min(last, first + EXCERPT_LINES)])
    facts = (f"lines {lines}",) if lines else ()
    return envelope(Result(evidence.id, "read", path, facts=facts, text=text), BLOCK_TOKENS)


def _reply(evidence: Evidence) -> str:
    note = ("the model's own words: they count only where an answer was asked for",)
    return envelope(
        Result(evidence.id, "reply", "", facts=note, text=str(evidence.facts.get("text", ""))), BLOCK_TOKENS
    )
