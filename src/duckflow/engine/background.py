"""Work beside the conversation: plan steps and loose task lists, each a run of its own through the one dispatcher.

Independent steps overlap in the time models take; effects take the one workspace lock of the dispatcher.
Pausing, stopping and going on again are in pausing.py.
"""

from __future__ import annotations

import asyncio
from typing import Any

from duckflow import events as ev
from duckflow.engine.entering import passed_on, said_so_far
from duckflow.engine.kit import Ending
from duckflow.engine.pausing import Job, Pausing
from duckflow.engine.planning import earlier_results, mark, put
from duckflow.engine.reporting import report
from duckflow.engine.settle import Judge
from duckflow.engine.steps import Assignment, carry_out
from duckflow.errors import DuckflowError
from duckflow.i18n import explain
from duckflow.record import replace
from duckflow.state.machine import Status, Trigger
from duckflow.state.plan import ENDED, STOPPED, Plan, PlanStep, begun, disjoint, is_over, progress, put_down, ready
from duckflow.state.runs import RunState, ended_plan, plan_of

AT_ONCE = 3
"""Steps whose model calls may overlap."""


class Background(Pausing):
    """Starts and drives background runs. Everything it knows lasts in the session."""

    # --- what a run leaves to the background -------------------------------------------------------------------------

    def is_waited_for(self, run: str) -> bool:
        """Does this run have a plan to carry out or to be judged, or task lists that are not through?"""
        mine = self._kit.session.run(run)
        if mine.kind in ("step", "tasks"):
            return False
        return self.has_plan(run) or bool(self._open_lists(run))

    def has_plan(self, run: str) -> bool:
        """Has it a plan that goes on, or one that has ended and that nobody has judged?"""
        state = self._kit.session.state
        return self._plan(state.runs[run]) is not None or ended_plan(state, run) is not None

    async def finish(self, run: str) -> Judge | Ending:
        """Carry out what the run left to the background; then there is something to judge, unless it was stopped."""
        self._release(run)
        plan = self._plan(self._kit.session.run(run))
        if plan is not None:
            await self._drive(run, plan.id)
        for left in self._open_lists(run):
            self.take_up_list(left.id)
        await self.join_lists(run)
        await self._until_let_go(run)
        if self._plan(self._kit.session.run(run)) is None:
            return Judge("", Trigger.BATCH_FINISHED)
        self._kit.session.append(ev.RunPaused(paused=True, reason=STOPPED), run=run)  # a step of it was stopped
        self._kit.session.move(run, Trigger.CANCEL, status=Status.REQUIRES_USER_INPUT, reason=STOPPED)
        return Ending("deferred")

    async def join_lists(self, run: str) -> None:
        """Until the lists of this run are through; the conversation is free meanwhile."""
        self._release(run)
        while lists := self._lists(run):
            await asyncio.wait([job.task for job in lists])

    def _plan(self, run: RunState) -> Plan | None:
        """The approved plan it carries out, or could."""
        plan = plan_of(self._kit.session.state, run) if run.plan_step is None else None
        return plan if plan is not None and plan.is_approved else None

    def _open_lists(self, run: str) -> list[RunState]:
        runs = self._kit.session.state.runs.values()
        return [r for r in runs if r.kind == "tasks" and r.parent == run and r.outcome is None]

    def _release(self, run: str) -> None:
        """In a conversation the run goes on beside it, with a history of its own."""
        kit, mine = self._kit, self._kit.session.run(run)
        if not kit.attended or mine.background:
            return
        objective = kit.session.objective(run)
        text = kit.prompts.library.render(
            "resumed",
            request=mine.request,
            requirements=[f"{r.id} {r.text}" for r in objective.requirements] if objective else [],
            constraints=list(mine.agent.constraints),
        )
        kit.steering.pop(run, None)  # it stands in the new history with everything else the person said
        kit.session.append(
            ev.RunDetached(thread=run),
            *(
                ev.HistoryAdded(thread=run, role="user", kind="message", text=said)
                for said in (text, *map(passed_on, said_so_far(mine)))
            ),
            run=run,
        )
        kit.released(run)

    # --- a plan ------------------------------------------------------------------------------------------------------

    async def _drive(self, run: str, plan_id: str) -> None:
        """Start what is ready, wait, mark, until nothing can begin any more. A plan that is put down is reported."""
        session = self._kit.session
        put(self._kit, run, begun(session.state.plans[plan_id]))
        trouble: DuckflowError | None = None
        try:
            while trouble is None:
                if not self._is_held(run):
                    self._start_ready(run, plan_id)
                    if not self._steps_of(run):
                        break
                await self._something(run)
                trouble = self._collect(run, plan_id)
        finally:
            await self._cancel(self._steps_of(run))
            trouble = self._collect(run, plan_id) or trouble
            self._settle_plan(run, plan_id, trouble)
            if session.state.plans[plan_id].status == "paused":
                await report(self._kit, run, session.state.plans[plan_id])
        if session.state.plans[plan_id].status == "failed":
            await report(self._kit, run, session.state.plans[plan_id])
        if trouble is not None:
            raise trouble

    def _start_ready(self, run: str, plan_id: str) -> None:
        plan = self._kit.session.state.plans[plan_id]
        for step in ready(plan):
            busy = [s for job in self._steps_of(run) if (s := plan.step(self._step_id(job)))]
            if step.reason == STOPPED or len(busy) >= AT_ONCE or not all(disjoint(step, other) for other in busy):
                continue
            mark(self._kit, run, plan_id, step.id, "in_progress")
            self._start(self._step_run(run, step), Assignment(plan.goal, plan, step))

    def _step_run(self, run: str, step: PlanStep) -> str:
        """The run of this step: a new one, or the one that was interrupted."""
        session = self._kit.session
        runs = session.state.runs.values()
        left = [r.id for r in runs if r.plan_step == step.id and r.parent == run and r.outcome is None]
        return left[-1] if left else session.start_run("step", "", run, step.id)

    async def _something(self, run: str) -> None:
        """Until a step has ended; or, while everything is held, until it may go on."""
        going_on = asyncio.ensure_future(self._until_let_go(run)) if self._is_held(run) else None
        ways: list[asyncio.Future[Any]] = [job.task for job in self._steps_of(run)]
        ways += [going_on] if going_on else []
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if going_on is not None:
                going_on.cancel()

    def _collect(self, run: str, plan_id: str) -> DuckflowError | None:
        """What became of steps that have ended. A service that fails stops the plan; a step that fails does not."""
        trouble: DuckflowError | None = None
        for job in [job for job in self._steps_of(run) if job.task.done()]:
            self._jobs.pop(job.run, None)
            status, why = "pending", STOPPED
            error = None if job.task.cancelled() else job.task.exception()
            if isinstance(error, DuckflowError):
                trouble, why = trouble or error, explain(error)[0]
            elif error is not None:
                raise error
            elif not job.task.cancelled():
                why = job.task.result()
                status = "failed" if why else "completed"
            mark(self._kit, run, plan_id, self._step_id(job), status, why)
        return trouble

    def _settle_plan(self, run: str, plan_id: str, trouble: DuckflowError | None) -> None:
        plan = self._kit.session.state.plans[plan_id]
        if plan.status not in ("in_progress", "paused"):
            return
        if all(step.status == "completed" for step in plan.steps):
            plan = replace(plan, status="completed", reason="")
        elif is_over(plan) and trouble is None:
            plan = replace(plan, status="failed", reason="")
        else:
            plan = replace(put_down(plan), reason=explain(trouble)[0] if trouble else "")
        put(self._kit, run, plan)
        if plan.status in ENDED:  # whoever decides what follows must know
            text = "\n".join((progress(plan), *earlier_results(self._kit, plan)))
            thread = self._kit.session.run(run).thread
            self._kit.session.append(ev.HistoryAdded(thread=thread, role="user", kind="note", text=text), run=run)

    # --- runs --------------------------------------------------------------------------------------------------------

    def _start(self, run: str, work: Assignment) -> None:
        self._jobs[run] = Job(run, asyncio.get_running_loop().create_task(self._alone(run, work)))

    async def _alone(self, run: str, work: Assignment) -> str:
        """One background run to its end. What goes wrong is recorded with it; only the engine's own errors go on."""
        session = self._kit.session
        try:
            missing = await carry_out(self._kit, run, work)
        except asyncio.CancelledError:
            session.move(run, Trigger.CANCEL, status=Status.REQUIRES_USER_INPUT, reason=STOPPED)
            raise
        except DuckflowError as error:
            session.move(run, Trigger.ERROR, status=Status.REQUIRES_USER_INPUT, reason=error.code)
            raise
        except Exception as error:
            missing = f"{type(error).__name__}: {error}"
        if missing:
            session.move(run, Trigger.ERROR, status=Status.ERROR, reason=missing[:200])
        session.end_run(run, "failed" if missing else "satisfied", 3 if missing else 0, missing[:200])
        self._kit.steering.pop(run, None)  # the work it was a part of has heard it, too
        return missing

    def start_list(self, parent: str, work: Assignment) -> str:
        """A loose list of tasks as a run of its own; its report comes when it is through."""
        run = self._kit.session.start_run("tasks", "", parent)
        self._begin_list(run, work)
        return run

    def take_up_list(self, run: str) -> None:
        """A list that was left goes on with the tasks that are not done."""
        mine = self._kit.session.run(run)
        if not self.is_driven(run):
            self._begin_list(run, Assignment(mine.agent.goal or self._kit.session.run(mine.parent or run).request))

    def _begin_list(self, run: str, work: Assignment) -> None:
        job = Job(run, asyncio.get_running_loop().create_task(self._listed(run, work)))
        self._jobs[run] = job
        job.task.add_done_callback(lambda _task: self._list_ended(job))

    def _list_ended(self, job: Job) -> None:
        if self._jobs.get(job.run) is job:
            del self._jobs[job.run]

    async def _listed(self, run: str, work: Assignment) -> str:
        session = self._kit.session
        try:
            missing = await self._alone(run, work)
        except DuckflowError as error:
            missing = explain(error)[0]
            session.end_run(run, "failed", error.exit_code, missing)
        except asyncio.CancelledError:
            if run in self._called_off:  # by the person: it is over; otherwise it waits to be taken up again
                session.end_run(run, "cancelled", 3, STOPPED)
                await report(self._kit, run, None, STOPPED)
            raise
        await report(self._kit, run, None, missing)
        return missing
