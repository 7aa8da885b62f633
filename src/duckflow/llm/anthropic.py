"""Anthropic messages as a wire format: what is sent, how the answer is read."""

from __future__ import annotations

from duckflow.llm.base import Finish, Message, ModelRequest, Part, Usage
from duckflow.llm.wire import ErrorEvent, Json, NotAnAnswer, as_list, as_object, merged, number, text_of

DEFAULT_URL = "https://api.anthropic.com/v1"
VERSION = "2023-06-01"
MAX_OUTPUT = 8192
MAX_MARKS = 4

_FINISH = {
    "max_tokens": Finish.LENGTH,
    "model_context_window_exceeded": Finish.LENGTH,
    "refusal": Finish.FILTER,
    "pause_turn": Finish.CUT,
}


class AnthropicWire:
    def __init__(self, base_url: str, model: str, max_output: int | None) -> None:
        self.url = _address(base_url.rstrip("/"))
        self._model = model
        self._max_output = max_output

    def headers(self, key: str | None) -> dict[str, str]:
        return {"anthropic-version": VERSION} | ({"x-api-key": key} if key else {})

    def body(self, request: ModelRequest) -> Json:
        system = [block for _, parts in merged(_only(request, system=True)) for block in _blocks(parts)]
        messages: list[Json] = [
            {"role": role, "content": _blocks(parts)} for role, parts in merged(_only(request, system=False))
        ]
        if not messages or messages[0]["role"] != "user":  # the service insists on a user's turn first
            messages.insert(0, {"role": "user", "content": [_block("(continued)")]})
        _keep_last_marks([*system, *(block for m in messages for block in _content(m))])
        body: Json = {
            "model": self._model,
            "max_tokens": request.max_output or self._max_output or MAX_OUTPUT,
            "messages": messages,
            "stream": True,
        }
        if system:
            body["system"] = system
        return body

    def adapt(self, complaint: str) -> bool:
        return False

    def reader(self) -> AnthropicReader:
        return AnthropicReader()


def _address(base: str) -> str:
    if base.endswith("/messages"):
        return base
    return f"{base}/messages" if base.endswith("/v1") else f"{base}/v1/messages"


def _block(text: str, cache: bool = False) -> Json:
    mark: Json = {"cache_control": {"type": "ephemeral"}} if cache else {}
    return {"type": "text", "text": text, **mark}


def _only(request: ModelRequest, *, system: bool) -> list[Message]:
    return [message for message in request.messages if (message.role == "system") is system]


def _blocks(parts: list[Part]) -> list[Json]:
    """One block per part. The blank line between two opens the later one: a cached part ends where it did."""
    return [_block("\n\n" + part.text if i else part.text, part.cache) for i, part in enumerate(parts)]


def _content(message: Json) -> list[Json]:
    return [as_object(block) for block in as_list(message["content"])]


def _keep_last_marks(blocks: list[Json]) -> None:
    marked = [block for block in blocks if "cache_control" in block]
    for block in marked[:-MAX_MARKS]:
        del block["cache_control"]


class AnthropicReader:
    def __init__(self) -> None:
        self.finish: Finish | None = None
        self.usage: Usage | None = None
        self.over = False
        self._counts: dict[str, int] = {}

    def event(self, data: Json) -> str:
        match data.get("type"):
            case "error":
                raise ErrorEvent(data)
            case "message_start":
                self._count(as_object(data.get("message")).get("usage"))
            case "content_block_start":
                return text_of([data.get("content_block")])
            case "content_block_delta":
                delta = as_object(data.get("delta"))
                text = delta.get("text")
                return text if delta.get("type") == "text_delta" and isinstance(text, str) else ""
            case "message_delta":
                self._stop(as_object(data.get("delta")).get("stop_reason"))
                self._count(data.get("usage"))
            case "message_stop":
                self.over = True
            case _ if data.get("error"):
                raise ErrorEvent(data)
        return ""

    def whole(self, data: Json) -> str:
        if data.get("error"):
            raise ErrorEvent(data)
        if not isinstance(data.get("content"), list):
            raise NotAnAnswer
        self._stop(data.get("stop_reason"))
        self._count(data.get("usage"))
        self.finish = self.finish or Finish.STOP  # it came whole
        return text_of(data["content"])

    def _stop(self, reason: object) -> None:
        if isinstance(reason, str) and reason:
            self.finish = _FINISH.get(reason, Finish.STOP)

    def _count(self, raw: object) -> None:
        """Later events repeat counts with newer values; fields they leave out keep theirs."""
        self._counts |= {name: number(value) for name, value in as_object(raw).items() if value is not None}
        if not self._counts:
            return
        cached = self._counts.get("cache_read_input_tokens", 0)
        made = self._counts.get("cache_creation_input_tokens", 0)
        fresh = self._counts.get("input_tokens", 0)
        self.usage = Usage(fresh + cached + made, cached, self._counts.get("output_tokens", 0))
