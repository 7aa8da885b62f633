"""The output of a command: line by line while it runs where somebody wants it, and its end when it is over."""

from __future__ import annotations

from collections import deque

from duckflow import events as ev
from duckflow.ui.out import Out
from duckflow.ui.report import as_drawn, output_tail
from duckflow.ui.wrap import fit

BAR = "  │ "
MOST_LINES = 1000  # on the screen while it runs
MOST_LINE = 4000  # characters of one of them


class CommandOutput:
    def __init__(self, out: Out) -> None:
        self._out = out
        self.show = False  # print it while the command runs
        self._rest = ""  # the last, unfinished line
        self._seen: deque[str] = deque(maxlen=50)  # the last lines
        self._lines = 0  # how many there were

    def feed(self, text: str) -> None:
        *whole, rest = (self._rest + text).split("\n")
        self._rest = rest[-MOST_LINE:]
        for line in whole:
            self._seen.append(line[-MOST_LINE:])
            if self.show and self._lines < MOST_LINES:
                self._out.block(as_drawn(line[:MOST_LINE]), "dim", indent=BAR)
            self._lines += 1

    def flush(self) -> None:
        """The last line, though no line end came."""
        if self._rest:
            self.feed("\n")

    def ended(self, body: ev.ActionFinished, *, told: bool) -> None:
        """The command is over: the end of what it wrote, unless that was seen already. `told`: its line was printed."""
        if told and body.exit_code is not None and (not self.show or self._lines > MOST_LINES):
            for line in output_tail(body, self._seen):
                self._out.line(fit(BAR + line, self._out.width), "dim")
        self._seen.clear()
        self._lines = 0
