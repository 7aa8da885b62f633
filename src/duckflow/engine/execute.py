"""Node three: Decision and results in turn, until the model says done or a limit stops it."""

from __future__ import annotations

from collections.abc import Sequence

from duckflow import events as ev
from duckflow.engine.escalate import give_up
from duckflow.engine.gather import Gathered
from duckflow.engine.kit import Ending, Kit
from duckflow.engine.ledger import Outcome, call_digest
from duckflow.engine.objectives import put
from duckflow.engine.outcome import refused_alone
from duckflow.engine.pulse import consult, is_exhausted, why_replan
from duckflow.engine.record import record_results
from duckflow.engine.settle import Judge
from duckflow.engine.understand import begin_node, decide
from duckflow.i18n import _
from duckflow.prompts.replies import Action, Decision
from duckflow.record import replace
from duckflow.safety.change import Effect
from duckflow.state.machine import Status, Step, Trigger

MOST_REFUSALS = 3
MOST_RECOVERIES = 3


async def execute(kit: Kit, run: str, gathered: Gathered) -> Judge | Ending:
    """Run what is left of the first Decision, then go on with the model until there is something to judge."""
    decision, outcomes, rest = gathered.decision, list(gathered.outcomes), gathered.rest
    excused = False  # `done` beside unseen reads is forgiven once
    while True:
        kit.advance(run, Trigger.DECISION, Step.EXECUTION)  # the batch may still lead to a review
        void = refuse_repetition(kit, run, rest)
        if rest and not void:
            outcomes += await kit.dispatcher.batch(run, rest, before=outcomes)
        finished, why = (False, void) if void else _finished(decision, outcomes, excused)
        record_results(kit, run, outcomes, [why] if why else [])
        excused = excused or (bool(why) and not void and not any(o.state != "ok" for o in outcomes))
        after = await _afterwards(kit, run, decision, finished, why)
        if after is not None:
            return after
        settled = await _next(kit, run)
        if not isinstance(settled, Decision):
            return settled
        decision, outcomes, rest = settled, [], tuple(settled.actions)


async def _afterwards(kit: Kit, run: str, decision: Decision, finished: bool, why: str) -> Judge | Ending | None:
    """What a batch leads to: the background, the verdict, a pause. None: the model goes on."""
    beside = kit.background
    if beside.is_waited_for(run) and (beside.has_plan(run) or decision.next_step != "continue"):
        return await beside.finish(run)
    if finished or _hopeless(kit, run):
        return Judge(decision.reply if finished else "", Trigger.BATCH_FINISHED)
    if not why and decision.next_step in ("pending_user", "defer"):
        return _pause(kit, run, decision)
    ending = await consult(kit, run)
    if ending is None and is_exhausted(kit, run):
        return Judge("", Trigger.BATCH_FINISHED)
    return ending


async def _next(kit: Kit, run: str) -> Decision | Judge | Ending:
    """The next Decision: of execute, or of understand when the work has to be thought over."""
    why = why_replan(kit, run)
    if not why:
        begin_node(kit, run, "execute")
        return await decide(kit, run, "execute")
    if not recover(kit, run, why):
        return give_up(kit, run, _("Operations kept failing, and planning again did not help."))
    return await decide(kit, run, "understand")


def refuse_repetition(kit: Kit, run: str, rest: Sequence[Action]) -> str:
    """The same operations on the same targets with the same content as a failed attempt: refused, once."""
    objective = kit.session.objective(run)
    if objective is None or objective.repeated == objective.attempt:
        return ""
    effects = [action for action in rest if kit.dispatcher.effect_of(action) is Effect.FILES]
    calls = {call_digest(action) for action in effects}
    if not calls or not any(calls.issubset(approach) for approach in objective.approaches):
        return ""
    put(kit, run, replace(objective, repeated=objective.attempt))
    return (
        "nothing of this was run: it is exactly what an earlier attempt did, and that was judged "
        f"{objective.satisfaction:.2f}. Go about it differently and say how in `strategy`"
    )


def _finished(decision: Decision, outcomes: Sequence[Outcome], excused: bool) -> tuple[bool, str]:
    """Is this Decision the end of the attempt? Otherwise, when it claimed to be: why not."""
    if decision.next_step != "done":
        return False, ""
    if any(o.state != "ok" for o in outcomes):
        return False, "done does not count: not every action did what it was asked"
    unseen = [o for o in outcomes if not o.acts]
    if unseen and not excused:
        return False, "done does not count yet: you had not seen these results"
    return True, ""


def recover(kit: Kit, run: str, why: str) -> bool:
    """The work does not move: back to planning, within the attempt. False: that was tried enough."""
    session = kit.session
    if session.run(run).recoveries >= MOST_RECOVERIES - 1:
        return False
    session.move(run, Trigger.ERROR, Step.PLANNING, Status.ERROR, why)
    told = f"Stop and think: {why}. Say in `strategy` what you do differently from now on."
    thread = session.run(run).thread
    session.append(ev.HistoryAdded(thread=thread, role="user", kind="note", text=told), run=run)
    return True


def _hopeless(kit: Kit, run: str) -> bool:
    """Nobody is here, and the model keeps trying what nobody can allow."""
    return not kit.attended and len(refused_alone(kit, run)) >= MOST_REFUSALS


def _pause(kit: Kit, run: str, decision: Decision) -> Ending:
    kit.session.move(run, Trigger.BATCH_FINISHED, status=Status.REQUIRES_USER_INPUT)
    if decision.next_step == "defer":
        return Ending("deferred", decision.reply)
    return Ending("asked" if kit.attended else "escalated", decision.reply)
