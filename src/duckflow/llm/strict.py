"""Strict JSON inside a reply: one object at a position, no duplicate keys, no NaN; then its blocks."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from duckflow.llm.blocks import line_of
from duckflow.llm.faults import one_line
from duckflow.record import Record

NEAR = 30  # characters shown on both sides of an error

_LIKELY = re.compile(r'\{\s*["}]')
_HALF = re.compile("[\ud800-\udfff]")
_HINTS = {
    "Invalid control character": "write a line break in a string as \\n, or put long text into a block",
    "Invalid \\escape": "write a backslash in a string as \\\\, or put the text into a block",
    "Expecting property name": "keys stand in double quotes, and no comma follows the last one",
    "Unterminated string": 'a quote inside a string is written \\"',
}


class Parsed(Record):
    """What was found at a position: an object, or why it is none."""

    start: int
    end: int  # where to look on
    reach: int  # characters understood: the largest is what the model meant
    value: dict[str, Any] | None = None
    problem: str = ""


class _Refused(ValueError):
    """Valid for json, not for us."""


def likely_object(text: str, at: int) -> bool:
    """The brace begins an object rather than a piece of prose or code."""
    return _LIKELY.match(text, at) is not None


def find_object(text: str, start: int) -> int | None:
    """Where the first object begins, also one that is cut right after its brace."""
    found = _LIKELY.search(text, start)
    if found is not None:
        return found.start()
    end = text.rstrip()
    return len(end) - 1 if end.endswith("{") and len(end) > start else None


def parse_at(text: str, at: int) -> Parsed:
    line = line_of(text, at)
    try:
        value, end = _DECODER.raw_decode(text, at)
    except json.JSONDecodeError as error:
        return Parsed(at, at + 1, error.pos - at, problem=_json_problem(error))
    except _Refused as error:
        return Parsed(at, at + 1, len(text) - at, problem=f"JSON error in the object of line {line}: {error}.")
    except RecursionError:
        problem = f"The object in line {line} is nested too deeply."
        return Parsed(at, at + 1, len(text) - at, problem=problem)
    except ValueError:  # a whole number of thousands of digits
        problem = f"JSON error in the object of line {line}: a number is too long."
        return Parsed(at, at + 1, len(text) - at, problem=problem)
    return Parsed(at, end, end - at, value)


def _json_problem(error: json.JSONDecodeError) -> str:
    before, after = error.doc[max(0, error.pos - NEAR) : error.pos], error.doc[error.pos : error.pos + NEAR]
    hint = next((f" ({hint})" for start, hint in _HINTS.items() if error.msg.startswith(start)), "")
    near = f"{one_line(before, NEAR)} ⟦here⟧ {one_line(after, NEAR)}"
    return f"JSON error in line {error.lineno}, column {error.colno}: {error.msg}{hint}. Near: {near}"


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise _Refused(f'the key "{one_line(twice, 60)}" appears twice in one object')
    return made


def _constant(name: str) -> Any:
    raise _Refused(f"{name} is not a JSON value")


def _float(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise _Refused(f"the number {one_line(digits, 40)} is too large")
    return value


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant, parse_float=_float)


@dataclass(slots=True)
class Filled:
    """The object with the texts of its blocks in place."""

    value: dict[str, Any]
    used: dict[str, tuple[str, ...]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def fill(value: dict[str, Any], blocks: Mapping[str, str]) -> Filled:
    """Replace every {"block": NAME} that stands for a string. `args` itself is never a string."""
    filled = Filled({})
    filled.value = {key: _fill(item, key, key, blocks, filled) for key, item in value.items()}
    return filled


def _fill(value: Any, key: str, path: str, blocks: Mapping[str, str], filled: Filled) -> Any:
    if isinstance(value, str):
        if _HALF.search(value):
            filled.problems.append(f"{path}: half of a character (a lone \\ud… escape); write it directly.")
        return value
    if isinstance(value, list):
        return [_fill(item, "", f"{path}[{i}]", blocks, filled) for i, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    name = value.get("block")
    if len(value) != 1 or not isinstance(name, str) or key == "args":
        return {k: _fill(item, k, f"{path}.{k}", blocks, filled) for k, item in value.items()}
    filled.used[name] = (*filled.used.get(name, ()), path)
    if name not in blocks:
        filled.problems.append(
            f'Block "{one_line(name, 60)}" is named at {path} but does not follow the object: '
            f"add the lines <<<{one_line(name, 60)} … {one_line(name, 60)}>>>."
        )
    return blocks.get(name, "")
