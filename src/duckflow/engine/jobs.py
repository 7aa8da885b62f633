"""Runs as tasks: one in front of the person, any number beside. What goes wrong in one becomes its ending."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from duckflow import events as ev
from duckflow.engine.kit import Ending, Kit
from duckflow.engine.objectives import conclude
from duckflow.errors import (
    BudgetSpent,
    CredentialsError,
    DuckflowError,
    ReplyUnreadable,
    ServiceUnavailable,
    StoreError,
)
from duckflow.i18n import _, explain
from duckflow.state.machine import Status, Trigger
from duckflow.state.plan import STOPPED

Work = Coroutine[Any, Any, Ending]


class Job:
    """One run as a task. `run` is known once the message has found its run; `released` when it goes on beside."""

    def __init__(self) -> None:
        self.run: str | None = None
        self.task: asyncio.Task[Ending] | None = None
        self.released: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class Jobs:
    def __init__(self, kit: Kit, freed: Callable[[str], None]) -> None:
        self._kit = kit
        self._freed = freed
        self.front: Job | None = None
        self.last: str | None = None  # the run of the last or current turn
        self.beside: dict[str, Job] = {}
        kit.released = self._release

    async def foreground(self, begin: Callable[[Job], Work]) -> Ending:
        """Work until it ends, or goes on in the background."""
        job = Job()
        self.front = job
        job.task = asyncio.ensure_future(self._guarded(job, begin(job)))
        try:
            ways: list[asyncio.Future[Any]] = [job.task, job.released]
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            if job.released.done() and not job.task.done():
                return Ending("background")
            return await job.task
        except asyncio.CancelledError:
            job.task.cancel()
            await asyncio.wait({job.task})
            raise
        finally:
            self.last = job.run
            if self.front is job:
                self.front = None

    def begin_beside(self, run: str, work: Work) -> None:
        job = Job()
        job.run = run
        job.released.set_result(None)
        self.beside[run] = job
        job.task = asyncio.ensure_future(self._guarded(job, work))

    def _release(self, run: str) -> None:
        job = self.front
        if job is not None and job.run == run and not job.released.done():
            self.beside[run] = job
            job.released.set_result(None)

    def stop_front(self) -> None:
        job = self.front
        if job is not None and job.task is not None and not job.task.done():
            self._tell_to_stop(job)

    def stop_beside(self, run: str | None) -> list[asyncio.Task[Ending]]:
        """The tasks that are told to stop."""
        jobs = [job for name, job in self.beside.items() if run in (None, name)]
        for job in jobs:
            self._tell_to_stop(job)
        return [job.task for job in jobs if job.task is not None]

    def _tell_to_stop(self, job: Job) -> None:
        """In a moment: one that has only just been started begins first, so that its end is recorded."""
        if job.task is not None:
            asyncio.get_running_loop().call_soon(job.task.cancel)
        if job.run:
            self._kit.door.withdraw(job.run)

    # --- how a run ends ----------------------------------------------------------------------------------------------

    async def _guarded(self, job: Job, work: Work) -> Ending:
        """Whatever happens becomes an ending, and the run is closed with it."""
        try:
            ending = await work
        except asyncio.CancelledError:
            ending = self._cancelled(job)
        except StoreError as error:
            return Ending("failed", "", error)  # nothing more can be recorded
        except DuckflowError as error:
            ending = self._failed(job, error)
        except Exception as error:
            if not job.released.done():
                raise  # whoever waits for the turn is told
            ending = self._broken(job, error)
        finally:
            if job.run and self.beside.get(job.run) is job:
                del self.beside[job.run]
        self._close(job, ending)
        if job.released.done() and job.run:
            self._freed(job.run)
        return ending

    def _cancelled(self, job: Job) -> Ending:
        run, session = job.run, self._kit.session
        if run is None:
            return Ending("cancelled")
        if session.run(run).background:  # stopped, not given up
            return self._put_off(run, Trigger.CANCEL, STOPPED)
        conclude(self._kit, run, "cancelled")
        session.move(run, Trigger.CANCEL, status=Status.ERROR, reason="cancelled")
        return Ending("cancelled")

    def _failed(self, job: Job, error: DuckflowError) -> Ending:
        message, hint = explain(error)
        session, run = self._kit.session, job.run
        session.append(ev.Failed(code=error.code, message=message, hint=hint), run=run)
        later = isinstance(error, ServiceUnavailable | BudgetSpent | CredentialsError)
        if run and session.run(run).background and (later or self._kit.background.has_plan(run)):
            return self._put_off(run, Trigger.ERROR, error.code, error)
        if run:
            conclude(self._kit, run, "failed")
            session.move(run, Trigger.ERROR, status=Status.ERROR, reason=error.code)
        rescued = error.rescued if isinstance(error, ReplyUnreadable) else ""
        if rescued:  # a text without any action may be read, broken as its form was
            session.append(ev.Message(role="assistant", text=rescued, kind="reply"), run=run)
        return Ending("failed", rescued, error)

    def _broken(self, job: Job, error: Exception) -> Ending:
        """A bug beside the conversation: nobody waits for it, so it is told, and the work can be taken up again."""
        what = f"{type(error).__name__}: {error}"
        message = _("Background work stopped because of an internal error: {error}", error=what)
        self._kit.session.append(ev.Failed(code="internal", message=message), run=job.run)
        return self._put_off(job.run, Trigger.ERROR, "internal") if job.run else Ending("failed")

    def _put_off(self, run: str, trigger: Trigger, why: str, error: DuckflowError | None = None) -> Ending:
        """It can be taken up again."""
        self._kit.session.append(ev.RunPaused(paused=True, reason=why), run=run)
        self._kit.session.move(run, trigger, status=Status.REQUIRES_USER_INPUT, reason=why)
        return Ending("deferred", "", error)

    def _close(self, job: Job, ending: Ending) -> None:
        """A run that only waits for an answer stays open; every other one ends."""
        session, run = self._kit.session, job.run
        if run is None or session.run(run).outcome is not None:
            return
        waits = ending.status in ("asked", "deferred") or (ending.status == "escalated" and self._kit.attended)
        if not waits:
            session.end_run(run, ending.status, ending.exit_code)
            for left in [r.id for r in session.state.runs.values() if r.kind == "tasks" and r.parent == run]:
                if session.run(left).outcome is None:
                    session.end_run(left, "cancelled", 3, STOPPED)
        elif ending.status == "deferred" and session.run(run).background and not session.run(run).paused:
            session.append(ev.RunPaused(paused=True, reason="deferred"), run=run)
