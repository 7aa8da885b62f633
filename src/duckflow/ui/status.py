"""What the session stands at, in one line below the input and in the answer to /status. Reads state and events."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from duckflow import events as ev
from duckflow.i18n import _
from duckflow.ui import figures
from duckflow.ui.out import Out
from duckflow.ui.safe import safe_line
from duckflow.ui.sessions import status_word
from duckflow.ui.wrap import cells, fit, is_narrow, pad

if TYPE_CHECKING:
    from duckflow.llm.base import Tier
    from duckflow.llm.tiers import Models
    from duckflow.state.runs import RunState
    from duckflow.state.session import Session


def chains(models: Models) -> dict[str, list[str]]:
    """The models that answer, per tier, first choice first."""
    tiers: tuple[Tier, ...] = ("creative", "fast", "evaluator")
    return {tier: [safe_line(f"{m.provider}/{m.name}") for m in models.chain(tier)] for tier in tiers}


class Status:
    """Follows the events to know who answered last and what runs right now."""

    def __init__(self, session: Session, models: Models) -> None:
        self._session = session
        self._models = figures.badge(chains(models))
        self._answered = ""
        self._call = ""
        self._actions: dict[str, str] = {}
        self._since = time.monotonic()

    def event(self, event: ev.Event) -> None:
        body = event.body
        if isinstance(body, ev.ModelCalled):
            self._answered = safe_line(f"{body.provider}/{body.model}")
        elif isinstance(body, ev.ActionStarted):
            self._actions[body.action] = safe_line(body.summary or body.operation, exact=True)
            self._since = time.monotonic()
        elif isinstance(body, ev.ActionFinished):
            self._actions.pop(body.action, None)
        elif isinstance(body, ev.RunEnded):
            self._actions.clear()
            self._call = ""

    def live(self, live: ev.Live) -> None:
        if live.kind == "calling":
            self._call = safe_line(live.text).split(" · ")[0]
            self._since = time.monotonic()
        elif live.kind == "settled":
            self._call = ""

    def running(self) -> str:
        """What runs and for how long; empty when nothing is known of it."""
        what = next(reversed(self._actions.values()), "") or self._call
        if not what:
            return _("working")
        passed = int(time.monotonic() - self._since)
        return f"{fit(what, 30)} {figures.seconds(passed * 1000, whole=True)}"

    def badge(self) -> str:
        return self._answered or self._models

    def line(self, *, busy: bool, asked: bool, waiting: int, width: int) -> str:
        """The line below the input."""
        totals = self._session.state.totals
        parts = [self._session.state.mode, self.badge()]
        if totals.calls:
            parts.append(figures.tokens(totals.prompt + totals.completion))
            parts.append(figures.cost(totals.cost_usd, totals.unpriced, totals.calls))
        if waiting:
            parts.append(_("{n} waiting: Ctrl-G", n=waiting))
        if asked:
            parts.append(_("waiting for your answer"))
        elif busy:
            parts.append(_("{what} · Esc stops", what=self.running()))
        return fit(figures.joined(parts), width - 1)


def show_status(session: Session, models: Models, out: Out) -> None:
    """Where the work stands."""
    state = session.state
    run = state.runs.get(state.focus or "")
    objective = state.objectives.get(run.objective or "") if run else None
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
        about = _("attempt {n}", n=objective.attempt)
        rows.append(
            (_("objective"), figures.joined((status_word(objective.status), about, f"{objective.satisfaction:.2f}")))
        )
        rows += [(r.id, safe_line(r.text)) for r in objective.requirements]
    if run is not None and run.question is not None:
        rows.append((_("open question"), safe_line(run.question.text)))
    show_rows(rows, out)


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


def show_cost(session: Session, limit: float | None, out: Out) -> None:
    totals = session.state.totals
    rows = [
        (_("calls"), str(totals.calls)),
        (_("read"), figures.tokens(totals.prompt, totals.cached)),
        (_("written"), figures.tokens(totals.completion)),
        (_("cost"), figures.cost(totals.cost_usd, totals.unpriced, totals.calls)),
    ]
    if limit is not None:
        rows.append((_("limit"), f"${limit:.2f}"))
    show_rows(rows, out)


def show_rows(rows: list[tuple[str, str]], out: Out) -> None:
    """Names and values under each other; values below their names where the screen is too narrow for both."""
    rows = [row for row in rows if row[1]]
    room = max((cells(name) for name, _value in rows), default=0) + 2
    if is_narrow(out.width - room - 2, [value for _name, value in rows]):
        for name, value in rows:
            out.block(name, "dim", indent="    ", first="  ")
            out.block(value, indent="      ")
        return
    for name, value in rows:
        first, *more = out.lines(value, indent="  " + " " * room)
        out.line("  " + out.paint(pad(name, room), "dim") + first[2 + room :])
        for line in more:
            out.line(line)
