"""Both wire formats against a service on loopback: what is sent, what comes back, what every fault becomes."""

from __future__ import annotations

import asyncio
import traceback
from typing import Any

import pytest

from duckflow.errors import ConfigError, CredentialsError, DuckflowError, RequestRefused, WrongService
from duckflow.llm.base import ContextOverflow, Done, Finish, Limits, Price, Transient, Usage
from duckflow.llm.http import is_loopback
from duckflow.llm.providers import build, price_of
from duckflow.record import replace
from tests.e2e.server import ModelServer, Reply
from tests.e2e.server import Usage as Sent
from tests.llm.helpers import KEY, PATIENT, WIRES, Spec, collect, made, request, said

TEXT = "Grüße, アヒル 🦆!\n" * 5
both = pytest.mark.parametrize("kind", WIRES)


async def fails(server: ModelServer, kind: str = "openai", limits: Limits = PATIENT) -> Exception:
    """What asking this server raises."""
    with pytest.raises((Transient, DuckflowError)) as caught:
        await collect(made(server.url, kind, limits))
    assert KEY not in "".join(traceback.format_exception(caught.value))
    return caught.value


def broken(text: str, fault: str, at: int) -> Reply:
    change: dict[str, Any] = {fault: at}
    return Reply(text, **change)


# --- what is sent and read ---------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("stream", [True, False])
async def test_text_finish_and_usage_arrive(kind: str, stream: bool) -> None:
    with ModelServer(Reply(TEXT, usage=Sent(100, 40, 7, created=25), stream=stream)) as server:
        assert await collect(made(server.url, kind)) == (TEXT, Done(Finish.STOP, Usage(100, 40, 7)))


@both
async def test_a_service_that_reports_no_usage_leaves_it_open(kind: str) -> None:
    with ModelServer("ok") as server:
        assert await collect(made(server.url, kind)) == ("ok", Done(Finish.STOP, None))


@both
@pytest.mark.parametrize(
    ("finish", "expected"),
    [("length", Finish.LENGTH), ("filter", Finish.FILTER), (None, Finish.CUT), ("something_new", Finish.STOP)],
)
async def test_finish_reasons(kind: str, finish: str | None, expected: Finish) -> None:
    with ModelServer(Reply("half", finish=finish)) as server:
        text, done = await collect(made(server.url, kind))
    assert (text, done.finish) == ("half", expected)


@both
async def test_every_request_says_what_it_is_for(kind: str) -> None:
    with ModelServer("ok") as server:
        await collect(made(server.url, kind), request(node="evaluate"))
        await collect(made(server.url, kind), request(node="execute", retry=True))
    first, second = (r.headers for r in server.requests)
    assert (first["x-duckflow-node"], first["x-duckflow-tier"]) == ("evaluate", "creative")
    assert "x-duckflow-retry" not in first
    assert second["x-duckflow-retry"] == "1"


