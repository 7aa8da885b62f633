"""Proofs that can be derived: whether a file parses, and the project's own tests, offered once."""

from __future__ import annotations

import hashlib
import json
import re
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from duckflow import events as ev
from duckflow.engine.evidence import changed_files, holding
from duckflow.engine.kit import Kit
from duckflow.engine.naming import asker
from duckflow.human import Card, Request
from duckflow.i18n import _
from duckflow.record import Record
from duckflow.safety.gate import Policy
from duckflow.state.machine import Status, Trigger
from duckflow.tools.project import look

MOST_BYTES = 1_000_000
_COMMENTED = re.compile(r"(?:^|/)(?:[jt]sconfig[^/]*|devcontainer|settings|launch|tasks|extensions)\.json$|\.jsonc$")
_CODE = {
    "pytest": (".py",),
    "npm": (".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs", ".vue", ".svelte"),
    "cargo": (".rs",),
    "go": (".go",),
}


class Problem(Record):
    language: str
    text: str = ""  # empty: it parses
    unsure: bool = False  # a newer version of the language might accept it


def syntax_problem(path: str, data: bytes, root: Path) -> Problem | None:
    """What is wrong with the form of a file. None: nobody here can tell."""
    suffix = PurePosixPath(path).suffix
    if len(data) > MOST_BYTES:
        return None
    try:
        if suffix == ".py":
            compile(data, path, "exec", dont_inherit=True)
            return Problem("Python")
        if suffix == ".json" and not _COMMENTED.search(path):
            json.loads(data.decode("utf-8-sig"))
            return Problem("JSON")
        if suffix == ".toml":
            tomllib.loads(data.decode("utf-8"))
            return Problem("TOML")
    except SyntaxError as error:
        return Problem("Python", f"line {error.lineno}: {error.msg}", _wants_newer_python(root))
    except (ValueError, RecursionError, MemoryError) as error:
        return Problem({".py": "Python", ".json": "JSON"}.get(suffix, "TOML"), str(error)[:200])
    return None


def _wants_newer_python(root: Path) -> bool:
    """Is the project written for a Python newer than the one that runs here?"""
    try:
        wanted = re.search(r"requires-python\s*=\s*[\"'][^\"']*?3\.(\d+)", (root / "pyproject.toml").read_text("utf-8"))
    except (OSError, ValueError):
        return False
    return wanted is not None and int(wanted[1]) > sys.version_info.minor


async def own_tests(kit: Kit, run: str, already: Sequence[str]) -> str:
    """The project's recognised test command, when it may run as a proof of what changed. Offered once per session."""
    files = changed_files(kit, run)
    if not any(_concerns(name, files) for name in _CODE):
        return ""
    command = look(kit.workspace.root).test_command
    if not command or not _concerns(command, files):
        return ""
    ran = [str(e.facts.get("command")) for e in holding(kit, run) if e.kind == "command"]
    if any(_are_same_tests(command, other) for other in (*already, *ran)):
        return command if command in ran else ""
    known = kit.session.state.offered.get(command)
    if known is not None:
        return command if known else ""
    ruled = _ruled(kit.approval.policy(), command)
    if ruled == "deny" or not kit.attended:  # a refusal would count against the work
        return command if ruled == "allow" else ""
    accepted = await _offer(kit, run, command)
    kit.session.append(ev.ChecksOffered(command=command, accepted=accepted), run=run)
    return command if accepted else ""


def _concerns(command: str, files: Sequence[str]) -> bool:
    """A README proves nothing to a test suite: only code of its language does."""
    suffixes = next((s for name, s in _CODE.items() if command.startswith(name)), None)
    code = suffixes or tuple(s for group in _CODE.values() for s in group)
    return any(path.endswith(code) for path in files)


def _are_same_tests(command: str, other: str) -> bool:
    """The whole suite, perhaps spelt differently: `python -m unittest` for `pytest`. A part of it is not the same."""
    runner = re.escape(command.split(" -")[0])
    if runner == "pytest":  # only a guess: Python's own runner finds the same files
        runner = "(?:pytest|unittest(?: discover)?)"
    before = r"(?:\w+=\S* +)*(?:\S*python[\d.]*(?: -\S+)* -m +|uv run +|poetry run +|\S+/)?"
    return re.fullmatch(rf"{before}{runner}(?: +-\S+)*", other.strip()) is not None


def _ruled(policy: Policy, command: str) -> str:
    """What the rules say without a question: allow, deny, or nothing."""
    from duckflow.safety.change import Change, Effect
    from duckflow.safety.patterns import first_match

    change = Change("shell.run", Effect.COMMAND, command, command=command, preview=command)
    if policy.mode == "plan" or first_match(policy.deny, change, tighten=True):
        return "deny"
    if first_match(policy.ask, change, tighten=True):
        return ""
    return "allow" if first_match(policy.allow, change, tighten=False) else ""


async def _offer(kit: Kit, run: str, command: str) -> bool:
    who = asker(kit.session.state, run)
    card = Card(
        title=_("Run the project's tests as a proof, now and after later changes of this session?"),
        preview=command,
        preview_kind="command",
        intent=_("prove the work with the project's own tests"),
        impact=_("runs with your rights and without a sandbox: files anywhere and the network are in its reach"),
        options=(("yes", _("yes")), ("no", _("no"))),
        asker=who,
    )
    kit.session.move(run, Trigger.GATE_ASKED, status=Status.REQUIRES_USER_INPUT)
    digest = hashlib.sha256(command.encode()).hexdigest()
    name = f"{kit.session.id}/{run}/tests"
    answer = await kit.door.ask(Request(name, run, "gate", card, digest, watched=not who))
    kit.session.move(run, Trigger.GATE_ANSWERED, status=Status.IN_PROGRESS)
    return answer.choice == "yes"
