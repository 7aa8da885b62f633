"""An answer as it comes in: from bytes to pieces of text, streamed or whole. Does no input or output."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from duckflow.llm.base import Done, Finish, Transient
from duckflow.llm.faults import Service, fault_in_stream, one_line, wrong_content
from duckflow.llm.guard import TextJoiner
from duckflow.llm.sse import MAX_EVENT, SseEvent, SseParser
from duckflow.llm.wire import ErrorEvent, Json, NotAnAnswer, Reader


class TooLarge(Exception):
    """The answer is longer than anyone will read."""


class Incoming:
    """Feed the body of an answer, get its text. Errors of the service are `Transient` or `DuckflowError`."""

    def __init__(self, content_type: str, reader: Reader, service: Service, max_text: int) -> None:
        self._kind = content_type.partition(";")[0].strip().lower()
        self._reader = reader
        self._service = service
        self._max_text = max_text
        self._text = TextJoiner()
        self._events = SseParser() if self._kind == "text/event-stream" else None
        self._held: list[bytes] = []  # of an answer that does not come as events
        self._held_size = 0
        self.size = 0  # characters of text given out
        self.over = False  # the service said that nothing follows
        self.cut = False  # we stopped reading

    @property
    def finished(self) -> bool:
        """The text is complete; only the usage may follow."""
        return self._reader.finish is not None

    def feed(self, chunk: bytes) -> Iterator[str]:
        if self._events is not None:
            yield from self._read(self._events.feed(chunk))
            return
        self._held.append(chunk)
        self._held_size += len(chunk)
        if self._held_size > MAX_EVENT:
            raise TooLarge

    def close(self) -> Iterator[str]:
        """The body ended: what was still held back."""
        if self._events is not None:
            yield from self._read(self._events.close())
            return
        raw = b"".join(self._held)
        start = raw.lstrip()[:6]
        if start.startswith(b"{") or "json" in self._kind:
            yield from self._give(self._whole(raw))
        elif start.startswith((b"data:", b"event:", b":")):  # events from a server that calls them something else
            parser = SseParser()
            yield from self._read([*parser.feed(raw), *parser.close()])
        elif start or self._kind:
            raise wrong_content(self._kind, one_line(raw[:1000].decode("utf-8", "replace"), 80), self._service)

    def done(self) -> Done | None:
        """How the answer ended. None: there is no answer."""
        if self.cut or self._text.damaged:
            return Done(Finish.CUT, self._reader.usage)
        if self._reader.finish is not None:
            return Done(self._reader.finish, self._reader.usage)
        return Done(Finish.CUT, self._reader.usage) if self.size else None

    def _read(self, events: list[SseEvent]) -> Iterator[str]:
        for event in events:
            if self.over or not event.data.strip():
                continue
            if event.data.strip() == "[DONE]":
                self.over = True
                continue
            if event.damaged:
                self._text.damage()
            yield from self._give(self._event(event))
            self.over |= self._reader.over

    def _give(self, text: str) -> Iterator[str]:
        piece = self._text.join(text)
        if not piece:
            return
        self.size += len(piece)
        if self.size > self._max_text:
            raise TooLarge
        yield piece

    def _event(self, event: SseEvent) -> str:
        try:
            data = json.loads(event.data)
        except (ValueError, RecursionError):
            data = None
        if event.event == "error":
            raise fault_in_stream(data or event.data, self._service)
        if not isinstance(data, dict):
            raise Transient(f"malformed event in the stream: {one_line(event.data, 60)}")
        return self._checked(self._reader.event, data)

    def _whole(self, raw: bytes) -> str:
        text = raw.decode("utf-8", "replace")
        try:
            raw.decode("utf-8")
        except UnicodeDecodeError:
            self._text.damage()
        try:
            data = json.loads(text)
        except (ValueError, RecursionError):
            raise Transient(f"malformed JSON in the answer: {one_line(text, 60) or 'nothing'}") from None
        try:
            return self._checked(self._reader.whole, data if isinstance(data, dict) else {})
        except NotAnAnswer:
            raise wrong_content(self._kind, one_line(text, 80), self._service) from None

    def _checked(self, read: Callable[[Json], str], data: Json) -> str:
        try:
            return read(data)
        except ErrorEvent as error:
            payload = error.payload
        raise fault_in_stream(payload, self._service)
