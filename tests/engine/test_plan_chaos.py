"""Models that say anything and persons who do anything, at random: no effect without a yes, no step without proof."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from duckflow.engine.recover import settle_interrupted
from duckflow.human import Answer, Request
from duckflow.llm.base import ModelRequest
from duckflow.llm.scripted import Reply
from duckflow.state.runs import RunState, working
from tests.engine.plans import check_state, plan, tasks, write
from tests.engine.workbench import Bench, act, all_evidence, decision, verdict

PATHS = ("a.py", "b.py", "src/c.py", "notes.md")
COMMANDS = ("true", "false", "test -f a.py", "echo x >> log")
SETTINGS = "[limits]\nmax_turns = 12\n[objective]\nmax_attempts = 2\n"
SEEDS = range(12)


class Dice:
    """Everything random comes from one seed."""

    def __init__(self, seed: int) -> None:
        self.roll = random.Random(seed)

    def of(self, *given: Any) -> Any:
        return self.roll.choice(given)

    def some(self, given: Any, most: int) -> list[Any]:
        return self.roll.sample(list(given), self.roll.randint(0, min(most, len(given))))

    def step(self, name: str, before: list[str]) -> dict[str, Any]:
        return {
            "name": name,
            "depends_on": self.some(before, 2) if self.roll.random() < 0.9 else [name],
            "files": self.some((*PATHS, "src/**", "**"), 2),
            "done_when": self.some(COMMANDS, 1),
        }

    def plan(self) -> dict[str, Any]:
        names: list[str] = []
        steps = []
        for name in ("one", "two", "three")[: self.roll.randint(1, 3)]:
            steps.append(self.step(name, names))
            names.append(name)
        return plan(*steps)

    def action(self) -> dict[str, Any]:
        path = self.of(*PATHS)
        return self.of(  # type: ignore[no-any-return]
            write(path, f"{self.roll.randint(0, 3)}\n"),
            write(path, f"{self.roll.randint(0, 3)}\n"),
            act("file_ops.edit_file", path=path, search="1", replace="2"),
            act("file_ops.delete_file", path=path),
            act("file_ops.read_file", path=path),
            act("shell.run", command=self.of(*COMMANDS)),
            act("plan_tool.update_step", step_id=self.of("S1", "S2"), status=self.of("completed", "failed", "pending")),
            act("plan_tool.approve", plan_id="P1"),
            act("plan_tool.delete", plan_id=self.of("P1", "P2")),
            act("task_tool.generate_list", step_id=self.of("S1", "S2")),
            act("task_loop.run", step_id=self.of("S1", "S2", "S3")),
            act("task_loop.run", tasks=[write(path)]),
            act(self.of("task_loop.pause", "task_loop.resume", "task_loop.stop", "task_loop.status")),
            act("nothing.known", path=path),
        )

    def decision(self) -> str:
        actions = [self.action() for _ in range(self.roll.randint(0, 3))]
        if self.roll.random() < 0.25:
            actions = [act("plan_tool.propose", goal="g", plan=self.plan() if self.roll.random() < 0.8 else None)]
        fields: dict[str, Any] = {
            "profile": self.of("creation", "modification", "guidance", "analysis", None),
            "next_step": self.of("done", "done", "continue", "pending_user", "defer", None),
            "objective": self.of("same", "new", "side", None),
            "reply": self.of("", "All done, everything works.", "What do you mean?"),
            "requirements": self.of([], ["it is there"]),
        }
        if self.roll.random() < 0.1:
            fields["question"] = {"text": self.of("Which?", "How many?"), "options": ["1", "2"], "default": "1"}
        return decision(*actions, **{k: v for k, v in fields.items() if v is not None})

    def answer(self, request: ModelRequest) -> Any:
        if self.roll.random() < 0.04:
            return self.of(Reply(error=503), "no json", "{}")
        match request.node:
            case "understand" | "gather" | "execute":
                return self.decision()
            case "plan":
                return json.dumps(self.plan())
            case "tasks":
                return tasks(*(self.action() for _ in range(self.roll.randint(0, 3))))
            case "evaluate":
                return self.of(all_evidence(request), all_evidence(request), verdict(0.3, {}))
            case "report":
                return json.dumps({"status": "success", "succeeded": 9, "summary": "Everything is done."})
        return "A summary."


class Somebody:
    """Answers at once, or later, or never; stops, pauses and speaks."""

    def __init__(self, dice: Dice) -> None:
        self.dice = dice

    def at_once(self, request: Request) -> Any:
        return self.dice.of("yes", "yes", "yes", "step", ("no", "rather not"), None, None)

    def later(self, bench: Bench) -> None:
        for request in bench.kit.door.pending():
            said = self.dice.of("yes", "yes", "no", "1")
            bench.kit.door.answer(Answer(request.id, request.shown_hash, said, "2" if said == "1" else ""))


async def goes_by(bench: Bench, turns: int = 30) -> None:
    """Let everything move a little."""
    for _ in range(turns):
        await asyncio.sleep(0)


async def talk(bench: Bench, person: Somebody) -> None:
    """One message; cards that nobody answered at once are answered while it is worked on."""
    turn = asyncio.ensure_future(bench.chat.turn(person.dice.of("build it", "and more", "1", "stop", "blue, please")))
    async with asyncio.timeout(20):
        while not turn.done():
            await asyncio.wait({turn}, timeout=0.01)
            person.later(bench)
            if person.dice.roll.random() < 0.1:
                bench.chat.steer("quickly")
    await turn


async def live(home: Path, seed: int) -> list[Bench]:
    """A few messages, stops and restarts; in the end everything is let go and comes to rest."""
    dice = Dice(seed)
    person = Somebody(dice)
    made = [Bench(home, dice.answer, person.at_once, settings=SETTINGS)]
    for _ in range(6):
        bench = made[-1]
        await talk(bench, person)
        run = dice.of(None, None, *(r.id for r in working(bench.session.state)))
        for act_on in dice.some((bench.chat.pause, bench.chat.go_on, bench.chat.stop_background), 2):
            act_on(run)
            await goes_by(bench)
        if dice.roll.random() < 0.2:
            await close(bench)
            made.append(Bench(home, dice.answer, person.at_once, settings=SETTINGS, resume=True))
            settle_interrupted(made[-1].session, made[-1].workspace)
    await come_to_rest(made[-1], person)
    return made


async def close(bench: Bench) -> None:
    async with asyncio.timeout(20):
        await bench.chat.close()


def roots(bench: Bench) -> list[RunState]:
    return [run for run in working(bench.session.state) if run.kind not in ("step", "tasks")]


async def come_to_rest(bench: Bench, person: Somebody) -> None:
    """Resume what is paused, answer what is asked, then stop it: nothing hangs, and what is left can be taken up."""
    for _ in range(20):
        if all(run.paused for run in roots(bench) if bench.kit.background.is_driven(run.id)):
            bench.chat.go_on()
        await goes_by(bench)
        person.later(bench)
        if busy := [job.task for job in bench.chat._jobs.beside.values() if job.task]:
            await asyncio.wait(busy, timeout=0.05)
    bench.chat.stop_background()
    async with asyncio.timeout(20):
        while busy := [job.task for job in bench.chat._jobs.beside.values() if job.task]:
            await asyncio.wait(busy)
            bench.chat.stop_background()
    for run in roots(bench):
        assert run.paused or run.escalated, run
    await close(bench)


def check_approvals(bench: Bench) -> None:
    """Everything that touched the workspace was allowed before: by the person, a grant of an approved plan, a mode."""
    allowed: set[str] = set()
    for body in bench.events("gate.answered", "action.started", "checkpoint"):
        if body.type == "gate.answered" and body.answer in ("yes", "step"):
            allowed.update(body.actions)
        elif body.type == "checkpoint":
            assert body.action in allowed, body


def check_plans(bench: Bench) -> None:
    """A step is completed only by proof; a plan that was carried out had a yes to exactly its content."""
    state = bench.session.state
    approved = {
        e.hash for e in bench.events("gate.answered") if e.operation == "plan_tool.approve" and e.answer == "yes"
    }
    passed = {
        fact["facts"].get("command")
        for e in bench.events("action.finished")
        for fact in e.evidence
        if e.ok and fact["facts"].get("exit") == 0
    }
    for one in state.plans.values():
        for step in one.steps:
            if step.status == "completed":
                assert one.approved == one.hash and one.hash in approved
                assert passed.issuperset(step.done_when), step
                of_step = [r for r in state.runs.values() if r.plan_step == step.id]
                assert any(r.outcome == "satisfied" for r in of_step)
                assert step.done_when or all(t.status == "completed" for t in state.tasks.get(step.id, ()))


def check_words(bench: Bench) -> None:
    """No report says that all is well when the counts say otherwise."""
    for reported in bench.events("report"):
        if reported.status != "success":
            assert not reported.summary and reported.succeeded <= reported.total


@pytest.mark.parametrize("seed", SEEDS)
async def test_whatever_anybody_does_the_rules_hold(tmp_path: Path, seed: int) -> None:
    made = await live(tmp_path, seed)
    bench = made[-1]
    checks: tuple[Callable[[Bench], None], ...] = (check_state, check_approvals, check_plans, check_words)
    for check in checks:
        check(bench)
    for one in made:
        one.store.close()
