"""Requests to the person at the keyboard: drawn, waited for, answered with keys pressed after they could be read.

A card is printed above the line; the line stays with the draft until the person has stopped typing, and only then
takes answers. So nothing typed before a card was seen can answer it.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque

from duckflow.human import Answer, Door, Request
from duckflow.i18n import _
from duckflow.ui.cards import Picked, draw, invitation, read_answer
from duckflow.ui.line import Draft, Line
from duckflow.ui.out import Out
from duckflow.ui.safe import safe, safe_line

SETTLE_SECONDS = 0.15  # from the drawing of a card until the line can answer it
TYPING_SECONDS = 0.7  # from the last change of a draft until a card may take the line
APPROVALS = ("yes", "step", "always")


class Open:
    """The request the line answers right now."""

    def __init__(self, request: Request, hidden: int) -> None:
        self.request = request
        self.hidden = hidden  # lines of the preview that are not on the screen
        self.armed_at = time.monotonic()
        self.closed = asyncio.Event()


class Asking:
    """A `human.Listener`: one request at a time, in order; those of background work wait to be opened."""

    def __init__(self, door: Door, line: Line, out: Out) -> None:
        self._door = door
        self._line = line
        self._out = out
        self._queue: deque[Request] = deque()
        self._background: deque[Request] = deque()
        self._serving: asyncio.Task[None] | None = None
        self.open: Open | None = None

    @property
    def waiting(self) -> int:
        return len(self._background)

    def above(self) -> list[str]:
        """What to show above the line while a request is open."""
        if self.open is None:
            return []
        request = self.open.request
        return invitation(request.card, request.kind, hidden=self.open.hidden)

    # --- Listener ------------------------------------------------------------------------------------------------

    def arrived(self, request: Request) -> None:
        if request.watched:
            self._enqueue(request)
            return
        self._background.append(request)
        what, asker = safe_line(request.card.title, exact=True), safe_line(request.card.asker)
        text = _("Background work asks: {what} (Ctrl-G or /tasks open)", what=what)
        if asker:
            text = _("{asker} asks: {what} (Ctrl-G or /tasks open)", asker=asker, what=what)
        self._out.block(text, "yellow", first="! ", indent="  ")

    def withdrawn(self, request: Request) -> None:
        self._drop({request.id})

    def refresh(self) -> None:
        """Let go of requests whose run is gone: nobody waits for the answer any more."""
        waiting = {request.id for request in self._door.pending()}
        mine = [*self._queue, *self._background, *([self.open.request] if self.open else [])]
        self._drop({request.id for request in mine} - waiting)

    def _drop(self, gone: set[str]) -> None:
        for queue in (self._queue, self._background):
            for request in [request for request in queue if request.id in gone]:
                queue.remove(request)
        if self.open is not None and self.open.request.id in gone and not self.open.closed.is_set():
            self._out.block(_("No longer asked."), "dim", indent="  ")
            self.open.closed.set()

    # --- asking --------------------------------------------------------------------------------------------------

    def open_waiting(self) -> bool:
        """Draw the next request of background work. False: there is none."""
        if not self._background:
            return False
        self._enqueue(self._background.popleft())
        return True

    def _enqueue(self, request: Request) -> None:
        self._queue.append(request)
        if self._serving is None or self._serving.done():
            self._serving = asyncio.get_running_loop().create_task(self._serve())

    async def _serve(self) -> None:
        while self._queue:
            await self._ask(self._queue.popleft())

    async def _ask(self, request: Request) -> None:
        hidden = self._print(request)
        await self._quiet()
        if request not in self._door.pending():
            return
        self.open = Open(request, hidden)
        draft, self._line.draft = self._line.draft, Draft()
        self._line.redraw()
        try:
            await self.open.closed.wait()
        finally:
            self.open = None
            self._line.draft = draft
            self._line.redraw()

    def _print(self, request: Request, *, full: bool = False) -> int:
        drawn = draw(request.card, request.kind, self._out, height=self._line.height, full=full)
        for line in drawn.lines:
            self._out.line(line)
        return drawn.hidden

    def show_again(self, opened: Open | None) -> None:
        """A card that is still open after something else was printed or cleared: nobody answers what is not there."""
        if opened is not None and self.open is opened and not opened.closed.is_set():
            opened.hidden = self._print(opened.request)
            opened.armed_at = time.monotonic() + SETTLE_SECONDS

    async def _quiet(self) -> None:
        """Until the card has been on the screen for a moment and nobody is in the middle of a word."""
        await self._line.drained()
        ready = time.monotonic() + SETTLE_SECONDS
        while (now := time.monotonic()) < ready:
            await asyncio.sleep(ready - now)
            if self._line.draft.text:
                ready = max(ready, self._line.changed_at + TYPING_SECONDS)

    # --- answering -----------------------------------------------------------------------------------------------

    def submit(self, typed: str) -> None:
        """A line was entered while a request is open."""
        opened = self.open
        if opened is None:
            return
        if time.monotonic() < opened.armed_at:
            self._line.draft = Draft(typed, len(typed))
            return
        card, kind = opened.request.card, opened.request.kind
        picked = read_answer(card, kind, typed)
        if picked is None:
            self._line.redraw()
        elif picked == "all" or self._must_see(opened, picked):
            opened.hidden = self._print(opened.request, full=True)
            opened.armed_at = time.monotonic() + SETTLE_SECONDS
        else:
            self._answer(opened, picked, typed)

    def _must_see(self, opened: Open, picked: Picked) -> bool:
        """A command that was not shown whole is shown whole before it can be allowed."""
        is_command = opened.request.card.preview_kind == "command"
        return bool(opened.hidden) and is_command and picked.choice in APPROVALS

    def _answer(self, opened: Open, picked: Picked, typed: str) -> None:
        request = opened.request
        self._out.block(safe(typed.strip()) or picked.choice, "bold", first="> ", indent="  ")
        taken = self._door.answer(Answer(request.id, request.shown_hash, picked.choice, picked.comment))
        if not taken:
            self._out.block(_("That is no longer asked; nothing was done."), "yellow", indent="  ")
        opened.closed.set()
