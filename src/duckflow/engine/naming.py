"""What a run is called where people see several at once."""

from __future__ import annotations

from duckflow.i18n import _
from duckflow.state.runs import SessionState


def asker(state: SessionState, run: str) -> str:
    """Who asks, for a card; empty for the turn the person is looking at."""
    mine = state.runs[run]
    if not mine.background:
        return ""
    for plan in state.plans.values():
        step = plan.step(mine.plan_step or "")
        if step is not None:
            return _("step “{step}” of the plan “{plan}”", step=step.name, plan=plan.name)
    parent = state.runs.get(mine.parent or "")
    request = mine.request or (parent.request if parent else "")
    return _("background work: {request}", request=" ".join(request.split())[:60])
