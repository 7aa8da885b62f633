"""A terminal to look at: a program in a pty whose output is drawn by pyte, and waiting for what is to be seen."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pexpect
import pyte

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 20.0


class Drawn(pyte.HistoryScreen):
    def __init__(self, answer: Callable[[str], object], columns: int, rows: int) -> None:
        super().__init__(columns, rows, history=5000, ratio=0.001)
        self._answer = answer

    def write_process_input(self, data: str) -> None:
        self._answer(data)


class Screen:
    """Reads only while it waits; answers the questions a real terminal answers (where is the cursor?)."""

    def __init__(self, argv: list[str], env: dict[str, str], cwd: Path, columns: int = 80, rows: int = 24) -> None:
        given = {
            "PATH": os.environ["PATH"],
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(ROOT / "src"),
        }
        self.child = pexpect.spawn(
            sys.executable, argv, env={**given, **env}, cwd=str(cwd), dimensions=(rows, columns), timeout=SECONDS
        )
        self.screen = Drawn(self.child.send, columns, rows)
        self._stream = pyte.ByteStream(self.screen)
        self.raw = b""

    # --- looking -------------------------------------------------------------------------------------------------

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in self.screen.display]

    @property
    def text(self) -> str:
        """Everything, with what has scrolled away."""
        gone = ["".join(line[x].data for x in range(self.screen.columns)).rstrip() for line in self.screen.history.top]
        return "\n".join([*gone, *self.lines])

    @property
    def visible(self) -> str:
        return "\n".join(self.lines)

    def wait(self, wanted: str | Callable[[], bool], *, seconds: float = SECONDS, what: str = "") -> None:
        """Until a pattern is on the screen or a condition holds. `what`: the condition in words."""
        holds = wanted if callable(wanted) else lambda: re.search(wanted, self.text) is not None
        until = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > until:
                raise AssertionError(f"never seen: {what or wanted}\n{self.text}")
            self._read()

    def _read(self) -> None:
        try:
            piece = self.child.read_nonblocking(65536, timeout=0.05)
        except pexpect.TIMEOUT:
            return
        except pexpect.EOF:
            time.sleep(0.01)
            return
        self.raw += piece
        self._stream.feed(piece)

    # --- doing ---------------------------------------------------------------------------------------------------

    def send(self, keys: str) -> None:
        self.child.send(keys)

    def resize(self, columns: int, rows: int) -> None:
        self.screen.resize(rows, columns)
        self.child.setwinsize(rows, columns)

    def ended(self) -> int:
        """Wait for the end of the program; its exit code (negative: a signal)."""
        self.wait(lambda: not self.child.isalive())
        self._read()
        self.child.close()
        return int(self.child.exitstatus if self.child.exitstatus is not None else -self.child.signalstatus)

    def close(self) -> None:
        self.child.close(force=True)


Start = Callable[..., Screen]
"""What the fixture `start` gives: a screen with the chat on it."""
