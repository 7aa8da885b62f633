"""What a person can look up about plans and background work: /plan, /tasks, /status, the line below the input."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from inline_snapshot import snapshot

from duckflow import events as ev
from duckflow.engine.kit import Kit
from duckflow.human import Card, Door, Request
from duckflow.llm.tiers import Models
from duckflow.state.journal import Store
from duckflow.state.session import Session
from duckflow.ui.chat import Chat
from duckflow.ui.commands import Desk, run_command
from duckflow.ui.out import Out
from duckflow.ui.plans import show_tasks
from duckflow.ui.status import Status
from duckflow.ui.welcome import goodbye, recall
from duckflow.ui.wrap import cells

MODELS = cast(Models, SimpleNamespace(chain=lambda _tier: [SimpleNamespace(provider="p", name="m")]))
STEPS: tuple[dict[str, Any], ...] = (
    {"id": "S1", "name": "storage", "files": ("src/store/**",), "done_when": ("pytest -q tests/test_store.py",)},
    {"id": "S2", "name": "cache", "depends_on": ("S1",), "commands": ("pytest*", "make cache"), "description": "Fast."},
    {"id": "S3", "name": "report", "depends_on": ("S1",)},
    {"id": "S4", "name": "docs", "depends_on": ("S3",)},
    {"id": "S5", "name": "release", "depends_on": ("S2",)},
)


class Person:
    """A chat that notes what it is asked to do."""

    def __init__(self, *, works: bool = True) -> None:
        self.works = works
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        def act(run: str | None) -> bool:
            self.asked.append(f"{name} {run}")
            return self.works

        return act


class Room:
    """A session and the paper its commands are printed on."""

    def __init__(self, path: Path, width: int = 80) -> None:
        started = ev.SessionStarted(workspace=str(path), version="0", mode="ask", models={})
        self.session = Session.start(Store(path / "state.db"), started)
        self.door = Door()
        self.person = Person()
        self.pieces: list[str] = []
        self.out = Out(self.pieces.append, colour=False, width=lambda: width)

    async def type(self, text: str) -> str:
        kit = cast(Kit, SimpleNamespace(session=self.session, door=self.door, models=MODELS))
        await run_command(Desk(kit, cast(Chat, self.person), self.out, lambda: False, lambda: None), text)
        return self.said()

    def said(self) -> str:
        text = "".join(self.pieces)
        self.pieces.clear()
        return text

    def plan(self, run: str, status: str, *statuses: str, name: str = "Ledger", id_: str = "P1") -> None:
        now = statuses or ("pending",) * len(STEPS)
        steps = tuple(
            {**step, "status": s, "reason": "failed: exit code 1" if s == "failed" else ""}
            for step, s in zip(STEPS, now, strict=True)
        )
        body = ev.PlanChanged(
            plan=id_, name=name, goal="keep a ledger", status=status, steps=steps, criteria=("all tests pass",),
            risks=({"risk": "old files", "level": "high"},),
        )  # fmt: skip
        self.session.append(body, run=run)

    def detached(self) -> tuple[str, str]:
        """The run of a plan in the background, and that of its second step."""
        root = self.session.start_run()
        self.plan(root, "approved")
        self.session.append(ev.RunDetached(thread=root), run=root)
        step = self.session.start_run("step", "", root, "S2")
        self.plan(root, "in_progress", "completed", "in_progress", "failed", "blocked", "pending")
        return root, step

    def line(self, width: int = 100) -> str:
        return Status(self.session, MODELS).line(busy=False, asked=False, waiting=0, width=width)


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


# --- /plan ----------------------------------------------------------------------------------------------------------


async def test_a_plan_is_shown_step_by_step(room: Room) -> None:
    assert await room.type("/plan") == "  There is no plan yet.\n"
    room.detached()
    assert await room.type("/plan") == snapshot("""\
  P1 Ledger · in progress · 1 of 5 steps done
  goal: keep a ledger
  ✓ S1 storage · done
      files: src/store/**
      done when: pytest -q tests/test_store.py
  ▸ S2 cache · running
      Fast.
      after: storage
      commands: pytest* · make cache
  ✗ S3 report · failed: exit code 1
      after: storage
  – S4 docs · blocked: report failed
      after: report
  · S5 release · waits for cache
      after: cache
  risk: high · old files
  success means: all tests pass
""")


async def test_a_plan_is_found_by_id_or_name_and_the_active_one_comes_first(room: Room) -> None:
    run = room.session.start_run()
    room.plan(run, "completed", *["completed"] * 5, name="First", id_="P1")
    assert "P1 First · completed · 5 of 5" in await room.type("/plan")  # the newest, when none is active
    room.plan(run, "in_progress", name="Second", id_="P2")
    room.plan(run, "refused", name="Third", id_="P3")
    assert "P2 Second · in progress · 0 of 5" in await room.type("/plan")
    assert "P1 First" in await room.type("/plan p1") and "P3 Third" in await room.type("/plan thi")
    assert await room.type("/plan fourth") == (
        "  There is no plan fourth. Known here: P1 First, P2 Second, P3 Third.\n"
    )


async def test_a_plan_fits_a_narrow_screen_and_nothing_in_it_is_obeyed(tmp_path: Path) -> None:
    room, evil = Room(tmp_path, width=30), "\x1b[2J\u202e" + "長い名前" * 10
    step = {"id": "S1", "name": evil, "description": evil, "files": (evil,), "commands": (evil,), "done_when": (evil,)}
    body = ev.PlanChanged(
        plan="P1", name=evil, goal=evil, status="failed", steps=(step,), risks=({"risk": evil, "level": evil},),
        criteria=(evil,), reason=evil,
    )  # fmt: skip
    run = room.session.start_run("tasks")
    room.session.append(body, ev.TaskChanged(task="T1", status="failed", operation=evil, error=evil), run=run)
    said = await room.type("/plan") + await room.type("/tasks")
    assert all(cells(line) <= 30 for line in said.splitlines())
    assert not {"\x1b", "\u202e"} & set(said) and "T1" in said


# --- /tasks ---------------------------------------------------------------------------------------------------------


async def test_tasks_show_what_works_what_runs_now_and_what_is_asked(room: Room) -> None:
    assert await room.type("/tasks") == "  Nothing works in the background.\n"
    root, step = room.detached()

    def task(name: str, status: str, **facts: Any) -> ev.TaskChanged:
        return ev.TaskChanged(task=name, status=status, operation="file_ops.edit_file", step="S2", **facts)

    room.session.append(
        task("T1", "pending", args='{"path": "src/cache.py"}'),
        task("T2", "pending", args='{"path": "src/b.py"}'),
        task("T3", "pending"),
        task("T1", "in_progress"),
        ev.ActionStarted(action="A1", operation="x", args_digest="", reasoning="", risk="LOW"),
        ev.ActionFinished(action="A1", operation="x", ok=False, error="failed: no match"),
        task("T1", "failed", action="A1", error="failed: no match"),
        task("T2", "in_progress"),
        ev.ActionStarted(
            action="A2", operation="x", args_digest="", reasoning="", risk="LOW", summary="edit src/b.py (+1 −1)"
        ),
        run=step,
    )
    request = Request("q1", step, "gate", Card(title="Run this command?", asker="cache"), "h", watched=False)
    show_tasks(room.session.state, room.session.store.events(room.session.id), (request,), room.out)
    said = re.sub(r"\d+ s\b", "0 s", room.said())
    assert said == snapshot("""\
  run1 · Ledger · 1 of 5 steps done · 0 s
  run2 · cache · task 2 of 3 · 0 s · edit src/b.py (+1 −1)
    ✗ T1 file_ops.edit_file · src/cache.py ✗ no match
    ▸ T2 file_ops.edit_file · src/b.py
    · T3 file_ops.edit_file
    ! asks: Run this command? (Ctrl-G opens it)
""")
    room.session.append(ev.RunPaused(paused=True), run=step)
    assert re.search(r"run2 · cache · task 2 of 3 · \d+ s · paused\n", await room.type("/tasks"))
    assert "run1" in await room.type("/tasks") and root == "run1"


async def test_a_plan_that_is_not_carried_out_says_how_to_go_on(room: Room) -> None:
    room.plan(room.session.start_run(), "paused", "completed", *["pending"] * 4)
    said = " ".join((await room.type("/tasks")).split())
    assert said == (
        "Nothing works in the background. The plan “Ledger” is unfinished (1 of 5 steps done): "
        "/tasks resume goes on with it, /plan shows it."
    )


@pytest.mark.parametrize(
    ("typed", "asked", "told"),
    [
        ("/tasks pause", ["pause None"], ""),
        ("/tasks resume", ["go_on None"], ""),
        ("/tasks stop", ["stop_background None"], "stopping"),
        ("/tasks stop run2", ["stop_background run2"], "stopping"),
        ("/tasks pause Cache", ["pause run2"], ""),
        ("/tasks pause run9", [], "No background work is called run9."),
        ("/tasks halt", [], "/tasks knows open, pause, resume and stop, not halt."),
    ],
)
async def test_tasks_are_acted_on_through_the_chat(room: Room, typed: str, asked: list[str], told: str) -> None:
    room.detached()
    assert (await room.type(typed)).strip() == told and room.person.asked == asked


async def test_nothing_to_act_on_is_said(room: Room) -> None:
    room.person.works = False
    told = [await room.type(f"/tasks {word}") for word in ("pause", "resume", "stop")]
    assert told == [
        "  There is nothing to pause.\n",
        "  There is nothing to go on with.\n",
        "  There is nothing to stop.\n",
    ]


# --- /status and the line below the input ---------------------------------------------------------------------------


def judged(room: Room, run: str, status: str = "open") -> None:
    requirements = tuple(
        {"id": f"R{n}", "text": text} for n, text in enumerate(("it is kept", "it is fast", "説明"), 1)
    )
    room.session.append(
        ev.ObjectiveChanged(
            objective="O1", request="a ledger", requirements=requirements, attempt=2, satisfaction=0.5, status=status
        ),
        ev.VerdictGiven(
            overall=0.5, failed_checks=(), missing=(), next="retry",
            requirements={"R1": {"score": 0.9, "evidence": ["E1", "E4"]}, "R2": {"score": 0.25, "evidence": []}},
        ),
        run=run,
    )  # fmt: skip


async def test_the_status_has_the_table_the_plan_the_background_and_the_vitals(room: Room) -> None:
    root, step = room.detached()
    judged(room, root)
    room.session.append(ev.VitalsChanged(mood=0.8, focus=0.25, stamina=0.95, loop_limit=8), run=root)
    room.session.append(ev.RunPaused(paused=True), run=step)
    room.session.end_run(room.session.start_run(), "answered")  # a question meanwhile hides nothing
    said = await room.type("/status")
    assert "plan        P1 Ledger · in progress · 1 of 5 steps done\n" in said
    assert "background  run1 · Ledger · running\n  background  run2 · cache · paused\n" in said
    room.session.append(ev.RunPaused(paused=False), ev.QuestionAsked(text="Which?"), run=step)
    assert "background  run2 · cache · waits for you\n" in await room.type("/status")
    assert "vitals      mood 0.80 · focus 0.25 · stamina 0.95\n" in said
    assert said.endswith(
        "\n"
        "  R1 it is kept 0.90  E1, E4\n"
        "  R2 it is fast 0.25  no evidence\n"
        "  R3 説明       —     not judged yet\n"
    )  # fmt: skip


def test_the_line_below_the_input_tells_of_the_background_in_few_words(room: Room) -> None:
    assert room.line() == "ask · p/m"
    root, step = room.detached()
    assert room.line() == "ask · p/m · plan 1/5 · cache"
    room.plan(root, "in_progress", "completed", "in_progress", "in_progress", "pending", "pending")
    assert room.line() == "ask · p/m · plan 1/5 · cache +1"
    room.session.append(ev.RunPaused(paused=True), run=step)
    assert room.line() == "ask · p/m · plan 1/5 · cache +1"
    room.session.append(ev.RunPaused(paused=False), run=step)
    room.session.append(ev.RunPaused(paused=True), run=root)  # what works for it stands still with it
    assert room.line() == "ask · p/m · plan 1/5 · paused"
    for run in (step, root):
        room.session.end_run(run, "cancelled")
    room.plan(root, "paused")
    assert room.line() == "ask · p/m · plan 0/5 · paused"
    room.plan(root, "completed")
    assert room.line() == "ask · p/m"


def test_loose_tasks_are_counted(room: Room) -> None:
    runs = [room.session.start_run("tasks", "") for _n in range(2)]
    assert room.line() == "ask · p/m · background: 2 running"
    room.session.append(ev.RunPaused(paused=True), run=runs[0])
    assert room.line() == "ask · p/m · background: 1 running"
    room.session.append(ev.RunPaused(paused=True), run=runs[1])
    assert room.line() == "ask · p/m · background: paused"


@pytest.mark.parametrize(
    ("vitals", "told"),
    [
        ((0.4, 0.3, 0.1), ""),
        ((0.39, 1.0, 1.0), " · mood low"),
        ((1.0, 0.29, 1.0), " · focus low"),
        ((0.0, 0.0, 0.09), " · mood low · focus low · stamina low"),
    ],
)
def test_a_vital_is_named_only_when_it_is_low(room: Room, vitals: tuple[float, float, float], told: str) -> None:
    run = room.session.start_run()
    room.session.append(ev.VitalsChanged(*vitals, loop_limit=8), run=run)
    assert room.line() == "ask · p/m" + told
    room.session.end_run(run, "answered")
    assert room.line() == "ask · p/m"


def test_on_a_narrow_screen_figures_give_way_before_what_matters(room: Room) -> None:
    _root, step = room.detached()
    room.session.append(
        ev.ModelCalled(
            tier="fast", provider="p", model="m", node="execute", pattern="", prompt_tokens=1200, cached_tokens=0,
            completion_tokens=0, cost_usd=0.5, ms=1,
        ),
        run=step,
    )  # fmt: skip
    line = [Status(room.session, MODELS).line(busy=False, asked=True, waiting=1, width=width) for width in (99, 80, 70)]
    assert line == [
        "ask · p/m · 1.2k tokens · $0.5000 · plan 1/5 · cache · 1 waiting: Ctrl-G · waiting for your answer"[:98],
        "ask · p/m · plan 1/5 · cache · 1 waiting: Ctrl-G · waiting for your answer",
        "ask · plan 1/5 · cache · 1 waiting: Ctrl-G · waiting for your answer",
    ]


def test_what_runs_in_the_background_is_not_what_the_turn_does(room: Room) -> None:
    _root, step = room.detached()
    status = Status(room.session, MODELS)
    room.session.subscribe(status.event)
    room.session.watch(status.live)
    front = room.session.start_run()
    started = ev.ActionStarted(action="A1", operation="x", args_digest="", reasoning="", risk="LOW", summary="read a")
    behind = ev.ActionStarted(action="A2", operation="x", args_digest="", reasoning="", risk="LOW", summary="read b")
    room.session.append(started, run=front)
    room.session.append(behind, run=step)
    assert status.running().startswith("read a ")
    room.session.end_run(step, "satisfied")
    assert status.running().startswith("read a ")
    room.session.end_run(front, "answered")
    room.session.show(ev.Live("calling", "execute · p/m", step))
    assert status.running() == "working"


# --- coming back and leaving ----------------------------------------------------------------------------------------


def test_coming_back_shows_what_is_open_and_how_to_go_on(room: Room) -> None:
    root, _step = room.detached()
    room.session.append(ev.Message(role="user", text="a ledger please"), run=root)
    judged(room, root)
    recall(room.session, room.out, resumed=True)
    said = room.said()
    assert "> a ledger please" in said and "Still open: a ledger" in said and "R1 it is kept 0.90  E1, E4" in said
    assert "The plan “Ledger” is unfinished (1 of 5 steps done): /tasks resume" in " ".join(said.split())
    goodbye(room.session, room.out)
    assert "The plan “Ledger” is kept (1 of 5 steps done): `duckflow resume`" in " ".join(room.said().split())


def test_coming_back_to_a_report_shows_it(room: Room) -> None:
    run = room.session.start_run()
    report = ev.Reported(status="success", succeeded=1, failed=0, causes=(), recommended_next="", summary="Fine.")
    room.session.append(report, ev.Message(role="assistant", text="1 of 1 step done. Fine.", kind="report"), run=run)
    recall(room.session, room.out, resumed=True)
    assert room.said() == "\n1 of 1 step done. Fine.\n"


def test_coming_back_to_finished_work_shows_no_table(room: Room) -> None:
    run = room.session.start_run()
    judged(room, run, "satisfied")
    room.plan(run, "completed", *["completed"] * 5)
    recall(room.session, room.out, resumed=True)
    goodbye(room.session, room.out)
    assert room.said() == ""


def test_coming_back_to_a_decision_shows_the_ways_on_once(room: Room) -> None:
    run = room.session.start_run()
    judged(room, run, "escalated")
    room.session.append(
        ev.Message(role="user", text="a ledger please"),
        ev.Escalation(report="Not finished.", options=("more detail", "cancel")),
        ev.Message(role="assistant", text="Not finished.", kind="outcome"),
        run=run,
    )
    recall(room.session, room.out, resumed=True)
    said = room.said()
    assert said.count("Not finished.") == 1 and "   1 more detail\n   2 cancel\n" in said and "R2 it is fast" in said


async def test_help_names_what_is_there_for_the_background(room: Room) -> None:
    said = await room.type("/help")
    for word in ("/plan [PLAN]", "/tasks [open|pause|resume|stop] [RUN]", "Ctrl-G"):
        assert word in said
