"""The chat loop: one message, one run, until Duckflow waits for the person again. Errors become endings.

A run that goes into the background is let go: the turn is over, the run is not. Nothing here decides what is done.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from duckflow import events as ev
from duckflow.engine.clarify import ask, called_off, resolved
from duckflow.engine.cycle import work
from duckflow.engine.entering import enter, freeze, hear, pass_on, put_off
from duckflow.engine.escalate import chosen, stuck, take
from duckflow.engine.jobs import Job, Jobs
from duckflow.engine.kit import Ending, Kit, NoWayOn
from duckflow.engine.objectives import conclude, honest_reply
from duckflow.engine.record import record_results
from duckflow.engine.settle import OtherWork, say
from duckflow.i18n import _
from duckflow.prompts.replies import Action, Decision, Question
from duckflow.state.machine import Status, Step, Trigger
from duckflow.state.plan import STOPPED
from duckflow.state.runs import RunState, plan_of, working


class ChatLoop:
    """Talks to one person over one session. `turn` never raises for what a user or a service did."""

    def __init__(self, kit: Kit) -> None:
        self.kit = kit
        self._jobs = Jobs(kit, self._ended_beside)
        self._waiting: list[str] = []  # runs of new work that wait until the background is free
        self._early: list[str] = []  # typed before the message in front had found its run
        kit.restart = self._restart
        kit.stop_background = self.stop_background

    @property
    def busy(self) -> bool:
        return self._jobs.front is not None

    @property
    def run(self) -> str | None:
        """The run of the last or current turn."""
        return self._jobs.last

    async def turn(self, text: str, data: str | None = None) -> Ending:
        """One user message and everything that follows until Duckflow waits again, or works beside the person."""
        return await self._with_late(await self._jobs.foreground(lambda job: self._begin(job, text, data)))

    async def command(self, command: str) -> Ending:
        """A command the person typed: their own approval, through the same dispatcher."""
        return await self._with_late(await self._jobs.foreground(lambda job: self._typed(job, command)))

    async def _with_late(self, ending: Ending) -> Ending:
        """What was typed too late for a turn is the next one."""
        while late := self._late():
            said = "\n\n".join(late)
            ending = await self._jobs.foreground(partial(self._begin, text=said, data=None, kind="moved"))
        return ending

    def _late(self) -> list[str]:
        early, self._early = self._early, []
        ended = self.run is not None and not self._is_beside(self.run)
        return [*(self.kit.steering.pop(self.run, []) if self.run and ended else []), *early]

    def steer(self, text: str) -> None:
        """A message while work runs: it reaches the model before its next Decision."""
        front = self._jobs.front
        if front is not None and front.run:
            pass_on(self.kit, front.run, text)
        else:
            self._early.append(text)

    def stop(self) -> None:
        """Stop what runs. A file effect under way is finished and recorded first; a command is killed."""
        self._jobs.stop_front()

    # --- the background ----------------------------------------------------------------------------------------------

    def pause(self, run: str | None = None) -> bool:
        return self.kit.background.pause(run)

    def go_on(self, run: str | None = None) -> bool:
        freeze(self.kit)
        return self.kit.background.go_on(run)

    def stop_background(self, run: str | None = None) -> bool:
        """Stop background work. A plan is kept where it stopped; `go_on` takes it up again."""
        waiting = [name for name in self._waiting if run in (None, name)]
        for name in waiting:  # nothing begins by itself after a stop
            self._waiting.remove(name)
            self.kit.session.append(ev.RunPaused(paused=True, reason=STOPPED), run=name)
        if run is not None and run not in self._jobs.beside:
            return self.kit.background.stop(run) or bool(waiting)
        stopped = self._jobs.stop_beside(run)
        left = self.kit.background.leave() if run is None and working(self.kit.session.state) else []
        return bool(stopped or left or waiting)

    async def close(self) -> None:
        """The person leaves: nothing goes on by itself, and nothing is lost."""
        self._waiting.clear()
        stopped: list[asyncio.Task[Any]] = [*self._jobs.stop_beside(None)]
        if working(self.kit.session.state):
            stopped += self.kit.background.leave()
        if stopped:
            await asyncio.wait(stopped)

    def _is_beside(self, run: str) -> bool:
        return run in self._jobs.beside

    def _restart(self, run: str) -> None:
        """Begin a background run again; new work that never began waits while other work runs."""
        mine = self.kit.session.run(run)
        if self._is_beside(run) or run in self._waiting:
            return
        if self._jobs.beside and not mine.decisions and not self.kit.background.has_plan(run):
            self._waiting.append(run)
            return
        self._reopen(run)
        self._jobs.begin_beside(run, self._resumed(run))

    def _reopen(self, run: str) -> None:
        """It works again. A card that nobody answered is gone: what it asked for has to be proposed anew."""
        waited = self.kit.session.run(run).step is Step.AWAITING_APPROVAL
        self.kit.session.move(run, Trigger.MESSAGE, Step.PLANNING if waited else None, Status.IN_PROGRESS)

    async def _resumed(self, run: str) -> Ending:
        """Hear what was said meanwhile, ask again what was left open, and go on."""
        hear(self.kit, run)
        asked = self.kit.session.run(run).question
        if asked is not None:
            question = Question(text=asked.text, options=list(asked.options), default=asked.default)
            ending = await ask(self.kit, run, question, by=asked.by)
            if ending is not None:
                return ending
        return await self._work(run)

    def _ended_beside(self, run: str) -> None:
        """Background work has ended: what it was told too late is new work, and what had to wait begins."""
        ended = self.kit.session.run(run).outcome is not None
        late = self.kit.steering.pop(run, []) if ended else []
        if late:
            self._waiting.append(put_off(self.kit, "\n\n".join(late)))
        if self._waiting and not self._jobs.beside:
            self._restart(self._waiting.pop(0))

    # --- a message ---------------------------------------------------------------------------------------------------

    async def _begin(self, job: Job, text: str, data: str | None, kind: str = "message") -> Ending:
        session = self.kit.session
        freeze(self.kit)
        run, before = self._open_run(job, text)
        session.append(ev.Message(role="user", text=text, kind=kind), run=run)
        meant = resolved(before.question, text) if before.question else None
        if before.question and before.question.by == "engine" and meant == _("stop"):
            return called_off(self.kit, run)
        if session.run(run).background:  # it works beside the conversation, also after an answer
            self.kit.released(run)
        if before.escalated:
            ending = await self._chosen(run, text)
            if ending is not None:
                return ending
        await enter(self.kit, run, text if meant is None else f"{text}\n(the answer to your question: {meant})", data)
        try:
            return await self._work(run)
        except OtherWork as other:
            return await self._other(job, run, text, other.decision, before)

    async def _work(self, run: str, decision: Decision | None = None) -> Ending:
        async with self.kit.background.driving(run):
            try:
                ending = await work(self.kit, run, decision)
                while ending.status == "asked" and self.kit.session.run(run).background:  # no message reaches it there
                    asked = await ask(self.kit, run, Question(text=ending.reply.strip() or _("How shall I go on?")))
                    ending = asked or await work(self.kit, run)
                return ending
            except NoWayOn as missing:
                return stuck(self.kit, run, str(missing))

    def _open_run(self, job: Job, text: str) -> tuple[str, RunState]:
        """The run that waits for this message, or a new one; and how it stood before."""
        session = self.kit.session
        waits = self._waiting_run(text)
        if waits is not None:
            job.run = waits.id
            if waits.objective and not waits.escalated:
                self.kit.entered[waits.id] = "open"
            if waits.paused:
                self.kit.background.unhold(waits)
            hear(self.kit, waits.id)
            self._reopen(waits.id)
        else:
            job.run = session.start_run()
            if any(self._owns(run) for run in working(session.state)):
                self.kit.entered[job.run] = "beside"
            session.move(job.run, Trigger.MESSAGE, Step.PLANNING, Status.IN_PROGRESS)
        self._pass_early(job.run)
        return job.run, waits or session.run(job.run)

    def _pass_early(self, run: str) -> None:
        early, self._early = self._early, []
        for text in early:
            pass_on(self.kit, run, text)

    def _waiting_run(self, text: str) -> RunState | None:
        """Open work in focus; or background work that offered its ways on, when the message chooses one."""
        state = self.kit.session.state
        last = state.runs.get(state.focus or "")
        if last is not None and last.outcome is None and not last.background and plan_of(state, last) is None:
            return last
        offered = [run for run in working(state) if run.escalated and not self.kit.background.is_driven(run.id)]
        return offered[-1] if offered and chosen(text) is not None else None

    async def _chosen(self, run: str, text: str) -> Ending | None:
        """One of the five ways on, or words of the person's own."""
        try:
            return await take(self.kit, run, chosen(text), text)
        except NoWayOn as missing:
            return stuck(self.kit, run, str(missing))

    # --- a message that belongs elsewhere ----------------------------------------------------------------------------

    async def _other(self, job: Job, run: str, text: str, decision: Decision, before: RunState) -> Ending:
        """New work, a question beside open work, or a word to the work that runs in the background."""
        beside = [r for r in working(self.kit.session.state) if self._owns(r)]
        driven = [r for r in beside if self._is_beside(r.id)]
        meant = driven or (beside if "objective" in decision.model_fields_set else [])
        if meant and decision.objective == "same":
            return self._steered(run, text, decision, meant)
        if driven and decision.objective == "new":
            return self._queued(run, text, decision)
        if not before.request:  # a run of its own: what it was meant for is over, or rests
            return await self._work(run, decision)
        return await self._moved(job, run, text, decision, before.question)

    def _owns(self, run: RunState) -> bool:
        """Background work that a message may be meant for: under way, or resting where it was left."""
        return self._is_beside(run.id) or (run.kind not in ("step", "tasks") and run.paused)

    def _steered(self, run: str, text: str, decision: Decision, owners: list[RunState]) -> Ending:
        """Passed on, word by word, to the work it concerns and to everything that works for it."""
        for owner in owners:
            pass_on(self.kit, owner.id, text)
        told = _("passed on to the running work") if self._is_beside(owners[0].id) else _("kept for the paused work")
        say(self.kit, run, (honest := honest_reply(self.kit, run, decision)) or told)
        self.kit.session.move(run, Trigger.DECISION, status=Status.SUCCESS)
        return Ending("answered", honest)

    def _queued(self, run: str, text: str, decision: Decision) -> Ending:
        """New work waits while work runs; then it begins by itself, beside the conversation."""
        session = self.kit.session
        text_of_wait = _("This waits until the running work is done, then it begins by itself.")
        honest = honest_reply(self.kit, run, decision)
        say(self.kit, run, "\n\n".join(filter(None, (honest, text_of_wait))))
        if session.objective(run) is not None:  # it was put into open work, which is not answered by this
            conclude(self.kit, run, "deferred")
            session.end_run(run, "deferred")
        else:
            session.move(run, Trigger.DECISION, status=Status.SUCCESS)
        self._waiting.append(put_off(self.kit, text))
        return Ending("answered", honest)

    async def _moved(
        self, job: Job, run: str, text: str, decision: Decision, question: ev.QuestionAsked | None
    ) -> Ending:
        """New work (the open one is put off), or a question beside it."""
        session = self.kit.session
        side = decision.objective == "side"
        if not side:
            conclude(self.kit, run, "deferred")
            session.end_run(run, "deferred")
        else:
            session.move(run, Trigger.DECISION, status=Status.REQUIRES_USER_INPUT)
        job.run = session.start_run("side" if side else "turn", parent=run if side else None)
        session.move(job.run, Trigger.MESSAGE, Step.PLANNING, Status.IN_PROGRESS)
        session.append(ev.Message(role="user", text=text, kind="moved"), run=job.run)
        self.kit.steering[job.run] = self.kit.steering.pop(run, [])  # typed since: it belongs to this message
        ending = await self._work(job.run, decision)
        if side and question is not None:  # it is still open
            session.append(question, run=run)
        return ending

    async def _typed(self, job: Job, command: str) -> Ending:
        session = self.kit.session
        run = job.run = session.start_run("command")
        session.append(ev.Message(role="user", text=f"!{command}"), run=run)
        self._pass_early(run)
        session.move(run, Trigger.MESSAGE, Step.PLANNING, Status.IN_PROGRESS)
        action = Action(operation="shell.run", args={"command": command}, reasoning="typed by the person")
        outcomes = await self.kit.dispatcher.batch(run, [action], "user")
        record_results(self.kit, run, outcomes, ["the person ran this themselves"])
        ok = outcomes[0].state == "ok"
        session.move(run, Trigger.BATCH_FINISHED, status=Status.SUCCESS if ok else Status.ERROR)
        return Ending("answered" if ok else "refused", outcomes[0].result.text)
