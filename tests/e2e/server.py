"""A model service on loopback for tests: both wire formats, scripted replies, faults on demand. Stdlib only.

    with ModelServer({"understand": "{...}", "evaluate": ["{...}", Reply(status=429)]}) as server:
        ...  # base_url is server.url; server.requests holds what came

Replies are given per node (the header X-Duckflow-Node), as one sequence for all, or by a function. A list is
used up in order; a single reply repeats for ever. A request nobody prepared a reply for gets 418 and is kept
in `server.unexpected`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from types import TracebackType
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class Usage:
    prompt: int
    cached: int
    completion: int
    created: int = 0  # of the prompt, newly put into the cache (Anthropic only)


@dataclass(frozen=True)
class Reply:
    """One answer. Without anything set: a whole, empty answer."""

    text: str = ""
    finish: str | None = "stop"  # stop | length | filter, translated per wire format; None: none is sent
    usage: Usage | None = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    error: object = None  # the JSON of an answer with an error status; a message is made up otherwise
    content_type: str | None = None  # instead of the right one; the body becomes `raw`
    raw: bytes | None = None  # this body instead of an answer
    cut_after: int | None = None  # characters of the text after which the connection drops
    malformed_after: int | None = None  # characters after which a line comes that is not JSON
    error_after: int | None = None  # characters after which an error event comes
    hold_after: int | None = None  # characters after which nothing comes until `release` is set; -1: at once
    trickle: bool = False  # comment lines without end, until `release` is set or the client leaves
    release: threading.Event = field(default_factory=threading.Event)
    piece: int = 16  # characters per event
    stream: bool = True  # False: one JSON answer although a stream was asked for


@dataclass(frozen=True)
class Recorded:
    path: str
    headers: Mapping[str, str]  # names in lower case
    body: Json
    raw: bytes
    client: tuple[str, int] = ("", 0)  # the other end of the connection

    @property
    def node(self) -> str:
        return self.headers.get("x-duckflow-node", "")

    @property
    def text(self) -> str:
        """All text of the request, in the order sent."""
        parts = [*_texts(self.body.get("system"))]
        for message in self.body.get("messages", []):
            parts += _texts(message.get("content"))
        return "\n".join(parts)


Given = str | Reply
Function = Callable[[Json, Mapping[str, str]], Given]
Script = Given | Sequence[Given] | Function


def cuts(text: str) -> Iterator[Reply]:
    """The reply cut at every position."""
    return (Reply(text, cut_after=position) for position in range(len(text)))


class ModelServer:
    """Runs in its own thread while the `with` block does."""

    def __init__(self, replies: Script | Mapping[str, Script]) -> None:
        scripts = dict(replies) if isinstance(replies, Mapping) else {"*": replies}
        self._scripts: dict[str, list[Given] | Given | Function] = {
            node: list(script) if isinstance(script, list | tuple) else script  # type: ignore[misc]
            for node, script in scripts.items()
        }
        self.requests: list[Recorded] = []
        self.unexpected: list[Recorded] = []
        self.arrived = threading.Event()  # a request is there
        self._open: list[threading.Event] = []
        self._lock = threading.Lock()
        self._http = _Http(("127.0.0.1", 0), _Handler)
        self._http.owner = self
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)

    @property
    def port(self) -> int:
        return int(self._http.server_address[1])

    @property
    def url(self) -> str:
        """The base_url for both wire formats."""
        return f"http://127.0.0.1:{self.port}/v1"

    def nodes(self) -> list[str]:
        return [request.node for request in self.requests]

    def __enter__(self) -> ModelServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for event in self._open:
            event.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def answer(self, recorded: Recorded) -> Reply:
        with self._lock:
            self.requests.append(recorded)
            self.arrived.set()
            reply = self._next(recorded)
            if isinstance(reply, str):
                reply = Reply(reply)
            self._open.append(reply.release)
            return reply

    def _next(self, recorded: Recorded) -> Given:
        node = recorded.node if recorded.node in self._scripts else "*"
        script = self._scripts.get(node)
        if isinstance(script, list):
            script = script.pop(0) if script else None
        if script is None:
            self.unexpected.append(recorded)
            return Reply(status=418, error={"error": {"message": f"no reply is left for {recorded.node}"}})
        return script if isinstance(script, str | Reply) else script(recorded.body, recorded.headers)


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    owner: ModelServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that leaves in the middle is part of the game."""


