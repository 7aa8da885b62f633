"""What the tests of this folder share: a model's settings, a request, and asking for it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from duckflow.llm.base import Done, Limits, Message, Model, ModelRequest, Node, Part, Role
from duckflow.llm.providers import build
from duckflow.record import Record

KEY = "sk-test-0123456789abcdef"
PATIENT = Limits(connect_s=60.0, first_byte_s=60.0, idle_s=60.0, total_s=60.0)
ENOUGH_S = 20.0  # a test whose own limit does not act ends here, and fails
WIRES = ("openai", "anthropic")


class Spec(Record):
    base_url: str | None
    kind: str = "openai"
    provider: str = "local"
    model: str = "some-model"
    api_key_env: str | None = "TEST_KEY"
    window: int | None = 128_000
    price: object | None = None
    max_output: int | None = None


def made(url: str, kind: str = "openai", limits: Limits = PATIENT, env: Mapping[str, str] | None = None) -> Model:
    return build(Spec(url, kind), limits, {"TEST_KEY": KEY} if env is None else env)


def said(role: Role, *texts: str, cache: bool = False) -> Message:
    return Message(role, tuple(Part(text, cache) for text in texts))


def request(*messages: Message, node: Node = "understand", retry: bool = False) -> ModelRequest:
    return ModelRequest(node, "creative", messages or (said("user", "hello"),), retry=retry)


async def collect(model: Model, asked: ModelRequest | None = None) -> tuple[str, Done]:
    """The whole answer. The model is closed afterwards."""
    items: list[str | Done] = []
    try:
        async with asyncio.timeout(ENOUGH_S):
            async for item in model.stream(asked or request()):
                items.append(item)
    finally:
        await model.close()
    *pieces, done = items
    assert isinstance(done, Done)
    texts = [piece for piece in pieces if isinstance(piece, str)]
    assert len(texts) == len(pieces), "exactly one Done, at the end"
    return "".join(texts), done
