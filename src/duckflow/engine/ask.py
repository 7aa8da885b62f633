"""What each node asks a model, and what it makes of the answer. How a call is made is in call.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duckflow import events as ev
from duckflow.engine.call import call, differs, read, within_turns
from duckflow.engine.kit import Kit
from duckflow.errors import DuckflowError, ReplyUnreadable
from duckflow.llm.base import Answer, ContextOverflow, Node, Tier
from duckflow.llm.decode import Decoded
from duckflow.llm.tokens import estimate
from duckflow.prompts.budget import size
from duckflow.prompts.compact import compacted
from duckflow.prompts.layers import Prompt
from duckflow.prompts.replies import Decision, VerdictReply

if TYPE_CHECKING:
    from duckflow.prompts.plan_replies import PlanReply, ReportReply, TasksReply

FULL = 0.8
"""Share of its room at which the history is compacted."""
SHORT = 80
"""Tokens up to which a request counts as short."""
DECISION = "one Decision as JSON, then its blocks"


async def ask_decision(kit: Kit, run: str, node: Node) -> Decision:
    """The model's next Decision, in the history and in the journal."""
    session = kit.session
    await kit.background.unless_paused(run)
    within_turns(kit, run)
    _take_steering(kit, run)
    make_room(kit, run)
    try:
        decoded, answer = await _decided(kit, run, node)
    except ContextOverflow:
        if not make_room(kit, run, force=True):
            raise
        decoded, answer = await _decided(kit, run, node)
    assert decoded.value is not None
    session.append(
        ev.DecisionMade(decision=decoded.raw or {}, node=node, blocks=decoded.blocks, notes=decoded.notes),
        ev.HistoryAdded(thread=session.run(run).thread, role="assistant", kind="decision", text=answer.text.strip()),
        run=run,
    )
    return decoded.value


async def _decided(kit: Kit, run: str, node: Node) -> tuple[Decoded[Decision], Answer]:
    """Small first looks go to the fast tier; what turns out to be more is asked again one tier up."""
    prompt = kit.prompts.decision(kit.session.state, kit.session.run(run), node)
    tier, why = _tier(kit, run, node)
    decoded, answer = await read(kit, run, node, prompt, Decision, DECISION, tier, why)
    more = _is_more(kit, decoded.value) if tier == "fast" and differs(kit, tier) else ""
    if not more:
        return decoded, answer
    kit.session.show(ev.Live("restart", "", run))
    return await read(kit, run, node, prompt, Decision, DECISION, "creative", f"moved up from fast: {more}")


def _tier(kit: Kit, run: str, node: Node) -> tuple[Tier, str]:
    state, mine = kit.session.state, kit.session.run(run)
    if node != "understand" or mine.decisions or mine.objective is not None or mine.background:
        return "creative", "the work itself"
    if any(o.status in ("open", "deferred") for o in state.objectives.values()):
        return "creative", "other work is open"
    if estimate(mine.request) > SHORT:
        return "creative", "a long request"
    return "fast", "a short request and nothing open"


def _is_more(kit: Kit, decision: Decision | None) -> str:
    """Why a Decision of the fast tier is not enough."""
    if decision is None or decision.question is not None:
        return ""
    if any(kit.dispatcher.acts(a) or a.operation.startswith("plan_tool.") for a in decision.actions):
        return "it proposes an effect"
    unsure = decision.confidence is not None and decision.confidence < kit.settings.routing.clarify_below
    return "it is not sure" if unsure else ""


async def ask_verdict(kit: Kit, run: str, prompt: Prompt, why: str = "a verdict") -> VerdictReply | None:
    """The evaluator's opinion; None when it could not be read twice."""
    try:
        decoded, _ = await read(kit, run, "evaluate", prompt, VerdictReply, "one verdict as JSON", "evaluator", why)
    except ReplyUnreadable:
        return None
    return decoded.value


async def ask_plan(kit: Kit, run: str, text: str) -> PlanReply:
    """A plan, made with the conversation in view."""
    from duckflow.prompts.plan_replies import PlanReply

    prompt = kit.prompts.aside(kit.session.state, kit.session.run(run), text)
    decoded, _ = await read(kit, run, "plan", prompt, PlanReply, "one plan as JSON", "creative", "a plan")
    assert decoded.value is not None
    return decoded.value


async def ask_tasks(kit: Kit, run: str, text: str) -> TasksReply:
    """The concrete operations of a plan step."""
    from duckflow.prompts.plan_replies import TasksReply

    prompt = kit.prompts.aside(kit.session.state, kit.session.run(run), text)
    shape = "the tasks as JSON, then their blocks"
    decoded, _ = await read(kit, run, "tasks", prompt, TasksReply, shape, "creative", "the tasks of a step")
    assert decoded.value is not None
    return decoded.value


async def ask_report(kit: Kit, run: str, text: str) -> ReportReply | None:
    """A few words about background work; None when no model could say them: the counts stand by themselves."""
    from duckflow.prompts.plan_replies import ReportReply

    prompt = kit.prompts.specialized(kit.session.state, kit.session.redact(text))
    try:
        decoded, _ = await read(kit, run, "report", prompt, ReportReply, "one report as JSON", "fast", "a report")
    except DuckflowError:
        return None
    return decoded.value


async def ask_summary(kit: Kit, run: str, text: str) -> str:
    """A conversation in a few lines. Without a model that answers: nothing, the caller has the words themselves."""
    prompt = kit.prompts.specialized(kit.session.state, kit.session.redact(text))
    try:
        answer = await call(kit, run, "summarize", "fast", prompt, "a summary")
    except DuckflowError:
        return ""
    return answer.text.strip()


async def ask_analysis(kit: Kit, run: str, text: str) -> VerdictReply | None:
    """Why it failed and what would help: the evaluator's failure analysis."""
    prompt = kit.prompts.specialized(kit.session.state, kit.session.redact(text))
    return await ask_verdict(kit, run, prompt, "a failure analysis")


def _take_steering(kit: Kit, run: str) -> None:
    """What the person typed while the work ran reaches the model now, as their message."""
    thread = kit.session.run(run).thread
    for text in kit.steering.pop(run, ()):
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
