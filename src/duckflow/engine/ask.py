"""One call to a model: limits, prompt, stream, decode, one re-ask, record. Everything else about models is in llm."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from duckflow import events as ev
from duckflow.engine.kit import Kit
from duckflow.errors import N_, BudgetSpent, ReplyUnreadable, TurnLimit
from duckflow.llm.base import Answer, ContextOverflow, ModelRequest, Node, Tier
from duckflow.llm.decode import Decoded, ReplyWatcher, decode, partial_reply
from duckflow.prompts.budget import size
from duckflow.prompts.compact import compacted
from duckflow.prompts.layers import Prompt
from duckflow.prompts.replies import Decision, VerdictReply

if TYPE_CHECKING:
    from pydantic import BaseModel

T = TypeVar("T", bound="BaseModel")

FULL = 0.8
"""Share of its room at which the history is compacted."""


async def ask_decision(kit: Kit, run: str, node: Node) -> Decision:
    """The model's next Decision, in the history and in the journal."""
    session = kit.session
    _within_limits(kit, run)
    _take_steering(kit, run)
    make_room(kit, run)
    try:
        prompt = kit.prompts.decision(session.state, session.run(run), node)
        decoded, answer = await _read(
            kit, run, node, "creative", prompt, Decision, "one Decision as JSON, then its blocks"
        )
    except ContextOverflow:
        if not make_room(kit, run, force=True):
            raise
        prompt = kit.prompts.decision(session.state, session.run(run), node)
        decoded, answer = await _read(
            kit, run, node, "creative", prompt, Decision, "one Decision as JSON, then its blocks"
        )
    assert decoded.value is not None
    session.append(
        ev.DecisionMade(decision=decoded.raw or {}, node=node, blocks=decoded.blocks, notes=decoded.notes),
        ev.HistoryAdded(thread=session.run(run).thread, role="assistant", kind="decision", text=answer.text.strip()),
        run=run,
    )
    return decoded.value


async def ask_verdict(kit: Kit, run: str, prompt: Prompt) -> VerdictReply | None:
    """The evaluator's opinion; None when it could not be read twice."""
    try:
        decoded, _ = await _read(kit, run, "evaluate", "evaluator", prompt, VerdictReply, "one verdict as JSON")
    except ReplyUnreadable:
        return None
    return decoded.value


async def _read(
    kit: Kit, run: str, node: Node, tier: Tier, prompt: Prompt, shape: type[T], expected: str
) -> tuple[Decoded[T], Answer]:
    """Ask, decode, and ask once more with the exact error. What cannot be read runs nothing."""
    answer = await _call(kit, run, node, tier, prompt, retry=False)
    decoded = decode(answer.text, answer.finish, shape)
    if decoded.problem is None:
        return decoded, answer
    kit.session.show(ev.Live("restart", "", run))
    again = kit.prompts.reask(prompt, answer.text, decoded.problem, expected)
    answer = await _call(kit, run, node, tier, again, retry=True)
    decoded = decode(answer.text, answer.finish, shape)
    if decoded.problem is None:
        return decoded, answer
    unreadable = ReplyUnreadable(
        N_("The model answered twice in a form that cannot be used ({problem}). Nothing of it was run."),
        hint=N_("Say it again, or choose another model with -m. What was done before is kept."),
        problem=decoded.problem,
    )
    if decoded.rescued_reply and partial_reply(answer.text).actions_empty:
        unreadable.rescued = decoded.rescued_reply
    raise unreadable


async def _call(kit: Kit, run: str, node: Node, tier: Tier, prompt: Prompt, retry: bool) -> Answer:
    session = kit.session
    streams = node != "evaluate" and _may_stream(kit, run)
    watcher, shown = ReplyWatcher(), 0

    def on_text(piece: str) -> None:
        nonlocal shown
        if not streams:
            return
        seen = watcher.feed(piece)
        alone = seen.actions_empty and (seen.actions_seen or seen.closed)
        if alone and len(seen.text) > shown:
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
            reason="; ".join(answer.notes), sections=prompt.sections,
        ),
        run=run,
    )  # fmt: skip
    return answer


def _may_stream(kit: Kit, run: str) -> bool:
    """A closing word about changes waits for the verdict; anything else may be read while it is written."""
    objective = kit.session.objective(run)
    return objective is None or objective.profile not in ("creation", "modification")


def _within_limits(kit: Kit, run: str) -> None:
    limits, state = kit.settings.limits, kit.session.state
    if kit.session.run(run).decisions >= limits.max_turns:
        raise TurnLimit(
            N_("The limit of {n} Decisions for one request is reached."),
            hint=N_("What was done is kept. Go on with a new message, or raise --max-turns."),
            n=limits.max_turns,
        )
    if state.totals.cost_usd >= limits.max_cost_usd:
        raise BudgetSpent(
            N_("The budget of ${limit} is spent (${spent})."),
            hint=N_("What was done is kept. Raise --max-cost-usd to go on."),
            limit=f"{limits.max_cost_usd:g}",
            spent=f"{state.totals.cost_usd:.4f}",
        )


def _take_steering(kit: Kit, run: str) -> None:
    """What the person typed while the work ran reaches the model now, as their message."""
    thread = kit.session.run(run).thread
    while kit.steering:
        text = kit.steering.pop(0)
        kit.session.append(
            ev.HistoryAdded(thread=thread, role="user", kind="message", text=f"Message from the person:\n{text}"),
            run=run,
        )


def make_room(kit: Kit, run: str, force: bool = False) -> bool:
    """Compact the history when it fills its room. True: something was compacted."""
    state = kit.session.state
    thread = state.threads.get(kit.session.run(run).thread, ())
    room = kit.prompts.profile.history
    used = sum(size(entry.text) for entry in thread)
    if not force and used <= room * FULL:
        return False
    made = compacted(thread, min(room, used) if force else room)
    if made is None:
        return False
    text, kept = made
    kit.session.append(ev.HistoryCompacted(thread=kit.session.run(run).thread, text=text, kept=kept), run=run)
    return True
