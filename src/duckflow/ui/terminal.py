"""The chat on a terminal: one input line, everything else printed above it. Shows and passes on; decides nothing."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from duckflow import __version__
from duckflow.errors import DuckflowError
from duckflow.i18n import _, explain
from duckflow.state.runs import working
from duckflow.ui.around import TWICE_SECONDS, Around
from duckflow.ui.asking import Asking
from duckflow.ui.beside import Beside
from duckflow.ui.chat import Chat
from duckflow.ui.commands import MODES, Desk, Switch, is_command, run_command, set_mode
from duckflow.ui.line import Draft, Keys, View, best_line
from duckflow.ui.out import Out, has_colour
from duckflow.ui.render import Printer
from duckflow.ui.status import Status
from duckflow.ui.telling import Telling
from duckflow.ui.welcome import goodbye, recall, welcome

if TYPE_CHECKING:
    from duckflow.engine.kit import Kit
    from duckflow.state.journal import SessionRow

__all__ = ["Chat", "Switch", "run_chat"]

STOP_SECONDS = 10.0


async def run_chat(kit: Kit, chat: Chat, *, resumed: bool, offer: SessionRow | None) -> int | Switch:
    """Until the person leaves (exit code) or wants another session (`Switch`)."""
    return await Terminal(kit, chat, offer).run(resumed=resumed)


class Terminal:
    def __init__(self, kit: Kit, chat: Chat, offer: SessionRow | None) -> None:
        self._kit = kit
        self._chat = chat
        self._offer = offer
        beside = Beside(kit.session.state)
        self._status = Status(kit.session, kit.models, beside)
        colour = has_colour(sys.stdout)
        keys = Keys(
            submit=self._submit,
            stop=self._stop,
            interrupt=self._interrupt,
            leave=lambda: self._leave(130 if self.busy else 0),
            cycle=self._cycle,
            open_waiting=lambda: self._asking.open_waiting(),
        )
        view = View(
            above=lambda: self._around.above(),
            below=lambda: self._around.below(),
            is_message=lambda: self._asking.open is None,
            can_stop=lambda: self.busy,
            works=lambda: self.busy or self._in_background(),
        )
        self._line = best_line(kit.session, keys, view, colour=colour)
        self._out = Out(self._line.write, colour=colour, width=lambda: self._line.width)
        self._printer = Printer(self._out, echo=False, state=kit.session.state, beside=beside)
        self._asking = Asking(kit.door, self._line, self._out)
        self._around = Around(kit.session, self._line, self._asking, self._printer, self._status, lambda: self.busy)
        self._telling = Telling(self._line, self._printer, self._status, self._asking, kit.settings.home)
        self._desk = Desk(
            kit, chat, self._out, lambda: self.busy, self._line.clear_screen, offer, self._asking.open_waiting
        )
        self._turn: asyncio.Task[None] | None = None
        self._leaving: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._commands: set[asyncio.Task[None]] = set()
        self._hinted = False  # how background work is stopped was said
        self._switch: Switch | None = None

    @property
    def busy(self) -> bool:
        return self._turn is not None and not self._turn.done()

    def _in_background(self) -> bool:
        return bool(working(self._kit.session.state))

    # --- the whole chat ------------------------------------------------------------------------------------------

    async def run(self, *, resumed: bool) -> int | Switch:
        session, loop = self._kit.session, asyncio.get_running_loop()
        welcome(self._out, self._kit, version=__version__, resumed=resumed, offer=self._offer)
        recall(session, self._out, resumed=resumed, known=self._printer.known)
        await self._line.drained()
        before = loop.get_exception_handler()
        loop.set_exception_handler(self._telling.loop_error)
        ends = [session.subscribe(self._telling.event), session.watch(self._telling.live)]
        self._kit.door.listener = self._asking
        warming = loop.call_later(0.3, lambda: loop.run_in_executor(None, _warm_up))
        try:
            code = await self._line.run()
        except EOFError:  # the terminal is gone
            code = 130 if self.busy else 0
        finally:
            warming.cancel()  # left before it was due: there is nobody to load anything for
            await self._stop_work()
            self._telling.flush(leaving=True)
            await self._line.drained()
            self._kit.door.listener = None
            for end in ends:
                end()
            loop.set_exception_handler(before)
        if self._switch is None:
            goodbye(session, self._out)
            await self._line.drained()
        return self._switch or code

    # --- what the person does ------------------------------------------------------------------------------------

    def _submit(self, text: str) -> None:
        if self._asking.open is not None and not is_command(text.strip()):
            self._asking.submit(text)
            return
        text = text.strip() or self._default_answer()
        if not text:
            return
        self._telling.flush()  # it happened before this was said
        self._printer.user(text)
        if is_command(text):
            self._commands.add(task := asyncio.get_running_loop().create_task(self._command(text)))
            task.add_done_callback(self._commands.discard)
        elif text.startswith("!") and text[1:].strip():
            self._typed(text[1:].strip())
        elif self.busy:
            self._chat.steer(text)
            self._out.line("  " + _("passed on to the running work"), "dim")
        else:
            self._start(self._chat.turn(text))

    def _typed(self, command: str) -> None:
        if self.busy:
            self._out.line("  " + _("Work is running: Esc stops it first."), "yellow")
            return
        self._printer.output.show = True
        self._start(self._chat.command(command))

    def _default_answer(self) -> str:
        """Enter on an empty line takes the default of an open question."""
        question = self._around.question()
        return question.default or "" if question is not None else ""

    def _start(self, work: Coroutine[Any, Any, object]) -> None:
        self._turn = asyncio.get_running_loop().create_task(self._guarded(work))

    async def _guarded(self, work: Coroutine[Any, Any, object]) -> None:
        ticking = asyncio.get_running_loop().create_task(self._tick())
        try:
            await work
        except DuckflowError as error:
            self._printer.trouble(*explain(error))
        except Exception as error:
            self._telling.bug(error)
        finally:
            ticking.cancel()
            self._printer.turn_ended()
            self._printer.output.show = False
            self._telling.flush()

    async def _tick(self) -> None:
        """The seconds below the line go on while nothing else happens."""
        while True:
            await asyncio.sleep(1)
            self._line.redraw()

    async def _command(self, text: str) -> None:
        """A command is never an answer: a card that was open stays open."""
        asked = self._asking.open
        try:
            after = await run_command(self._desk, text)
        except Exception as error:
            self._telling.bug(error)
            return
        if isinstance(after, Switch):
            self._switch = after
            self._leave(0)
        elif after == "leave":
            self._leave(130 if self.busy else 0)
        else:
            self._asking.show_again(asked)
            self._line.redraw()

    def _stop(self) -> None:
        """Esc stops the turn in front; what works in the background is stopped by name."""
        if self.busy:
            self._chat.stop()
        elif self._in_background() and not self._hinted:
            self._hinted = True
            self._out.line("  " + _("/tasks stop stops the background work"), "dim")

    def _cycle(self) -> None:
        mode = self._kit.session.state.mode
        set_mode(self._kit, MODES[(MODES.index(mode) + 1) % len(MODES)] if mode in MODES else "ask")

    # --- leaving -------------------------------------------------------------------------------------------------

    def _interrupt(self) -> None:
        """Ctrl-C: once clears the line and says how to leave, twice leaves."""
        if self._around.interrupted():
            self._leave(130 if self.busy else 0)
            return
        self._line.draft = Draft()
        self._line.redraw()
        asyncio.get_running_loop().call_later(TWICE_SECONDS, self._line.redraw)

    def _leave(self, code: int) -> None:
        if self._leaving is not None:
            self._line.close(code)  # asked again: do not wait any longer
            return
        self._leaving = asyncio.get_running_loop().create_task(self._left(code))

    async def _left(self, code: int) -> None:
        await self._stop_work()
        self._telling.flush(leaving=True)
        await self._line.drained()
        self._line.close(code)

    async def _stop_work(self) -> None:
        """Nothing is left running. A stop lets an effect under way finish; what does not stop is cancelled."""
        if self.busy and self._turn is not None:
            self._chat.stop()
            await _ended(self._turn)
        if self._closing is None and self._in_background():
            self._closing = asyncio.get_running_loop().create_task(self._chat.close())
        if self._closing is not None:
            await _ended(self._closing)
            error = self._closing.exception() if self._closing.done() and not self._closing.cancelled() else None
            if isinstance(error, Exception):
                self._telling.bug(error)


async def _ended(task: asyncio.Task[None]) -> None:
    done, _still = await asyncio.wait([task], timeout=STOP_SECONDS)
    if not done:
        task.cancel()
        await asyncio.wait([task], timeout=STOP_SECONDS)


def _warm_up() -> None:
    """What the first answer needs, loaded while the person types."""
    from duckflow.ui import markdown

    markdown.rendered("`x`", width=80, colour=False)
