"""The chat on a terminal: one input line, everything else printed above it. Shows and passes on; decides nothing."""

from __future__ import annotations

import asyncio
import errno
import sys
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from duckflow import __version__
from duckflow import events as ev
from duckflow.errors import DuckflowError
from duckflow.i18n import _, explain
from duckflow.ui import crash
from duckflow.ui.asking import Asking
from duckflow.ui.cards import free_answer
from duckflow.ui.commands import MODES, Desk, Switch, is_command, run_command, set_mode
from duckflow.ui.line import Draft, Keys, View, best_line
from duckflow.ui.out import Out, has_colour
from duckflow.ui.render import Printer
from duckflow.ui.safe import safe_line
from duckflow.ui.status import Status
from duckflow.ui.trouble import what_happened, where_to_look
from duckflow.ui.welcome import goodbye, recall, welcome
from duckflow.ui.wrap import fit, flowed

if TYPE_CHECKING:
    from duckflow.engine.kit import Kit
    from duckflow.state.journal import SessionRow

__all__ = ["Chat", "Switch", "run_chat"]

News = TypeVar("News", ev.Event, ev.Live)

TWICE_SECONDS = 2.0
STOP_SECONDS = 10.0


class Chat(Protocol):
    """`engine.chat.ChatLoop` as the terminal sees it."""

    def turn(self, text: str) -> Coroutine[Any, Any, object]: ...

    def command(self, command: str) -> Coroutine[Any, Any, object]: ...

    def steer(self, text: str) -> None: ...

    def stop(self) -> None: ...


async def run_chat(kit: Kit, chat: Chat, *, resumed: bool, offer: SessionRow | None) -> int | Switch:
    """Until the person leaves (exit code) or wants another session (`Switch`)."""
    return await Terminal(kit, chat, offer).run(resumed=resumed)


