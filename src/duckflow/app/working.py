"""The commands that talk to a model: chat, resume, run, demo. Holds the only `asyncio.run`."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Coroutine
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from duckflow import config, i18n
from duckflow.app.opening import Opened, Options, build_kit, build_models, open_session, open_workspace, warnings
from duckflow.errors import DuckflowError
from duckflow.events import ModeChanged, QuestionAsked, VerdictGiven, Warned
from duckflow.state.journal import SessionRow
from duckflow.state.session import Session

if TYPE_CHECKING:
    from duckflow.engine.chat import ChatLoop
    from duckflow.engine.kit import Ending, Kit
    from duckflow.events import Event
    from duckflow.ui.headless import Headless
    from duckflow.ui.terminal import Switch

T = TypeVar("T")

UNFINISHED = ("IN_PROGRESS", "REQUIRES_USER_INPUT", "deferred", "cancelled")
"""How a session looks that was left in the middle of something."""


class Last:
    """The newest verdict and question, for the result."""

    def __init__(self, session: Session) -> None:
        self.values: dict[str, Any] = {}
        session.subscribe(self._see)

    def _see(self, event: Event) -> None:
        if isinstance(event.body, VerdictGiven):
            self.values["verdict"] = event.body
        elif isinstance(event.body, QuestionAsked):
            self.values["question"] = event.body


def running(main: Coroutine[Any, Any, T]) -> T | int:
    """The only event loop. SIGTERM ends it like a cancellation, with its own exit code."""

    async def guarded() -> T | int:
        task = asyncio.ensure_future(main)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        try:
            return await task
        except asyncio.CancelledError:
            return 143

    gc.freeze()  # what was loaded stays loaded: it is not looked through again
    gc.enable()
    return asyncio.run(guarded())


def chat(options: Options) -> int:
    """A new conversation; the last one is offered when it was left unfinished."""
    opened = open_workspace(options)
    rows = opened.store.sessions()[:1]
    offer = rows[0] if rows and rows[0].status in UNFINISHED else None
    return _converse(options, opened, open_session(opened), offer=offer)


def resume(options: Options, session: str | None, fork: bool) -> int:
    opened = open_workspace(options)
    return _converse(options, opened, open_session(opened, session, resume=True, fork=fork), resumed=True)


def _converse(
    options: Options, opened: Opened, session: Session, offer: SessionRow | None = None, resumed: bool = False
) -> int:
    from duckflow.ui.terminal import Switch

    while True:
        ended: int | Switch = running(_chat(opened, session, offer, resumed, options.overrides.mode))
        if not isinstance(ended, Switch):
            return ended
        session, offer, resumed = open_session(opened, ended.session, resume=True), None, True


async def _chat(
    opened: Opened, session: Session, offer: SessionRow | None, resumed: bool, mode: str | None
) -> int | Switch:
    from duckflow.engine.recover import settle_interrupted
    from duckflow.ui.terminal import run_chat

    models = build_models(opened.settings, session)
    kit = build_kit(opened, session, models, attended=True)
    if resumed:
        told = settle_interrupted(session, kit.workspace)
        found = [
            Warned(code="interrupted", message=i18n._("Interrupted last time: {what}", what=line)) for line in told
        ]
        if mode is not None and mode != session.state.mode:
            session.append(ModeChanged(mode=mode))
    else:
        found = []
    if found := [*found, *warnings(opened)]:
        session.append(*found)
    try:
        return await run_chat(kit, LateLoop(kit), resumed=resumed, offer=offer)
    finally:
        await models.close()


class LateLoop:
    """The chat loop, loaded with the first message: the prompt must not wait for what nobody asked for yet."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit

    @cached_property
    def _loop(self) -> ChatLoop:
        from duckflow.engine.chat import ChatLoop

        return ChatLoop(self._kit)

    async def turn(self, text: str) -> Ending:
        return await self._loop.turn(text)

    async def command(self, command: str) -> Ending:
        return await self._loop.command(command)

    def steer(self, text: str) -> None:
        self._loop.steer(text)

    def stop(self) -> None:
        self._loop.stop()

    def pause(self, run: str | None = None) -> bool:
        return self._loop.pause(run)

    def go_on(self, run: str | None = None) -> bool:
        return self._loop.go_on(run)

    def stop_background(self, run: str | None = None) -> bool:
        return self._loop.stop_background(run)

    async def close(self) -> None:
        if "_loop" in self.__dict__:  # nothing was begun: nothing is to be ended
            await self._loop.close()


def run(options: Options, request: str, data: str | None) -> int:
    """One request without a person, until it is satisfied, refused or out of budget."""
    from duckflow.ui.headless import Headless, print_failure

    try:
        opened = open_workspace(options, request)
        session = open_session(opened)
        screen = Headless(options.output_format, sys.stdout, sys.stderr, session, options.verbose)
        return running(_work(opened, session, screen, request, data))
    except DuckflowError as error:
        print_failure(error, sys.stdout) if options.output_format != "text" else None
        raise


async def _work(opened: Opened, session: Session, screen: Headless, request: str, data: str | None) -> int:
    from duckflow.engine.chat import ChatLoop
    from duckflow.engine.kit import Ending
    from duckflow.engine.result import result
    from duckflow.events import SessionEnded

    models = build_models(opened.settings, session)
    kit = build_kit(opened, session, models, attended=False)
    last, loop, caught = Last(session), ChatLoop(kit), Signals()
    screen.attach()
    if found := warnings(opened):
        session.append(*found)
    try:
        ending = await loop.turn(request, data)
    except asyncio.CancelledError:
        ending = Ending("cancelled")
    finally:
        await models.close()
    final = result(kit, loop.run, ending, last.values)
    if caught.code is not None:
        final["exit_code"] = caught.code
    session.append(SessionEnded(result=final))
    screen.finish(final)
    return int(final["exit_code"])


class Signals:
    """SIGINT and SIGTERM stop the work of this task; which one it was becomes the exit code."""

    def __init__(self) -> None:
        self.code: int | None = None
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            loop.add_signal_handler(number, self._caught, code, task)

    def _caught(self, code: int, task: asyncio.Task[Any] | None) -> None:
        self.code = self.code or code
        if task is not None:
            task.cancel()


def demo(options: Options) -> int:
    """The whole flow on a small project in a temporary directory, with a scripted model."""
    import tempfile

    from duckflow.ui.demo import lay_out

    i18n.set_language(i18n.detect(options.overrides.lang or "auto", os.environ))
    with tempfile.TemporaryDirectory(prefix="duckflow-demo-") as folder:
        project, settings, message = lay_out(Path(folder), i18n.language())
        os.environ.update(DUCKFLOW_HOME=str(Path(folder) / "data"))
        given = config.Overrides(config_file=settings, lang=i18n.language())
        return running(_demo(open_workspace(Options(project, given)), message))


async def _demo(opened: Opened, message: str) -> int:
    from duckflow.engine.chat import ChatLoop
    from duckflow.ui.demo import DemoPerson, begin, end
    from duckflow.ui.out import stdout

    session = open_session(opened)
    models = build_models(opened.settings, session)
    kit = build_kit(opened, session, models, attended=True)
    out = stdout()
    kit.door.listener = DemoPerson(kit.door, out)
    printer = begin(session, out, opened.root)
    ending = await ChatLoop(kit).turn(message)
    end(printer, ending.status == "satisfied")
    return ending.exit_code
