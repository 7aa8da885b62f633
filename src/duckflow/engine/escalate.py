"""The attempts are spent: a report of the situation and five ways on, each working. Never a claim of success."""

from __future__ import annotations

from duckflow import events as ev
from duckflow.engine.analysis import failure_analysis
from duckflow.engine.clarify import ask, chosen_number, plain_answer
from duckflow.engine.evaluate import prepare_retry
from duckflow.engine.kit import Ending, Kit
from duckflow.engine.objectives import conclude, detail_question, more_detail, put
from duckflow.engine.outcome import outcome_text, refused_alone
from duckflow.engine.reporting import finished_plan, plain_report
from duckflow.engine.settle import say
from duckflow.i18n import _, ngettext
from duckflow.prompts.replies import Question
from duckflow.record import replace
from duckflow.state.machine import Status, Step, Trigger
from duckflow.state.objective import Verdict

DETAIL, APPROACH, PARTIAL, HELP, CANCEL = range(1, 6)
_ANEW = (
    "The attempts were not enough; the person now says more precisely what they need. Write `requirements` anew from "
    "everything they said; the attempts are counted anew. Is it about something else, say so in `objective`."
)


def options() -> tuple[str, ...]:
    return (
        _("say more precisely what you need"),
        _("try another approach"),
        _("accept the result as it is"),
        _("technical help: why it failed and what would help"),
        _("cancel"),
    )


async def escalate(kit: Kit, run: str, verdict: Verdict) -> Ending:
    """Tell what was asked, what was tried, what is there and what is missing; the person chooses how to go on."""
    objective = kit.session.objective(run)
    assert objective is not None
    plan = finished_plan(kit, run)
    if plan is not None and not plan.reported:
        plain_report(kit.session, run, plan, verdict.missing or (verdict.blocked,))
    refused = bool(refused_alone(kit, run))
    n = objective.attempt
    head = ngettext("Not finished after {n} attempt: {request}", "Not finished after {n} attempts: {request}", n,
                    request=objective.request)  # fmt: skip
    report = "\n".join((head, *_not_allowed(kit, run), outcome_text(kit, run, verdict)))
    return _offered(kit, run, report, "refused" if refused and not kit.attended else "escalated")


def _not_allowed(kit: Kit, run: str) -> tuple[str, ...]:
    """What was missing was a permission: the person must learn that first."""
    refused = refused_alone(kit, run)
    if not refused or kit.attended:
        return ()
    return (_("Not done, because it needed an approval and nobody could give it: {what}", what=", ".join(refused)),)


def stuck(kit: Kit, run: str, row: str) -> Ending:
    """The project's table leaves no way on: say which row is missing."""
    why = _("The work cannot go on: the transition table of this project has no row {row}.", row=row)
    return give_up(kit, run, why)


def give_up(kit: Kit, run: str, why: str) -> Ending:
    """An end without a verdict: what stands in the way, and what is there."""
    return _offered(kit, run, "\n".join((why, outcome_text(kit, run))), "escalated")


def _offered(kit: Kit, run: str, report: str, status: str) -> Ending:
    if kit.session.run(run).plan_step:  # a step of a plan: its plan tells the person
        return Ending("escalated", report)
    kit.session.append(ev.Escalation(report=report, options=options()), run=run)
    kit.session.move(run, Trigger.VERDICT, status=Status.REQUIRES_USER_INPUT)
    conclude(kit, run, status)
    say(kit, run, report, "outcome")
    return Ending("refused" if status == "refused" else "escalated", report)


# --- the five ways on --------------------------------------------------------------------------------------------


def chosen(text: str) -> int | None:
    """Which way a message chooses; None: it says something of its own."""
    said = plain_answer(text)
    for number, label in enumerate(options(), 1):
        if said == plain_answer(label):
            return number
    return chosen_number(said, len(options()))


async def take(kit: Kit, run: str, way: int | None, text: str) -> Ending | None:
    """Go the chosen way. None: the work goes on. Words of the person's own are more detail."""
    if way == PARTIAL:
        return _accept(kit, run)
    if way == HELP:
        return await _help(kit, run)
    if way == CANCEL:
        return _cancel(kit, run)
    kit.advance(run, Trigger.MESSAGE, Step.PLANNING)
    if way == APPROACH:
        _another_approach(kit, run)
        return None
    thread = kit.session.run(run).thread
    kit.session.append(ev.HistoryAdded(thread=thread, role="user", kind="note", text=_ANEW), run=run)
    if way != DETAIL:
        kit.entered[run] = "offered"  # whether it is about this work, the Decision says
        return None
    more_detail(kit, run)
    return await ask(kit, run, Question(text=detail_question()), by="engine")


def _another_approach(kit: Kit, run: str) -> None:
    objective = kit.session.objective(run)
    if objective is None:
        return
    put(kit, run, replace(objective, attempt=objective.attempt + 1, status="open"))
    verdict = Verdict(objective.satisfaction, objective.scores, missing=objective.missing)
    prepare_retry(kit, run, verdict, "The person asks for another approach than those tried so far.")


def _accept(kit: Kit, run: str) -> Ending:
    session = kit.session
    if session.run(run).step is not Step.REVIEW:
        session.move(run, Trigger.MESSAGE, Step.REVIEW)
    if not session.move(run, Trigger.VERDICT, Step.DONE, Status.SUCCESS):  # the person's word is the verdict
        session.move(run, Trigger.MESSAGE, status=Status.SUCCESS)
    conclude(kit, run, "partial")
    text = "\n".join((_("Accepted as it is, a partial result."), outcome_text(kit, run)))
    say(kit, run, text, "outcome")
    return Ending("partial", text)


async def _help(kit: Kit, run: str) -> Ending:
    text = await failure_analysis(kit, run)
    kit.session.append(ev.Escalation(report=text, options=options()), run=run)
    kit.session.move(run, Trigger.DECISION, status=Status.REQUIRES_USER_INPUT)
    say(kit, run, text, "outcome")
    return Ending("escalated", text)


def _cancel(kit: Kit, run: str) -> Ending:
    kit.session.move(run, Trigger.CANCEL, status=Status.ERROR, reason="cancelled")
    conclude(kit, run, "cancelled")
    text = "\n".join((_("Cancelled. What was changed stays as it is; /diff shows it."), outcome_text(kit, run)))
    say(kit, run, text, "outcome")
    return Ending("cancelled", text)
