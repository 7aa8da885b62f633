"""What stands around the input line: above it how something is answered, below it where the session stands."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from duckflow import events as ev
from duckflow.i18n import _
from duckflow.state.runs import RunState, working
from duckflow.ui.asking import Asking
from duckflow.ui.cards import free_answer
from duckflow.ui.line import Line
from duckflow.ui.render import Printer
from duckflow.ui.safe import safe_line
from duckflow.ui.status import Status
from duckflow.ui.wrap import fit, flowed

if TYPE_CHECKING:
    from duckflow.state.session import Session

TWICE_SECONDS = 2.0


class Around:
    def __init__(
        self, session: Session, line: Line, asking: Asking, printer: Printer, status: Status, busy: Callable[[], bool]
    ) -> None:
        self._session = session
        self._line = line
        self._asking = asking
        self._printer = printer
        self._status = status
        self._busy = busy
        self._interrupted = float("-inf")

    def interrupted(self) -> bool:
        """Ctrl-C was pressed. True: for the second time in a row."""
        now, before = time.monotonic(), self._interrupted
        self._interrupted = now
        return now - before < TWICE_SECONDS

    def above(self) -> tuple[str, str]:
        """Style and text between what was printed and the line: at most a few lines."""
        room = self._line.width - 1
        if time.monotonic() - self._interrupted < TWICE_SECONDS:
            told = _("Ctrl-C again leaves; Esc stops the work") if self._busy() else _("Ctrl-C again leaves")
            return "above", fit(told, room)
        if asked := self._asking.above():
            return "ask", flowed(asked, room)
        if tail := self._printer.streaming().strip():
            return "above", fit(safe_line(tail.split("\n")[-1]), room)
        if (question := self.question()) is not None:
            return "ask", flowed(free_answer(bool(question.options), question.default), room)
        if ways := self._ways_on():
            return "ask", flowed(ways, room)
        return "above", ""

    def below(self) -> str:
        asked, waiting = self._asking.open is not None, self._asking.waiting
        return self._status.line(busy=self._busy(), asked=asked, waiting=waiting, width=self._line.width)

    def question(self) -> ev.QuestionAsked | None:
        """The open question that the next message answers."""
        run = self._front()
        return run.question if run is not None else None

    def _front(self) -> RunState | None:
        """The run the next message goes to; what works in the background asks with cards."""
        state = self._session.state
        run = state.runs.get(state.focus or "")
        return run if run is not None and not self._busy() and not run.background else None

    def _ways_on(self) -> list[str]:
        """The ways on were offered and nothing in front works: how one is chosen."""
        front = self._front()
        if front is not None and front.escalated:
            return free_answer(True, None)
        if not self._busy() and any(run.escalated for run in working(self._session.state)):
            return [_("a number chooses how the background work goes on")]
        return []
