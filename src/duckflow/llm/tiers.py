"""The three tiers: which model answers, retries and fallbacks, what it cost, and the budget that ends it.

Knows models only by their contract (`base.Model`). Clock, sleep and chance are given: no test has to wait.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence

from duckflow.errors import (
    N_,
    BudgetSpent,
    CredentialsError,
    DuckflowError,
    RequestRefused,
    ServiceUnavailable,
)
from duckflow.llm.base import (
    Answer,
    ContextOverflow,
    Done,
    Finish,
    Model,
    ModelRequest,
    OnRestart,
    OnText,
    Tier,
    Transient,
    Usage,
)
from duckflow.llm.tally import Tally, Totals
from duckflow.llm.tokens import estimate
from duckflow.record import Record, replace


class Retry(Record):
    """How patient we are with one model."""

    tries: int = 4  # requests; one that used up a whole time limit counts as two
    first_s: float = 1.0  # the first pause; each further one is twice as long
    most_s: float = 20.0
    longest_s: float = 60.0  # a service that asks for a longer wait is given up


class Models:
    """A chain of models per tier: the first that can answers."""

    def __init__(
        self,
        chains: Mapping[Tier, Sequence[Model]],
        *,
        max_cost_usd: float | None = None,
        retry: Retry | None = None,
        spent: Tally | None = None,  # by earlier processes of the same session
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.max_cost_usd = max_cost_usd
        self.retry = retry or Retry()
        self.totals = Totals(spent or Tally())
        self.clock = clock
        self.sleep = sleep
        self.chance = chance
        self._chains: dict[Tier, tuple[Model, ...]] = {tier: tuple(chain) for tier, chain in chains.items()}
        self._answered: dict[Tier, Model] = {}
        self._locked_out: set[Model] = set()  # their key was refused: not asked again

    async def ask(
        self, request: ModelRequest, on_text: OnText | None = None, on_restart: OnRestart | None = None
    ) -> Answer:
        """The answer of the first model of the tier that gives one, however it ended.

        Raises `BudgetSpent`, `ServiceUnavailable`, or a model's `CredentialsError` or `RequestRefused`.
        """
        return await _Call(self, request, on_text, on_restart).answer()

    def chain(self, tier: Tier) -> tuple[Model, ...]:
        """The models to ask, in order."""
        chain = self._chains.get(tier, ())
        if not chain:
            raise CredentialsError(
                N_("No model is configured for the tier {tier}."),
                hint=N_(
                    "Set a key such as OPENAI_API_KEY or ANTHROPIC_API_KEY, or name a provider in the settings file."
                ),
                tier=tier,
            )
        return tuple(model for model in chain if model not in self._locked_out) or chain

    def use(self, tier: Tier, chain: Sequence[Model]) -> None:
        """From the next call on, these models answer for the tier."""
        self._chains[tier] = tuple(chain)
        self._answered.pop(tier, None)

    def badge(self, tier: Tier) -> str:
        """provider/model of the one that answered last; before that, of the one that will be asked."""
        return label(self._answered.get(tier) or self.chain(tier)[0])

    def window(self, tier: Tier) -> int:
        """The tokens that fit into a request of this tier, answer included."""
        return self.chain(tier)[0].window

    def check_budget(self, model: Model, request: ModelRequest) -> None:
        """Raise `BudgetSpent` when the money is gone, or the prompt alone would cost more than is left."""
        limit, spent = self.max_cost_usd, self.totals.overall.known_usd
        if limit is None:
            return
        if spent >= limit:
            raise _spent(N_("The budget of ${limit} is spent (${spent})."), limit, spent)
        if model.price is None:
            return
        per_token = model.price.input / 1e6
        at_most = sum(len(message.text.encode("utf-8", "replace")) for message in request.messages)
        if spent + at_most * per_token <= limit:  # no token is shorter than a byte
            return
        if spent + prompt_tokens(request) * per_token > limit:
            raise _spent(
                N_("The next request alone would exceed the budget of ${limit} (${spent} spent)."),
                limit,
                spent,
            )

    def count(self, tier: Tier, usage: Usage, cost: float | None) -> None:
        before = self.totals.tiers.get(tier, Tally())
        tiers = {**self.totals.tiers, tier: before.plus(usage, cost)}
        self.totals = Totals(self.totals.overall.plus(usage, cost), tiers)

    def answered(self, tier: Tier, model: Model) -> None:
        self._answered[tier] = model

    def lock_out(self, model: Model) -> None:
        self._locked_out.add(model)

    async def close(self) -> None:
        for model in {id(m): m for chain in self._chains.values() for m in chain}.values():
            await model.close()


class _GivenUp(Exception):
    """One model did not answer, however often it was asked."""


class _Call:
    """One `ask`: its tries, its notes, and what was already shown of it."""

    def __init__(
        self, models: Models, request: ModelRequest, on_text: OnText | None, on_restart: OnRestart | None
    ) -> None:
        self._models = models
        self._request = request
        self._on_text = on_text
        self._on_restart = on_restart
        self._started = models.clock()
        self._notes: list[str] = []
        self._reasons: list[str] = []  # why each model did not answer
        self._tries = 0
        self._shown = False  # pieces of an answer that did not come to its end

    async def answer(self) -> Answer:
        failures: list[DuckflowError | None] = []
        for model in self._models.chain(self._request.tier):
            try:
                return await self._patiently(model)
            except _GivenUp:
                failures.append(None)
            except (CredentialsError, RequestRefused) as error:
                self._final(f"{label(model)}: {error}")
                failures.append(error)
                if isinstance(error, CredentialsError):
                    self._models.lock_out(model)
        raise self._failure(failures)

    async def _patiently(self, model: Model) -> Answer:
        policy, used, asked = self._models.retry, 0, 0
        while True:
            self._models.check_budget(model, self._request)
            asked += 1
            try:
                return await self._once(model)
            except Transient as error:
                used += 2 if error.timed_out else 1
                pause = self._pause(error, used)
                said = f"{error.reason} from {label(model)}"
            if used >= policy.tries or pause is None:
                self._final(f"{said}, given up after {asked} tries")
                raise _GivenUp
            self._notes.append(f"{said}, waited {pause:.1f} s")
            await self._models.sleep(pause)

    def _final(self, reason: str) -> None:
        self._notes.append(reason)
        self._reasons.append(reason)

    def _pause(self, error: Transient, used: int) -> float | None:
        policy, chance = self._models.retry, self._models.chance()
        if error.retry_after is None:
            return float(min(policy.most_s, policy.first_s * 2 ** (used - 1)) * (0.5 + chance / 2))
        if error.retry_after > policy.longest_s:
            return None
        return error.retry_after * (1 + chance / 10)

    async def _once(self, model: Model) -> Answer:
        self._tries += 1
        if self._shown and self._on_restart is not None:
            self._on_restart()
        self._shown = False
        pieces: list[str] = []
        done: Done | None = None
        stream = model.stream(self._request)
        try:
            async for item in stream:
                if isinstance(item, Done):
                    done = item
                    break
                pieces.append(item)
                self._shown = True
                if self._on_text is not None:
                    self._on_text(item)
        finally:
            if done is None and pieces:  # broken or cancelled in the middle: it was paid for all the same
                usage, _ = self._usage(Done(Finish.CUT), "".join(pieces))
                self._models.count(self._request.tier, usage, _cost(model, usage))
            close = getattr(stream, "aclose", None)
            if close is not None:
                await close()
        return self._finished(model, "".join(pieces), done)

    def _finished(self, model: Model, text: str, done: Done | None) -> Answer:
        counted = done is None and bool(text)
        done = done or Done(Finish.CUT)
        usage, estimated = self._usage(done, text)
        cost = _cost(model, usage)
        if not counted:
            self._models.count(self._request.tier, usage, cost)
        self._models.answered(self._request.tier, model)
        return Answer(
            text=text,
            finish=done.finish,
            usage=usage,
            estimated=estimated,
            cost_usd=cost,
            provider=model.provider,
            model=model.name,
            window=model.window,
            ms=round((self._models.clock() - self._started) * 1000),
            tries=self._tries,
            notes=tuple(self._notes),
        )

    def _usage(self, done: Done, text: str) -> tuple[Usage, bool]:
        if done.usage is None:
            return Usage(prompt_tokens(self._request), 0, estimate(text)), True
        if done.finish is Finish.CUT:  # the service's last count may be from before the end
            return replace(done.usage, completion=max(done.usage.completion, estimate(text))), True
        return done.usage, False

    def _failure(self, failures: list[DuckflowError | None]) -> DuckflowError:
        overflow = next((error for error in failures if isinstance(error, ContextOverflow)), None)
        if overflow is not None:  # the one failure the caller can do something about
            return overflow
        first = failures[0]
        if first is not None and None not in failures:
            return first
        return ServiceUnavailable(
            N_("No model answered: {what}"),
            hint=N_("Try again later, or name a second model for the tier {tier} in [tiers]."),
            what="; ".join(self._reasons),
            tier=self._request.tier,
        )


def label(model: Model) -> str:
    return f"{model.provider}/{model.name}"


def prompt_tokens(request: ModelRequest) -> int:
    """An estimate of the whole request, with what the message format adds."""
    return sum(estimate(message.text) + 4 for message in request.messages)


def _cost(model: Model, usage: Usage) -> float | None:
    return None if model.price is None else model.price.cost(usage)


def _spent(message: str, limit: float, spent: float) -> BudgetSpent:
    return BudgetSpent(
        message,
        hint=N_("Raise --max-cost-usd or max_cost_usd in [limits] to go on."),
        limit=f"{limit:.4g}",
        spent=f"{spent:.4g}",
    )
