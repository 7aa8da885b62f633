"""What a wire format must provide: a body to send, a reader for what comes back. Does no input or output."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Protocol

from duckflow.llm.base import Finish, Message, ModelRequest, Part, Role, Usage

Json = dict[str, object]


class ErrorEvent(Exception):
    """The service reported an error inside an answer that began well."""

    def __init__(self, payload: object) -> None:
        super().__init__("error event")
        self.payload = payload


class NotAnAnswer(Exception):
    """The JSON is not of this wire format."""


class Reader(Protocol):
    """Reads one answer. `finish` and `usage` are set once the service has said them."""

    finish: Finish | None
    usage: Usage | None
    over: bool  # the service said that nothing follows

    def event(self, data: Json) -> str:
        """The text that one streamed event adds."""
        ...

    def whole(self, data: Json) -> str:
        """The text of an answer that came in one piece."""
        ...


class Wire(Protocol):
    """One wire format at one address."""

    @property
    def url(self) -> str: ...

    def headers(self, key: str | None) -> dict[str, str]: ...

    def body(self, request: ModelRequest) -> Json: ...

    def adapt(self, complaint: str) -> bool:
        """Learn from a refusal what this service does not know. True: the request is worth sending again."""
        ...

    def reader(self) -> Reader: ...


def merged(messages: Sequence[Message]) -> Iterator[tuple[Role, list[Part]]]:
    """Neighbours of the same role put together. Blank parts are left out; their cache mark moves back."""
    for role, group in groupby(messages, key=lambda message: message.role):
        parts: list[Part] = []
        for part in (part for message in group for part in message.parts):
            if part.text.strip():
                parts.append(part)
            elif part.cache and parts:
                parts[-1] = Part(parts[-1].text, cache=True)
        if parts:
            yield role, parts


def number(value: object) -> int:
    """A token count as services send them: missing, null and nonsense are 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        return 0
    return int(value)


def as_object(value: object) -> Json:
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def text_of(content: object) -> str:
    """The text of a content field: a string, or a list of parts of which only text counts."""
    if isinstance(content, str):
        return content
    pieces = (as_object(part) for part in as_list(content))
    texts = (part.get("text") for part in pieces if part.get("type", "text") == "text")
    return "".join(text for text in texts if isinstance(text, str))
