"""The words for the person out of a reply that cannot be used. For display only: nothing is acted upon."""

from __future__ import annotations

import json
from typing import Any

from duckflow.llm.blocks import unfinished, without_fences
from duckflow.llm.strict import find_object

MOST = 100_000  # characters looked at by the slow repair, and of prose shown


def rescue(text: str, start: int) -> str | None:
    """The `reply` of a broken or cut object as far as it came; of a reply without an object, its prose."""
    at = find_object(text, start)
    if at is None:
        return without_fences(text[start : start + MOST]) or None
    for read in (_strictly, _partially, _repaired):
        found = _reply(read(text[at:]), text)
        if found is not None:
            return found
    return None


def _reply(value: object, text: str) -> str | None:
    if isinstance(value, list):
        value = next((item for item in value if isinstance(item, dict) and "reply" in item), None)
    reply = value.get("reply") if isinstance(value, dict) else None
    if isinstance(reply, dict) and isinstance(reply.get("block"), str):
        reply = unfinished(text, reply["block"])
    return reply if isinstance(reply, str) and reply.strip() else None


def _strictly(text: str) -> Any:
    try:
        return json.JSONDecoder(strict=False).raw_decode(text)[0]
    except (ValueError, RecursionError):
        return None


def _partially(text: str) -> Any:
    from pydantic_core import from_json

    try:
        return from_json(text, allow_partial="trailing-strings")
    except (ValueError, RecursionError):
        return None


def _repaired(text: str) -> Any:
    from json_repair import repair_json

    try:
        return repair_json(text[:MOST], return_objects=True, skip_json_loads=True)
    except (ValueError, RecursionError, IndexError, TypeError):  # it guesses; a wrong guess is no reply
        return None
