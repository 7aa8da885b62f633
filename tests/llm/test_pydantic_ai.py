"""Models through pydantic-ai, with its own test models. Skipped where the extra is not installed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from duckflow.errors import ConfigError, CredentialsError, DuckflowError, RequestRefused, WrongService
from duckflow.llm import pydantic_ai as ours
from duckflow.llm.base import ContextOverflow, Done, Finish, Limits, Model, Transient
from duckflow.llm.providers import build
from duckflow.record import replace
from tests.llm.helpers import KEY, PATIENT, Spec, collect, request, said

pytest.importorskip("pydantic_ai", exc_type=ImportError)

from pydantic_ai import exceptions as theirs
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.test import TestModel

SPEC = Spec(None, "pydantic-ai", model="test", api_key_env=None)


def model_of(inner: Any, limits: Limits = PATIENT) -> Model:
    return ours.PydanticAIModel(SPEC, limits, None, 1000, None, inner)


def raising(error: Exception, *before: str) -> Model:
    async def stream(messages: object, info: object) -> AsyncIterator[str]:
        for text in before:
            yield text
        raise error

    return model_of(FunctionModel(stream_function=stream))


async def test_text_usage_and_finish_arrive() -> None:
    text, done = await collect(model_of(TestModel(custom_output_text='{"rationale": "アヒル"}')))
    assert text == '{"rationale": "アヒル"}'
    assert done.finish is Finish.STOP
    assert done.usage is not None and done.usage.completion > 0


async def test_the_model_is_found_by_its_name() -> None:
    assert (await collect(build(SPEC, PATIENT, {})))[1].finish is Finish.STOP


async def test_messages_and_settings_are_passed_on() -> None:
    seen: list[Any] = []

    async def stream(messages: object, info: Any) -> AsyncIterator[str]:
        seen.extend((messages, info.model_settings))
        yield "ok"

    asked = request(
        said("system", "base", "contract"), said("user", "one"), said("assistant", "{}"), said("user", "two")
    )
    await collect(model_of(FunctionModel(stream_function=stream)), replace(asked, max_output=9, retry=True))
    messages, given = seen
    assert [part.content for message in messages for part in message.parts] == [
        "base\n\ncontract",
        "one",
        "{}",
        "two",
    ]
    assert given["max_tokens"] == 9
    assert given["extra_headers"] == {
        "X-Duckflow-Node": "understand",
        "X-Duckflow-Tier": "creative",
        "X-Duckflow-Retry": "1",
    }


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (theirs.ModelHTTPError(401, "m", {"error": {"message": "no"}}), CredentialsError),
        (theirs.ModelHTTPError(429, "m", None), Transient),
        (theirs.ModelHTTPError(400, "m", {"message": "maximum context length is 10"}), ContextOverflow),
        (theirs.ModelHTTPError(404, "m", "no such model"), WrongService),
        (theirs.UserError("Set the `X_API_KEY` environment variable or pass api_key"), CredentialsError),
        (theirs.UserError("Unknown model: x"), ConfigError),
        (theirs.UnexpectedModelBehavior("odd"), Transient),
        (ConnectionResetError("gone"), Transient),
        (ImportError("Please install `boto3`"), ConfigError),
        (LookupError("strange"), RequestRefused),
    ],
)
async def test_their_errors_become_ours(error: Exception, expected: type[Exception]) -> None:
    with pytest.raises((Transient, DuckflowError)) as caught:
        await collect(raising(error))
    assert type(caught.value) is expected


async def test_an_error_after_text_ends_as_cut() -> None:
    assert await collect(raising(ConnectionResetError("gone"), "half ", "of it")) == (
        "half of it",
        Done(Finish.CUT),
    )


async def test_silence_ends_as_transient_or_cut() -> None:
    never = asyncio.Event()

    def silent(*before: str) -> Model:
        async def stream(messages: object, info: object) -> AsyncIterator[str]:
            for text in before:
                yield text
            await never.wait()
            yield "late"

        limits = replace(PATIENT, first_byte_s=0.05, idle_s=0.05)
        return model_of(FunctionModel(stream_function=stream), limits)

    with pytest.raises(Transient) as caught:
        await collect(silent())
    assert caught.value.timed_out
    assert await collect(silent("half")) == ("half", Done(Finish.CUT))


async def test_a_huge_answer_is_cut() -> None:
    async def stream(messages: object, info: object) -> AsyncIterator[str]:
        while True:
            yield "x" * 1000

    model = model_of(FunctionModel(stream_function=stream), replace(PATIENT, max_text=5000))
    text, done = await collect(model)
    assert len(text) <= 7000 and done.finish is Finish.CUT


def test_a_missing_package_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ours, "find_spec", lambda name: None)
    with pytest.raises(ConfigError) as caught:
        build(SPEC, None, {})
    assert "pip install 'duckflow[providers]'" in caught.value.hint


async def test_a_provider_whose_own_package_is_missing_says_so() -> None:
    spec = replace(SPEC, model="cohere:command", api_key_env="TEST_KEY")
    with pytest.raises(ConfigError) as caught:
        await collect(build(spec, PATIENT, {"TEST_KEY": KEY}))
    assert KEY not in str(caught.value)


def test_a_missing_key_is_said_before_anything_is_sent() -> None:
    with pytest.raises(CredentialsError):
        build(replace(SPEC, api_key_env="TEST_KEY"), None, {})