class _Dropped(Exception):
    """The connection is to be dropped here."""


class _Handler(BaseHTTPRequestHandler):
    disable_nagle_algorithm = True  # as services do: pieces go out as they are written
    protocol_version = "HTTP/1.1"
    server: _Http

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._send(200, {}, "application/json", b'{"object": "list", "data": []}')

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        try:
            body = json.loads(raw)
        except ValueError:
            body = {}
        recorded = Recorded(self.path, headers, body, raw, self.client_address)
        wire = _wire(self.path)
        if wire is None:
            self.server.owner.unexpected.append(recorded)
            self._send(404, {}, "application/json", _dump({"error": {"message": f"no {self.path} here"}}))
            return
        reply = self.server.owner.answer(recorded)
        try:
            self._answer(reply, wire, bool(body.get("stream")))
        except (_Dropped, OSError):
            self.close_connection = True

    def _answer(self, reply: Reply, wire: _Wire, streaming: bool) -> None:
        if reply.hold_after == -1:
            reply.release.wait()
        if reply.raw is not None or reply.content_type is not None:
            kind = reply.content_type or "text/event-stream"
            self._send(reply.status, reply.headers, kind, reply.raw or b"")
        elif reply.status != 200:
            error = reply.error or {"error": {"message": f"status {reply.status} on purpose"}}
            self._send(reply.status, reply.headers, "application/json", _dump(error))
        elif not streaming or not reply.stream:
            self._send(200, reply.headers, "application/json", _dump(wire.whole(reply)))
        else:
            self._stream(reply, wire)

    def _send(self, status: int, headers: Mapping[str, str], kind: str, body: bytes) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, **headers, "Content-Length": str(len(body))}.items():
            if value:
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, reply: Reply, wire: _Wire) -> None:
        self.send_response(200)
        for name, value in {"Content-Type": "text/event-stream", **reply.headers}.items():
            self.send_header(name, value)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self._events(wire.start(reply))
        self._misbehave(reply, wire, 0)
        for start, end in _pieces(reply):
            self._events([wire.piece(reply.text[start:end])])
            self._misbehave(reply, wire, end)
        while reply.trickle and not reply.release.wait(0.005):
            self._write(b": still here\n\n")
        self._events(wire.end(reply))
        self.wfile.write(b"0\r\n\r\n")

    def _misbehave(self, reply: Reply, wire: _Wire, given: int) -> None:
        if reply.hold_after == given:
            reply.release.wait()
        if reply.malformed_after == given:
            self._write(b'data: {"choices": [{"delta": \n\n')
        if reply.error_after == given:
            self._events([wire.error()])
        if reply.cut_after == given:
            raise _Dropped

    def _events(self, events: list[tuple[str, object]]) -> None:
        for name, data in events:
            line = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
            self._write((f"event: {name}\n" if name else "").encode() + f"data: {line}\n\n".encode())

    def _write(self, data: bytes) -> None:
        """One piece of a chunked body: the connection stays open for the next request, as services keep it."""
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()


def _pieces(reply: Reply) -> Iterator[tuple[int, int]]:
    """Where the text is divided: evenly, and exactly where something is to happen."""
    marks = (reply.cut_after, reply.malformed_after, reply.error_after, reply.hold_after)
    borders = {*range(0, len(reply.text), max(1, reply.piece)), len(reply.text), *marks}
    ordered = sorted(border for border in borders if border is not None and 0 <= border <= len(reply.text))
    yield from pairwise(ordered)


