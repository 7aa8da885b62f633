"""What the session stands at, in one line below the input. Reads state and events."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from duckflow import events as ev
from duckflow.i18n import _, ngettext
from duckflow.state.runs import RunState, SessionState, active_plan, working
from duckflow.state.vitals import ASK_BELOW, CONSULT_BELOW, REPLAN_BELOW
from duckflow.ui import figures
from duckflow.ui.beside import Beside
from duckflow.ui.out import Out
from duckflow.ui.safe import safe_line
from duckflow.ui.wrap import cells, fit, is_narrow, pad

if TYPE_CHECKING:
    from duckflow.llm.base import Tier
    from duckflow.llm.tiers import Models
    from duckflow.state.session import Session


def chains(models: Models) -> dict[str, list[str]]:
    """The models that answer, per tier, first choice first."""
    tiers: tuple[Tier, ...] = ("creative", "fast", "evaluator")
    return {tier: [safe_line(f"{m.provider}/{m.name}") for m in models.chain(tier)] for tier in tiers}


class Status:
    """Follows the events to know who answered last and what runs right now."""

    def __init__(self, session: Session, models: Models, beside: Beside | None = None) -> None:
        self._session = session
        self._beside = beside or Beside(session.state)
        self._models = figures.badge(chains(models))
        self._answered = ""
        self._call = ""
        self._actions: dict[str, str] = {}
        self._since = time.monotonic()

    def event(self, event: ev.Event) -> None:
        self._beside.see(event)
        body = event.body
        if isinstance(body, ev.ModelCalled):
            self._answered = safe_line(f"{body.provider}/{body.model}")
        elif isinstance(body, ev.RunDetached):  # what runs from now on does not run in front
            self._actions.clear()
            self._call = ""
        elif event.run in self._beside:
            return
        elif isinstance(body, ev.ActionStarted):
            self._actions[body.action] = safe_line(body.summary or body.operation, exact=True)
            self._since = time.monotonic()
        elif isinstance(body, ev.ActionFinished):
            self._actions.pop(body.action, None)
        elif isinstance(body, ev.RunEnded):
            self._actions.clear()
            self._call = ""

    def live(self, live: ev.Live) -> None:
        if live.run in self._beside:
            return
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
        """The line below the input. Where it is narrow, what can be looked up elsewhere gives way first."""
        state = self._session.state
        parts = [state.mode, self.badge(), *self._spent(), background(state), low_vitals(state)]
        if waiting:
            parts.append(_("{n} waiting: Ctrl-G", n=waiting))
        if asked:
            parts.append(_("waiting for your answer"))
        elif busy:
            parts.append(_("{what} · Esc stops", what=self.running()))
        for part in (*reversed(self._spent()), self.badge()):
            if cells(figures.joined(parts)) < width:
                break
            parts.remove(part)
        return fit(figures.joined(parts), width - 1)

    def _spent(self) -> list[str]:
        totals = self._session.state.totals
        if not totals.calls:
            return []
        return [
            figures.tokens(totals.prompt + totals.completion),
            figures.cost(totals.cost_usd, totals.unpriced, totals.calls),
        ]


def background(state: SessionState) -> str:
    """What goes on beside the conversation, in a few words; empty when nothing does."""
    runs, plan = working(state), active_plan(state)
    if plan is not None and (runs or plan.status == "paused"):
        under_way = [fit(safe_line(step.name), 20) for step in plan.steps if step.status == "in_progress"]
        more = f" +{len(under_way) - 1}" if len(under_way) > 1 else ""
        is_busy = any(not is_paused(state, run) for run in runs)
        where = "".join((*under_way[:1], more)) if is_busy else _("paused")
        return figures.joined((_("plan {done}/{n}", done=plan.done, n=len(plan.steps)), where))
    parents = {run.parent for run in runs}
    busy = [run for run in runs if not is_paused(state, run) and run.id not in parents]
    if busy:
        return ngettext("background: {n} running", "background: {n} running", len(busy))
    return _("background: paused") if runs else ""


def is_paused(state: SessionState, run: RunState) -> bool:
    """A run stands still when it is paused, or the one it works for is."""
    parent = state.runs.get(run.parent or "") if run.background else None
    return run.paused or (parent is not None and is_paused(state, parent))


def low_vitals(state: SessionState) -> str:
    """A word for each that is so low that the work will act on it."""
    front = state.runs.get(state.focus or "")
    runs = [*working(state), *([front] if front is not None and front.outcome is None else [])]
    low = (
        _("mood low") if any(run.vitals.mood < ASK_BELOW for run in runs) else "",
        _("focus low") if any(run.vitals.focus < REPLAN_BELOW for run in runs) else "",
        _("stamina low") if any(run.vitals.stamina < CONSULT_BELOW for run in runs) else "",
    )
    return figures.joined(low)


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
