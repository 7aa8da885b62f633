"""What the session tells, on its way to the screen: the turn in front at once, the background when nobody is disturbed.

A screen must never break the work it shows: what goes wrong here is told and written down.
"""

from __future__ import annotations

import asyncio
import errno
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from duckflow import events as ev
from duckflow.ui import crash
from duckflow.ui.asking import Asking
from duckflow.ui.holding import Holding, Moment
from duckflow.ui.line import Line
from duckflow.ui.render import Printer
from duckflow.ui.status import Status
from duckflow.ui.trouble import what_happened, where_to_look

LOOK_SECONDS = 0.25  # how often to see whether what is held back may be shown


class Telling:
    def __init__(
        self,
        line: Line,
        printer: Printer,
        status: Status,
        asking: Asking,
        home: Path,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._line = line
        self._printer = printer
        self._status = status
        self._asking = asking
        self._home = home
        self._holding = Holding(self._moment, clock)
        self._looking: asyncio.TimerHandle | None = None
        self._leaving = False

    def event(self, event: ev.Event) -> None:
        self._guarded(lambda: self._event(event))

    def live(self, live: ev.Live) -> None:
        self._guarded(lambda: self._live(live))

    def flush(self, *, leaving: bool = False) -> None:
        """Show what may be shown now. `leaving`: all of it, and from now on everything at once."""
        self._leaving = self._leaving or leaving
        self._guarded(self._flush)

    # --- inside --------------------------------------------------------------------------------------------------

    def _event(self, event: ev.Event) -> None:
        self._status.event(event)  # it sees whether a run is in the background: before anything is printed
        if event.run in self._printer.beside:
            self._holding.add(event)
        else:
            self._printer.event(event)
        self._flush()

    def _live(self, live: ev.Live) -> None:
        self._status.live(live)
        self._printer.live(live)

    def _flush(self) -> None:
        self._print(self._holding.rest() if self._leaving else self._holding.ready())
        if len(self._holding) and self._looking is None:
            self._looking = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)

    def _look(self) -> None:
        self._looking = None
        self.flush()

    def _print(self, events: Iterable[ev.Event]) -> None:
        asked, shown = self._asking.open, False
        for event in events:
            self._printer.event(event)
            shown = True
        if shown:
            self._asking.show_again(asked)  # a card that is to be answered stays in sight

    def _moment(self) -> Moment:
        line, asking = self._line, self._asking
        typed = line.changed_at if line.draft.text else None
        return Moment(typed, decides=asking.open is not None, reads=self._printer.is_streaming)

    # --- what goes wrong -----------------------------------------------------------------------------------------

    def _guarded(self, show: Callable[[], None]) -> None:
        try:
            show()
            self._asking.refresh()
            self._line.redraw()
        except Exception as error:
            self.bug(error)

    def loop_error(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, Exception):
            self.bug(error)

    def bug(self, error: Exception) -> None:
        if isinstance(error, OSError) and error.errno == errno.EIO:
            return  # the terminal is gone: nobody to tell, and a signal is on its way
        path = crash.record(error, self._home)
        self._printer.trouble(what_happened(error), where_to_look(path))