class Terminal:
    def __init__(self, kit: Kit, chat: Chat, offer: SessionRow | None) -> None:
        self._kit = kit
        self._chat = chat
        self._offer = offer
        self._status = Status(kit.session, kit.models)
        colour = has_colour(sys.stdout)
        keys = Keys(
            submit=self._submit,
            stop=chat.stop,
            interrupt=self._interrupt,
            leave=lambda: self._leave(130 if self.busy else 0),
            cycle=self._cycle,
            open_waiting=lambda: self._asking.open_waiting(),
        )
        view = View(
            above=self._above,
            below=self._below,
            is_message=lambda: self._asking.open is None,
            can_stop=lambda: self.busy,
        )
        self._line = best_line(kit.session, keys, view, colour=colour)
        self._out = Out(self._line.write, colour=colour, width=lambda: self._line.width)
        self._printer = Printer(self._out, echo=False)
        self._asking = Asking(kit.door, self._line, self._out)
        self._desk = Desk(kit, self._out, lambda: self.busy, self._line.clear_screen, offer)
        self._turn: asyncio.Task[None] | None = None
        self._leaving: asyncio.Task[None] | None = None
        self._commands: set[asyncio.Task[None]] = set()
        self._interrupted = float("-inf")
        self._switch: Switch | None = None

    @property
    def busy(self) -> bool:
        return self._turn is not None and not self._turn.done()

    # --- the whole chat ------------------------------------------------------------------------------------------

    async def run(self, *, resumed: bool) -> int | Switch:
        session, loop = self._kit.session, asyncio.get_running_loop()
        welcome(self._out, self._kit, version=__version__, resumed=resumed, offer=self._offer)
        recall(session, self._out, resumed=resumed)
        await self._line.drained()
        before = loop.get_exception_handler()
        loop.set_exception_handler(self._on_loop_error)
        ends = [session.subscribe(self._on_event), session.watch(self._on_live)]
        self._kit.door.listener = self._asking
        loop.call_later(0.3, lambda: loop.run_in_executor(None, _warm_up))
        try:
            code = await self._line.run()
        except EOFError:  # the terminal is gone
            code = 130 if self.busy else 0
        finally:
            await self._stop_work()
            self._kit.door.listener = None
            for end in ends:
                end()
            loop.set_exception_handler(before)
        if self._switch is None:
            goodbye(session, self._out)
            await self._line.drained()
        return self._switch or code

    # --- what the session tells ----------------------------------------------------------------------------------

    def _on_event(self, event: ev.Event) -> None:
        self._show(event, self._status.event, self._printer.event)

    def _on_live(self, live: ev.Live) -> None:
        self._show(live, self._status.live, self._printer.live)

    def _show(self, news: News, *readers: Callable[[News], None]) -> None:
        """A screen must never break the work it shows."""
        try:
            for read in readers:
                read(news)
            self._asking.refresh()
            self._line.redraw()
        except Exception as error:
            self._bug(error)

    def _on_loop_error(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, Exception):
            self._bug(error)

    def _bug(self, error: Exception) -> None:
        if isinstance(error, OSError) and error.errno == errno.EIO:
            return  # the terminal is gone: nobody to tell, and a signal is on its way
        path = crash.record(error, self._kit.settings.home)
        self._printer.trouble(what_happened(error), where_to_look(path))

    # --- what the person does ------------------------------------------------------------------------------------

    def _submit(self, text: str) -> None:
        if self._asking.open is not None and not is_command(text.strip()):
            self._asking.submit(text)
            return
        text = text.strip() or self._default_answer()
        if not text:
            return
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
        self._printer.show_output = True
        self._start(self._chat.command(command))

    def _default_answer(self) -> str:
        """Enter on an empty line takes the default of an open question."""
        question = self._question()
        return question.default or "" if question is not None else ""

    def _question(self) -> ev.QuestionAsked | None:
        state = self._kit.session.state
        run = state.runs.get(state.focus or "")
        return run.question if run is not None and not self.busy else None

    def _start(self, work: Coroutine[Any, Any, object]) -> None:
        self._turn = asyncio.get_running_loop().create_task(self._guarded(work))

    async def _guarded(self, work: Coroutine[Any, Any, object]) -> None:
        ticking = asyncio.get_running_loop().create_task(self._tick())
        try:
            await work
        except DuckflowError as error:
            self._printer.trouble(*explain(error))
        except Exception as error:
            self._bug(error)
        finally:
            ticking.cancel()
            self._printer.turn_ended()
            self._printer.show_output = False
            self._asking.refresh()
            self._line.redraw()

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
            self._bug(error)
            return
        if isinstance(after, Switch):
            self._switch = after
            self._leave(0)
        elif after == "leave":
            self._leave(130 if self.busy else 0)
        else:
            self._asking.show_again(asked)
            self._line.redraw()

    def _cycle(self) -> None:
        mode = self._kit.session.state.mode
        set_mode(self._kit, MODES[(MODES.index(mode) + 1) % len(MODES)] if mode in MODES else "ask")

    # --- leaving -------------------------------------------------------------------------------------------------

    def _interrupt(self) -> None:
        """Ctrl-C: once clears the line and says how to leave, twice leaves."""
        now = time.monotonic()
        if now - self._interrupted < TWICE_SECONDS:
            self._leave(130 if self.busy else 0)
            return
        self._interrupted = now
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
        await self._line.drained()
        self._line.close(code)

    async def _stop_work(self) -> None:
        """Nothing is left running. A stop lets an effect under way finish; what does not stop is cancelled."""
        if not self.busy or self._turn is None:
            return
        self._chat.stop()
        done, _still = await asyncio.wait([self._turn], timeout=STOP_SECONDS)
        if not done:
            self._turn.cancel()
            await asyncio.wait([self._turn], timeout=STOP_SECONDS)

    # --- around the line -----------------------------------------------------------------------------------------

    def _above(self) -> tuple[str, str]:
        """Style and text between what was printed and the line: at most a few lines."""
        room = self._line.width - 1
        if time.monotonic() - self._interrupted < TWICE_SECONDS:
            told = _("Ctrl-C again leaves; Esc stops the work") if self.busy else _("Ctrl-C again leaves")
            return "above", fit(told, room)
        if asked := self._asking.above():
            return "ask", flowed(asked, room)
        if tail := self._printer.streaming().strip():
            return "above", fit(safe_line(tail.split("\n")[-1]), room)
        if (question := self._question()) is not None:
            return "ask", flowed(free_answer(bool(question.options), question.default), room)
        return "above", ""

    def _below(self) -> str:
        asked = self._asking.open is not None
        return self._status.line(busy=self.busy, asked=asked, waiting=self._asking.waiting, width=self._line.width)


def _warm_up() -> None:
    """What the first answer needs, loaded while the person types."""
    from duckflow.ui import markdown

    markdown.rendered("`x`", width=80, colour=False)
