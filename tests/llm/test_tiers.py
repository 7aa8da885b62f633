"""Which model answers, how often it is asked, what it costs, and when it ends. Nothing here waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from duckflow.errors import BudgetSpent, CredentialsError, RequestRefused, ServiceUnavailable
from duckflow.llm.base import (
    ContextOverflow,
    Done,
    Finish,
    Limits,
    Model,
    ModelRequest,
    Price,
    Tier,
    Transient,
    Usage,
)
from duckflow.llm.scripted import FunctionModel, Reply, ScriptedModel
from duckflow.llm.tiers import Models, Retry
from duckflow.record import replace
from tests.e2e.server import ModelServer
from tests.e2e.server import Reply as Served
from tests.llm.helpers import PATIENT, made, request, said

PRICE = Price(input=10.0, cached_input=1.0, output=100.0)
TIERS: tuple[Tier, ...] = ("creative", "fast", "evaluator")


class Clock:
    """Time that passes only when somebody waits."""

    def __init__(self) -> None:
        self.now = 100.0
        self.waits: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.waits.append(round(seconds, 3))
        self.now += seconds


def models(*chain: Model, clock: Clock | None = None, budget: float | None = None) -> Models:
    clock = clock or Clock()
    return Models(
        dict.fromkeys(TIERS, chain),
        max_cost_usd=budget,
        clock=clock,
        sleep=clock.sleep,
        chance=lambda: 1.0,
    )


def script(*replies: Reply | str, name: str = "one", price: Price | None = None) -> ScriptedModel:
    return ScriptedModel(replies, provider="p", name=name, price=price)


class Breaking:
    """A model that breaks the contract: it raises after text."""

    provider, name, window = "p", "breaking", 1000

    def __init__(self, times: int) -> None:
        self.times = times
        self.price: Price | None = PRICE

    async def stream(self, request: ModelRequest) -> AsyncIterator[str | Done]:
        yield "half "
        if self.times:
            self.times -= 1
            raise Transient("the connection broke")
        yield "whole"
        yield Done(Finish.STOP)

    async def close(self) -> None: ...


async def test_an_answer_carries_everything_the_record_needs() -> None:
    model = script(Reply("text", usage=Usage(1000, 400, 50)), price=PRICE)
    heard: list[str] = []
    answer = await models(model).ask(request(), heard.append)
    assert "".join(heard) == answer.text == "text"
    assert (answer.finish, answer.usage, answer.estimated) == (Finish.STOP, Usage(1000, 400, 50), False)
    assert answer.cost_usd == pytest.approx((600 * 10 + 400 * 1 + 50 * 100) / 1e6)
    assert (answer.provider, answer.model, answer.window) == ("p", "one", 128_000)
    assert (answer.tries, answer.notes) == (1, ())


async def test_pauses_double_and_the_wish_of_the_service_counts() -> None:
    clock = Clock()
    model = script(Reply(error=500), Reply(error=529), Reply(error=429, retry_after=30.0), "ok")
    answer = await models(model, clock=clock).ask(request())
    assert clock.waits == [1.0, 2.0, 33.0]
    assert (answer.tries, answer.ms) == (4, 36_000)
    assert answer.notes[0] == "500: scripted from p/one, waited 1.0 s"


async def test_four_tries_then_the_next_model() -> None:
    first, second = script(*[Reply(error=500)] * 9), script("ok", name="two")
    answer = await models(first, second).ask(request())
    assert (len(first.asked), len(second.asked)) == (4, 1)
    assert (answer.model, answer.tries) == ("two", 5)
    assert "given up" in answer.notes[3]


async def test_a_wait_beyond_reason_goes_to_the_next_model_at_once() -> None:
    clock = Clock()
    first, second = script(Reply(error=429, retry_after=3600.0)), script("ok", name="two")
    assert (await models(first, second, clock=clock).ask(request())).model == "two"
    assert clock.waits == []


async def test_a_spent_time_limit_counts_as_two_tries() -> None:
    with ModelServer(Served("late", hold_after=-1)) as server:
        clock = Clock()
        model = made(server.url, limits=replace(PATIENT, first_byte_s=0.02))
        asked = models(model, clock=clock)
        with pytest.raises(ServiceUnavailable) as caught:
            await asked.ask(request())
        await asked.close()
    assert len(server.requests) == 2
    assert "no answer within 0.02 s" in str(caught.value)


async def test_nobody_answers_is_exit_75_with_all_reasons() -> None:
    first, second = script(*[Reply(error=500)] * 4), script(Reply(error=401), name="two")
    with pytest.raises(ServiceUnavailable) as caught:
        await models(first, second).ask(request())
    assert caught.value.exit_code == 75
    assert str(caught.value) == (
        "No model answered: 500: scripted from p/one, given up after 4 tries; p/two: p refused the key."
    )


@pytest.mark.parametrize(("status", "error"), [(401, CredentialsError), (400, RequestRefused)])
async def test_a_refusal_goes_to_the_next_model_or_out(status: int, error: type[Exception]) -> None:
    with pytest.raises(error):
        await models(script(Reply(error=status))).ask(request())
    answer = await models(script(Reply(error=status)), script("ok", name="two")).ask(request())
    assert answer.model == "two"


async def test_a_refused_key_is_not_tried_again() -> None:
    first, second = script(Reply(error=401)), script("one", "two", name="two")
    asked = models(first, second)
    await asked.ask(request())
    await asked.ask(request())
    assert len(first.asked) == 1


async def test_an_overflow_is_what_the_caller_learns() -> None:
    def overflow(_: ModelRequest) -> str:
        raise ContextOverflow("too long")

    with pytest.raises(ContextOverflow):
        await models(FunctionModel(overflow), script(*[Reply(error=500)] * 4)).ask(request())


async def test_text_that_was_shown_is_taken_back_before_it_comes_again() -> None:
    heard: list[str] = []
    answer = await models(Breaking(2)).ask(request(), heard.append, lambda: heard.append("<again>"))
    assert answer.text == "half whole"
    assert heard == ["half ", "<again>", "half ", "<again>", "half ", "whole"]


async def test_no_restart_is_announced_when_nothing_was_shown() -> None:
    restarts: list[str] = []
    await models(script(Reply(error=500), "ok")).ask(request(), None, lambda: restarts.append("x"))
    assert restarts == []


async def test_a_cut_answer_is_an_answer() -> None:
    answer = await models(script(Reply("half", finish=Finish.CUT))).ask(request())
    assert (answer.text, answer.finish, answer.tries) == ("half", Finish.CUT, 1)


async def test_usage_is_estimated_when_the_service_says_nothing() -> None:
    asked = models(script("some words of an answer"))
    answer = await asked.ask(request(said("user", "five words are in here")))
    assert answer.estimated
    assert 5 <= answer.usage.prompt <= 12 and 4 <= answer.usage.completion <= 8


# --- totals and budget -------------------------------------------------------------------------------------------


async def test_totals_per_tier_and_overall() -> None:
    model = script(*[Reply("x", usage=Usage(100, 10, 5))] * 3, price=PRICE)
    asked = models(model)
    await asked.ask(request())
    await asked.ask(replace(request(), tier="fast"))
    await asked.ask(replace(request(), tier="fast"))
    totals = asked.totals
    assert (totals.overall.calls, totals.overall.prompt, totals.overall.cached) == (3, 300, 30)
    assert (totals.tiers["fast"].calls, totals.tiers["fast"].completion) == (2, 10)
    assert totals.overall.cost_usd == pytest.approx(3 * PRICE.cost(Usage(100, 10, 5)))


async def test_an_unknown_price_is_unknown_not_nothing() -> None:
    asked = models(script("x"))
    assert (await asked.ask(request())).cost_usd is None
    assert asked.totals.overall.cost_usd is None
    assert asked.totals.overall.unpriced == 1


async def test_what_was_broken_off_was_still_paid_for() -> None:
    asked = models(Breaking(1))
    await asked.ask(request())
    assert asked.totals.overall.calls == 2
    assert asked.totals.overall.known_usd > 0


async def test_a_cancelled_call_is_counted() -> None:
    began, never = asyncio.Event(), asyncio.Event()

    class Slow(Breaking):
        async def stream(self, request: ModelRequest) -> AsyncIterator[str | Done]:
            yield "half"
            began.set()
            await never.wait()

    asked = models(Slow(0))
    task = asyncio.create_task(asked.ask(request()))
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert asked.totals.overall.calls == 1


async def test_a_spent_budget_ends_it_before_the_next_request() -> None:
    model = script(*[Reply("x", usage=Usage(1000, 0, 100))] * 3, price=PRICE)
    asked = models(model, budget=0.03)
    await asked.ask(request())
    await asked.ask(request())
    with pytest.raises(BudgetSpent) as caught:
        await asked.ask(request())
    assert caught.value.exit_code == 55
    assert len(model.asked) == 2
    assert str(caught.value).startswith("The budget of $0.03 is spent ($0.0")


async def test_without_a_model_the_hint_names_only_what_there_is() -> None:
    with pytest.raises(CredentialsError) as caught:
        await Models({}).ask(request())
    assert "settings file" in caught.value.hint and "init" not in caught.value.hint


async def test_a_prompt_that_alone_costs_too_much_is_not_sent() -> None:
    model = script("x", price=PRICE)
    asked = models(model, budget=0.001)
    with pytest.raises(BudgetSpent):
        await asked.ask(request(said("user", "word " * 1000)))
    assert model.asked == []
    assert (await asked.ask(request(said("user", "word " * 20)))).text == "x"


async def test_the_budget_ends_retries_too() -> None:
    clock = Clock()
    asked = models(Breaking(9), clock=clock, budget=0.0002)
    with pytest.raises(BudgetSpent):
        await asked.ask(request())


async def test_money_spent_before_counts() -> None:
    from duckflow.llm.tally import Tally

    asked = Models({"creative": [script("x")]}, max_cost_usd=1.0, spent=Tally(known_usd=1.0))
    with pytest.raises(BudgetSpent):
        await asked.ask(request())


# --- the rest ----------------------------------------------------------------------------------------------------


async def test_the_badge_shows_who_will_answer_then_who_did() -> None:
    asked = models(script(Reply(error=400)), script("ok", name="two"))
    assert asked.badge("creative") == "p/one"
    await asked.ask(request())
    assert asked.badge("creative") == "p/two"
    assert asked.badge("fast") == "p/one"
    asked.use("creative", [script("ok", name="three")])
    assert (asked.badge("creative"), asked.window("creative")) == ("p/three", 128_000)


async def test_no_model_is_a_clear_message() -> None:
    with pytest.raises(CredentialsError) as caught:
        await Models({}).ask(request())
    assert caught.value.exit_code == 41


async def test_against_a_service_both_wires() -> None:
    for kind in ("openai", "anthropic"):
        busy = Served(status=429, headers={"retry-after-ms": "1500"})
        with ModelServer([busy, Served(status=529), "fine"]) as server:
            clock = Clock()
            asked = models(made(server.url, kind, Limits()), clock=clock)
            answer = await asked.ask(request())
            await asked.close()
        assert (answer.text, answer.tries, clock.waits) == ("fine", 3, [1.65, 2.0])


def test_policy_defaults_are_the_documented_ones() -> None:
    assert (Retry().tries, Retry().longest_s) == (4, 60.0)
