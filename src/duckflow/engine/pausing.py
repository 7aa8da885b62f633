"""Pausing, stopping and going on with background work. Starts nothing of its own: background.py does."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from duckflow import events as ev
from duckflow.engine.kit import Kit
from duckflow.engine.objectives import put as put_objective
from duckflow.engine.planning import put, take_up
from duckflow.record import Record, replace
from duckflow.state.machine import Status, Step, Trigger
from duckflow.state.plan import Plan
from duckflow.state.runs import RunState, plan_of, working


class Job(Record):
    """A running step or task list."""

    run: str
    task: asyncio.Task[str]


class Pausing:
    """Which background runs work, which are held, and how they are told apart."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._jobs: dict[str, Job] = {}
        self._driven: set[str] = set()
        self._may_go: dict[str, asyncio.Event] = {}
        self._called_off: set[str] = set()  # lists the person stopped

    @abstractmethod
    def take_up_list(self, run: str) -> None: ...

    @abstractmethod
    async def join_lists(self, run: str) -> None: ...

    # --- who works ---------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def driving(self, run: str) -> AsyncIterator[None]:
        """Somebody works on this run: nobody else begins it again, and its lists do not outlive that."""
        self._driven.add(run)
        try:
            yield
        finally:
            await self._cancel(self._lists(run))
            self._driven.discard(run)

    def is_driven(self, run: str | None) -> bool:
        job = self._jobs.get(run or "")
        return run in self._driven or (job is not None and not job.task.done())

    def _lists(self, run: str) -> list[Job]:
        return [job for job in self._working_for(run, "tasks") if not job.task.done()]

    def _steps_of(self, run: str) -> list[Job]:
        return self._working_for(run, "step")

    def _working_for(self, run: str, kind: str) -> list[Job]:
        runs = self._kit.session.state.runs
        return [job for job in self._jobs.values() if runs[job.run].kind == kind and runs[job.run].parent == run]

    def _step_id(self, job: Job) -> str:
        return self._kit.session.run(job.run).plan_step or ""

    # --- pausing -----------------------------------------------------------------------------------------------------

    async def unless_paused(self, run: str) -> None:
        """A safe point: wait here while this run, or the one it works for, is paused, and until its lists are through.

        What a list came to has to be known before anything more is decided, let alone judged.
        """
        await self._until_let_go(run)
        if self._lists(run):
            await self.join_lists(run)
            await self._until_let_go(run)

    async def _until_let_go(self, run: str) -> None:
        while held := next((name for name in self._line(run) if name in self._may_go), None):
            await self._may_go[held].wait()

    def _is_held(self, run: str) -> bool:
        return any(name in self._may_go for name in self._line(run))

    def _line(self, run: str) -> list[str]:
        """The run and what it works for."""
        mine = self._kit.session.run(run)
        whole = mine.parent if mine.kind in ("step", "tasks") else None
        return [run, *(self._line(whole) if whole else [])]

    def pause(self, run: str | None = None, reason: str = "") -> bool:
        found = [r for r in self._named(run) if not r.paused]
        for mine in found:
            self._may_go.setdefault(mine.id, asyncio.Event())
            self._kit.session.append(ev.RunPaused(paused=True, reason=reason), run=mine.id)
            self._tell_plan(mine, "in_progress", "paused")
        return bool(found)

    def go_on(self, run: str | None = None) -> bool:
        """Let paused runs go on. One that nobody drives any more (the program was left) is begun again."""
        named = [r for r in self._named(run, held=True) if run is not None or not r.escalated]
        found = [r for r in named if r.paused or not self.is_driven(r.id)]
        for mine in found:
            self._let_go(mine)
        left = self._left_plans() if run is None else []
        for plan in left:
            self._adopt(plan)
        return bool(found or left)

    def _let_go(self, run: RunState) -> None:
        """It is no longer held; if nobody works on it, it begins again: a part of other work together with that."""
        self.unhold(run)
        whole = self._kit.session.state.runs.get(run.parent or "") if run.kind in ("step", "tasks") else None
        if whole is not None and whole.outcome is None and whole.background:
            run = whole
        if self.is_driven(run.id) or run.kind == "step":
            return
        if run.kind == "tasks":
            self.take_up_list(run.id)
            return
        if run is whole and run.paused:
            self.unhold(run)
        self._kit.restart(run.id)

    def unhold(self, run: RunState) -> None:
        """Nothing holds it any more; who works on it goes on."""
        self._kit.session.append(ev.RunPaused(paused=False), run=run.id)
        gate = self._may_go.pop(run.id, None)
        if gate is not None:
            gate.set()
        self._tell_plan(run, "paused", "in_progress")

    def _tell_plan(self, run: RunState, old: str, new: str) -> None:
        """A plan that is driven says itself whether it is held."""
        plan = plan_of(self._kit.session.state, run) if run.plan_step is None else None
        if plan is not None and plan.status == old and self.is_driven(run.id):
            put(self._kit, run.id, replace(plan, status=new))

    def _named(self, run: str | None, held: bool = False) -> list[RunState]:
        """The background runs that are meant: a name, or all that stand for themselves (`held`: and paused steps)."""
        state = self._kit.session.state
        owners = {p.run for p in state.plans.values() if p.is_approved}
        waiting = (r for r in state.runs.values() if r.id in owners and r.outcome is None)
        alive = list(dict.fromkeys(r.id for r in (*working(state), *waiting)))
        runs = [state.runs[name] for name in alive]
        if run is None:
            return [r for r in runs if r.kind != "step" or (held and r.paused)]
        return [r for r in runs if run in (r.id, r.plan_step)]

    # --- plans nobody carries out ------------------------------------------------------------------------------------

    def _left_plans(self) -> list[Plan]:
        """Approved plans that are not done, and whose run is over: it failed, or was stopped without a person."""
        state = self._kit.session.state
        runs = state.runs
        return [p for p in state.plans.values() if p.is_approved and (o := runs.get(p.run or "")) and o.outcome]

    def _adopt(self, plan: Plan) -> None:
        """A new run carries it on."""
        kit, session = self._kit, self._kit.session
        objective = session.state.objectives.get(plan.objective or "")
        request = objective.request if objective else plan.goal
        run = session.start_run("turn", "")
        session.append(
            ev.RunDetached(thread=run),
            ev.Message(role="user", text=request, kind="moved"),
            ev.HistoryAdded(thread=run, role="user", kind="message", text=request),
            run=run,
        )
        session.move(run, Trigger.MESSAGE, Step.PLANNING, Status.IN_PROGRESS)
        if objective is not None:
            put_objective(kit, run, replace(objective, status="open"))
        take_up(kit, run, plan.id)
        kit.restart(run)

    # --- stopping ----------------------------------------------------------------------------------------------------

    def stop(self, run: str) -> bool:
        """Stop a loose task list, or one step. What it did stays."""
        jobs = [job for job in self._jobs.values() if run in (job.run, self._step_id(job))]
        self._called_off |= {job.run for job in jobs}
        self._tell_to_stop(jobs)
        return bool(jobs)

    def leave(self) -> list[asyncio.Task[str]]:
        """Stop lists that nobody waits for; they can be taken up again. The tasks that are told to stop."""
        runs = self._kit.session.state.runs
        jobs = [job for job in self._jobs.values() if runs[job.run].parent not in self._driven]
        self._tell_to_stop(jobs)
        return [job.task for job in jobs]

    def _tell_to_stop(self, jobs: list[Job]) -> None:
        """In a moment: one that has only just been started begins first, so that its end is recorded."""
        for job in jobs:
            asyncio.get_running_loop().call_soon(job.task.cancel)
            self._kit.door.withdraw(job.run)

    async def _cancel(self, jobs: list[Job]) -> None:
        """Stop them and wait until they are through with what cannot be split, however often somebody says stop."""
        self._tell_to_stop(jobs)
        while still := [job.task for job in jobs if not job.task.done()]:
            with suppress(asyncio.CancelledError):
                await asyncio.wait(still)
