"""Work beside the conversation: which runs are in the background, what they are called, on whose account they go.

Follows the events, so that the chat, `run` and a page of a test see the same. Knows no screen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duckflow import events as ev
from duckflow.i18n import _
from duckflow.ui.safe import safe_line
from duckflow.ui.wrap import fit

if TYPE_CHECKING:
    from duckflow.state.runs import SessionState

ROOM = 24  # cells a name may take


class Beside:
    """`together`: nobody looks on while it works, so everything is on the account of the one turn there is."""

    def __init__(self, state: SessionState | None = None, *, together: bool = False) -> None:
        self._together = together
        self._steps: dict[str, str] = {}  # names of plan steps, by id
        self._plans: dict[str, str] = {}  # names of plans, by the run that carries them out
        self._parents: dict[str, str | None] = {}  # of runs that never stood in front
        self._step_of: dict[str, str] = {}  # which plan step such a run carries out
        self._detached: set[str] = set()  # they began in front and go on in the background
        self._requests: dict[str, str] = {}  # what the person wanted, by run
        if state is not None:
            self._begin(state)

    def _begin(self, state: SessionState) -> None:
        for plan in state.plans.values():
            self._plans[plan.run or ""] = plan.name
            self._steps.update((step.id, step.name) for step in plan.steps)
        for run in state.runs.values():
            if run.kind in ("step", "tasks"):
                self._began(run.id, run.parent, run.plan_step)
            elif run.background:
                self._detached.add(run.id)
            self._requests[run.id] = run.request

    def _began(self, run: str, parent: str | None, step: str | None) -> None:
        self._parents[run] = parent
        if step:
            self._step_of[run] = step

    def see(self, event: ev.Event) -> None:
        """What an event says about this. Seeing one twice changes nothing."""
        run, body = event.run or "", event.body
        if isinstance(body, ev.RunStarted) and body.kind in ("step", "tasks"):
            self._began(run, body.parent, body.plan_step)
        elif isinstance(body, ev.RunDetached):
            self._detached.add(run)
        elif isinstance(body, ev.Message) and body.role == "user":
            self._requests[run] = self._requests.get(run) or body.text
        elif isinstance(body, ev.PlanChanged):
            if run not in self._parents:
                self._plans[run] = body.name
            self._steps.update((str(step["id"]), str(step["name"])) for step in body.steps)

    def __contains__(self, run: str | None) -> bool:
        return run in self._detached or run in self._parents

    def is_root(self, run: str | None) -> bool:
        """Whether its end is the end of a piece of background work, not of a part of one."""
        return run in self and self.account(run) == run

    def account(self, run: str | None) -> str | None:
        """The background run that the calls of this one are counted for; None: the turn in front."""
        if self._together or run not in self:
            return None
        parent = self._parents.get(run or "")
        return self.account(parent) if parent in self else run

    def has_begun(self, run: str) -> bool:
        """Whether it has something to do in the background; otherwise it waits for its turn."""
        return run in self._plans or run in self._parents.values()

    def name(self, run: str | None) -> str:
        """Short: the step, the plan, or what was asked for."""
        step = self._step_of.get(run or "")
        if step:
            return fit(safe_line(self._steps.get(step, step)), ROOM)
        if run in self._parents:
            return _("tasks")
        called = self._plans.get(run or "") or self._requests.get(run or "", "")
        return fit(safe_line(called), ROOM) or _("background")