async def test_openai_body_joins_parts_and_neighbours() -> None:
    asked = request(
        said("system", "base", "contract", cache=True),
        said("user", "one"),
        said("user", "two", " "),
        said("assistant", "{}"),
        said("user", "three"),
    )
    with ModelServer("ok") as server:
        await collect(made(server.url + "/"), replace(asked, max_output=77))
    sent = server.requests[0]
    assert sent.path == "/v1/chat/completions"
    assert sent.headers["authorization"] == f"Bearer {KEY}"
    assert sent.body == {
        "model": "some-model",
        "messages": [
            {"role": "system", "content": "base\n\ncontract"},
            {"role": "user", "content": "one\n\ntwo"},
            {"role": "assistant", "content": "{}"},
            {"role": "user", "content": "three"},
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 77,
    }


async def test_anthropic_body_has_system_blocks_and_the_last_four_cache_marks() -> None:
    asked = request(
        said("system", "base", cache=True),
        said("system", "contract", cache=True),
        said("assistant", "before"),
        said("user", "one", "", cache=True),
        said("user", "two", cache=True),
        said("assistant", "{}", cache=True),
        said("user", "main"),
    )
    with ModelServer("ok") as server:
        await collect(made(server.url, "anthropic"), asked)
    sent = server.requests[0]
    mark = {"cache_control": {"type": "ephemeral"}}
    assert sent.path == "/v1/messages"
    assert sent.headers["x-api-key"] == KEY
    assert sent.headers["anthropic-version"] == "2023-06-01"
    assert sent.body["max_tokens"] == 8192
    assert sent.body["system"] == [
        {"type": "text", "text": "base"},
        {"type": "text", "text": "\n\ncontract", **mark},
    ]
    assert [message["role"] for message in sent.body["messages"]] == [
        "user",
        "assistant",
        "user",
        "assistant",
        "user",
    ]
    assert sent.body["messages"][2]["content"] == [
        {"type": "text", "text": "one", **mark},
        {"type": "text", "text": "\n\ntwo", **mark},
    ]
    assert sent.body["messages"][4]["content"] == [{"type": "text", "text": "main"}]


@pytest.mark.parametrize("base", ["", "/v1", "/v1/", "/v1/messages"])
async def test_anthropic_address_with_and_without_version(base: str) -> None:
    with ModelServer("ok") as server:
        await collect(made(server.url.removesuffix("/v1") + base, "anthropic"))
    assert server.requests[0].path == "/v1/messages"


async def test_options_a_service_does_not_know_are_left_out_from_then_on() -> None:
    def picky(body: dict[str, object], _: object) -> Reply | str:
        for field, message in {
            "stream_options": "Unrecognized request argument supplied: stream_options",
            "max_tokens": "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.",
        }.items():
            if field in body:
                return Reply(status=400, error={"error": {"message": message}})
        return "ok"

    with ModelServer(picky) as server:
        model = build(replace(Spec(server.url), max_output=50), PATIENT, {"TEST_KEY": KEY})
        asked = request()
        assert [item async for item in model.stream(asked)] == ["ok", Done(Finish.STOP)]
        assert [item async for item in model.stream(asked)] == ["ok", Done(Finish.STOP)]
        await model.close()
    assert len(server.requests) == 4
    assert server.requests[-1].body["max_completion_tokens"] == 50


# --- keys and addresses ------------------------------------------------------------------------------------------


async def test_a_local_service_needs_no_key() -> None:
    with ModelServer("ok") as server:
        await collect(made(server.url, env={}))
    assert "authorization" not in server.requests[0].headers


def test_a_missing_key_is_said_before_anything_is_sent() -> None:
    with pytest.raises(CredentialsError) as caught:
        build(Spec("https://models.example/v1"), None, {"TEST_KEY": " "})
    assert "TEST_KEY" in str(caught.value)
    assert caught.value.exit_code == 41


def test_a_key_that_no_header_can_carry_is_said_without_showing_it() -> None:
    with pytest.raises(CredentialsError) as caught:
        build(Spec("https://models.example/v1"), None, {"TEST_KEY": "秘密\nkey"})
    assert "秘密" not in repr(caught.value) + str(caught.value) + repr(caught.value.params)


@pytest.mark.parametrize("url", ["models.example/v1", "ftp://models.example", "http://", "http://[::1"])
def test_an_address_that_is_none_is_a_configuration_error(url: str) -> None:
    with pytest.raises(ConfigError):
        build(Spec(url), None, {"TEST_KEY": KEY})


def test_an_unknown_kind_is_a_configuration_error() -> None:
    with pytest.raises(ConfigError):
        build(Spec("http://127.0.0.1", kind="telepathy"), None, {})


@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("http://localhost:1/v1", True),
        ("http://127.8.9.1/v1", True),
        ("http://[::1]:8080", True),
        ("http://ollama.localhost", True),
        ("http://127.0.0.1.evil.example", False),
        ("http://127.evil.example", False),
        ("http://localhost.example", False),
        ("http://10.0.0.1", False),
    ],
)
def test_which_addresses_are_this_machine(url: str, local: bool) -> None:
    assert is_loopback(url) is local


