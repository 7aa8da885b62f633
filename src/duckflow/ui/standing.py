"""Where the work stands, at length: the answer to /status, and what a session that is gone on with was about."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from duckflow.i18n import _
from duckflow.state.runs import RunState, SessionState, active_plan, working
from duckflow.ui import figures, planwords
from duckflow.ui.beside import Beside
from duckflow.ui.out import Out
from duckflow.ui.progress import vital_figures
from duckflow.ui.report import objective_lines
from duckflow.ui.safe import safe_line
from duckflow.ui.sessions import status_word
from duckflow.ui.status import chains, is_paused, show_rows

if TYPE_CHECKING:
    from duckflow.llm.tiers import Models
    from duckflow.state.objective import Objective
    from duckflow.state.session import Session

Row = tuple[str, str]


def show_status(session: Session, models: Models, out: Out) -> None:
    state = session.state
    run, objective = _main(state), _objective(state)
    rows = [
        (_("session"), state.id),
        (_("workspace"), safe_line(state.workspace, exact=True)),
        (_("mode"), state.mode),
        (_("models"), figures.badge(chains(models))),
    ]
    if run is not None:
        rows.append((_("step"), _stands(run)))
        rows.append((_("goal"), safe_line(run.agent.goal)))
    if objective is not None:
        rows.append((_("request"), safe_line(objective.request)))
        rows.append((_("objective"), _judged(objective)))
    rows += _background(state)
    if run is not None:
        vitals = run.vitals
        rows.append((_("vitals"), vital_figures(vitals.mood, vitals.focus, vitals.stamina)))
    if run is not None and run.question is not None:
        rows.append((_("open question"), safe_line(run.question.text)))
    show_rows(rows, out)
    if objective is not None and objective.requirements:
        out.line()
        _table(objective, out)


def _main(state: SessionState) -> RunState | None:
    """The run that counts: the one in focus while it lives, else what works in the background."""
    front = state.runs.get(state.focus or "")
    alive = [run for run in (front, *working(state)) if run is not None and run.outcome is None]
    return alive[0] if alive else front


def _objective(state: SessionState) -> Objective | None:
    """What the work is for. A question answered meanwhile has none of its own and hides nothing."""
    front = state.runs.get(state.focus or "")
    named = [run.objective for run in (_main(state), front, *working(state)) if run is not None and run.objective]
    return state.objectives.get(named[0]) if named else None


def _background(state: SessionState) -> Iterator[Row]:
    plan, beside = active_plan(state), Beside(state)
    if plan is not None:
        about = (f"{plan.id} {safe_line(plan.name)}", planwords.plan_status(plan.status), planwords.progress(plan))
        yield _("plan"), figures.joined(about)
    for run in working(state):
        now = [safe_line(action.summary or action.operation, exact=True) for action in run.open_actions.values()]
        asks = _("waits for you") if run.agent.pending_gate or run.question or run.escalated else ""
        doing = _("paused") if is_paused(state, run) else asks or (now[-1] if now else _("running"))
        yield _("background"), figures.joined((run.id, beside.name(run.id), doing))


def _judged(objective: Objective) -> str:
    about = _("attempt {n}", n=objective.attempt)
    return figures.joined((status_word(objective.status), about, f"{objective.satisfaction:.2f}"))


def _table(objective: Objective, out: Out) -> None:
    for line in objective_lines(objective, out):
        out.line(line)


def _stands(run: RunState) -> str:
    """The step, and how it ended or what it is about to do."""
    steps = {
        "PLANNING": _("planning"),
        "EXECUTION": _("execution"),
        "REVIEW": _("review"),
        "AWAITING_APPROVAL": _("approval"),
        "DONE": _("done"),
    }
    states = {"IN_PROGRESS": _("in progress"), "SUCCESS": _("done"), "ERROR": _("failed")}
    state = status_word(run.outcome) if run.outcome else states.get(run.status) or status_word(run.status)
    return figures.joined((steps.get(run.step or "", "—"), state))


def show_unfinished(state: SessionState, out: Out) -> None:
    """An objective that is still open, requirement by requirement, and a plan that waits to be gone on with."""
    objective = _objective(state)
    escalated = (
        any(run.escalated and run.objective == objective.id for run in state.runs.values()) if objective else False
    )
    if objective is not None and objective.requirements and (objective.status == "open" or escalated):
        out.line()
        out.block(_("Still open: {request}", request=safe_line(objective.request)), "dim", indent="  ")
        _table(objective, out)
    plan = active_plan(state)
    if plan is None:
        if working(state):
            out.block(_("The background work is paused: /tasks resume goes on with it."), "yellow", indent="  ")
        return
    told = _(
        "The plan “{name}” is unfinished ({progress}): /tasks resume goes on with it, /plan shows it.",
        name=safe_line(plan.name),
        progress=planwords.progress(plan),
    )
    out.line()
    out.block(told, "yellow", indent="  ")


def kept(state: SessionState) -> str:
    """What waits for the person to come back; empty when nothing does."""
    plan = active_plan(state)
    if plan is not None:
        return _(
            "The plan “{name}” is kept ({progress}): `duckflow resume`, then /tasks resume goes on with it.",
            name=safe_line(plan.name),
            progress=planwords.progress(plan),
        )
    if working(state):
        return _("The background work is kept: `duckflow resume`, then /tasks resume goes on with it.")
    return ""
