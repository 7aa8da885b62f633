"""Server-sent events out of a byte stream, in any chunking. Knows nothing of what the events mean."""

from __future__ import annotations

from duckflow.record import Record

MAX_EVENT = 16 * 1024 * 1024


class EventTooLong(Exception):
    """A line or an event grew beyond every reasonable size."""


class SseEvent(Record):
    event: str  # "" when the stream names none
    data: str
    damaged: bool = False  # bytes that are not UTF-8 were replaced


class SseParser:
    """Feed bytes, get events. `close` gives the last one when the stream ended without a blank line."""

    def __init__(self, max_event: int = MAX_EVENT) -> None:
        self._max = max_event
        self._rest: list[bytes] = []  # the unfinished line
        self._rest_size = 0
        self._after_cr = False  # a line ended with CR: an LF right after it belongs to it
        self._first = True
        self._event = ""
        self._data: list[bytes] = []
        self._data_size = 0

    def feed(self, chunk: bytes) -> list[SseEvent]:
        events: list[SseEvent] = []
        if self._after_cr and chunk:
            self._after_cr = False
            chunk = chunk.removeprefix(b"\n")
        start = 0
        while (end := _line_end(chunk, start)) >= 0:
            self._line(b"".join([*self._rest, chunk[start:end]]), events)
            start = end + 1
            if chunk[end] == 0x0D:
                if start == len(chunk):
                    self._after_cr = True
                elif chunk[start] == 0x0A:
                    start += 1
        self._hold(chunk[start:])
        return events

    def close(self) -> list[SseEvent]:
        events: list[SseEvent] = []
        if self._rest:
            self._line(b"".join(self._rest), events)
        self._line(b"", events)
        return events

    def _hold(self, rest: bytes) -> None:
        if not rest:
            return
        self._rest.append(rest)
        self._rest_size += len(rest)
        self._bound()

    def _bound(self) -> None:
        if self._rest_size + self._data_size > self._max:
            raise EventTooLong

    def _line(self, line: bytes, events: list[SseEvent]) -> None:
        self._rest = []
        self._rest_size = 0
        if self._first:
            self._first = False
            line = line.removeprefix(b"\xef\xbb\xbf")
        if not line:
            self._dispatch(events)
            return
        name, _, value = line.partition(b":")  # a comment has an empty name
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
            self._data_size += len(value) + 1
            self._bound()
        elif name == b"event":
            self._event = value.decode("utf-8", "replace")

    def _dispatch(self, events: list[SseEvent]) -> None:
        if self._data:
            raw = b"\n".join(self._data)
            try:
                events.append(SseEvent(self._event, raw.decode("utf-8")))
            except UnicodeDecodeError:
                events.append(SseEvent(self._event, raw.decode("utf-8", "replace"), damaged=True))
        self._event = ""
        self._data = []
        self._data_size = 0


def _line_end(chunk: bytes, start: int) -> int:
    """Where the next CR or LF stands, -1 for nowhere."""
    lf = chunk.find(b"\n", start)
    cr = chunk.find(b"\r", start, lf if lf >= 0 else len(chunk))
    return cr if cr >= 0 else lf
