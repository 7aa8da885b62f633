"""The attempts are spent: a report of the situation and what the person can do next. Never a claim of success."""

from __future__ import annotations

from duckflow import events as ev
from duckflow.engine.kit import Ending, Kit
from duckflow.engine.objectives import conclude
from duckflow.engine.outcome import outcome_text
from duckflow.engine.settle import say
from duckflow.i18n import _, ngettext
from duckflow.state.machine import Status, Trigger
from duckflow.state.objective import Verdict


async def escalate(kit: Kit, run: str, verdict: Verdict) -> Ending:
    """Tell what was asked, what was tried, what is there and what is missing; the person goes on in their own words."""
    objective = kit.session.objective(run)
    assert objective is not None
    refused = bool(kit.session.run(run).unattended)
    n = objective.attempt
    head = ngettext("Not finished after {n} attempt: {request}", "Not finished after {n} attempts: {request}", n,
                    request=objective.request)  # fmt: skip
    report = "\n".join((head, *_not_allowed(kit, run), outcome_text(kit, run, verdict)))
    _report(kit, run, report)
    status = "refused" if refused and not kit.attended else "escalated"
    conclude(kit, run, status)
    say(kit, run, report, "outcome")
    return Ending("refused" if status == "refused" else "escalated", report)


def _not_allowed(kit: Kit, run: str) -> tuple[str, ...]:
    """What was missing was a permission: the person must learn that first."""
    refused = kit.session.run(run).unattended
    if not refused or kit.attended:
        return ()
    return (_("Not done, because it needed an approval and nobody could give it: {what}", what=", ".join(refused)),)


def stuck(kit: Kit, run: str, row: str) -> Ending:
    """The project's table leaves no way on: say which row is missing."""
    why = _("The work cannot go on: the transition table of this project has no row {row}.", row=row)
    return give_up(kit, run, why)


def give_up(kit: Kit, run: str, why: str) -> Ending:
    """An end without a verdict: what stands in the way, and what is there."""
    report = "\n".join((why, outcome_text(kit, run)))
    _report(kit, run, report)
    conclude(kit, run, "escalated")
    say(kit, run, report, "outcome")
    return Ending("escalated", report)


def _report(kit: Kit, run: str, report: str) -> None:
    options = (
        _("say more precisely what you need"),
        _("ask for another approach"),
        _("leave it as it is"),
    )
    kit.session.append(ev.Escalation(report=report, options=options), run=run)
    kit.session.move(run, Trigger.VERDICT, status=Status.REQUIRES_USER_INPUT)
