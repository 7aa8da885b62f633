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
    from duckflow.engine.approval import Approval
    from duckflow.engine.background import Background
    from duckflow.engine.dispatch import Dispatcher
    from duckflow.human import Door
    from duckflow.llm.tiers import Models
    from duckflow.prompts.layers import Prompts
    from duckflow.safety.paths import Workspace
    from duckflow.state.session import Session
    from duckflow.tools.base import Registry

EndStatus = Literal[
    "answered", "asked", "satisfied", "partial", "escalated", "refused", "failed", "cancelled", "deferred",
    "background",
]  # fmt: skip


class Ending(Record):
    """How a turn ended. `asked` and `deferred` leave its run open: the next message may go on with it.

    `background`: the run goes on beside the conversation.
    """

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
    approval: Approval
    background: Background


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
    entered: dict[str, str] = field(default_factory=dict)  # run a message was just put into → "open" or "beside"
    steering: dict[str, list[str]] = field(default_factory=dict)  # by run: typed while it works, not yet told it
    summaries: dict[str, str] = field(default_factory=dict)  # of conversations, by what was said
    released: Callable[[str], None] = lambda run: None  # a run went into the background: the conversation is free
    stop_background: Callable[[str | None], bool] = lambda run: False
    restart: Callable[[str], None] = lambda run: None  # begin a background run again that nobody drives any more

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

    @property
    def approval(self) -> Approval:
        return self._parts.approval

    @property
    def background(self) -> Background:
        return self._parts.background
