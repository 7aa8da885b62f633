"""Node three: Decision and results in turn, until the model says done or a limit stops it."""

from __future__ import annotations

from collections.abc import Sequence

from duckflow import events as ev
from duckflow.engine.escalate import give_up
from duckflow.engine.gather import Gathered
from duckflow.engine.kit import Ending, Kit
from duckflow.engine.ledger import Outcome
from duckflow.engine.record import record_results
from duckflow.engine.settle import Judge, say
from duckflow.engine.understand import begin_node, decide
from duckflow.i18n import _
from duckflow.prompts.replies import Decision
from duckflow.state.machine import Status, Step, Trigger

MOST_REFUSALS = 3
FAILURES_IN_A_ROW = 3
MOST_RECOVERIES = 3


async def execute(kit: Kit, run: str, gathered: Gathered) -> Judge | Ending:
    """Run what is left of the first Decision, then go on with the model until there is something to judge."""
    decision, outcomes, rest = gathered.decision, list(gathered.outcomes), gathered.rest
    excused = False  # `done` beside unseen reads is forgiven once
    trigger = Trigger.BATCH_FINISHED if outcomes else Trigger.DECISION
    while True:
        kit.advance(run, trigger, Step.EXECUTION)
        _announce(kit, run, decision, rest)
        if rest:
            outcomes += await kit.dispatcher.batch(run, rest, before=outcomes)
        finished, why = _finished(decision, outcomes, excused)
        record_results(kit, run, outcomes, [why] if why else [])
        if finished or _hopeless(kit, run):
            return Judge(decision.reply if finished else "", Trigger.BATCH_FINISHED)
        if why:
            excused = excused or not any(o.state != "ok" for o in outcomes)
        elif decision.next_step in ("pending_user", "defer"):
            return _pause(kit, run, decision)
        if kit.session.run(run).failures >= FAILURES_IN_A_ROW:
            if not recover(kit, run):
                return give_up(kit, run, _("Operations kept failing, and planning again did not help."))
            settled = await decide(kit, run, "understand")
        else:
            begin_node(kit, run, "execute")
            settled = await decide(kit, run, "execute")
        if not isinstance(settled, Decision):
            return settled
        decision, outcomes, rest, trigger = settled, [], tuple(settled.actions), Trigger.DECISION


def _announce(kit: Kit, run: str, decision: Decision, rest: Sequence[object]) -> None:
    """What is said beside actions is an announcement; the closing word of `done` waits for the verdict."""
    if decision.next_step != "done":
        say(kit, run, decision.reply, "announcement" if decision.actions else "reply")


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


def recover(kit: Kit, run: str) -> bool:
    """Too many operations failed in a row: back to planning, within the attempt. False: that was tried enough."""
    session = kit.session
    if session.run(run).recoveries >= MOST_RECOVERIES - 1:
        return False
    why = f"{session.run(run).failures} operations failed in a row. Rethink: say in `strategy` what you do differently."
    session.move(run, Trigger.ERROR, Step.PLANNING, Status.ERROR, "operations failed in a row")
    thread = session.run(run).thread
    session.append(ev.HistoryAdded(thread=thread, role="user", kind="note", text=why), run=run)
    return True


def _hopeless(kit: Kit, run: str) -> bool:
    """Nobody is here, and the model keeps trying what nobody can allow."""
    return not kit.attended and len(kit.session.run(run).unattended) >= MOST_REFUSALS


def _pause(kit: Kit, run: str, decision: Decision) -> Ending:
    kit.session.move(run, Trigger.BATCH_FINISHED, status=Status.REQUIRES_USER_INPUT)
    if decision.next_step == "defer":
        return Ending("deferred", decision.reply)
    return Ending("asked" if kit.attended else "escalated", decision.reply)