async def test_a_proxy_is_not_asked_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
        monkeypatch.setenv(name.upper(), "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with ModelServer("ok") as server:
        assert (await collect(made(server.url)))[0] == "ok"


def test_a_price_may_be_given_in_any_form() -> None:
    price = Price(1.0, 0.5, 2.0)
    assert price_of((1, 0.5, 2)) == price_of({"input": 1, "cached_input": 0.5, "output": 2}) == price
    assert price_of(price) == price
    assert price_of(None) is None


# --- refusals ----------------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_key_names_provider_and_variable_but_not_the_key(kind: str, status: int) -> None:
    told = {"error": {"message": f"Incorrect API key provided: {KEY}, i.e. {KEY[:8]}*****cdef"}}
    with ModelServer(Reply(status=status, error=told)) as server:
        error = await fails(server, kind)
    assert isinstance(error, CredentialsError)
    assert "local" in str(error) and "TEST_KEY" in str(error)
    assert KEY[:8] not in str(error) and "cdef" not in str(error)


@pytest.mark.parametrize(
    ("status", "message", "expected"),
    [
        (404, "model some-model not found", WrongService),
        (400, "temperature must be positive", WrongService),
        (422, "messages: field required", WrongService),
        (400, "This model's maximum context length is 8192 tokens", ContextOverflow),
        (400, "prompt is too long: 210000 tokens > 200000 maximum", ContextOverflow),
        (413, "Request too large", ContextOverflow),
        (400, "API key not valid. Please pass a valid API key.", CredentialsError),
        (402, "Insufficient Balance", RequestRefused),
        (301, "", WrongService),
        (501, "not implemented", WrongService),
    ],
)
async def test_refusals_carry_the_words_of_the_service(status: int, message: str, expected: type[Exception]) -> None:
    with ModelServer(Reply(status=status, error={"error": {"message": message}})) as server:
        error = await fails(server)
    assert type(error) is expected
    assert status == 301 or message in str(error)


async def test_a_used_up_quota_is_not_worth_waiting_for() -> None:
    told = {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}
    with ModelServer(Reply(status=429, error=told)) as server:
        assert isinstance(await fails(server), RequestRefused)


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
async def test_trouble_that_passes_is_transient(status: int) -> None:
    with ModelServer(Reply(status=status, headers={"Retry-After": "7"})) as server:
        error = await fails(server)
    assert isinstance(error, Transient)
    assert str(status) in error.reason and error.retry_after == 7.0


@pytest.mark.parametrize(
    "error",
    [
        '{"error": "plain words"}',
        '{"error": {"message": "plain words"}}',
        '{"message": "plain words"}',
        '{"detail": "plain words"}',
        '[{"error": {"message": "plain words", "status": "FAILED"}}]',
        "plain words",
    ],
)
async def test_the_message_is_found_in_every_shape(error: str) -> None:
    with ModelServer(Reply(status=400, content_type="application/json", raw=error.encode())) as server:
        assert "plain words" in str(await fails(server))


async def test_a_web_page_instead_of_an_answer_points_to_base_url() -> None:
    page = b"<html><title>Log in</title>" + b"x" * 100_000
    with ModelServer(Reply(content_type="text/html; charset=utf-8", raw=page)) as server:
        error = await fails(server)
    assert isinstance(error, RequestRefused)
    assert "text/html" in str(error) and "Log in" in str(error) and "base_url" in error.hint


@pytest.mark.parametrize("raw", [b'{"hello": "world"}', b'{"choices": []}', b"[1, 2]"])
async def test_json_of_another_kind_is_not_an_answer(raw: bytes) -> None:
    with ModelServer(Reply(content_type="application/json", raw=raw)) as server:
        assert isinstance(await fails(server), RequestRefused)


async def test_events_under_a_wrong_name_are_understood() -> None:
    raw = b'data: {"choices": [{"delta": {"content": "ok"}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
    for kind in ("", "text/plain"):
        with ModelServer(Reply(content_type=kind, raw=raw)) as server:
            assert (await collect(made(server.url)))[0] == "ok"


# --- broken streams ----------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("fault", ["cut_after", "malformed_after", "error_after"])
async def test_a_stream_that_breaks_after_text_ends_as_cut(kind: str, fault: str) -> None:
    with ModelServer(broken(TEXT, fault, 10)) as server:
        text, done = await collect(made(server.url, kind))
    assert (text, done.finish) == (TEXT[:10], Finish.CUT)


@both
@pytest.mark.parametrize("fault", ["cut_after", "malformed_after", "error_after"])
async def test_a_stream_that_breaks_before_text_is_transient(kind: str, fault: str) -> None:
    with ModelServer(broken("", fault, 0)) as server:
        assert isinstance(await fails(server, kind), Transient)


@both
async def test_an_empty_body_is_transient(kind: str) -> None:
    for content_type in ("text/event-stream", "application/json", ""):
        with ModelServer(Reply(content_type=content_type, raw=b"")) as server:
            assert isinstance(await fails(server, kind), Transient)


async def test_an_error_event_that_names_its_cause_is_understood() -> None:
    for error, expected in (
        (b'{"error": {"code": 401, "message": "no"}}', CredentialsError),
        (b'{"error": {"type": "invalid_request_error", "message": "prompt is too long"}}', ContextOverflow),
        (b'{"error": {"type": "invalid_request_error", "message": "bad"}}', WrongService),
        (b'{"error": "boom"}', Transient),
    ):
        with ModelServer(Reply(raw=b"data: " + error + b"\n\n")) as server:
            assert type(await fails(server)) is expected


async def test_an_empty_answer_that_ended_well_is_an_answer() -> None:
    with ModelServer("") as server:
        assert await collect(made(server.url)) == ("", Done(Finish.STOP))


async def test_damaged_characters_are_shown_but_never_whole() -> None:
    raw = b'data: {"choices": [{"delta": {"content": "a\xffb"}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
    with ModelServer(Reply(raw=raw)) as server:
        assert await collect(made(server.url)) == ("a\ufffdb", Done(Finish.CUT))


@pytest.mark.parametrize(
    ("first", "second", "text", "finish"),
    [
        ("\\ud83e", "\\udd86", "🦆", Finish.STOP),
        ("\\ud83e", "x", "\ufffdx", Finish.CUT),
        ("x", "\\ud83e", "x", Finish.CUT),
    ],
)
async def test_halves_of_a_character_are_joined(first: str, second: str, text: str, finish: Finish) -> None:
    event = 'data: {"choices": [{"delta": {"content": "%s"}}]}\n\n'
    end = 'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
    with ModelServer(Reply(raw=(event % first + event % second + end).encode())) as server:
        assert await collect(made(server.url)) == (text, Done(finish))


@pytest.mark.parametrize("stream", [True, False])
async def test_a_huge_answer_is_cut(stream: bool) -> None:
    with ModelServer(Reply("x" * 50_000, piece=5_000, stream=stream)) as server:
        text, done = await collect(made(server.url, limits=replace(PATIENT, max_text=12_000)))
    assert len(text) <= 12_000
    assert done.finish is Finish.CUT


async def test_an_endless_line_is_cut() -> None:
    with ModelServer(Reply(raw=b"data: " + b"x" * (17 * 1024 * 1024))) as server:
        assert (await collect(made(server.url)))[1].finish is Finish.CUT


# --- time --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hold", [-1, 0])
async def test_no_first_byte_in_time_is_transient(hold: int) -> None:
    with ModelServer(Reply("late", hold_after=hold)) as server:
        error = await fails(server, limits=replace(PATIENT, first_byte_s=0.05, idle_s=0.05))
    assert isinstance(error, Transient) and error.timed_out
    assert "0.05 s" in error.reason


async def test_silence_after_text_ends_as_cut() -> None:
    with ModelServer(Reply(TEXT, hold_after=20)) as server:
        text, done = await collect(made(server.url, limits=replace(PATIENT, idle_s=0.05)))
    assert (text, done.finish) == (TEXT[:20], Finish.CUT)


@pytest.mark.parametrize("text", ["some", ""])
async def test_a_slow_trickle_is_caught_by_the_total_limit(text: str) -> None:
    limits = replace(PATIENT, total_s=0.1)
    with ModelServer(Reply(text, trickle=True)) as server:
        if text:
            assert await collect(made(server.url, limits=limits)) == (text, Done(Finish.CUT))
        else:
            assert isinstance(await fails(server, limits=limits), Transient)


async def test_an_answer_that_finished_does_not_wait_for_a_missing_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("duckflow.llm.guard.AFTER_FINISH_S", 0.05)
    event = b'data: {"choices": [{"delta": {"content": "ok"}, "finish_reason": "stop"}]}\n\n'
    held = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + event)
        await writer.drain()
        await held.wait()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        answer = await collect(made(f"http://127.0.0.1:{port}/v1"))
        held.set()
    assert answer == ("ok", Done(Finish.STOP))


async def test_nobody_listening_is_transient() -> None:
    with ModelServer("ok") as server:
        url = server.url
    with pytest.raises(Transient) as caught:
        await collect(made(url))
    assert "cannot connect" in caught.value.reason


async def test_leaving_in_the_middle_closes_the_connection() -> None:
    with ModelServer(Reply(TEXT, hold_after=20)) as server:
        model = made(server.url)
        async with asyncio.timeout(5):
            stream = model.stream(request())
            async for _ in stream:
                break
            await stream.aclose()  # type: ignore[attr-defined]
        await model.close()


@pytest.mark.parametrize("kind", WIRES)
async def test_a_connection_serves_the_next_request_too(kind: str) -> None:
    """A second handshake for every Decision would cost more than the whole engine."""
    with ModelServer([Reply("one"), Reply("two")]) as server:
        model = made(server.url, kind)
        ports = []
        for _ in range(2):
            assert [item async for item in model.stream(request())][-1] == Done(Finish.STOP)
            ports.append(server.requests[-1].client)
        await model.close()
    assert ports[0] == ports[1]
