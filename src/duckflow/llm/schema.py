"""pydantic's errors in lines a model can act on. Imported only when there is one."""

from __future__ import annotations

import json
from typing import Any

from pydantic import ValidationError

from duckflow.llm.faults import one_line

MOST = 8


def explain(error: ValueError, value: object) -> list[str]:
    """One line per wrong place: where, what is expected, what came."""
    if not isinstance(error, ValidationError):
        return [f"The object is not valid: {one_line(str(error))}"]
    lines: dict[str, None] = {}
    for item in error.errors(include_url=False, include_context=False):
        path, missing = _path(item["loc"], value, item["type"] == "missing")
        if missing:
            lines[f"{path}: this field is required."] = None
        else:
            lines[f"{path}: {_message(item['msg'])}, not {_shown(item['input'])}."] = None
    shown = list(lines)[:MOST]
    return [*shown, f"… and {len(lines) - MOST} more."] if len(lines) > MOST else shown


def _path(loc: tuple[int | str, ...], value: Any, missing: bool) -> tuple[str, bool]:
    """The place in what the model wrote, without the names pydantic adds for the branches of a union."""
    path = ""
    for index, part in enumerate(loc):
        last = index == len(loc) - 1
        if isinstance(part, int) and isinstance(value, list) and part < len(value):
            path, value = f"{path}[{part}]", value[part]
        elif isinstance(value, dict) and part in value:
            path, value = _joined(path, part), value[part]
        elif missing and last:
            path = _joined(path, part)
    return path or "The object", missing


def _joined(path: str, part: int | str) -> str:
    return f"{path}.{part}" if path else str(part)


def _message(text: str) -> str:
    text = text.removeprefix("Value error, ").removeprefix("Assertion failed, ")
    text = text.removeprefix("Input should be ").rstrip(".")
    return f"must be {text}" if not text.startswith(("String", "List", "Input", "Value")) else text


def _shown(value: object) -> str:
    try:
        return one_line(json.dumps(value, ensure_ascii=False, default=str), 60)
    except (ValueError, TypeError, RecursionError):
        return type(value).__name__
