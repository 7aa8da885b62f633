"""The input line of a terminal that can do little (TERM=dumb, a shell inside an editor): whole lines, no cursor keys.

The terminal itself edits and echoes the line; a prompt is printed whenever somebody may type.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from duckflow.ui.line import Draft, Keys, View

_WIDTH, _HEIGHT = 80, 24


class PlainLine:
    def __init__(self, keys: Keys, view: View) -> None:
        self._keys = keys
        self._view = view
        self._typed = b""
        self._asked: str | None = None  # what stood above the last prompt; None: no prompt is on the screen
        self._ended: asyncio.Future[int] | None = None
        self.draft = Draft()
        self.changed_at = float("-inf")

    @property
    def height(self) -> int:
        return _HEIGHT

    @property
    def width(self) -> int:
        return _WIDTH

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        self._ended = loop.create_future()
        loop.add_reader(sys.stdin.fileno(), self._read)
        loop.add_signal_handler(signal.SIGINT, self._interrupt)
        self.redraw()
        try:
            return await self._ended
        finally:
            loop.remove_reader(sys.stdin.fileno())
            loop.remove_signal_handler(signal.SIGINT)

    def close(self, result: int) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(result)

    def redraw(self) -> None:
        """A prompt when somebody may type and none is there for that purpose yet."""
        above = self._view.above()[1]
        if self._ended is None or self._asked == above or (self._view.can_stop() and self._view.is_message()):
            return
        self._put(("\n" if self._asked is not None else "") + (above + "\n" if above else "") + "> ")
        self._asked = above

    def write(self, text: str) -> None:
        self._put(("\n" if self._asked is not None else "") + text)
        self._asked = None

    async def drained(self) -> None:
        return

    def clear_screen(self) -> None:
        """Such a terminal cannot."""

    def _put(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    def _read(self) -> None:
        data = os.read(sys.stdin.fileno(), 65_536)
        if not data:
            self._keys.leave()
            return
        *lines, self._typed = (self._typed + data).split(b"\n")
        for line in lines:
            self._asked = None
            self._keys.submit(line.decode("utf-8", "replace"))
        self.redraw()

    def _interrupt(self) -> None:
        """There is no Esc: the first Ctrl-C stops what runs."""
        if self._view.can_stop():
            self._keys.stop()
        self._keys.interrupt()
