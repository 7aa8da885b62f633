"""Killed at every moment of a plan: resuming finishes it, repeats nothing that was done, and finds one true state."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from duckflow import events as ev
from duckflow.engine.recover import settle_interrupted
from duckflow.llm.base import ModelRequest
from duckflow.state.journal import Store
from duckflow.state.machine import Status, Step, Trigger
from duckflow.state.plan import STOPPED
from duckflow.state.runs import working
from duckflow.state.session import Session
from tests.engine.plans import (
    CLI,
    DOCS,
    DONE,
    REPORT,
    STORE,
    Asks,
    Held,
    Make,
    benches,
    by_step,
    check_state,
    propose,
    started,
    step_of,
    tasks,
    through,
    until,
    write,
    writes,
)
from tests.engine.workbench import Bench, act, all_evidence, by_node, decision, yes

COMMAND = "echo once >> log"
EDIT = act("file_ops.edit_file", path="store.py", search="# store.py", replace="# better")
FILES = {"store.py": b"# better\n", "cli.py": b"# cli.py\n", "docs.md": b"# docs.md\n"}
WRITES = Counter({"store.py": 2, "cli.py": 1, "docs.md": 1})
STEPS = (STORE, CLI, {**DOCS, "depends_on": ["storage"]})
PROVED = ({**STORE, "done_when": ["test -f store.py"]},)


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    with benches(tmp_path) as made:
        yield made


@pytest.fixture
def quick(tmp_path: Path) -> Iterator[Path]:
    """In memory where there is such a place: thousands of transactions are synchronised here."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory, prefix="duckflow-test-") as folder:
        yield Path(folder)


def model(steps: tuple[dict[str, Any], ...] = STEPS) -> Any:
    """Two writes to one file, another, and a step that is worked on freely; or a write with a command and a proof."""
    free = decision(write("docs.md"), next_step="done")
    first = (write("store.py"), act("shell.run", command=COMMAND)) if steps is PROVED else (write("store.py"), EDIT)
    return by_node(
        understand=lambda request: DONE if "P1" in said_to(request) else propose(*steps),
        tasks=by_step(storage=tasks(*first), commands=writes("cli.py"), docs=tasks()),
        execute=lambda request: free if step_of(request) == "docs" else DONE,
        evaluate=all_evidence,
        report=REPORT,
    )


def said_to(request: ModelRequest) -> str:
    return "\n".join(message.text for message in request.messages)


class Moment:
    """What a kill would leave: the events up to one, and the workspace as it is then."""

    def __init__(self, bench: Bench) -> None:
        self.seq = bench.session.state.last_seq
        self.workspace = files(bench.root)
        begun = [a for r in bench.session.state.runs.values() for a in r.open_actions.values()]
        self.runs_command = any(a.operation == "shell.run" and COMMAND in a.summary for a in begun)


def files(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


async def played(home: Path, steps: tuple[dict[str, Any], ...] = STEPS) -> tuple[list[Moment], Path]:
    """A plan from its request to its verdict; every transaction with the workspace at that moment."""
    bench = Bench(home, model(steps), yes)
    seen: dict[int, Moment] = {}

    def look(_event: ev.Event) -> None:
        if bench.session.state.last_seq not in seen:
            seen[bench.session.state.last_seq] = Moment(bench)

    bench.session.subscribe(look)
    await started(bench)
    await through(bench)
    check_state(bench)
    copy = home / "whole.db"
    with sqlite3.connect(copy) as target:
        bench.store._db.backup(target)
    bench.store.close()
    return list(seen.values()), copy


def killed(home: Path, whole: Path, seq: int, workspace: dict[str, bytes]) -> None:
    """The store up to one event, and a workspace."""
    (home / "data").mkdir(parents=True)
    shutil.copy(whole, home / "data" / "duckflow.db")
    with sqlite3.connect(home / "data" / "duckflow.db") as db:
        db.execute("delete from events where seq > ?", (seq,))
        head = db.execute("select hash from events where seq = ?", (seq,)).fetchone()[0]
        db.execute("update sessions set last_seq = ?, head = ?", (seq, head))
    for path, data in workspace.items():
        target = home / "project" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)


