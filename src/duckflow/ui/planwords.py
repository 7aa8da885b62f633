"""Plans, steps and tasks in words and marks, the same on every screen. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from duckflow.i18n import _, listed, ngettext
from duckflow.ui.answers import refused_because, why_not
from duckflow.ui.safe import safe_line

if TYPE_CHECKING:
    from duckflow.state.plan import Plan, PlanStep

MARKS = {"completed": "✓", "in_progress": "▸", "failed": "✗", "blocked": "–"}
STYLES = {"completed": "green", "in_progress": "cyan", "failed": "red", "blocked": "yellow"}


def mark(status: str) -> str:
    return MARKS.get(status, "·")


def style(status: str) -> str:
    return STYLES.get(status, "")


def so_far(done: int, total: int, unit: str = "steps") -> str:
    """ "2 of 5 steps done"."""
    if unit == "tasks":
        return ngettext("{done} of {n} task done", "{done} of {n} tasks done", total, done=done)
    return ngettext("{done} of {n} step done", "{done} of {n} steps done", total, done=done)


def progress(plan: Plan) -> str:
    return so_far(plan.done, len(plan.steps))


def title(name: str) -> str:
    return _("plan “{name}”", name=safe_line(name))


def plan_status(status: str) -> str:
    words = {
        "draft": _("not approved yet"),
        "approved": _("approved"),
        "in_progress": _("in progress"),
        "paused": _("paused"),
        "completed": _("completed"),
        "failed": _("failed"),
        "refused": _("refused"),
        "replaced": _("replaced"),
        "deleted": _("deleted"),
    }
    return words.get(status, safe_line(status))


def step_status(step: PlanStep, steps: Sequence[PlanStep]) -> str:
    """Where a step stands, and why where it does not go on."""
    if step.status == "completed":
        return _("done")
    if step.status == "in_progress":
        return _("running")
    if step.status == "failed":
        why = reason(step.reason)
        return _("failed: {why}", why=why) if why else _("failed")
    if step.status == "blocked":
        return _("blocked: {step} failed", step=listed(failed_before(step, steps)) or safe_line(step.reason))
    names = {s.id: s.name for s in steps if s.status != "completed"}
    waits = [safe_line(names[need]) for need in step.depends_on if need in names]
    return _("waits for {steps}", steps=listed(waits)) if waits else _("waiting")


def failed_before(step: PlanStep, steps: Sequence[PlanStep]) -> list[str]:
    """The names of the failed steps that it needs, near and far."""
    by_id = {s.id: s for s in steps}
    found: dict[str, str] = {}
    seen: set[str] = set()
    waiting = list(step.depends_on)
    while waiting:
        need = by_id.get(waiting.pop(0))
        if need is None or need.id in seen:
            continue
        seen.add(need.id)
        if need.status == "failed":
            found[need.id] = safe_line(need.name)
        waiting += need.depends_on
    return list(found.values())


def reason(text: str) -> str:
    """Why something did not work, for a line that already says so."""
    if text.startswith("refused"):
        return refused_because(text)
    return why_not(text) if text else ""
