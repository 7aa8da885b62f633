"""One call to a model: stream, decode, one re-ask, record; a tier up when the lower one cannot. Knows no node's job."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from duckflow import events as ev
from duckflow.engine.kit import Kit
from duckflow.engine.objectives import claims_falsely
from duckflow.engine.route import claims_change
from duckflow.errors import (
    N_,
    BudgetSpent,
    CredentialsError,
    ReplyUnreadable,
    RequestRefused,
    ServiceUnavailable,
    TurnLimit,
)
from duckflow.llm.base import Answer, ModelRequest, Node, Tier
from duckflow.llm.decode import Decoded, ReplyWatcher, decode, partial_reply
from duckflow.prompts.layers import Prompt

if TYPE_CHECKING:
    from pydantic import BaseModel

T = TypeVar("T", bound="BaseModel")

STREAMED = ("understand", "gather", "execute")
"""Nodes whose reply is for the person."""
LOOK_BACK = 200
"""Characters of a streamed reply in which a claim may have begun."""


async def read(
    kit: Kit, run: str, node: Node, prompt: Prompt, shape: type[T], expected: str, tier: Tier = "creative",
    why: str = "",
) -> tuple[Decoded[T], Answer]:  # fmt: skip
    """The answer as a value. A lower tier that does not answer, or not readably, gives way to the creative one."""
    try:
        return await _read(kit, run, node, tier, prompt, shape, expected, why)
    except (ServiceUnavailable, CredentialsError, RequestRefused, ReplyUnreadable) as error:
        if tier == "creative" or not differs(kit, tier):
            raise
        kit.session.show(ev.Live("restart", "", run))
        up = f"moved up from {tier}: {error.code}"
        return await _read(kit, run, node, "creative", prompt, shape, expected, up)


def differs(kit: Kit, tier: Tier) -> bool:
    """Would the creative tier be somebody else?"""
    return kit.models.chain(tier) != kit.models.chain("creative")


async def _read(
    kit: Kit, run: str, node: Node, tier: Tier, prompt: Prompt, shape: type[T], expected: str, why: str
) -> tuple[Decoded[T], Answer]:
    """Ask, decode, and ask once more with the exact error. What cannot be read runs nothing."""
    answer = await call(kit, run, node, tier, prompt, why)
    decoded = decode(answer.text, answer.finish, shape)
    if decoded.problem is None:
        return decoded, answer
    kit.session.show(ev.Live("restart", "", run))
    again = kit.prompts.reask(prompt, answer.text, decoded.problem, expected)
    answer = await call(kit, run, node, tier, again, why, retry=True)
    decoded = decode(answer.text, answer.finish, shape)
    if decoded.problem is None:
        return decoded, answer
    unreadable = ReplyUnreadable(
        N_("The model answered twice in a form that cannot be used ({problem}). Nothing of it was run."),
        hint=N_("Say it again, or choose another model with -m. What was done before is kept."),
        problem=decoded.problem,
    )
    rescued = decoded.rescued_reply or ""
    if rescued and partial_reply(answer.text).actions_empty and not claims_change(rescued):
        unreadable.rescued = rescued
    raise unreadable


async def call(
    kit: Kit, run: str, node: Node, tier: Tier, prompt: Prompt, why: str = "", retry: bool = False
) -> Answer:
    """Ask once, as text, and record what it took. `why`: the reason this tier was chosen."""
    session = kit.session
    within_budget(kit)
    streams = node in STREAMED and _may_stream(kit, run)
    watcher, shown = ReplyWatcher(), 0

    def on_text(piece: str) -> None:
        nonlocal shown, streams
        if not streams:
            return
        seen = watcher.feed(piece)
        alone = seen.actions_empty and (seen.actions_seen or seen.closed)
        if not alone or len(seen.text) <= shown:
            return
        if claims_falsely(kit, run, seen.text[max(0, shown - LOOK_BACK) :]):
            streams = False  # the rest is shown when it is clear that it may be
            return
        session.show(ev.Live("reply", seen.text[shown:], run))
        shown = len(seen.text)

    def on_restart() -> None:
        nonlocal watcher, shown
        watcher, shown = ReplyWatcher(), 0
        session.show(ev.Live("restart", "", run))

    session.show(ev.Live("calling", f"{node} · {kit.models.badge(tier)}", run))
    request = ModelRequest(node, tier, prompt.messages, retry=retry)
    try:
        answer = await kit.models.ask(request, on_text, on_restart)
    finally:
        session.show(ev.Live("settled", "", run))
    session.hold(
        ev.ModelCalled(
            tier=tier, provider=answer.provider, model=answer.model, node=node, pattern=prompt.pattern,
            prompt_tokens=answer.usage.prompt, cached_tokens=answer.usage.cached,
            completion_tokens=answer.usage.completion, cost_usd=answer.cost_usd, ms=answer.ms, cuts=prompt.cuts,
            finish=answer.finish, retry=retry, estimated=answer.estimated, tries=answer.tries,
            reason="; ".join(filter(None, (why, *answer.notes))), sections=prompt.sections,
        ),
        run=run,
    )  # fmt: skip
    return answer


def _may_stream(kit: Kit, run: str) -> bool:
    """A closing word about changes waits for the verdict; anything else may be read while it is written."""
    objective = kit.session.objective(run)
    if kit.session.run(run).background:
        return False
    return objective is None or objective.profile not in ("creation", "modification")


def within_turns(kit: Kit, run: str) -> None:
    limits = kit.settings.limits
    if kit.session.run(run).decisions >= limits.max_turns:
        raise TurnLimit(
            N_("The limit of {n} Decisions for one request is reached."),
            hint=N_("What was done is kept. Go on with a new message, or raise --max-turns."),
            n=limits.max_turns,
        )


def within_budget(kit: Kit) -> None:
    limits, state = kit.settings.limits, kit.session.state
    if state.totals.cost_usd >= limits.max_cost_usd:
        raise BudgetSpent(
            N_("The budget of ${limit} is spent (${spent})."),
            hint=N_("What was done is kept. Raise --max-cost-usd to go on."),
            limit=f"{limits.max_cost_usd:g}",
            spent=f"{state.totals.cost_usd:.4f}",
        )
