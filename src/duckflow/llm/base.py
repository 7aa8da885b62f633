"""What a model is asked and what it answers: the types every provider and every caller share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from enum import StrEnum
from typing import Literal, Protocol

from duckflow.errors import RequestRefused
from duckflow.record import Record

Node = Literal["understand", "gather", "execute", "evaluate", "plan", "tasks", "report", "summarize"]
Tier = Literal["creative", "fast", "evaluator"]
Role = Literal["system", "user", "assistant"]


class Part(Record):
    """A piece of a message. `cache`: everything up to its end stays the same next time."""

    text: str
    cache: bool = False


class Message(Record):
    role: Role
    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        """The parts joined the way every provider sends them."""
        return "\n\n".join(part.text for part in self.parts)


class ModelRequest(Record):
    node: Node
    tier: Tier
    messages: tuple[Message, ...]
    max_output: int | None = None
    retry: bool = False  # repeats a call whose answer could not be read


class Finish(StrEnum):
    STOP = "stop"
    LENGTH = "length"
    FILTER = "filter"
    CUT = "cut"  # the stream ended without a finish reason


class Usage(Record):
    prompt: int = 0  # all input tokens, cached ones included
    cached: int = 0
    completion: int = 0


class Done(Record):
    """The last item of every stream."""

    finish: Finish
    usage: Usage | None = None  # None: the service did not say; the caller estimates


class Price(Record):
    """USD per million tokens."""

    input: float = 0.0
    cached_input: float = 0.0
    output: float = 0.0

    def cost(self, usage: Usage) -> float:
        fresh = usage.prompt - usage.cached
        return (fresh * self.input + usage.cached * self.cached_input + usage.completion * self.output) / 1e6


class Model(Protocol):
    """One model behind one wire format. `stream` yields text pieces and exactly one `Done` at the end.

    It raises `CredentialsError`, `RequestRefused`, or `Transient` before the first piece;
    a connection that breaks after the first piece ends with `Done(Finish.CUT)`.
    """

    provider: str
    name: str
    window: int
    price: Price | None

    def stream(self, request: ModelRequest) -> AsyncIterator[str | Done]: ...

    async def close(self) -> None: ...


class Spec(Protocol):
    """What a factory must know about a configured model. `config.ModelSpec` has this shape."""

    @property
    def provider(self) -> str: ...
    @property
    def kind(self) -> str: ...  # openai | anthropic | pydantic-ai | scripted
    @property
    def base_url(self) -> str | None: ...
    @property
    def api_key_env(self) -> str | None: ...
    @property
    def model(self) -> str: ...
    @property
    def window(self) -> int | None: ...  # None: not known
    @property
    def price(self) -> object | None: ...  # has input, cached_input, output; or is a tuple of the three
    @property
    def max_output(self) -> int | None: ...


class Limits(Record):
    """How long and how much one request may take. Seconds, characters."""

    connect_s: float = 15.0
    first_byte_s: float = 120.0
    idle_s: float = 90.0  # between two pieces of the answer, keep-alives included
    total_s: float = 900.0
    max_text: int = 8_000_000


LOCAL_LIMITS = Limits(first_byte_s=1800.0, idle_s=600.0, total_s=3600.0)
"""For a model on this machine: reading a long prompt without a GPU takes minutes."""


class Transient(Exception):
    """The service may answer later: rate limit, overload, time-out, no connection."""

    def __init__(self, reason: str, retry_after: float | None = None, *, timed_out: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retry_after = retry_after
        self.timed_out = timed_out  # a whole time limit was spent on it: not worth many tries


class ContextOverflow(RequestRefused):
    """The prompt does not fit into the model's window: shorten it and ask again."""

    code = "context-overflow"


class Answer(Record):
    """A finished call as the engine sees and records it."""

    text: str
    finish: Finish
    usage: Usage
    estimated: bool  # usage was estimated because the service reported none
    cost_usd: float | None  # None: no price is known
    provider: str
    model: str
    window: int
    ms: int
    tries: int  # requests sent for this answer, retries and fallbacks included
    notes: tuple[str, ...] = ()  # retries and fallbacks in words ("429 from main, waited 2.0 s")


OnText = Callable[[str], None]
"""Called with each piece of text as it arrives. A call retried after text came calls `on_restart` first."""

OnRestart = Callable[[], None]
"""Called when an answer starts anew although pieces of it were already delivered: forget them."""
