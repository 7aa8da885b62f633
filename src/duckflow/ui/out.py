"""Where lines are printed: colour or not, how wide, which stream. Knows nothing of what is printed."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Mapping
from typing import TextIO

from duckflow.errors import N_, DuckflowError
from duckflow.ui.safe import safe
from duckflow.ui.wrap import cells, wrapped

_CODES = {
    "bold": "1",
    "dim": "2",
    "italic": "3",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
    "alarm": "1;31",
    "title": "1;36",
}
MIN_WIDTH = 20
_GONE = (errno.EPIPE, errno.EIO)  # the reader or the terminal: nobody misses what is not written


class OutputError(DuckflowError):
    """Standard output takes nothing more, and somebody wanted what was written there."""

    exit_code, code = 1, "output"


class Out:
    """Prints finished lines. Styles are names, never markup in a text; what `line` gets must be safe already."""

    def __init__(
        self, write: Callable[[str], object], *, colour: bool, width: Callable[[], int], draws: bool = True
    ) -> None:
        self.write = write
        self.draws = draws  # False: a file or a pipe, which gets Markdown as it was written
        self.colour = colour
        self._width = width

    @property
    def width(self) -> int:
        return max(self._width(), MIN_WIDTH)

    def paint(self, text: str, style: str = "") -> str:
        if not self.colour or not style or not text:
            return text
        return f"\x1b[{_CODES[style]}m{text}\x1b[0m"

    def line(self, text: str = "", style: str = "") -> None:
        """One line as it is; the caller took care of its width."""
        self.write(self.paint(text, style) + "\n")

    def block(self, text: str, style: str = "", *, indent: str = "", first: str | None = None) -> None:
        """Wrapped to the width; `first` stands before the first line, `indent` before the others."""
        for line in self.lines(text, style, indent=indent, first=first):
            self.write(line + "\n")

    def lines(self, text: str, style: str = "", *, indent: str = "", first: str | None = None) -> list[str]:
        heads = [indent if first is None else first, indent]
        room = self.width - max(cells(head) for head in heads)
        return [
            (heads[min(i, 1)] + self.paint(line, style)).rstrip(" ") for i, line in enumerate(wrapped(safe(text), room))
        ]

    def markdown(self, text: str) -> None:
        if not self.draws and not self.colour:
            self.block(text)
            return
        from duckflow.ui.markdown import rendered

        self.write(rendered(text, width=self.width, colour=self.colour))


def has_colour(stream: TextIO | None, env: Mapping[str, str] | None = None) -> bool:
    """NO_COLOR forbids, FORCE_COLOR demands, otherwise a terminal that can, outside of CI."""
    env = os.environ if env is None else env
    if env.get("NO_COLOR"):
        return False
    if env.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    if env.get("CI") or is_dumb(env):
        return False
    return is_terminal(stream)


def is_dumb(env: Mapping[str, str] | None = None) -> bool:
    return (os.environ if env is None else env).get("TERM", "dumb") in ("dumb", "unknown", "")


def is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False


def stream_width(stream: TextIO | None) -> int:
    """Of the terminal behind the stream; COLUMNS where there is none, else 80."""
    try:
        return os.get_terminal_size(stream.fileno() if stream is not None else -1).columns or 80
    except (OSError, ValueError):
        given = os.environ.get("COLUMNS", "")
        return int(given) if given.isdecimal() and int(given) > 0 else 80


def out_for(stream: TextIO | None, *, needed: bool = True) -> Out:
    """Printing to a stream that may be closed or whose reader may go away: then nothing (more) is written to it.

    `needed`: any other reason why it takes nothing is an OutputError, once.
    """
    alive = stream is not None

    def write(text: str) -> None:
        nonlocal alive
        if stream is None or not alive:
            return
        try:
            _write(stream, text)
        except OSError as error:
            alive = False
            if needed and error.errno not in _GONE:
                raise cannot_write(error) from error

    return Out(write, colour=has_colour(stream), width=lambda: stream_width(stream), draws=is_terminal(stream))


def _write(stream: TextIO, text: str) -> None:
    try:
        stream.write(text)
    except UnicodeEncodeError:  # a terminal that cannot show Japanese still shows the rest
        encoding = stream.encoding or "ascii"
        stream.write(text.encode(encoding, "replace").decode(encoding))
    stream.flush()


def cannot_write(error: OSError) -> OutputError:
    why = safe(error.strerror or str(error))
    hint = N_("What was written there is not complete. Free some space, or write somewhere else.")
    return OutputError(N_("Cannot write to standard output: {why}."), hint=hint, why=why)


def stdout() -> Out:
    return out_for(sys.stdout)


def stderr() -> Out:
    """Where it takes nothing there is nobody left to tell."""
    return out_for(sys.stderr, needed=False)
