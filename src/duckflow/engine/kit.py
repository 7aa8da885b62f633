"""What the nodes work with, and how a run ends. Wiring is in app.py; nothing here acts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from duckflow.errors import DuckflowError
from duckflow.record import Record
from duckflow.state.machine import Status, Step, Trigger

if TYPE_CHECKING:
    from duckflow.config import Settings
    from duckflow.engine.dispatch import Dispatcher
    from duckflow.human import Door
    from duckflow.llm.tiers import Models
    from duckflow.prompts.layers import Prompts
    from duckflow.safety.paths import Workspace
    from duckflow.state.session import Session
    from duckflow.tools.base import Registry

EndStatus = Literal[
    "answered", "asked", "satisfied", "partial", "escalated", "refused", "failed", "cancelled", "deferred"
]


class Ending(Record):
    """How a turn ended. `asked` and `deferred` leave its run open: the next message may go on with it."""

    status: EndStatus
    reply: str = ""
    error: DuckflowError | None = None

    @property
    def exit_code(self) -> int:
        if self.error is not None:
            return self.error.exit_code
        return {"answered": 0, "satisfied": 0, "refused": 4}.get(self.status, 3)


class NoWayOn(Exception):
    """The transition table of the project refuses the step that the work needs next."""


class Parts(Record):
    """What only work needs. Assembled with the first message: a screen comes up without them."""

    registry: Registry
    prompts: Prompts
    dispatcher: Dispatcher


@dataclass
class Kit:
    """One set of parts for one session, shared by all its runs."""

    session: Session
    door: Door
    models: Models
    settings: Settings
    workspace: Workspace
    attended: bool  # a person is there to answer
    assemble: Callable[[Kit], Parts]
    entered: str | None = None  # the open run that a message was just put into
    steering: list[str] = field(default_factory=list)  # typed while work runs; reaches the model with its next call

    def advance(self, run: str, trigger: Trigger, to: Step, status: Status = Status.IN_PROGRESS) -> None:
        """A step the work cannot do without."""
        before = self.session.run(run).step
        if not self.session.move(run, trigger, to, status):
            raise NoWayOn(f"{before} → {to}")

    @cached_property
    def _parts(self) -> Parts:
        return self.assemble(self)

    @property
    def registry(self) -> Registry:
        return self._parts.registry

    @property
    def prompts(self) -> Prompts:
        return self._parts.prompts

    @property
    def dispatcher(self) -> Dispatcher:
        return self._parts.dispatcher
