"""Models without a service: scripted replies, a function as the model, and one that breaks things on purpose.

They record every request in `asked`. The scripted one serves the demo and tests; nothing falls back on it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from inspect import isawaitable
from pathlib import Path
from typing import Any

from duckflow.errors import N_, ConfigError, CredentialsError, RequestRefused
from duckflow.llm.base import Done, Finish, Model, ModelRequest, Price, Transient, Usage
from duckflow.record import Record, replace

PIECE = 12  # characters per streamed piece
HUGE = 9_000_000  # characters, beyond every limit
NODES = frozenset({"understand", "gather", "execute", "evaluate", "plan", "tasks", "report", "summarize"})

Sleep = Callable[[float], Awaitable[object]]


class ScriptExhausted(RequestRefused):
    """The script has no reply left for this request: the test or the demo asked more than it prepared."""

    code = "script-exhausted"


class Reply(Record):
    """What a scripted model does when asked."""

    text: str = ""
    node: str | None = None  # only for this node; None: for any
    finish: Finish = Finish.STOP
    error: int | None = None  # an HTTP status instead of an answer
    retry_after: float | None = None
    usage: Usage | None = None
    delay_ms: float = 0.0  # before each piece, so that a person can follow


class _Fake:
    """What the models of this file share."""

    def __init__(
        self, provider: str, name: str, window: int, price: Price | None, sleep: Sleep = asyncio.sleep
    ) -> None:
        self.provider = provider
        self.name = name
        self.window = window
        self.price = price
        self.asked: list[ModelRequest] = []
        self._sleep = sleep

    async def _play(self, reply: Reply) -> AsyncIterator[str | Done]:
        if reply.error is not None:
            raise _error(reply, self)
        for start in range(0, len(reply.text), PIECE):
            if reply.delay_ms:
                await self._sleep(reply.delay_ms / 1000)
            yield reply.text[start : start + PIECE]
        yield Done(reply.finish, reply.usage)

    async def close(self) -> None:
        """Nothing is open."""


class ScriptedModel(_Fake):
    """Gives prepared replies: each once, to the first request it is meant for."""

    def __init__(
        self,
        replies: Iterable[Reply | str],
        *,
        provider: str = "scripted",
        name: str = "script",
        window: int = 128_000,
        price: Price | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        super().__init__(provider, name, window, price, sleep)
        self.left = [Reply(reply) if isinstance(reply, str) else reply for reply in replies]

    @classmethod
    def from_file(cls, path: str | Path, **rest: Any) -> ScriptedModel:
        """A TOML file of `[[reply]]` tables with the fields of `Reply`; `delay_ms` at the top is for all."""
        return cls(load(Path(path)), **rest)

    async def stream(self, request: ModelRequest) -> AsyncIterator[str | Done]:
        self.asked.append(request)
        async for item in self._play(self._next(request)):
            yield item

    def _next(self, request: ModelRequest) -> Reply:
        for index, reply in enumerate(self.left):
            if reply.node in (None, request.node):
                return self.left.pop(index)
        raise ScriptExhausted(
            N_("The script has no reply left for request {number} ({node})."),
            hint=N_("Add a [[reply]] for this node to the script."),
            number=len(self.asked),
            node=request.node,
        )


Answering = Callable[[ModelRequest], "str | Reply | Awaitable[str | Reply]"]


class FunctionModel(_Fake):
    """Asks a function. What it raises is raised."""

    def __init__(
        self,
        function: Answering,
        *,
        provider: str = "function",
        name: str = "function",
        window: int = 128_000,
        price: Price | None = None,
    ) -> None:
        super().__init__(provider, name, window, price)
        self._function = function

    async def stream(self, request: ModelRequest) -> AsyncIterator[str | Done]:
        self.asked.append(request)
        made = self._function(request)
        reply = await made if isawaitable(made) else made
        async for item in self._play(Reply(reply) if isinstance(reply, str) else reply):
            yield item


class ChaosModel(_Fake):
    """Another model's answers, broken by a seeded hand: the same seed breaks the same way."""

    FAULTS = ("json", "cut", "length", "rate", "server", "overload", "empty", "huge")

    def __init__(self, inner: Model, seed: int, *, rate: float = 0.5, faults: Sequence[str] = FAULTS) -> None:
        super().__init__(inner.provider, inner.name, inner.window, inner.price)
        self._inner = inner
        self._dice = random.Random(seed)
        self._rate = rate
        self._faults = tuple(faults)
        self.done: list[str | None] = []  # the fault of each request, None: left alone

    async def stream(self, request: ModelRequest) -> AsyncIterator[str | Done]:
        self.asked.append(request)
        fault = self._dice.choice(self._faults) if self._dice.random() < self._rate else None
        self.done.append(fault)
        status = {"rate": 429, "server": 500, "overload": 529}.get(fault or "")
        if status:
            raise Transient(f"{status}: chaos")
        text, done = "", Done(Finish.CUT)
        async for item in self._inner.stream(request):
            if isinstance(item, Done):
                done = item
            else:
                text += item
        async for item in self._play(self._broken(Reply(text, finish=done.finish, usage=done.usage), fault)):
            yield item

    def _broken(self, reply: Reply, fault: str | None) -> Reply:
        at = self._dice.randrange(len(reply.text) + 1)
        match fault:
            case "json":
                return replace(reply, text=self._break_json(reply.text))
            case "cut":
                return replace(reply, text=reply.text[:at], finish=Finish.CUT)
            case "length":
                return replace(reply, text=reply.text[:at], finish=Finish.LENGTH)
            case "empty":
                return replace(reply, text="")
            case "huge":
                return replace(reply, text=(reply.text + "x") * (HUGE // (len(reply.text) + 1) + 1))
        return reply

    def _break_json(self, text: str) -> str:
        signs = [i for i, sign in enumerate(text) if sign in '{}[]",:\\'] or [0]
        at = self._dice.choice(signs)
        others = [other for other in ("", "'", "}", '"', ",,") if other != text[at : at + 1]]
        return text[:at] + self._dice.choice(others) + text[at + 1 :]

    async def close(self) -> None:
        await self._inner.close()


def _error(reply: Reply, model: _Fake) -> Exception:
    status = reply.error or 0
    if status in (401, 403):
        return CredentialsError(N_("{provider} refused the key."), provider=model.provider)
    if status in (408, 409, 425, 429) or status >= 500:
        return Transient(f"{status}: scripted", reply.retry_after)
    return RequestRefused(
        N_("{provider} did not accept the request for {model}: {detail}"),
        provider=model.provider,
        model=model.name,
        detail=reply.text or f"HTTP {status}",
    )


def load(path: Path) -> list[Reply]:
    """The replies of a script file. Raises `ConfigError` that says what is wrong with it."""
    import tomllib

    try:
        script = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _bad(path, str(error)) from None
    tables = script.get("reply", [])
    unknown = sorted(set(script) - {"reply", "delay_ms"})
    if unknown or not isinstance(tables, list):
        raise _bad(path, f"unknown key {unknown[0]}" if unknown else "reply must be [[reply]] tables")
    delay = script.get("delay_ms", 0.0)
    return [_reply(path, number, {"delay_ms": delay, **table}) for number, table in enumerate(tables, 1)]


def _reply(path: Path, number: int, table: Mapping[str, Any]) -> Reply:
    known = Reply.FIELDS
    for key in table:
        if key not in known:
            raise _bad(path, f"reply {number}: unknown key {key}")
    if table.get("node") is not None and table["node"] not in NODES:
        raise _bad(path, f"reply {number}: unknown node {table['node']}")
    try:
        finish = Finish(table.get("finish", "stop"))
        usage = Usage(**table["usage"]) if "usage" in table else None
    except (ValueError, TypeError) as error:
        raise _bad(path, f"reply {number}: {error}") from None
    return Reply(**{**table, "finish": finish, "usage": usage})


def _bad(path: Path, detail: str) -> ConfigError:
    return ConfigError(
        N_("The script {path} cannot be used: {detail}"),
        hint=N_("It is a TOML file of [[reply]] tables with text, and optionally node, finish or error."),
        path=str(path),
        detail=detail,
    )
