"""The attempts are spent: a report of the situation and what the person can do next. Never a claim of success."""

from __future__ import annotations

from duckflow import events as ev
from duckflow.engine.kit import Ending, Kit
from duckflow.engine.objectives import conclude
from duckflow.engine.outcome import outcome_text
from duckflow.engine.settle import say
from duckflow.i18n import _
from duckflow.state.machine import Status, Trigger
from duckflow.state.objective import Verdict


async def escalate(kit: Kit, run: str, verdict: Verdict) -> Ending:
    """Tell what was asked, what was tried, what is there and what is missing; the person goes on in their own words."""
    objective = kit.session.objective(run)
    assert objective is not None
    refused = bool(kit.session.run(run).unattended)
    report = "\n".join(
        (
            _("Not finished after {n} attempts: {request}", n=objective.attempt, request=objective.request),
            outcome_text(kit, run, verdict),
        )
    )
    _report(kit, run, report)
    status = "refused" if refused and not kit.attended else "escalated"
    conclude(kit, run, status)
    say(kit, run, report, "outcome")
    return Ending("refused" if status == "refused" else "escalated", report)


def stuck(kit: Kit, run: str, row: str) -> Ending:
    """The project's table leaves no way on: say which row is missing."""
    report = "\n".join(
        (
            _("The work cannot go on: the transition table of this project has no row {row}.", row=row),
            outcome_text(kit, run),
        )
    )
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