def changes(bench: Bench) -> Counter[str]:
    done = [e for e in bench.events("action.finished") if e.ok and e.operation.startswith("file_ops.")]
    return Counter(path for e in done for path in e.changed)


def check_tasks(bench: Bench) -> None:
    """Every finished task has exactly one action that did it, and every action one outcome."""
    tasks = [task for found in bench.session.state.tasks.values() for task in found]
    done = [task.action for task in tasks if task.status == "completed"]
    assert len(done) == len(set(done)), "no action did two tasks"
    outcomes = Counter(e.action for e in bench.events("action.finished"))
    assert all(outcomes[action] == 1 for action in done)


async def resumed(home: Path, steps: tuple[dict[str, Any], ...] = STEPS) -> Bench:
    bench = Bench(home, model(steps), yes, resume=True)
    state = bench.session.state
    settle_interrupted(bench.session, bench.workspace)
    count = bench.session.state.last_seq
    settle_interrupted(bench.session, bench.workspace)
    assert bench.session.state.last_seq == count, "settling twice changes nothing more"
    check_put_down(bench)
    if not state.plans or state.plans["P1"].status in ("draft", "refused"):
        await bench.chat.turn("go on")
    else:
        bench.chat.go_on()
    await through(bench)
    return bench


def check_put_down(bench: Bench) -> None:
    """Nothing seems to run that does not."""
    state = bench.session.state
    for run in state.runs.values():
        assert run.outcome or run.status is not Status.IN_PROGRESS or run.step is Step.DONE
        assert not run.open_actions and not run.agent.pending_gate
        assert run.outcome or not run.background or run.kind == "step" or run.paused
    for plan in state.plans.values():
        assert plan.status != "in_progress" and not any(s.status == "in_progress" for s in plan.steps)
    assert not any(t.status == "in_progress" for found in state.tasks.values() for t in found)


def left_by(moments: list[Moment]) -> Iterator[tuple[Moment, dict[str, bytes]]]:
    """Each moment with the workspace of then; and, where the next event tells of an effect, with that done already."""
    for at, moment in enumerate(moments):
        yield moment, moment.workspace
        if at + 1 < len(moments) and moments[at + 1].workspace != moment.workspace:
            yield moment, moments[at + 1].workspace


async def test_a_kill_at_any_moment_of_a_plan_loses_nothing_and_repeats_nothing(quick: Path) -> None:
    """Events of one transaction are on disk together or not at all: a kill comes between transactions."""
    moments, whole = await played(quick / "first")
    tried = 0
    for moment, workspace in left_by([m for m in moments if m.seq > 2]):
        home = quick / f"{tried}"
        killed(home, whole, moment.seq, workspace)
        bench = await resumed(home)
        told = f"killed after event {moment.seq} with {sorted(workspace)}"
        assert files(bench.root) == FILES, told
        assert changes(bench) == WRITES, told
        assert {p.status for p in bench.session.state.plans.values()} <= {"completed", "replaced"}, told
        assert not working(bench.session.state), told
        assert bench.session.state.objectives["O1"].status == "satisfied", told
        check_tasks(bench)
        check_state(bench)
        bench.store.close()
        shutil.rmtree(home)
        tried += 1
    assert tried > 60


async def test_a_command_that_was_under_way_is_not_run_again_by_itself(quick: Path) -> None:
    moments, whole = await played(quick / "first", PROVED)
    begun = next(at for at, moment in enumerate(moments) if moment.runs_command)
    tried = Counter[bool]()
    for moment, workspace in left_by(moments[begun - 3 : begun + 3]):
        home = quick / f"{tried.total()}"
        killed(home, whole, moment.seq, workspace)
        bench = await resumed(home, PROVED)
        once = workspace.get("log", b"") if moment.runs_command else b"once\n"
        assert files(bench.root).get("log", b"") == once, moment.seq
        errors = [e.error for e in bench.events("action.finished") if e.error]
        assert errors == (["interrupted, outcome unknown"] if moment.runs_command else []), moment.seq
        assert bench.session.state.plans["P1"].status == "completed" and changes(bench) == Counter(["store.py"])
        check_state(bench)
        bench.store.close()
        tried[moment.runs_command] += 1
    assert tried[True] >= 2 and tried[False] >= 4


