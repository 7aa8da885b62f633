"""Making room in a long conversation without a model: old results become their headers, old decisions one line."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from duckflow.llm.tokens import estimate
from duckflow.prompts.budget import size
from duckflow.prompts.results import RESULTS
from duckflow.state.runs import Entry

FIRST = 2000
LATER = 300
"""Characters kept of the first instruction and of every later message."""
HEAD = "Earlier in this session (shortened by the harness; results can be read again)"
CUT = "[…]"


def compacted(thread: Sequence[Entry], budget: int) -> tuple[str, int] | None:
    """A summary of the older part and how many of the newest entries stay. None: there is nothing to gain.

    What the model has not seen yet stays as it is; the message it works on keeps all its words.
    """
    keep = max(_kept(thread, budget // 2), _unseen(thread))
    old = thread[: len(thread) - keep]
    if len(old) < 3:
        return None
    current = next((i for i in reversed(range(len(thread))) if thread[i].kind == "message"), -1)
    begun = next((i for i, entry in enumerate(old) if entry.kind in ("message", "summary")), -1)
    fixed: list[tuple[str, bool]] = [(HEAD, True)]
    for i, entry in enumerate(old):
        most = None if i == current else FIRST if i == begun else LATER
        fixed += [(line, i in (current, begun)) for line in _lines(entry, most)]
    while estimate(_joined(fixed)) > budget // 3 and any(not stays for _line, stays in fixed):
        loose = [i for i, (_line, stays) in enumerate(fixed) if not stays]
        gone = set(loose[: max(1, len(loose) // 4)])
        fixed = [pair for i, pair in enumerate(fixed) if i not in gone]
        fixed = [pair for pair in fixed if pair[0] != CUT]
        fixed.insert(min(gone), (CUT, True))
    return _joined(fixed), keep


def _joined(lines: Sequence[tuple[str, bool]]) -> str:
    return "\n".join(line for line, _stays in lines)


def _lines(entry: Entry, most: int | None) -> list[str]:
    """One entry in short. `most`: characters of a message; None: all the words of it."""
    if entry.kind == "summary":
        return [line for line in entry.text.splitlines()[1:] if line != CUT]
    if entry.kind == "message":
        words = entry.text.split(f"\n\n{RESULTS}")[0] if most is None else entry.text[:most]
        return [f"Person: {words}"]
    if entry.kind == "decision":
        return [f"You: {_decision_line(entry.text)}"]
    if entry.kind == "results":
        return [f"  {line}" for line in re.findall(r"^<<<(\S+ .*)$", entry.text, re.M)]
    return []


def _unseen(thread: Sequence[Entry]) -> int:
    """The entries after the model's last answer, and that answer: nobody may shorten what was not read yet."""
    return next((n for n, entry in enumerate(reversed(thread), 1) if entry.role == "assistant"), 0)


def spoken(thread: Sequence[Entry]) -> str:
    """What was said, without what was read and run: one line for each message and each reply."""
    lines = []
    for entry in thread:
        if entry.kind == "message":
            lines.append(f"Person: {' '.join(entry.text.split())[:FIRST]}")
        elif entry.kind == "summary":
            lines.append(entry.text)
        elif entry.kind == "decision" and (said := _field(entry.text, "reply")):
            lines.append(f"You: {' '.join(said.split())[:FIRST]}")
    return "\n".join(lines)


def _field(text: str, name: str) -> str:
    try:
        decision, _ = json.JSONDecoder().raw_decode(text[text.index("{") :])
    except ValueError:
        return ""
    value = decision.get(name) if isinstance(decision, dict) else None
    return value if isinstance(value, str) else ""


def _kept(thread: Sequence[Entry], budget: int) -> int:
    """How many of the newest entries fit, beginning with a message or a Decision."""
    used, keep = 0, 0
    for back, entry in enumerate(reversed(thread), start=1):
        used += size(entry.text)
        if used > budget:
            break
        if entry.kind in ("message", "decision"):
            keep = back
    return keep


def _decision_line(text: str) -> str:
    try:
        decision, _ = json.JSONDecoder().raw_decode(text[text.index("{") :])
        operations = ", ".join(
            f"{a.get('operation')} {a.get('args', {}).get('path', '')}".strip() for a in decision.get("actions", [])
        )
        return f"{decision.get('rationale', '')} [{operations}]" if operations else str(decision.get("rationale", ""))
    except (ValueError, AttributeError):
        return " ".join(text.split())[:200]
