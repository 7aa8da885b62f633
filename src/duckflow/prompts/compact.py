"""Making room in a long conversation without a model: old results become their headers, old decisions one line."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from duckflow.llm.tokens import estimate
from duckflow.prompts.budget import size
from duckflow.state.runs import Entry

FIRST = 2000
LATER = 300
"""Characters kept of the first instruction and of every later message."""


def compacted(thread: Sequence[Entry], budget: int) -> tuple[str, int] | None:
    """A summary of the older part and how many of the newest entries stay. None: there is nothing to gain."""
    keep = _kept(thread, budget // 2)
    old = thread[: len(thread) - keep]
    if len(old) < 3:
        return None
    first = True
    lines = ["Earlier in this session (shortened by the harness; results can be read again)"]
    for entry in old:
        if entry.kind == "summary":
            lines += entry.text.splitlines()[1:]
        elif entry.kind == "message":
            lines.append(f"Person: {entry.text[: FIRST if first else LATER]}")
        elif entry.kind == "decision":
            lines.append(f"You: {_decision_line(entry.text)}")
        elif entry.kind == "results":
            lines += [f"  {line}" for line in re.findall(r"^<<<(\S+ .*)$", entry.text, re.M)]
        first = first and entry.kind not in ("message", "summary")
    text = "\n".join(lines)
    while estimate(text) > budget // 3 and len(lines) > 4:
        del lines[2 : 2 + max(1, (len(lines) - 3) // 4)]
        text = "\n".join([lines[0], lines[1], "[…]", *lines[2:]])
    return text, keep


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
