"""What tests of plans and background work share: plans, a model that waits to be let go, and the one true state."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from duckflow.engine.kit import Ending
from duckflow.human import Answer, Request
from duckflow.llm.base import ModelRequest
from duckflow.state.fold import fold
from duckflow.state.runs import SessionState
from tests.engine.workbench import Bench, act, check_transitions, decision, yes

REPORT = json.dumps({"status": "success", "succeeded": 9, "failed": 0, "summary": "Both parts are there."})
STORE: dict[str, Any] = {"name": "storage", "description": "store.py", "files": ["store.py"]}
CLI: dict[str, Any] = {"name": "commands", "description": "cli.py", "depends_on": ["storage"], "files": ["cli.py"]}
DOCS: dict[str, Any] = {"name": "docs", "description": "docs.md", "files": ["docs.md"]}
DONE = decision(next_step="done", profile="creation", reply="Everything is done and works.", actions=[])


def plan(*steps: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"name": "todo app", "goal": "a small todo app", "steps": list(steps or (STORE, CLI)), **fields}


def propose(*steps: dict[str, Any], **fields: Any) -> str:
    """The Decision that brings a plan along."""
    given = act("plan_tool.propose", goal="a small todo app", plan=plan(*steps))
    return decision(given, **{"profile": "creation", "confidence": 0.9, "requirements": ["it is there"], **fields})


def tasks(*actions: dict[str, Any]) -> str:
    return json.dumps({"tasks": list(actions)})


def write(path: str, content: str = "") -> dict[str, Any]:
    return act("file_ops.write_file", path=path, content=content or f"# {path}\n")


def writes(*paths: str) -> str:
    return tasks(*(write(path) for path in paths))


def step_of(request: ModelRequest) -> str:
    """Which step of the plan a call is made for; empty: none."""
    said = "\n".join(message.text for message in request.messages)
    for key in ("Your step: ", "Step “"):
        if key in said:
            return said.split(key, 1)[1].split("\n")[0].split("”")[0].split()[-1].removesuffix(":")
    return ""


def by_step(**answers: Any) -> Callable[[ModelRequest], Any]:
    """Answers per step of the plan: one for ever, or a list used up in order."""
    left = {name: list(given) if isinstance(given, list) else given for name, given in answers.items()}

    def model(request: ModelRequest) -> Any:
        given = left[step_of(request)]
        if callable(given):
            return given(request)
        return given.pop(0) if isinstance(given, list) else given

    return model


def in_turn(*answers: Any) -> Callable[[ModelRequest], Any]:
    """One after another, texts or functions."""
    left = list(answers)

    def model(request: ModelRequest) -> Any:
        given = left.pop(0)
        return given(request) if callable(given) else given

    return model


class Held:
    """A model's answer that waits until it is let go. `asked`: the call is open."""

    def __init__(self, answer: Any) -> None:
        self.asked, self.may_go = asyncio.Event(), asyncio.Event()
        self._answer = answer

    async def __call__(self, request: ModelRequest) -> Any:
        self.asked.set()
        await self.may_go.wait()
        return self._answer(request) if callable(self._answer) else self._answer

    async def is_open(self) -> None:
        async with asyncio.timeout(20):
            await self.asked.wait()


class Asks:
    """A person who answers plans at once and keeps everything else until told."""

    def __init__(self) -> None:
        self.bench: Bench | None = None
        self._told: list[Request] = []

    def __call__(self, request: Request) -> str | None:
        return "yes" if request.kind == "plan" else None

    def open(self) -> tuple[Request, ...]:
        assert self.bench is not None
        return tuple(r for r in self.bench.kit.door.pending() if not any(r is told for told in self._told))

    def says(self, request: Request, choice: str, comment: str = "") -> bool:
        assert self.bench is not None
        self._told.append(request)
        return self.bench.kit.door.answer(Answer(request.id, request.shown_hash, choice, comment))


async def until(bench: Bench, seen: Callable[[], bool]) -> None:
    """Wait until something is so; looked at whenever anything happens."""
    told = asyncio.Event()
    ends = [bench.session.subscribe(lambda _event: told.set()), bench.session.watch(lambda _live: told.set())]
    try:
        async with asyncio.timeout(20):
            while not seen():
                told.clear()
                await told.wait()
    finally:
        for end in ends:
            end()


async def through(bench: Bench) -> None:
    """Until nothing works in the background any more."""
    async with asyncio.timeout(30):
        await bench.settled()


# --- the one state ------------------------------------------------------------------------------------------------


def check_state(bench: Bench) -> None:
    """Whatever happened: allowed transitions, ids given once, gates answered, and the events give the state again."""
    bench.session.append()
    check_transitions(bench)
    _check_ids(bench)
    _check_gates(bench)
    state = SessionState(id=bench.session.id)
    for event in bench.store.events(bench.session.id):
        state = fold(state, event)
    for name in SessionState.FIELDS:
        assert getattr(state, name) == getattr(bench.session.state, name), name
    assert bench.store.verify() == []


def _check_ids(bench: Bench) -> None:
    given: Counter[tuple[str, str]] = Counter()
    for event in bench.store.events(bench.session.id):
        body = event.body
        match body.type:
            case "action.started" | "action.finished":
                given[body.type, body.action] += 1  # type: ignore[attr-defined]
                given.update(("evidence", item["id"]) for item in getattr(body, "evidence", ()))
            case "evidence" | "checkpoint":
                given[body.type, body.id] += 1  # type: ignore[attr-defined]
            case "run.started":
                given["run", event.run or ""] += 1
            case "task.changed" if body.args:  # type: ignore[attr-defined]
                given["task", body.task] += 1  # type: ignore[attr-defined]
    assert not [key for key, times in given.items() if times > 1]
    steps = [step.id for p in bench.session.state.plans.values() for step in p.steps]
    assert len(steps) == len(set(steps))


def _check_gates(bench: Bench) -> None:
    waiting = {request.id.split("/")[1] for request in bench.kit.door.pending()}
    asked = {e.action for e in bench.events("gate.asked")}
    answered = {e.action for e in bench.events("gate.answered")}
    assert asked - answered <= waiting


class Make(Protocol):
    def __call__(
        self, replies: Any, answer: Callable[[Request], Any] | None = ..., *, home: Path | None = ..., **rest: Any
    ) -> Bench: ...


@contextmanager
def benches(home: Path) -> Iterator[Make]:
    """Makes benches; when the test is over the state of each is looked through."""
    made: list[Bench] = []

    def make(
        replies: Any, answer: Callable[[Request], Any] | None = yes, *, home: Path | None = None, **rest: Any
    ) -> Bench:
        bench = Bench(home or place, replies, answer, **rest)
        if isinstance(answer, Asks):
            answer.bench = bench
        made.append(bench)
        return bench

    place = home
    yield make
    newest = {bench.store.path: bench for bench in made}  # an earlier one on the same store was left or killed
    for bench in newest.values():
        check_state(bench)
    for bench in made:
        bench.store.close()


async def started(bench: Bench, text: str = "build a todo app") -> None:
    """A turn whose work goes on beside the conversation."""
    ending: Ending = await bench.chat.turn(text)
    assert ending.status == "background", ending
