"""What every input line offers, whatever the terminal can do; what it asks of its owner; which one is used."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from duckflow.ui.out import is_dumb

if TYPE_CHECKING:
    from duckflow.state.session import Session


class Draft(NamedTuple):
    """A text that is being typed."""

    text: str = ""
    cursor: int = 0


class Keys(NamedTuple):
    """What the owner does when a key is pressed."""

    submit: Callable[[str], None]
    stop: Callable[[], None]  # Esc
    interrupt: Callable[[], None]  # Ctrl-C
    leave: Callable[[], None]  # Ctrl-D on an empty line
    cycle: Callable[[], None]  # Shift-Tab
    open_waiting: Callable[[], object]  # Ctrl-G


class View(NamedTuple):
    """What is shown around the line, asked for at every redraw. Plain text; made safe by the owner."""

    above: Callable[[], tuple[str, str]]  # style name and lines above the input; empty text: none
    below: Callable[[], str]
    is_message: Callable[[], bool]  # a message is being typed: history and completion apply
    can_stop: Callable[[], bool]  # something runs in front
    works: Callable[[], bool]  # something runs, in front or in the background: Esc means something


class Line(Protocol):
    draft: Draft
    changed_at: float  # when the draft last changed, by the monotonic clock

    @property
    def height(self) -> int: ...

    @property
    def width(self) -> int: ...

    async def run(self) -> int:
        """Until `close` is called. EOFError: the terminal is gone."""

    def close(self, result: int) -> None: ...

    def redraw(self) -> None:
        """What is shown around the line may have changed."""

    def write(self, text: str) -> None:
        """Print above the line, in order, soon. Call it on the event loop."""

    async def drained(self) -> None:
        """Everything printed so far is on the screen."""

    def clear_screen(self) -> None: ...


def best_line(session: Session, keys: Keys, view: View, *, colour: bool) -> Line:
    """The best line this terminal can have."""
    if is_dumb():
        from duckflow.ui.plain import PlainLine

        return PlainLine(keys, view)
    from duckflow.safety.secrets import Redactor
    from duckflow.ui.commands import completions
    from duckflow.ui.completion import ChatCompleter
    from duckflow.ui.history import InputHistory
    from duckflow.ui.input import InputLine

    history = InputHistory(session.store.path.parent / "input-history", Redactor(os.environ).redact)
    completer = ChatCompleter(completions(), Path(session.state.workspace))
    return InputLine(keys, view, history, completer, colour=colour)
