"""Work beside the conversation: steps side by side, words to them, pausing and stopping, cards, failures."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from duckflow.engine.steps import Assignment
from duckflow.errors import BudgetSpent, CredentialsError
from duckflow.llm.base import ModelRequest
from duckflow.llm.scripted import Reply
from duckflow.prompts.replies import Action
from duckflow.state.plan import STOPPED
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
    in_turn,
    propose,
    started,
    step_of,
    tasks,
    through,
    until,
    write,
    writes,
)
from tests.engine.workbench import Bench, act, all_evidence, by_node, decision, verdict

THREE = by_step(storage=writes("store.py"), commands=writes("cli.py"), docs=writes("docs.md"))
ONCE = "[objective]\nmax_attempts = 1\n"


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    with benches(tmp_path) as made:
        yield made


def model(understand: Any = None, **nodes: Any) -> Any:
    given = {"tasks": THREE, "evaluate": all_evidence, "report": REPORT, "execute": DONE, **nodes}
    return by_node(understand=understand or propose(), **given)


def steps(bench: Bench) -> dict[str, str]:
    return {step.name: step.status for step in bench.session.state.plans["P1"].steps}


def plan_status(bench: Bench) -> str:
    return bench.session.state.plans["P1"].status


def runs(bench: Bench, kind: str = "step") -> list[Any]:
    return [r for r in bench.session.state.runs.values() if r.kind == kind]


def run_of(bench: Bench, step: str) -> str:
    return next(r.id for r in bench.session.state.runs.values() if r.plan_step == step)


def said_to(request: ModelRequest) -> str:
    return "\n".join(message.text for message in request.messages)


def calls(bench: Bench, node: str, step: str | None = None) -> list[ModelRequest]:
    return [r for r in bench.asked if r.node == node and step in (None, step_of(r))]


def written(bench: Bench) -> list[str]:
    """Every path a file effect changed, each time it did."""
    return [path for e in bench.events("action.finished") if e.operation.startswith("file_ops.") for path in e.changed]


def effects(bench: Bench) -> list[tuple[str, str]]:
    """Begin and end of everything that holds the workspace, in order."""
    acting = {e.action for e in bench.events("checkpoint")}
    found = bench.events("action.started", "action.finished")
    return [(e.type, e.action) for e in found if e.action in acting]


def reply(text: str, **fields: Any) -> str:
    return decision(profile="guidance", reply=text, actions=[], **fields)


# --- side by side ---------------------------------------------------------------------------------------------------


async def test_steps_that_touch_different_files_overlap_in_model_time_and_their_effects_do_not(make: Make) -> None:
    command = act("shell.run", command="mkdir held && touch held/x && rm -r held")
    first, second = (Held(tasks(command, write(path), command)) for path in ("store.py", "docs.md"))
    bench = make(model(propose(STORE, DOCS), tasks=by_step(storage=first, docs=second)))
    await started(bench)
    await first.is_open()
    await second.is_open()
    assert {e.run for e in bench.events("run.ended")} == set(), "both calls are open at once"
    first.may_go.set()
    second.may_go.set()
    await through(bench)
    assert steps(bench) == {"storage": "completed", "docs": "completed"}
    order = effects(bench)
    assert len(order) == 12
    for begin, end in zip(order[::2], order[1::2], strict=True):
        assert (begin[0], end[0]) == ("action.started", "action.finished") and begin[1] == end[1]
    exits = [e.exit_code for e in bench.events("action.finished") if e.operation == "shell.run"]
    assert exits == [0] * 4


@pytest.mark.parametrize(
    ("one", "other"),
    [(["store.py"], ["store.py"]), (["src/**"], ["src/a.py"]), ([], ["docs.md"]), (["store.py"], []),
     (["./docs.md"], ["docs.md"]), (["src/"], ["src/a.py"])],
)  # fmt: skip
async def test_steps_with_overlapping_or_undeclared_files_do_not(make: Make, one: list[str], other: list[str]) -> None:
    first = Held(tasks(write("store.py"), write("src/a.py"), write("docs.md")))
    later = tasks(*(write(path, "2\n") for path in ("store.py", "src/a.py", "docs.md")))
    listed = by_step(storage=first, docs=later)
    bench = make(model(propose({**STORE, "files": one}, {**DOCS, "files": other}), tasks=listed))
    await started(bench)
    await first.is_open()
    assert steps(bench) == {"storage": "in_progress", "docs": "pending"} and len(runs(bench)) == 1
    first.may_go.set()
    await through(bench)
    assert steps(bench) == {"storage": "completed", "docs": "completed"}


async def test_no_more_than_three_steps_run_at_once(make: Make) -> None:
    names = ["a", "b", "c", "d"]
    held = {name: Held(writes(f"{name}.py")) for name in names}
    bench = make(model(propose(*({"name": n, "files": [f"{n}.py"]} for n in names)), tasks=by_step(**held)))
    await started(bench)
    for name in names[:3]:
        await held[name].is_open()
    assert len(runs(bench)) == 3 and not held["d"].asked.is_set()
    held["b"].may_go.set()
    await held["d"].is_open()
    for one in held.values():
        one.may_go.set()
    await through(bench)
    assert plan_status(bench) == "completed"


# --- talking meanwhile ----------------------------------------------------------------------------------------------


async def test_a_side_question_is_answered_while_a_step_runs_and_sees_its_true_status(make: Make) -> None:
    slow = Held(writes("store.py"))
    side = reply("attrs is older.", objective="side")
    bench = make(model([propose(), side], tasks=by_step(storage=slow, commands=writes("cli.py"))))
    await started(bench)
    await slow.is_open()
    ending = await bench.chat.turn("dataclass or attrs?")
    assert (ending.status, ending.reply) == ("answered", "attrs is older.")
    asked = bench.asked[-1].messages[-1].text
    assert "dataclass or attrs?" in asked and "Running in the background" in asked
    assert "0 of 2 steps done; running: S1 storage" in asked and "run2 S1, PLANNING IN_PROGRESS" in asked
    slow.may_go.set()
    await through(bench)
    assert plan_status(bench) == "completed"


async def test_the_model_can_look_at_the_running_work(make: Make) -> None:
    slow = Held(writes("cli.py"))
    looks = decision(act("task_loop.status"), profile="guidance", objective="side", next_step="continue")
    bench = make(model([propose(), looks], tasks=by_step(storage=writes("store.py"), commands=slow),
                       execute=reply("One step is done.")))  # fmt: skip
    await started(bench)
    await slow.is_open()
    await bench.chat.turn("how far is it?")
    shown = calls(bench, "execute")[0].messages[-1].text
    assert "Plan P1 “todo app” (in_progress): 1 of 2 steps done; running: S2 commands" in shown
    assert "run1 turn, EXECUTION IN_PROGRESS" in shown and "run3 S2, PLANNING IN_PROGRESS" in shown
    slow.may_go.set()
    await through(bench)


async def test_words_for_the_running_work_reach_it_verbatim_before_its_next_decision_and_later_steps(
    make: Make,
) -> None:
    slow = Held(writes("store.py"))
    same = decision(profile="modification", objective="same", reply="I pass it on.", actions=[])
    heard = decision(write("store.py", "# sqlite\n"), next_step="done")
    bench = make(model([propose(), same], tasks=by_step(storage=slow, commands=writes("cli.py")), execute=heard))
    await started(bench)
    await slow.is_open()
    ending = await bench.chat.turn("JSON じゃなくて SQLite にして")
    assert (ending.status, ending.reply) == ("answered", "I pass it on.")
    slow.may_go.set()
    await through(bench)
    (of_step,) = calls(bench, "execute", "storage")
    assert "Message from the person:\nJSON じゃなくて SQLite にして" in said_to(of_step)
    assert "- JSON じゃなくて SQLite にして" in said_to(calls(bench, "tasks", "commands")[0])
    assert bench.read("store.py") == b"# sqlite\n" and plan_status(bench) == "completed"
    assert bench.session.run("run1").steered == ("JSON じゃなくて SQLite にして",)
    assert any("SQLite" in entry.text for entry in bench.session.state.threads["run1"]), "and the whole work knows it"


async def test_words_during_the_proof_lead_to_a_decision_before_the_step_may_complete(make: Make) -> None:
    person = Asks()
    same = decision(profile="modification", objective="same", reply="", actions=[])
    heard = decision(write("store.py", "# blue\n"), next_step="done")
    proved = {**STORE, "done_when": ["true"]}
    bench = make(model([propose(proved), same], execute=heard), person)
    await started(bench)
    await until(bench, lambda: bool(person.open()))
    assert bench.session.run(run_of(bench, "S1")).step == "REVIEW"
    await bench.chat.turn("make it blue")
    person.says(person.open()[0], "yes")
    await until(bench, lambda: bool(person.open()))
    assert steps(bench) == {"storage": "in_progress"} and bench.read("store.py") == b"# blue\n"
    assert "make it blue" in said_to(calls(bench, "execute")[0])
    person.says(person.open()[0], "yes")
    await through(bench)
    assert plan_status(bench) == "completed"


async def test_a_person_who_speaks_costs_no_attempt(make: Make) -> None:
    same = decision(profile="modification", objective="same", reply="", actions=[])
    slow, talks = Held(writes("store.py")), decision(act("file_ops.list_dir", path="."), next_step="continue")
    bench = make(model([propose(STORE), same], tasks=slow, execute=[talks, DONE]), settings=ONCE)
    await started(bench)
    await slow.is_open()
    await bench.chat.turn("quick")
    slow.may_go.set()
    await through(bench)
    assert plan_status(bench) == "completed"


async def test_words_that_come_when_only_the_verdict_is_left_become_new_work(make: Make) -> None:
    judge = Held(all_evidence)
    same = decision(profile="modification", objective="same", reply="", actions=[])
    more = decision(write("more.txt"), profile="creation", next_step="done", reply="ok", requirements=["more"])
    bench = make(model([propose(STORE), same, more], evaluate=judge))
    await started(bench)
    await judge.is_open()
    await bench.chat.turn("and more.txt, please")
    judge.may_go.set()
    await until(bench, lambda: (bench.root / "more.txt").exists())
    await through(bench)
    new = next(r for r in runs(bench, "turn") if r.request == "and more.txt, please" and r.background)
    assert new.outcome == "satisfied" and bench.session.run("run1").outcome == "satisfied"


async def test_new_work_waits_and_begins_by_itself(make: Make) -> None:
    slow = Held(writes("store.py"))
    new = decision(write("other.txt"), profile="creation", objective="new", requirements=["other"])
    does = decision(write("other.txt"), profile="creation", next_step="done", reply="There.", requirements=["other"])
    bench = make(model([propose(STORE), new, does], tasks=slow))
    await started(bench)
    await slow.is_open()
    ending = await bench.chat.turn("then write other.txt")
    assert ending.status == "answered" and not (bench.root / "other.txt").exists()
    assert any("waits until the running work is done" in text for _, text in bench.said())
    (waiting,) = [r for r in runs(bench, "turn") if r.background and r.id != "run1"]
    assert waiting.decisions == 0 and waiting.outcome is None
    slow.may_go.set()
    await until(bench, lambda: bench.session.run(waiting.id).outcome is not None)
    assert bench.session.run(waiting.id).outcome == "satisfied"
    assert bench.read("other.txt") == b"# other.txt\n"
    done = [e.seq for e in bench.store.events(bench.session.id) if e.body.type == "run.ended" and e.run == "run1"]
    began = [e.seq for e in bench.store.events(bench.session.id) if e.run == waiting.id and e.body.type == "decision"]
    assert done[0] < began[0], "not before the running work was done"


async def test_stopping_everything_lets_nothing_begin_by_itself(make: Make) -> None:
    slow = Held(writes("store.py"))
    new = decision(write("other.txt"), profile="creation", objective="new", requirements=["other"])
    bench = make(model([propose(STORE), new], tasks=slow))
    await started(bench)
    await slow.is_open()
    await bench.chat.turn("then write other.txt")
    assert bench.chat.stop_background()
    await through(bench)
    assert [r.paused for r in runs(bench, "turn") if r.background] == [True, True]
    assert bench.nodes.count("understand") == 2


async def test_new_work_said_to_an_open_question_puts_that_off_and_answers_nothing(make: Make) -> None:
    slow = Held(writes("store.py"))
    colour = {"text": "Which colour?", "options": ["red", "blue"]}
    asks = decision(profile="creation", objective="side", question=colour, requirements=["painted"])
    new = decision(write("x.txt"), profile="creation", objective="new", requirements=["x"])
    does = decision(write("x.txt"), profile="creation", next_step="done", reply="There.", requirements=["x"])
    bench = make(model([propose(STORE), asks, new, does], tasks=slow))
    await started(bench)
    await slow.is_open()
    assert (await bench.chat.turn("paint it")).status == "asked"
    open_run = bench.session.state.focus or ""
    await bench.chat.turn("no, write x.txt first")
    kept = bench.session.run(open_run)
    objective = bench.session.state.objectives[kept.objective or ""]
    assert (kept.outcome, objective.status) == ("deferred", "deferred")
    slow.may_go.set()
    await until(bench, lambda: (bench.root / "x.txt").exists())
    await through(bench)


async def test_words_for_work_that_is_over_when_they_are_understood_are_work_of_their_own(make: Make) -> None:
    slow, late = Held(writes("store.py")), Held(decision(write("more.txt"), profile="modification", objective="same",
                                                         next_step="done", reply="ok"))  # fmt: skip
    bench = make(model(in_turn(propose(STORE), late), tasks=slow))
    await started(bench)
    await slow.is_open()
    turn = asyncio.ensure_future(bench.chat.turn("and more.txt"))
    await late.is_open()
    slow.may_go.set()
    await through(bench)
    late.may_go.set()
    assert (await turn).status == "satisfied" and bench.read("more.txt") == b"# more.txt\n"
    assert [r.outcome for r in runs(bench, "turn")] == ["satisfied", "satisfied"]


@pytest.mark.parametrize(
    ("said", "kept"), [({"objective": "same"}, True), ({}, False), ({"objective": "new"}, False)],
    ids=["same", "nothing", "new"],
)  # fmt: skip
async def test_paused_work_keeps_only_what_is_meant_for_it(make: Make, said: dict[str, str], kept: bool) -> None:
    slow = Held(writes("store.py"))
    does = decision(write("x.txt"), profile="modification", next_step="done", reply="ok", requirements=["x"], **said)
    heard = decision(write("store.py", "# blue\n"), next_step="done")
    bench = make(model([propose(STORE), does], tasks=slow, execute=heard))
    await started(bench)
    await slow.is_open()
    bench.chat.stop_background()
    await through(bench)
    ending = await bench.chat.turn("x.txt, please")
    assert ending.status == ("answered" if kept else "satisfied")
    assert (bench.root / "x.txt").exists() is not kept
    slow.may_go.set()
    assert bench.chat.go_on()
    await through(bench)
    assert plan_status(bench) == "completed"
    assert any("x.txt, please" in said_to(r) for r in calls(bench, "execute")) is kept
    assert len(runs(bench, "turn")) == 2 and not any(r.outcome == "deferred" for r in runs(bench, "turn"))


# --- words typed while a turn works ---------------------------------------------------------------------------------


async def test_what_is_typed_too_late_for_a_turn_is_the_next_one_with_its_request(make: Make) -> None:
    late = Held(reply("Use a set."))
    bench = make(by_node(understand=in_turn(late, reply("Yes, sets too."))))
    turn = asyncio.ensure_future(bench.chat.turn("list or set?"))
    await late.is_open()
    bench.chat.steer("and are they fast?")
    bench.chat.steer("in Python?")
    late.may_go.set()
    ending = await turn
    assert ending.reply == "Yes, sets too." and bench.nodes == ["understand"] * 2
    assert bench.session.run("run2").request == "and are they fast?\n\nin Python?"
    assert "in Python?" in said_to(bench.asked[1])


async def test_what_is_typed_before_the_message_has_found_its_run_is_not_lost(make: Make) -> None:
    bench = make(by_node(understand=reply("Use a set.")))
    turn = asyncio.ensure_future(bench.chat.turn("list or set?"))
    bench.chat.steer("in Python")  # the turn has not begun
    await turn
    assert "in Python" in said_to(bench.asked[0])


async def test_what_is_typed_while_a_command_runs_is_the_next_turn(make: Make) -> None:
    bench = make(by_node(understand=reply("It said hello.")))
    os.mkfifo(bench.root / "pipe")
    turn = asyncio.ensure_future(bench.chat.command("cat pipe"))
    await until(bench, lambda: any(r.open_actions for r in bench.session.state.runs.values()))
    bench.chat.steer("what did it say?")
    await asyncio.to_thread((bench.root / "pipe").write_text, "hello\n")
    ending = await turn
    assert ending.reply == "It said hello." and bench.session.run("run2").request == "what did it say?"


async def test_words_that_belong_to_another_line_of_work_move_with_the_message(make: Make) -> None:
    asks = decision(profile="creation", question={"text": "Which colour?"}, requirements=["painted"])
    looks = decision(act("file_ops.list_dir", path="."), profile="analysis", objective="new", requirements=["look"])
    second = Held(looks)
    bench = make(by_node(understand=in_turn(asks, second), execute=reply("Nothing is there.", next_step="done"),
                         evaluate=all_evidence))  # fmt: skip
    await bench.chat.turn("paint it")
    turn = asyncio.ensure_future(bench.chat.turn("no: look what is there"))
    await second.is_open()
    bench.chat.steer("only the top level")
    second.may_go.set()
    await turn
    assert "only the top level" in said_to(calls(bench, "execute")[0])


# --- pausing --------------------------------------------------------------------------------------------------------


async def test_a_pause_holds_at_the_next_safe_point_and_says_so_until_it_goes_on(make: Make) -> None:
    slow = Held(tasks(write("store.py"), act("shell.run", command="touch seen"), write("store.py", "2\n")))
    look = decision(act("task_loop.status"), profile="guidance", objective="side", next_step="continue")
    bench = make(model([propose(STORE), look], tasks=slow, execute=reply("It is paused.")))
    await started(bench)
    await slow.is_open()
    assert bench.chat.pause() and not bench.chat.pause()
    slow.may_go.set()
    await until(bench, lambda: bool(bench.session.state.tasks.get("S1")))
    await bench.chat.turn("how is it?")
    shown = calls(bench, "execute")[0].messages[-1].text
    assert "(paused): 0 of 1 steps done" in shown and "run1 turn, paused" in shown
    assert plan_status(bench) == "paused" and not list(bench.root.iterdir())
    assert bench.chat.go_on() and not bench.chat.go_on()
    assert plan_status(bench) == "in_progress"
    await through(bench)
    assert plan_status(bench) == "completed" and bench.read("store.py") == b"2\n"
    assert [r.status for r in bench.events("report")] == ["success"]


async def test_a_step_that_ends_while_its_plan_is_paused_is_marked_at_once(make: Make) -> None:
    bench = make(model(propose({**STORE, "done_when": ["cat pipe"]}, CLI)))
    os.mkfifo(bench.root / "pipe")
    await started(bench)
    await until(bench, lambda: any(a.operation == "shell.run" for r in runs(bench) for a in r.open_actions.values()))
    assert bench.chat.pause()
    await asyncio.to_thread((bench.root / "pipe").write_text, "go\n")
    await until(bench, lambda: steps(bench)["storage"] == "completed")
    assert plan_status(bench) == "paused" and len(runs(bench)) == 1, "and nothing new begins"
    assert bench.chat.go_on()
    await through(bench)
    assert plan_status(bench) == "completed"


async def test_one_step_can_be_paused_while_the_others_go_on(make: Make) -> None:
    slow, other = Held(writes("store.py")), Held(writes("docs.md"))
    bench = make(model(propose(STORE, DOCS), tasks=by_step(storage=slow, docs=other)))
    await started(bench)
    await slow.is_open()
    assert bench.chat.pause("S1")
    slow.may_go.set()
    other.may_go.set()
    await until(bench, lambda: steps(bench)["docs"] == "completed")
    assert steps(bench)["storage"] == "in_progress" and written(bench) == ["docs.md"]
    assert bench.session.run(run_of(bench, "S1")).paused
    assert bench.chat.go_on(), "resuming everything resumes a paused step, too"
    await through(bench)
    assert plan_status(bench) == "completed"


async def test_the_model_pauses_resumes_and_stops_for_the_person(make: Make) -> None:
    slow = Held(writes("store.py"))

    def does(name: str) -> str:
        return decision(act(f"task_loop.{name}"), profile="guidance", objective="side", next_step="continue")

    bench = make(model([propose(STORE), does("pause"), does("pause"), does("resume"), does("stop"), does("stop")],
                       tasks=slow, execute=reply("Told.")))  # fmt: skip
    await started(bench)
    await slow.is_open()
    await bench.chat.turn("wait")
    assert bench.session.run("run1").paused
    await bench.chat.turn("wait!")
    await bench.chat.turn("go on")
    assert not bench.session.run("run1").paused
    await bench.chat.turn("stop it")
    await through(bench)
    assert plan_status(bench) == "paused" and bench.session.run("run1").paused
    await bench.chat.turn("stop it!")
    told = [(e.operation, e.ok) for e in bench.events("action.finished") if e.operation.startswith("task_loop")]
    names = ("pause", True), ("pause", False), ("resume", True), ("stop", True), ("stop", False)
    assert told == [(f"task_loop.{name}", ok) for name, ok in names]
    slow.may_go.set()


# --- stopping and going on ------------------------------------------------------------------------------------------


async def test_a_stop_keeps_the_plan_reports_the_pause_and_it_goes_on_where_it_stopped(make: Make) -> None:
    slow = Held(writes("cli.py"))
    bench = make(model(tasks=by_step(storage=writes("store.py"), commands=slow)))
    await started(bench)
    await slow.is_open()
    assert bench.chat.stop_background()
    await through(bench)
    assert plan_status(bench) == "paused" and steps(bench) == {"storage": "completed", "commands": "pending"}
    (reported,) = bench.events("report")
    assert (reported.status, reported.succeeded, reported.total) == ("paused", 1, 2)
    assert any("can go on where it stopped" in text for kind, text in bench.said() if kind == "report")
    run = bench.session.run("run1")
    assert (run.outcome, run.paused, run.status) == (None, True, "REQUIRES_USER_INPUT")
    slow.may_go.set()
    assert bench.chat.go_on()
    await through(bench)
    assert plan_status(bench) == "completed" and written(bench) == ["store.py", "cli.py"]
    assert [r.status for r in bench.events("report")] == ["paused", "success"]
    assert len(calls(bench, "tasks", "storage")) == 1


async def test_stopping_twice_is_stopping_once(make: Make) -> None:
    bench = make(model(propose(STORE), tasks=tasks(act("shell.run", command="cat pipe"))))
    os.mkfifo(bench.root / "pipe")
    await started(bench)
    await until(bench, lambda: any(r.open_actions for r in runs(bench)))
    bench.chat.stop_background()
    await asyncio.sleep(0)
    bench.chat.stop_background()
    await through(bench)
    assert plan_status(bench) == "paused" and not any(r.open_actions for r in runs(bench))


async def test_one_stopped_step_leaves_the_others_at_work_and_the_plan_paused(make: Make) -> None:
    slow, other = Held(writes("store.py")), Held(writes("docs.md"))
    bench = make(model(propose(STORE, CLI, DOCS), tasks=by_step(storage=slow, docs=other, commands=writes("cli.py"))))
    await started(bench)
    await slow.is_open()
    await other.is_open()
    assert bench.chat.stop_background("S1") and not bench.chat.stop_background("S7")
    other.may_go.set()
    await through(bench)
    assert steps(bench) == {"storage": "pending", "commands": "pending", "docs": "completed"}
    assert plan_status(bench) == "paused" and bench.session.run("run1").paused
    assert "evaluate" not in bench.nodes, "a plan that was stopped is not judged"
    slow.may_go.set()
    assert bench.chat.go_on()
    await through(bench)
    assert plan_status(bench) == "completed" and sorted(written(bench)) == ["cli.py", "docs.md", "store.py"]


async def test_a_step_that_was_stopped_goes_on_by_its_own_name_through_its_plan(make: Make) -> None:
    slow = Held(writes("store.py"))
    bench = make(model(propose(STORE), tasks=slow))
    await started(bench)
    await slow.is_open()
    bench.chat.stop_background("S1")
    await through(bench)
    slow.may_go.set()
    assert bench.chat.go_on("S1")
    await through(bench)
    assert plan_status(bench) == "completed" and bench.session.run("run1").outcome == "satisfied"
    assert not [r for r in bench.asked if r.node == "understand" and step_of(r)]


async def test_going_on_twice_or_with_work_that_is_under_way_starts_nothing_twice(make: Make) -> None:
    slow, judge = Held(writes("store.py")), Held(all_evidence)
    bench = make(model(propose(STORE), tasks=slow, evaluate=judge))
    await started(bench)
    await slow.is_open()
    bench.chat.stop_background()
    await through(bench)
    slow.may_go.set()
    assert bench.chat.go_on()
    bench.chat.go_on()
    await judge.is_open()
    assert not bench.chat.go_on(), "it is being judged: nobody has to begin it again"
    judge.may_go.set()
    await through(bench)
    assert bench.nodes.count("evaluate") == 1 and written(bench) == ["store.py"]


async def test_a_stop_withdraws_an_open_card_and_nothing_happens(make: Make) -> None:
    person = Asks()
    bench = make(model(propose(STORE), tasks=tasks(write("other.py"), write("store.py"))), person)
    await started(bench)
    await until(bench, lambda: bool(person.open()))
    (request,) = person.open()
    assert bench.chat.stop_background()
    await through(bench)
    assert not person.open() and not person.says(request, "yes")
    assert not list(bench.root.iterdir()) and plan_status(bench) == "paused"
    answered = [e for e in bench.events("gate.answered") if e.operation.startswith("file_ops")]
    assert [(e.answer, e.by) for e in answered] == [("no", "stop")]
    step = bench.session.run(run_of(bench, "S1"))
    assert step.step == "PLANNING" and not step.agent.pending_gate
    assert bench.chat.go_on()
    await until(bench, lambda: bool(person.open()))
    person.says(person.open()[0], "yes")
    await through(bench)
    assert written(bench) == ["other.py", "store.py"] and plan_status(bench) == "completed"


async def test_a_stop_while_waiting_for_the_workspace_never_lets_the_effect_happen(make: Make) -> None:
    slow, first = Held(writes("docs.md")), tasks(act("shell.run", command="cat pipe"), write("store.py"))
    bench = make(model(propose(STORE, DOCS), tasks=by_step(storage=first, docs=slow)))
    os.mkfifo(bench.root / "pipe")
    await started(bench)
    await until(bench, lambda: any(r.open_actions for r in runs(bench)))  # it holds the workspace
    slow.may_go.set()
    await until(bench, lambda: any(t.status == "in_progress" for t in bench.session.state.tasks.get("S2", ())))
    await until_waits_for_the_lock(bench)
    assert bench.chat.stop_background("S2")
    await asyncio.to_thread((bench.root / "pipe").write_text, "go\n")
    await through(bench)
    assert not (bench.root / "docs.md").exists() and bench.read("store.py") == b"# store.py\n"
    assert steps(bench) == {"storage": "completed", "docs": "pending"}
    assert len([e for e in bench.events("action.started") if e.summary and "docs.md" in e.summary]) == 0


async def until_waits_for_the_lock(bench: Bench) -> None:
    """The lock has somebody waiting for it: only a look inside can tell."""
    async with asyncio.timeout(20):
        while not bench.kit.dispatcher._lock._waiters:  # noqa: ASYNC110 (a lock tells nobody)
            await asyncio.sleep(0)


async def test_a_change_of_mode_forbids_what_still_waits_for_the_workspace(make: Make) -> None:
    from duckflow import events as ev

    slow, first = Held(writes("docs.md")), tasks(act("shell.run", command="cat pipe"), write("store.py"))
    bench = make(model(propose(STORE, DOCS), evaluate=verdict(0.1), tasks=by_step(storage=first, docs=slow)),
                 settings=ONCE)  # fmt: skip
    os.mkfifo(bench.root / "pipe")
    await started(bench)
    await until(bench, lambda: any(r.open_actions for r in runs(bench)))
    slow.may_go.set()
    await until_waits_for_the_lock(bench)
    bench.session.append(ev.ModeChanged(mode="plan"))
    await asyncio.to_thread((bench.root / "pipe").write_text, "go\n")
    await through(bench)
    assert not (bench.root / "docs.md").exists() and not (bench.root / "store.py").exists()


# --- cards ----------------------------------------------------------------------------------------------------------


async def test_cards_of_the_background_queue_say_who_asks_and_are_answered_in_any_order(make: Make) -> None:
    person = Asks()
    bench = make(model(propose(STORE, DOCS),
                       tasks=by_step(storage=tasks(write("a.txt"), write("store.py")),
                                     docs=tasks(write("b.txt"), write("docs.md")))), person)  # fmt: skip
    await started(bench)
    await until(bench, lambda: len(person.open()) == 2)
    asked = {request.card.asker: request for request in person.open()}
    first, second = (asked[f"step “{name}” of the plan “todo app”"] for name in ("storage", "docs"))
    assert not first.watched and not second.watched
    assert person.says(second, "yes")
    await until(bench, lambda: steps(bench)["docs"] == "completed")
    assert steps(bench)["storage"] == "in_progress" and person.open() == (first,)
    assert person.says(first, "yes")
    await through(bench)
    assert plan_status(bench) == "completed" and sorted(written(bench)) == ["a.txt", "b.txt", "docs.md", "store.py"]


async def test_a_card_can_still_be_answered_after_the_warning(make: Make) -> None:
    person = Asks()
    bench = make(model(propose(STORE), tasks=tasks(write("a.txt"), write("store.py"))), person,
                 settings="[limits]\ngate_timeout_s = 0.01\n")  # fmt: skip
    await started(bench)
    await until(bench, lambda: any(e.code == "gate-waiting" for e in bench.events("warning")))
    assert len(person.open()) == 1 and not list(bench.root.iterdir())
    assert person.says(person.open()[0], "yes")
    await through(bench)
    assert plan_status(bench) == "completed"


async def test_a_refused_card_goes_back_to_the_step_as_a_comment(make: Make) -> None:
    person = Asks()
    other = decision(write("store.py"), next_step="done")
    bench = make(model(propose({**STORE, "done_when": ["true"]}), tasks=tasks(write("a.txt")), execute=other), person)
    await started(bench)
    await until(bench, lambda: bool(person.open()))
    person.says(person.open()[0], "no", "only store.py, please")
    await until(bench, lambda: bool(person.open()))
    assert "only store.py, please" in said_to(calls(bench, "execute")[0])
    person.says(person.open()[0], "yes")
    await through(bench)
    assert written(bench) == ["store.py"] and plan_status(bench) == "completed"


async def test_a_question_of_a_step_goes_through_the_door_and_the_answer_reaches_it(make: Make) -> None:
    person = Asks()
    asks = decision(question={"text": "Which colour?", "options": ["red", "blue"]}, actions=[])
    paints = decision(write("store.py", "# blue\n"), next_step="done")
    bench = make(model(propose(STORE), tasks=tasks(), execute=[asks, paints]), person)
    await started(bench)
    await until(bench, lambda: bool(person.open()))
    (request,) = person.open()
    assert (request.kind, request.watched, request.card.title) == ("question", False, "Which colour?")
    assert "storage" in request.card.asker and not bench.chat.busy
    person.says(request, "no", "2で")
    await through(bench)
    assert "(the answer to your question: blue)" in said_to(calls(bench, "execute")[1])
    assert plan_status(bench) == "completed"


async def test_a_step_that_waits_for_the_person_in_words_asks_through_the_door_too(make: Make) -> None:
    person = Asks()
    asks = decision(next_step="pending_user", reply="Which colour do you want?", actions=[])
    paints = decision(write("store.py", "# blue\n"), next_step="done")
    bench = make(model(propose(STORE), tasks=tasks(), execute=[asks, paints]), person)
    await started(bench)
    await until(bench, lambda: bool(person.open()))
    assert person.open()[0].card.title == "Which colour do you want?"
    person.says(person.open()[0], "no", "blue")
    await through(bench)
    assert "blue" in said_to(calls(bench, "execute")[1]) and plan_status(bench) == "completed"


async def test_a_question_left_open_by_a_stop_is_asked_again(make: Make) -> None:
    person = Asks()
    asks = decision(question={"text": "Which colour?", "options": ["red", "blue"]}, actions=[])
    paints = decision(write("store.py", "# blue\n"), next_step="done")
    bench = make(model(propose(STORE), tasks=tasks(), execute=[asks, paints]), person)
    await started(bench)
    await until(bench, lambda: bool(person.open()))
    bench.chat.stop_background()
    await through(bench)
    assert not person.open()
    bench.chat.go_on()
    await until(bench, lambda: bool(person.open()))
    assert person.open()[0].card.title == "Which colour?"
    person.says(person.open()[0], "blue")
    await through(bench)
    assert "Which colour?" in said_to(calls(bench, "execute")[-1]) or "blue" in said_to(calls(bench, "execute")[-1])
    assert plan_status(bench) == "completed"


# --- when something breaks ------------------------------------------------------------------------------------------


def breaks(error: Exception) -> Callable[[ModelRequest], str]:
    def model(request: ModelRequest) -> str:
        raise error

    return model


async def test_an_exception_in_one_step_never_ends_another(make: Make) -> None:
    slow = Held(writes("docs.md"))
    bench = make(model([propose(STORE, CLI, DOCS), *[DONE] * 5],
                       tasks=by_step(storage=breaks(RuntimeError("boom")), docs=slow)), settings=ONCE)  # fmt: skip
    await started(bench)
    await until(bench, lambda: steps(bench)["storage"] == "failed")
    slow.may_go.set()
    await through(bench)
    assert steps(bench) == {"storage": "failed", "commands": "blocked", "docs": "completed"}
    assert "RuntimeError: boom" in bench.session.state.plans["P1"].steps[0].reason
    assert bench.session.state.objectives["O1"].status == "escalated"


async def test_a_bug_in_background_work_is_told_and_the_work_can_be_taken_up_again(make: Make) -> None:
    judge: list[Any] = [breaks(RuntimeError("boom")), all_evidence]
    bench = make(model([propose(STORE), reply("Still here.", objective="side")],
                       evaluate=lambda request: judge.pop(0)(request)))  # fmt: skip
    await started(bench)
    await through(bench)
    assert any("RuntimeError: boom" in e.message for e in bench.events("error"))
    run = bench.session.run("run1")
    assert (run.outcome, run.paused, plan_status(bench)) == (None, True, "completed")
    assert (await bench.chat.turn("are you there?")).reply == "Still here."
    assert bench.chat.go_on()
    await through(bench)
    assert bench.session.run("run1").outcome == "satisfied" and written(bench) == ["store.py"]


@pytest.mark.parametrize(
    "failure",
    [Reply(error=503), breaks(BudgetSpent("spent")), breaks(CredentialsError("no key"))],
    ids=["service", "budget", "key"],
)
@pytest.mark.parametrize("node", ["tasks", "execute", "evaluate"])
async def test_a_service_that_fails_pauses_the_plan_keeps_what_is_done_and_says_so(
    make: Make, failure: Any, node: str
) -> None:
    broken = {"now": True}

    def flaky(good: Any) -> Callable[[ModelRequest], Any]:
        def answer(request: ModelRequest) -> Any:
            if broken["now"] and step_of(request) in ("commands", ""):
                return failure(request) if callable(failure) else failure
            return good(request) if callable(good) else good

        return answer

    listed = by_step(storage=writes("store.py"), commands=tasks() if node == "execute" else writes("cli.py"))
    nodes = {"tasks": listed, "execute": decision(write("cli.py"), next_step="done"), "evaluate": all_evidence}
    bench = make(model(**{**nodes, node: flaky(nodes[node])}))
    await started(bench)
    await through(bench)
    done = {"storage": "completed", "commands": "completed" if node == "evaluate" else "pending"}
    assert steps(bench) == done and bench.session.run("run1").paused
    assert plan_status(bench) == ("completed" if node == "evaluate" else "paused")
    assert bench.events("error") and bench.session.run("run1").outcome is None
    if node != "evaluate":
        (reported,) = bench.events("report")
        assert (reported.status, reported.succeeded) == ("paused", 1) and reported.causes
        reason = bench.session.state.plans["P1"].steps[1].reason
        assert reason in reported.causes and reason != STOPPED, "the step says what stood in its way"
    broken["now"] = False
    bench.kit.models._locked_out.clear()
    assert bench.chat.go_on()
    await through(bench)
    assert plan_status(bench) == "completed" and written(bench) == ["store.py", "cli.py"]
    assert bench.session.run("run1").outcome == "satisfied"


async def test_two_steps_that_end_together_are_both_counted_when_one_meets_a_failing_service(make: Make) -> None:
    good, bad = Held(writes("store.py")), Held(Reply(error=503))
    bench = make(model(propose(STORE, DOCS), tasks=by_step(storage=good, docs=bad)))
    await started(bench)
    await good.is_open()
    await bad.is_open()
    good.may_go.set()
    bad.may_go.set()
    await through(bench)
    finished = [r for r in runs(bench) if r.outcome == "satisfied"]
    assert steps(bench)["docs"] == "pending"
    assert (steps(bench)["storage"] == "completed") is (len(finished) == 1)


# --- loose lists ----------------------------------------------------------------------------------------------------


def loose(*actions: dict[str, Any], **fields: Any) -> str:
    given = act("task_loop.run", tasks=list(actions))
    return decision(given, **{"profile": "creation", "requirements": ["there"], "next_step": "done", **fields})


async def test_a_loose_list_that_is_stopped_is_over_and_its_report_says_how_far_it_came(make: Make) -> None:
    bench = make(model([loose(write("a.txt"), act("shell.run", command="cat pipe"), write("b.txt")), *[DONE] * 5]),
                 settings=ONCE)  # fmt: skip
    os.mkfifo(bench.root / "pipe")
    await started(bench)
    await until(bench, lambda: any(r.open_actions for r in runs(bench, "tasks")))
    (listed,) = runs(bench, "tasks")
    assert bench.chat.stop_background(listed.id)
    await through(bench)
    assert bench.session.run(listed.id).outcome == "cancelled" and written(bench) == ["a.txt"]
    (reported,) = bench.events("report")
    assert (reported.status, reported.succeeded, reported.total) == ("partial", 1, 3)


async def test_a_loose_list_goes_on_after_everything_was_stopped(make: Make) -> None:
    person = Asks()
    bench = make(model(loose(write("a.txt"), act("shell.run", command="true"), write("b.txt"))), person)
    await started(bench)
    await until(bench, lambda: bool(person.open()))
    person.says(person.open()[0], "yes")
    await until(bench, lambda: bool(person.open()) and person.open()[0].card.preview == "true")
    bench.chat.stop_background()
    await through(bench)
    assert written(bench) == ["a.txt"] and not bench.events("report")
    assert bench.chat.go_on()
    for _ in range(2):
        await until(bench, lambda: bool(person.open()))
        person.says(person.open()[0], "yes")
    await through(bench)
    assert written(bench) == ["a.txt", "b.txt"] and [r.status for r in bench.events("report")] == ["success"]
    assert bench.session.run("run1").outcome == "satisfied"


async def test_a_run_decides_nothing_more_before_its_list_is_through_and_its_report_is_known(make: Make) -> None:
    person = Asks()
    bench = make(model(loose(write("a.txt"), next_step="continue"), execute=DONE), person)
    turn = asyncio.ensure_future(bench.chat.turn("write a.txt"))
    await until(bench, lambda: bool(person.open()))
    assert (await turn).status == "background", "and the conversation is free"
    assert bench.nodes == ["understand"]
    person.says(person.open()[0], "yes")
    await through(bench)
    assert bench.nodes == ["understand", "report", "execute", "evaluate"]
    assert "Background work: 1 of 1 task done." in said_to(calls(bench, "execute")[0])
    assert bench.session.run("run1").outcome == "satisfied"


async def test_words_reach_a_loose_list(make: Make) -> None:
    person = Asks()
    same = decision(profile="modification", objective="same", reply="", actions=[])
    heard = decision(write("a.txt", "blue\n"), next_step="done")
    bench = make(model([loose(write("a.txt")), same], execute=heard), person)
    await started(bench)
    await until(bench, lambda: bool(person.open()))
    await bench.chat.turn("in blue")
    person.says(person.open()[0], "yes")
    await until(bench, lambda: bool(person.open()))
    person.says(person.open()[0], "yes")
    await through(bench)
    assert bench.read("a.txt") == b"blue\n" and "in blue" in said_to(calls(bench, "execute")[0])


# --- leaving --------------------------------------------------------------------------------------------------------


async def test_leaving_keeps_the_plan_and_a_new_process_goes_on_where_it_stopped(make: Make) -> None:
    slow = Held(writes("cli.py"))
    bench = make(model(tasks=by_step(storage=writes("store.py"), commands=slow)))
    await started(bench)
    await slow.is_open()
    await bench.chat.close()
    assert plan_status(bench) == "paused" and not bench.chat._jobs.beside
    assert bench.store.sessions()[0].status == "REQUIRES_USER_INPUT", "it is offered as unfinished"
    again = make(model(), resume=True)
    assert again.chat.go_on()
    await through(again)
    assert plan_status(again) == "completed" and written(again) == ["store.py", "cli.py"]
    assert again.nodes == ["tasks", "evaluate", "report"]


async def test_words_that_did_not_reach_the_work_before_everybody_left_reach_it_afterwards(make: Make) -> None:
    slow = Held(writes("store.py"))
    same = decision(profile="modification", objective="same", reply="", actions=[])
    bench = make(model([propose(STORE), same], tasks=slow))
    await started(bench)
    await slow.is_open()
    await bench.chat.turn("in blue, please")
    await bench.chat.close()
    heard = decision(write("store.py", "# blue\n"), next_step="done")
    again = make(model(execute=heard), resume=True)
    assert again.chat.go_on()
    await through(again)
    assert "in blue, please" in said_to(calls(again, "execute")[0]) and again.read("store.py") == b"# blue\n"


async def test_a_plan_whose_run_is_over_is_carried_on_by_a_new_one(make: Make) -> None:
    from duckflow.config import Overrides

    auto = Overrides(mode="auto")
    broken = model(tasks=by_step(storage=writes("store.py"), commands=Reply(error=503)))
    bench = make(broken, None, overrides=auto)
    ending = await bench.chat.turn("build a todo app")
    assert ending.exit_code == 75 and plan_status(bench) == "paused" and bench.session.run("run1").outcome == "failed"
    again = make(model(), resume=True, overrides=auto)
    assert again.chat.go_on()
    await through(again)
    assert plan_status(again) == "completed" and written(again) == ["store.py", "cli.py"]
    assert again.session.state.objectives["O1"].status == "satisfied"


async def test_new_work_that_still_waited_when_everybody_left_begins_after_the_other(make: Make) -> None:
    slow = Held(writes("store.py"))
    new = decision(write("other.txt"), profile="creation", objective="new", requirements=["other"])
    does = decision(write("other.txt"), profile="creation", next_step="done", reply="There.", requirements=["other"])
    bench = make(model([propose(STORE), new], tasks=slow))
    await started(bench)
    await slow.is_open()
    await bench.chat.turn("then write other.txt")
    await bench.chat.close()
    again = make(model([does]), resume=True)
    assert again.chat.go_on()
    await until(again, lambda: (again.root / "other.txt").exists())
    await through(again)
    assert written(again) == ["store.py", "other.txt"]


async def test_a_part_that_goes_on_lets_the_whole_go_on_however_it_was_held(make: Make) -> None:
    slow = Held(writes("store.py"))
    bench = make(model(propose(STORE), tasks=slow))
    await started(bench)
    await slow.is_open()
    bench.chat.pause()
    bench.chat.stop_background()
    await through(bench)
    slow.may_go.set()
    assert bench.chat.go_on("S1")
    await through(bench)
    assert plan_status(bench) == "completed"


async def test_background_work_that_waits_in_words_asks_through_the_door(make: Make) -> None:
    person = Asks()
    slow = Held(writes("store.py"))
    new = decision(profile="creation", objective="new", reply="Later.", actions=[])
    waits = decision(profile="creation", next_step="pending_user", reply="Which name?", actions=[], requirements=["x"])
    does = decision(write("x.txt"), profile="creation", next_step="done", reply="There.", requirements=["x"])
    bench = make(model([propose(STORE), new, waits, does], tasks=slow, execute=does), person)
    await started(bench)
    await slow.is_open()
    await bench.chat.turn("then write a file")
    slow.may_go.set()
    await until(bench, lambda: bool(person.open()))
    (request,) = person.open()
    assert request.card.title == "Which name?" and not request.watched
    person.says(request, "no", "x.txt")
    await until(bench, lambda: bool(person.open()))
    person.says(person.open()[0], "yes")
    await through(bench)
    assert bench.read("x.txt") == b"# x.txt\n"


async def test_background_work_that_is_put_off_rests_and_can_be_taken_up(make: Make) -> None:
    slow = Held(writes("store.py"))
    new = decision(profile="creation", objective="new", reply="Later.", actions=[])
    later = decision(profile="creation", next_step="defer", reply="Tomorrow.", actions=[], requirements=["x"])
    does = decision(write("x.txt"), profile="creation", next_step="done", reply="There.", requirements=["x"])
    bench = make(model([propose(STORE), new, later, does], tasks=slow))
    await started(bench)
    await slow.is_open()
    await bench.chat.turn("then write a file")
    slow.may_go.set()
    await until(bench, lambda: any(r.paused for r in runs(bench, "turn")))
    await through(bench)
    assert bench.chat.go_on()
    await through(bench)
    assert bench.read("x.txt") == b"# x.txt\n"


async def test_resuming_everything_leaves_work_alone_that_waits_for_a_choice(make: Make) -> None:
    bench = make(model([propose({**STORE, "done_when": ["false"]}), *[DONE] * 5], evaluate=verdict(0.1)), settings=ONCE)
    await started(bench)
    await through(bench)
    assert bench.session.run("run1").escalated and not bench.chat.go_on()
    ending = await bench.chat.turn("3")
    assert ending.status == "partial" and bench.session.run("run1").outcome == "partial"


async def test_a_stop_right_after_going_on_leaves_nothing_behind_that_seems_to_run(make: Make) -> None:
    person = Asks()
    bench = make(model(loose(write("a.txt"))), person)
    await started(bench)
    await until(bench, lambda: bool(person.open()))
    bench.chat.stop_background()
    await through(bench)
    for _ in range(3):
        assert bench.chat.go_on() and bench.chat.stop_background()
        await through(bench)
        assert not bench.chat._jobs.beside and not bench.kit.background._jobs and bench.session.run("run1").paused
    assert bench.chat.go_on()
    await until(bench, lambda: bool(person.open()))
    person.says(person.open()[0], "yes")
    await through(bench)
    assert written(bench) == ["a.txt"] and bench.session.run("run1").outcome == "satisfied"


async def test_a_choice_lets_work_go_on_that_was_paused_meanwhile(make: Make) -> None:
    judge = Held(verdict(0.1))
    does = decision(write("store.py", "# other\n"), profile="creation", next_step="done", reply="ok")
    bench = make(model(in_turn(propose(STORE), does), evaluate=in_turn(judge, all_evidence)), settings=ONCE)
    await started(bench)
    await judge.is_open()
    assert bench.chat.pause()
    judge.may_go.set()
    await through(bench)
    run = bench.session.run("run1")
    assert run.escalated and run.paused
    await bench.chat.turn("2")
    await through(bench)
    assert bench.session.run("run1").outcome == "satisfied" and bench.read("store.py") == b"# other\n"


async def test_a_running_plan_is_not_meddled_with(make: Make) -> None:
    slow = Held(writes("store.py"))
    meddles = decision(
        act("plan_tool.update_step", step_id="S2", status="in_progress"),
        act("plan_tool.list"),
        act("plan_tool.update_step", step_id="S1", status="failed"),
        act("plan_tool.list"),
        act("plan_tool.delete", plan_id="P1"),
        profile="guidance",
        objective="side",
        next_step="continue",
    )
    bench = make(model([propose(), meddles, meddles], tasks=by_step(storage=slow, commands=writes("cli.py")),
                       execute=reply("I cannot.")))  # fmt: skip
    await started(bench)
    await slow.is_open()
    for _ in range(2):  # under way, and paused
        await bench.chat.turn("change the plan")
        bench.chat.pause()
    wrong = [e.error for e in bench.events("action.finished") if e.operation.startswith("plan_tool") and e.error]
    assert len(wrong) == 6 and "begins when it is ready" in wrong[0]
    assert all("runs right now" in text for text in (wrong[1], wrong[2], wrong[4], wrong[5]))
    bench.chat.go_on()
    slow.may_go.set()
    await through(bench)
    assert plan_status(bench) == "completed"


async def test_a_step_is_not_begun_again_while_its_work_is_being_judged(make: Make) -> None:
    judge = Held(verdict(0.1))
    again = decision(act("task_loop.run", step_id="S1"), profile="guidance", objective="side", next_step="continue")
    bench = make(model([propose({**STORE, "done_when": ["false"]}), again, *[DONE] * 5], evaluate=judge,
                       execute=lambda r: DONE if step_of(r) else reply("Not now.")), settings=ONCE)  # fmt: skip
    await started(bench)
    await judge.is_open()
    await bench.chat.turn("run it again")
    (tried,) = [e for e in bench.events("action.finished") if e.operation == "task_loop.run"]
    assert not tried.ok and "still works on it" in tried.error
    judge.may_go.set()
    await through(bench)
    assert len(runs(bench)) == 1 and plan_status(bench) == "failed"


async def test_a_word_of_somebody_else_about_a_plan_does_not_make_it_theirs(make: Make) -> None:
    from duckflow.engine.planning import mark
    from duckflow.record import replace
    from duckflow.state.plan import plan_changed

    bench = make(model(propose(STORE)))
    await started(bench)
    await through(bench)
    approved = replace(bench.session.state.plans["P1"], status="approved")
    bench.session.append(plan_changed(approved), run="run1")
    other = bench.session.start_run()
    mark(bench.kit, other, "P1", "S1", "pending")
    assert bench.session.state.plans["P1"].run == "run1"


async def test_a_list_stopped_in_the_moment_it_was_started_is_over(make: Make) -> None:
    bench = make(model(reply("Hello.")))
    await bench.chat.turn("hello")
    listed = bench.kit.background.start_list("run1", Assignment("g", actions=(Action(**write("a.txt")),)))
    assert bench.kit.background.stop(listed)
    await until(bench, lambda: bool(bench.events("report")))
    assert bench.session.run(listed).outcome == "cancelled" and not written(bench)
