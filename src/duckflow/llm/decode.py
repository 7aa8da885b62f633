"""From a model's reply to a checked value: find the object, parse it strictly, fill in its blocks, validate.

Generic over the shape; knows no operation and no field but `reply`. What is wrong is said in lines that the
model can act on. Nothing is ever repaired into a value: repair only rescues text for the screen.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from duckflow.llm.base import Finish
from duckflow.llm.blocks import Blocks, line_of, read_blocks, skip_block, without_fences
from duckflow.llm.rescue import rescue
from duckflow.llm.strict import Parsed, fill, likely_object, parse_at
from duckflow.llm.watcher import PartialReply, ReplyWatcher, partial_reply
from duckflow.record import NOTHING, Record

if TYPE_CHECKING:
    from pydantic import BaseModel

__all__ = ["Decoded", "PartialReply", "ReplyWatcher", "decode", "partial_reply"]

T = TypeVar("T", bound="BaseModel")

MAX_CANDIDATES = 32
LOOK_BACK = 200

_THOUGHTS = re.compile(r"\s*<(think|thinking|reasoning)>.*?</\1>", re.DOTALL)
_GOES_ON = re.compile(r'(?:[,\[{}"\\]|"\s*:)\s*\Z')
_INCOMPLETE = {
    Finish.CUT: "The reply was cut off before its end; nothing of it was run. Send the whole reply again.",
    Finish.LENGTH: "The reply reached the output limit and was cut off; nothing of it was run. "
    "Send a shorter one: fewer actions, smaller blocks, the rest in the next reply.",
    Finish.FILTER: "The service's content filter ended the reply; nothing of it was run. Say it differently.",
}


class Decoded(Record, Generic[T]):
    """`value` and `problem`: exactly one of the two is there."""

    value: T | None = None
    problem: str | None = None  # one line per problem, for the model
    notes: tuple[str, ...] = ()  # what was ignored, for the model
    blocks: Mapping[str, str] = NOTHING  # name → text
    used: Mapping[str, tuple[str, ...]] = NOTHING  # name → where the object names it
    raw: Mapping[str, Any] | None = None  # the object as sent, {"block": NAME} still in it
    cut: bool = False  # the reply is not whole: nothing of it may run
    rescued_reply: str | None = None  # for display only, when there is a problem


def decode(text: str, finish: Finish, shape: type[T]) -> Decoded[T]:
    """Read a reply strictly. A reply that did not come to its own end never has a value."""
    thoughts = _THOUGHTS.match(text)
    start = thoughts.end() if thoughts else 0
    if finish is not Finish.STOP:
        return Decoded(problem=_INCOMPLETE[finish], cut=True, rescued_reply=rescue(text, start))
    best: _Attempt[T] | None = None
    for parsed in _candidates(text, start):
        attempt = _attempt(text, parsed, shape)
        if attempt.value is not None:
            return _result(text, start, attempt)
        if best is None or attempt.parsed.reach > best.parsed.reach:
            best = attempt
    if best is None:
        return Decoded(problem=_nothing(text, start), rescued_reply=rescue(text, start))
    return Decoded(
        problem="\n".join(best.problems),
        blocks=best.blocks.texts,
        raw=best.parsed.value,
        rescued_reply=rescue(text, start),
    )


@dataclass(slots=True)
class _Attempt(Generic[T]):
    """One object of the reply, tried as the answer."""

    parsed: Parsed
    blocks: Blocks
    value: T | None = None
    used: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def _candidates(text: str, start: int) -> Iterator[Parsed]:
    """The objects of a reply, parsed or failed, from the first on; never one inside another or in a block.

    After a failure only one that stands alone counts: a part of a broken object must not pass for the answer.
    """
    position, failed, tried = start, False, 0
    while (at := text.find("{", position)) >= 0 and tried < MAX_CANDIDATES:
        if (over := skip_block(text, position, at)) is not None:
            position = over
            continue
        position = at + 1
        likely = likely_object(text, at)
        if (not likely and tried) or (failed and not _stands_alone(text, at)):
            continue
        tried += 1
        parsed = parse_at(text, at)
        failed |= likely and parsed.value is None
        position = parsed.end
        yield parsed


def _stands_alone(text: str, at: int) -> bool:
    """First on its line, and what comes before is not JSON that goes on."""
    before = text[max(0, at - LOOK_BACK) : at]
    line = before[before.rfind("\n") + 1 :]
    return not line.strip() and _GOES_ON.search(before) is None


def _attempt(text: str, parsed: Parsed, shape: type[T]) -> _Attempt[T]:
    if parsed.value is None:
        return _Attempt(parsed, Blocks(), problems=[parsed.problem])
    blocks = read_blocks(text, parsed.end)
    attempt = _Attempt[T](parsed, blocks, problems=list(blocks.problems))
    if not set(parsed.value) & _names(shape):
        wanted = ", ".join(name for name, info in shape.model_fields.items() if info.is_required())
        at = line_of(text, parsed.start)
        attempt.problems.append(f"The object in line {at} has none of the expected fields. Required: {wanted}.")
        return attempt
    try:
        filled = fill(parsed.value, blocks.texts)
        attempt.used = filled.used
        attempt.problems += filled.problems
        attempt.value = shape.model_validate(filled.value)
    except ValueError as error:
        attempt.problems += _schema_problems(error, filled.value)
    except RecursionError:
        attempt.problems.append("The object is nested too deeply.")
    return attempt


def _result(text: str, start: int, attempt: _Attempt[T]) -> Decoded[T]:
    """The chosen object: its value, unless something is wrong with its blocks."""
    broken = bool(attempt.problems)
    return Decoded(
        value=None if broken else attempt.value,
        problem="\n".join(attempt.problems) if broken else None,
        notes=tuple(_notes(text[start : attempt.parsed.start], attempt)),
        blocks=attempt.blocks.texts,
        used=attempt.used,
        raw=attempt.parsed.value,
        rescued_reply=rescue(text, start) if broken else None,
    )


def _notes(before: str, attempt: _Attempt[T]) -> Iterator[str]:
    unknown = sorted(_unknown(attempt.value, ""))
    if unknown:
        yield f"Unknown fields were ignored: {', '.join(unknown)}."
    for name in attempt.blocks.texts:
        if name not in attempt.used:
            yield f'Block "{name}" is named nowhere in the object and was ignored.'
    for name in attempt.blocks.strays:
        yield f"The line {name}>>> closes no block and was ignored."
    if without_fences(before):
        yield "Text before the object was ignored."
    if attempt.blocks.outside:
        yield "Text after the object and outside its blocks was ignored."


def _nothing(text: str, start: int) -> str:
    if not text[start:].strip():
        return "The reply is empty. Send exactly one JSON object."
    return "No JSON object was found in the reply. Send exactly one JSON object, then the blocks it names."


def _names(shape: type[BaseModel]) -> set[str]:
    names = set(shape.model_fields)
    for info in shape.model_fields.values():
        names |= {name for name in (info.alias, info.validation_alias) if isinstance(name, str)}
    return names


def _unknown(value: object, path: str) -> Iterator[str]:
    """Paths of fields that no model of the value declares."""
    if isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _unknown(item, f"{path}[{index}]")
    fields = getattr(type(value), "model_fields", None)
    if not isinstance(fields, dict):
        return
    prefix = f"{path}." if path else ""
    for name in getattr(value, "model_extra", None) or {}:
        yield prefix + name
    for name in fields:
        yield from _unknown(getattr(value, name, None), prefix + name)


def _schema_problems(error: ValueError, value: object) -> list[str]:
    from duckflow.llm.schema import explain

    return explain(error, value)
