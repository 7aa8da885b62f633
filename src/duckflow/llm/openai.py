"""OpenAI-compatible chat completions as a wire format: what is sent, how the answer is read."""

from __future__ import annotations

import re

from duckflow.llm.base import Finish, ModelRequest, Usage
from duckflow.llm.wire import ErrorEvent, Json, NotAnAnswer, as_list, as_object, merged, number, text_of

DEFAULT_URL = "https://api.openai.com/v1"

_FINISH = {
    "length": Finish.LENGTH,
    "max_tokens": Finish.LENGTH,
    "content_filter": Finish.FILTER,
    "error": Finish.CUT,
    "insufficient_system_resource": Finish.CUT,
}
_UNKNOWN = re.compile(r"unsupported|not supported|unrecognized|unknown|unexpected|extra|permitted", re.IGNORECASE)


class OpenAIWire:
    """Remembers which optional fields its service refused, so that each is refused only once."""

    def __init__(self, base_url: str, model: str, max_output: int | None) -> None:
        base = base_url.rstrip("/")
        self.url = base if base.endswith("/chat/completions") else f"{base}/chat/completions"
        self._model = model
        self._max_output = max_output
        self._include_usage = True
        self._limit_field = "max_completion_tokens" if "//api.openai.com/" in self.url else "max_tokens"
        self._limit_known = False  # the field's name was already exchanged once

    def headers(self, key: str | None) -> dict[str, str]:
        return {"Authorization": f"Bearer {key}"} if key else {}

    def body(self, request: ModelRequest) -> Json:
        messages = [
            {"role": role, "content": "\n\n".join(part.text for part in parts)}
            for role, parts in merged(request.messages)
        ]
        body: Json = {"model": self._model, "messages": messages, "stream": True}
        if self._include_usage:
            body["stream_options"] = {"include_usage": True}
        limit = request.max_output or self._max_output
        if limit:
            body[self._limit_field] = limit
        return body

    def adapt(self, complaint: str) -> bool:
        if self._include_usage and ("stream_options" in complaint or "include_usage" in complaint):
            self._include_usage = False
            return True
        if not self._limit_known and self._limit_field in complaint and _UNKNOWN.search(complaint):
            other = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
            self._limit_field = other[self._limit_field]
            self._limit_known = True
            return True
        return False

    def reader(self) -> OpenAIReader:
        return OpenAIReader()


class OpenAIReader:
    def __init__(self) -> None:
        self.finish: Finish | None = None
        self.usage: Usage | None = None
        self.over = False  # the end is `[DONE]`, which is not JSON: the transport sees it

    def event(self, data: Json) -> str:
        return self._choice(data, "delta")

    def whole(self, data: Json) -> str:
        if not data.get("error") and not as_list(data.get("choices")):
            raise NotAnAnswer
        text = self._choice(data, "message")
        self.finish = self.finish or Finish.STOP  # it came whole
        return text

    def _choice(self, data: Json, field: str) -> str:
        if data.get("error"):
            raise ErrorEvent(data)
        self._read_usage(data.get("usage") or as_object(data.get("x_groq")).get("usage"))
        for choice in map(as_object, as_list(data.get("choices"))):
            if number(choice.get("index")) != 0:
                continue
            if choice.get("error"):
                raise ErrorEvent(choice)
            reason = choice.get("finish_reason")
            if isinstance(reason, str) and reason:
                self.finish = _FINISH.get(reason, Finish.STOP)
            return text_of(as_object(choice.get(field)).get("content"))
        return ""

    def _read_usage(self, raw: object) -> None:
        usage = as_object(raw)
        if "prompt_tokens" not in usage and "completion_tokens" not in usage:
            return
        details = as_object(usage.get("prompt_tokens_details"))
        prompt = number(usage.get("prompt_tokens"))
        cached = number(details.get("cached_tokens")) or number(usage.get("prompt_cache_hit_tokens"))
        self.usage = Usage(prompt, min(cached, prompt), number(usage.get("completion_tokens")))
