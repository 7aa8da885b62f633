"""Everything that happens, as frozen facts: one class per row of the event table. Knows no other module.

An event is an envelope (`Event`) around a body. Bodies hold JSON values only, so that what is stored, streamed,
shown and resumed is the same thing. Fields named in `LONG` are kept as blobs beside the event.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from duckflow.record import Record

Json = Any  # a value json.dumps accepts; checked where it enters
Facts = Mapping[str, Json]

SHORT = 200
"""Characters up to which a text in `LONG` stays in the event. Texts by name (blocks) never do."""

_BODIES: dict[str, type[Body]] = {}


class Body(Record):
    """What an event says. Subclasses name their wire type: `class Message(Body, type="message")`."""

    type: ClassVar[str] = ""
    LONG: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls, type: str, long: tuple[str, ...] = ()) -> None:
        super().__init_subclass__()
        cls.type = type
        cls.LONG = frozenset(long)
        _BODIES[type] = cls

    def to_json(self) -> dict[str, Json]:
        """The body as a JSON object; `from_` becomes `from`."""
        return {name.rstrip("_"): _plain(getattr(self, name)) for name in self.FIELDS}

    def brief(self, keep: Callable[[str], str]) -> dict[str, Json]:
        """The body as it is stored and streamed: long texts replaced by the names `keep` gives them."""

        def named(text: str, always: bool = False) -> Json:
            return {"blob": keep(text), "chars": len(text)} if always or len(text) > SHORT else text

        data = self.to_json()
        for key in self.LONG:
            value = data[key]
            data[key] = named(value) if isinstance(value, str) else {k: named(v, True) for k, v in value.items()}
        return data


class Unknown(Body, type="?"):
    """An event of a newer version: kept, shown, not understood."""

    name: str
    data: Facts

    def to_json(self) -> dict[str, Json]:
        return dict(self.data)


def body_from_json(type: str, data: Facts) -> Body:
    """The body of a stored event. Fields it does not know are dropped, missing ones take their defaults."""
    cls = _BODIES.get(type)
    if cls is None:
        return Unknown(name=type, data=data)
    known = {name: _frozen(data[name.rstrip("_")]) for name in cls.FIELDS if name.rstrip("_") in data}
    try:
        return cls(**known)
    except TypeError:
        return Unknown(name=type, data=data)


def _plain(value: Json) -> Json:
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value


def _frozen(value: Json) -> Json:
    return tuple(_frozen(v) for v in value) if isinstance(value, list) else value


class Event(Record):
    """A body with its place: `seq` rises by one within a session; `run` is the line of work it belongs to."""

    seq: int
    at: str
    session: str
    run: str | None
    body: Body

    def to_json(self) -> dict[str, Json]:
        name = self.body.name if isinstance(self.body, Unknown) else self.body.type
        head = {"seq": self.seq, "at": self.at, "session": self.session, "type": name}
        return {**head, "run": self.run, **self.body.to_json()}


class Live(Record):
    """Something for a screen only, while it happens: it is neither stored nor streamed to scripts."""

    kind: str  # calling | reply | restart | output | settled
    text: str = ""
    run: str | None = None