class _Wire:
    """OpenAI-compatible chat completions."""

    reasons: Mapping[str, str] = {"filter": "content_filter"}

    def reason(self, reply: Reply) -> str | None:
        return self.reasons.get(reply.finish, reply.finish) if reply.finish else None

    def usage(self, reply: Reply) -> Json:
        usage = reply.usage or Usage(0, 0, 0)
        return {
            "prompt_tokens": usage.prompt,
            "completion_tokens": usage.completion,
            "prompt_tokens_details": {"cached_tokens": usage.cached},
        }

    def whole(self, reply: Reply) -> Json:
        message = {"role": "assistant", "content": reply.text}
        choice = {"index": 0, "message": message, "finish_reason": self.reason(reply)}
        return {"choices": [choice]} | ({"usage": self.usage(reply)} if reply.usage else {})

    def start(self, reply: Reply) -> list[tuple[str, object]]:
        first = {"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}
        return [("", {"choices": [first]})]

    def piece(self, text: str) -> tuple[str, object]:
        return "", {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]}

    def error(self) -> tuple[str, object]:
        return "", {"error": {"message": "overloaded on purpose", "type": "server_error"}}

    def end(self, reply: Reply) -> list[tuple[str, object]]:
        events: list[tuple[str, object]] = []
        if reply.finish:
            last = {"index": 0, "delta": {}, "finish_reason": self.reason(reply)}
            events.append(("", {"choices": [last]}))
        if reply.usage:
            events.append(("", {"choices": [], "usage": self.usage(reply)}))
        return [*events, ("", "[DONE]")]


class _Messages(_Wire):
    """Anthropic messages."""

    reasons: Mapping[str, str] = {"stop": "end_turn", "length": "max_tokens", "filter": "refusal"}

    def usage(self, reply: Reply) -> Json:
        usage = reply.usage or Usage(0, 0, 0)
        return {
            "input_tokens": usage.prompt - usage.cached - usage.created,
            "cache_read_input_tokens": usage.cached,
            "cache_creation_input_tokens": usage.created,
            "output_tokens": usage.completion,
        }

    def whole(self, reply: Reply) -> Json:
        content = [{"type": "text", "text": reply.text}]
        made: Json = {"type": "message", "content": content, "stop_reason": self.reason(reply)}
        return made | ({"usage": self.usage(reply)} if reply.usage else {})

    def start(self, reply: Reply) -> list[tuple[str, object]]:
        message: Json = {"role": "assistant", "content": []}
        if reply.usage:
            message["usage"] = self.usage(replace(reply, usage=replace(reply.usage, completion=1)))
        block = {"type": "text", "text": ""}
        return [
            ("message_start", {"type": "message_start", "message": message}),
            ("content_block_start", {"type": "content_block_start", "index": 0, "content_block": block}),
            ("ping", {"type": "ping"}),
        ]

    def piece(self, text: str) -> tuple[str, object]:
        delta = {"type": "text_delta", "text": text}
        return "content_block_delta", {"type": "content_block_delta", "index": 0, "delta": delta}

    def error(self) -> tuple[str, object]:
        return "error", {"type": "error", "error": {"type": "overloaded_error", "message": "on purpose"}}

    def end(self, reply: Reply) -> list[tuple[str, object]]:
        if not reply.finish:
            return []
        delta: Json = {"type": "message_delta", "delta": {"stop_reason": self.reason(reply)}}
        if reply.usage:
            delta["usage"] = {"output_tokens": reply.usage.completion}
        return [
            ("content_block_stop", {"type": "content_block_stop", "index": 0}),
            ("message_delta", delta),
            ("message_stop", {"type": "message_stop"}),
        ]


def _wire(path: str) -> _Wire | None:
    if path.endswith("/chat/completions"):
        return _Wire()
    return _Messages() if path.endswith("/messages") else None


def _dump(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def _texts(content: object) -> list[str]:
    if isinstance(content, str):
        return [content]
    if isinstance(content, list):
        return [part["text"] for part in content if isinstance(part, dict) and "text" in part]
    return []