# --- single moments -------------------------------------------------------------------------------------------------


async def test_background_work_that_was_killed_shows_as_paused_and_can_be_resumed(make: Make) -> None:
    slow = Held(writes("store.py"))
    bench = make(by_node(understand=propose(STORE), tasks=slow))
    await started(bench)
    await slow.is_open()
    again = make(by_node(tasks=writes("store.py"), evaluate=all_evidence, report=REPORT), resume=True)
    told = settle_interrupted(again.session, again.workspace)
    assert told == ("the plan “todo app” is paused, 0 of 1 step done",)
    run, plan = again.session.run("run1"), again.session.state.plans["P1"]
    assert run.paused and run.status is Status.REQUIRES_USER_INPUT and plan.status == "paused"
    assert [(s.status, s.reason) for s in plan.steps] == [("pending", STOPPED)]
    assert again.chat.go_on()
    await through(again)
    assert again.session.state.plans["P1"].status == "completed"
    bench.kit.background._jobs.clear()


async def test_a_card_that_was_open_when_the_program_died_is_recorded_as_unanswered(make: Make) -> None:
    person = Asks()
    bench = make(by_node(understand=propose(STORE), tasks=tasks(write("other.py"), write("store.py"))), person)
    await started(bench)
    await until(bench, lambda: bool(person.open()))
    assert not list(bench.root.iterdir())
    again = make(by_node(evaluate=all_evidence, report=REPORT, execute=DONE), resume=True)
    settle_interrupted(again.session, again.workspace)
    answered = [e for e in again.events("gate.answered") if e.operation == "file_ops.write_file"]
    assert [(e.answer, e.by) for e in answered] == [("no", "time-out")]
    step = again.session.run("run2")
    assert step.step is Step.PLANNING and not step.agent.pending_gate
    assert again.chat.go_on()
    await through(again)
    assert again.read("other.py") == b"# other.py\n" and again.session.state.plans["P1"].status == "completed"


async def test_words_said_before_the_kill_reach_the_work_after_it(make: Make) -> None:
    slow = Held(writes("store.py"))
    same = decision(profile="modification", objective="same", reply="", actions=[])
    bench = make(by_node(understand=[propose(STORE), same], tasks=slow))
    await started(bench)
    await slow.is_open()
    await bench.chat.turn("in blue")
    heard: list[ModelRequest] = []

    def answer(request: ModelRequest) -> str:
        heard.append(request)
        return decision(write("store.py", "# blue\n"), next_step="done")

    again = make(by_node(tasks=writes("store.py"), execute=answer, evaluate=all_evidence, report=REPORT), resume=True)
    settle_interrupted(again.session, again.workspace)
    again.chat.go_on()
    await through(again)
    assert "in blue" in "".join(m.text for m in heard[0].messages) and again.read("store.py") == b"# blue\n"


def interrupted_at(home: Path, step: Step, status: Status = Status.SUCCESS) -> Session:
    """A turn that stood at a step and whose end was not written."""
    store = Store(home / "db")
    session = Session.start(store, ev.SessionStarted(workspace=str(home), version="0", mode="ask", models={}))
    run = session.start_run()
    session.append(ev.ObjectiveChanged("O1", "do it", ({"id": "R1", "text": "done"},), 1, 0.9), run=run)
    session.move(run, Trigger.MESSAGE, Step.PLANNING, Status.IN_PROGRESS)
    session.move(run, Trigger.DECISION, Step.REVIEW, Status.IN_PROGRESS)
    session.move(run, Trigger.VERDICT, step, status)
    return session


def test_a_turn_that_was_done_when_it_died_is_over(tmp_path: Path) -> None:
    from duckflow.safety.paths import Workspace

    session = interrupted_at(tmp_path, Step.DONE)
    settle_interrupted(session, Workspace(tmp_path))
    assert session.run("run1").outcome == "satisfied" and session.state.objectives["O1"].status == "satisfied"
    assert session.state.objectives["O1"].satisfaction == 0.9
    session.store.close()
