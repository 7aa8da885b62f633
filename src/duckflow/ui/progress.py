"""How plans go on, as short lines: drafted, approved, each step that ended, the end, and the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duckflow import events as ev
from duckflow.i18n import _, listed, ngettext
from duckflow.state.plan import PlanStep
from duckflow.ui import figures, planwords
from duckflow.ui.out import Out
from duckflow.ui.safe import safe, safe_line

if TYPE_CHECKING:
    from duckflow.state.runs import SessionState

INDENT = "  "
BEFORE = ("draft", "approved", "in_progress", "refused", "replaced", "deleted")
"""Plan states that are told before what happened to its steps; the others are its end."""
_REPORTS = {"success": "green", "partial": "yellow", "paused": "yellow", "failed": "red"}
_PLANS = {"completed": "green", "failed": "red", "refused": "yellow", "paused": "yellow"}


class Progress:
    """Prints what an event changed: it remembers how every plan stood before."""

    def __init__(self, out: Out, state: SessionState | None, *, verbose: bool) -> None:
        self._out = out
        self._verbose = verbose
        self._names: dict[str, str] = {}
        self._stood: dict[str, tuple[str, dict[str, str]]] = {}  # plan → its status, and that of each step
        for plan in state.plans.values() if state else ():
            self._names[plan.id] = plan.name
            self._stood[plan.id] = (plan.status, {step.id: step.status for step in plan.steps})

    # --- plans ---------------------------------------------------------------------------------------------------

    def plan(self, body: ev.PlanChanged, *, is_news: bool = True) -> None:
        """`is_news`: False when it was told already that it goes on."""
        steps = tuple(PlanStep(**{k: v for k, v in item.items() if k in PlanStep.FIELDS}) for item in body.steps)
        now = {step.id: step.status for step in steps}
        status, before = self._stood.get(body.plan, ("", now))
        self._stood[body.plan] = (body.status, now)
        self._names[body.plan] = body.name
        changed = [step for step in steps if step.status != before.get(step.id, "pending")]
        is_news = is_news and body.status != status
        if is_news and body.status in BEFORE:
            self._plan(body, steps, status)
        self._steps(changed, steps)
        if is_news and body.status not in BEFORE:
            self._plan(body, steps, status)

    def _plan(self, body: ev.PlanChanged, steps: tuple[PlanStep, ...], before: str) -> None:
        name = planwords.title(body.name)
        done = planwords.so_far(sum(step.status == "completed" for step in steps), len(steps))
        count = ngettext("{n} step", "{n} steps", len(steps))
        told = {
            "draft": _("{plan} drafted: {steps}", plan=name, steps=count),
            "approved": _("{plan} approved", plan=name),
            "in_progress": _("{plan} goes on: {progress}", plan=name, progress=done) if before == "paused" else "",
            "paused": _("{plan} paused: {progress}", plan=name, progress=done),
            "completed": _("{plan} completed: {progress}", plan=name, progress=done),
            "failed": _("{plan} failed: {progress}", plan=name, progress=done),
            "refused": _("{plan} refused", plan=name),
            "replaced": _("{plan} replaced", plan=name),
            "deleted": _("{plan} deleted", plan=name),
        }.get(body.status, "")
        if told:
            why = planwords.reason(body.reason)
            self._out.block(figures.joined((told, why)), _PLANS.get(body.status, ""), indent=INDENT)

    def _steps(self, changed: list[PlanStep], steps: tuple[PlanStep, ...]) -> None:
        """One line for each that ended; those that can no longer begin share one."""
        done = sum(step.status == "completed" for step in steps)
        for step in changed:
            if step.status == "completed":
                self._step(step, planwords.so_far(done, len(steps)))
            elif step.status == "failed" or (step.status == "in_progress" and self._verbose):
                self._step(step, planwords.step_status(step, steps))
        blocked = [step for step in changed if step.status == "blocked"]
        if blocked:
            names = listed(safe_line(step.name) for step in blocked)
            causes = listed(dict.fromkeys(name for step in blocked for name in planwords.failed_before(step, steps)))
            told = _("blocked: {steps} (needs {causes})", steps=names, causes=causes)
            self._out.block(f"{planwords.mark('blocked')} {told}", "yellow", indent=INDENT * 2, first=INDENT)

    def _step(self, step: PlanStep, told: str) -> None:
        head = f"{planwords.mark(step.status)} {safe_line(step.name)}"
        style = planwords.style(step.status)
        self._out.block(figures.joined((head, told)), style, indent=INDENT * 2, first=INDENT)

    # --- the report ----------------------------------------------------------------------------------------------

    def report(self, body: ev.Reported) -> None:
        """The counts are the engine's; what the model says of them comes after."""
        total = body.total or body.succeeded + body.failed
        failed = _("{n} failed", n=body.failed) if body.failed else ""
        paused = _("paused") if body.status == "paused" else ""
        name = self._names.get(body.plan or "")
        about = planwords.title(name) if name else _("background work")
        counts = figures.joined((planwords.so_far(body.succeeded, total, body.unit), failed, paused))
        out = self._out
        out.line()
        headline = _("{what}: {counts}", what=about, counts=counts)
        out.block(headline, _REPORTS.get(body.status, "yellow"), first="── ", indent="   ")
        if body.summary.strip():
            out.block(safe(body.summary).strip(), indent=INDENT)
        for cause in body.causes:
            out.block(_("cause: {what}", what=safe_line(cause)), "yellow", indent=INDENT * 2, first=INDENT)
        if body.recommended_next.strip():
            next_ = _("next: {what}", what=safe_line(body.recommended_next))
            out.block(next_, "cyan", indent=INDENT * 2, first=INDENT)

    def vitals(self, body: ev.VitalsChanged) -> None:
        if not self._verbose:
            return
        limit = _("loop limit {n}", n=body.loop_limit)
        self._out.block(
            figures.joined((vital_figures(body.mood, body.focus, body.stamina), limit, safe_line(body.reason))),
            "dim",
            indent=INDENT,
        )


def vital_figures(mood: float, focus: float, stamina: float) -> str:
    return figures.joined(
        (
            _("mood {value}", value=f"{mood:.2f}"),
            _("focus {value}", value=f"{focus:.2f}"),
            _("stamina {value}", value=f"{stamina:.2f}"),
        )
    )
