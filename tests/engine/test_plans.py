"""Plans, with real parts and a scripted model: from the proposal over approval, tasks and proof to the verdict."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from duckflow import events as ev
from duckflow.config import Overrides
from duckflow.errors import ServiceUnavailable
from duckflow.human import Request
from duckflow.llm.scripted import Reply
from duckflow.state.plan import PlanStep
from tests.engine.plans import (
    CLI,
    DOCS,
    DONE,
    REPORT,
    STORE,
    Make,
    benches,
    by_step,
    plan,
    propose,
    started,
    step_of,
    tasks,
    through,
    write,
    writes,
)
from tests.engine.workbench import Bench, act, all_evidence, by_node, decision, verdict

BOTH = by_step(storage=writes("store.py"), commands=writes("cli.py"))
HEADLESS = Overrides(mode="auto")


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    with benches(tmp_path) as made:
        yield made


def model(understand: Any = None, **nodes: Any) -> Any:
    given = {"tasks": BOTH, "evaluate": all_evidence, "report": REPORT, "execute": DONE, **nodes}
    return by_node(understand=understand or propose(), **given)


def cards(bench: Bench) -> list[Request]:
    assert bench.person is not None
    return bench.person.seen


def asked_for(bench: Bench) -> list[str]:
    """What the cards of the steps showed, the plan's own left out."""
    return [request.card.preview for request in cards(bench) if request.kind != "plan"]


def steps(bench: Bench) -> list[tuple[str, str]]:
    newest = list(bench.session.state.plans.values())[-1]
    return [(step.name, step.status) for step in newest.steps]


def the_plan(bench: Bench) -> Any:
    return list(bench.session.state.plans.values())[-1]


def task_states(bench: Bench) -> list[str]:
    return [task.status for found in bench.session.state.tasks.values() for task in found]


def results(bench: Bench, operation: str) -> list[Any]:
    return [e for e in bench.events("action.finished") if e.operation == operation]


# --- from the proposal to the verdict -------------------------------------------------------------------------------


async def test_an_approved_plan_runs_in_the_background_and_is_judged(make: Make) -> None:
    bench = make(model())
    await started(bench)
    assert not bench.chat.busy
    await through(bench)
    assert bench.read("store.py") == b"# store.py\n" and bench.read("cli.py") == b"# cli.py\n"
    assert bench.nodes == ["understand", "tasks", "tasks", "evaluate", "report"]
    assert the_plan(bench).status == "completed"
    assert steps(bench) == [("storage", "completed"), ("commands", "completed")]
    assert [r.kind for r in cards(bench)] == ["plan"]
    (reported,) = bench.events("report")
    assert (reported.status, reported.succeeded, reported.total) == ("success", 2, 2)
    assert bench.session.state.objectives["O1"].status == "satisfied"
    assert {r.kind: r.outcome for r in bench.session.state.runs.values()} == {"turn": "satisfied", "step": "satisfied"}


async def test_without_a_person_the_plan_is_carried_out_inside_the_turn(make: Make) -> None:
    bench = make(model(), None, overrides=HEADLESS)
    ending = await bench.chat.turn("build a todo app")
    assert ending.status == "satisfied" and "2 of 2 steps" in ending.reply and "Both parts" in ending.reply


async def test_a_goal_alone_costs_one_plan_call_that_carries_the_conversation(make: Make) -> None:
    wants = decision(act("plan_tool.propose", goal="a small todo app"), profile="creation", requirements=["it runs"])
    bench = make(model(wants, plan=json.dumps(plan())))
    await started(bench, "build a todo app, with a red button")
    await through(bench)
    assert bench.nodes == ["understand", "plan", "tasks", "tasks", "evaluate", "report"]
    call = bench.asked[1]
    assert any("with a red button" in message.text for message in call.messages[1:])
    assert "Procedure: plan" in call.messages[-1].text and "R1 it runs" in call.messages[-1].text
    assert the_plan(bench).status == "completed"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (plan({**STORE, "depends_on": ["commands"]}, CLI), "in a circle: storage → commands → storage"),
        (plan({**STORE, "depends_on": ["cli"]}), "depends on 'cli', which is no step"),
        (plan(STORE, STORE), "two steps are called 'storage'"),
        ({"steps": []}, "cannot be read: steps"),
        ({"steps": [{"description": "no name"}]}, "cannot be read: steps.0.name"),
    ],
)
async def test_a_plan_that_does_not_fit_goes_back_to_the_model_and_shows_no_card(
    make: Make, given: dict[str, Any], says: str
) -> None:
    wrong = decision(act("plan_tool.propose", goal="g", plan=given), profile="creation", requirements=["r"])
    bench = make(model(wrong, execute=[propose()]))
    await started(bench)
    await through(bench)
    assert says in results(bench, "plan_tool.propose")[0].error
    assert len(cards(bench)) == 1 and the_plan(bench).status == "completed"


async def test_an_unreadable_plan_is_a_failed_action_and_the_model_may_bring_one_itself(make: Make) -> None:
    wants = decision(act("plan_tool.propose", goal="a small todo app"), profile="creation", requirements=["r"])
    bench = make(model(wants, plan="no plan", execute=[propose()]))
    await started(bench)
    await through(bench)
    assert "no plan came of it" in results(bench, "plan_tool.propose")[0].error
    assert the_plan(bench).status == "completed"


async def test_a_service_that_fails_while_a_plan_is_made_ends_the_turn_with_its_own_code(make: Make) -> None:
    wants = decision(act("plan_tool.propose", goal="a small todo app"), profile="creation", requirements=["r"])
    bench = make(model(wants, plan=Reply(error=503)))
    ending = await bench.chat.turn("build it")
    assert isinstance(ending.error, ServiceUnavailable) and ending.exit_code == 75
    assert not bench.session.run("run1").open_actions and bench.nodes.count("execute") == 0


# --- who approves ---------------------------------------------------------------------------------------------------


async def test_nobody_can_approve_a_plan_in_ask_mode_without_a_person(make: Make) -> None:
    done = decision(profile="creation", next_step="done", reply="All built.", actions=[])
    bench = make(model(execute=done), None)
    ending = await bench.chat.turn("build a todo app")
    assert ending.exit_code == 4 and "All built" not in ending.reply
    assert the_plan(bench).status == "refused" and not list(bench.root.iterdir())


async def test_a_refused_plan_is_made_again_with_the_comment(make: Make) -> None:
    again = propose(STORE)
    said = iter([("no", "only the storage"), ("yes", "")])
    bench = make(model(execute=again), lambda _request: next(said))
    await started(bench)
    await through(bench)
    assert "only the storage" in bench.asked[1].messages[-1].text
    assert [p.status for p in bench.session.state.plans.values()] == ["replaced", "completed"]
    assert bench.session.state.objectives["O1"].status == "satisfied"


async def test_the_model_cannot_approve_its_own_plan_it_only_opens_the_card_again(make: Make) -> None:
    approve = decision(act("plan_tool.approve", plan_id="P1"), profile="creation")
    bench = make(model(execute=[approve, DONE, DONE, DONE, DONE]), lambda _request: "no",
                 settings="[objective]\nmax_attempts = 1\n")  # fmt: skip
    await bench.chat.turn("build it")
    assert [r.kind for r in cards(bench)] == ["plan"] * 2
    assert the_plan(bench).status == "refused" and not the_plan(bench).approved and not list(bench.root.iterdir())
    assert bench.nodes.count("tasks") == 0


async def test_a_card_opened_again_by_the_model_may_be_answered_with_yes(make: Make) -> None:
    approve = decision(act("plan_tool.approve", plan_id="P1"), profile="creation")
    said = iter(["no", "yes"])
    bench = make(model(execute=approve), lambda _request: next(said))
    await started(bench)
    await through(bench)
    assert the_plan(bench).status == "completed" and the_plan(bench).approved == the_plan(bench).hash
    assert the_plan(bench).reason == ""


@pytest.mark.parametrize(
    ("mode", "allow", "deny", "cards_shown", "status"),
    [
        ("ask", (), (), 1, "completed"),
        ("auto-edit", (), (), 1, "completed"),
        ("auto", (), (), 0, "completed"),
        ("ask", ("plan_tool.approve",), (), 0, "completed"),
        ("ask", ("plan_tool.*",), (), 0, "completed"),
        ("plan", (), (), 0, "refused"),
        ("plan", ("plan_tool.approve",), (), 0, "refused"),
        ("auto", (), ("plan_tool.approve",), 0, "refused"),
        ("ask", ("plan_tool.approve",), ("plan_tool.approve",), 0, "refused"),
    ],
)
async def test_only_a_person_a_rule_or_the_mode_auto_approves(
    make: Make, mode: Any, allow: tuple[str, ...], deny: tuple[str, ...], cards_shown: int, status: str
) -> None:
    overrides = Overrides(mode=mode, allow=allow, deny=deny)
    bench = make(model(), overrides=overrides, settings="[objective]\nmax_attempts = 1\n")
    await bench.chat.turn("build it")
    await through(bench)
    assert len([r for r in cards(bench) if r.kind == "plan"]) == cards_shown
    assert the_plan(bench).status == status
    assert bool(list(bench.root.iterdir())) is (status == "completed")
    by = {e.by for e in bench.events("gate.answered") if e.operation == "plan_tool.approve"}
    assert by == {"user"} if cards_shown else by <= {"rule", "mode"}


async def test_an_ask_rule_shows_the_card_in_the_mode_auto(make: Make) -> None:
    bench = make(model(), overrides=HEADLESS, settings='[rules]\nask = ["plan_tool.approve"]\n')
    await started(bench)
    await through(bench)
    assert [r.kind for r in cards(bench)] == ["plan"] and the_plan(bench).status == "completed"


async def test_the_approval_and_what_it_makes_of_the_plan_are_written_as_one(make: Make) -> None:
    bench = make(model())
    ends: list[int] = []
    bench.session.subscribe(lambda _event: ends.append(bench.session.state.last_seq))
    await started(bench)
    await through(bench)
    events = list(bench.store.events(bench.session.id))
    said = next(e.seq for e in events if e.body.type == "gate.answered")
    kept = next(e.seq for e in events if e.body.type == "plan.changed" and e.body.status == "approved")  # type: ignore[attr-defined]
    first_end = next(end for end in ends if end >= said)
    assert kept <= first_end, "a kill between them would lose the person's yes"


# --- what the card shows --------------------------------------------------------------------------------------------


async def test_the_card_shows_everything_the_yes_is_about(make: Make) -> None:
    first = {**STORE, "commands": ["pip install x"], "done_when": ["python -m pytest tests"]}
    given = act("plan_tool.propose", goal="g", plan=plan(
        first, CLI, risks=[{"risk": "data may be lost", "level": "high"}], success_criteria=["it can be played"]
    ))  # fmt: skip
    bench = make(model(decision(given, profile="creation", requirements=["r"]), tasks=tasks()), lambda _r: "no",
                 settings="[objective]\nmax_attempts = 1\n")  # fmt: skip
    await bench.chat.turn("build it")
    card = cards(bench)[0].card
    shown = ("storage", "store.py", "commands", "cli.py", "pip install x", "python -m pytest tests",
             "data may be lost", "high", "it can be played", "after storage")  # fmt: skip
    assert [text for text in shown if text not in card.preview] == []
    assert "store.py, cli.py" in card.impact and "sandbox" in card.impact and card.risk == "MEDIUM"
    (asked,) = bench.events("gate.asked")
    assert asked.preview == card.preview and asked.hash == cards(bench)[0].shown_hash == the_plan(bench).hash


@pytest.mark.parametrize("glob", ["*", "**", "**/*", "./**", ".", "./*", "**/**", "?*", "*/**", "**/*.*", "[!.]*", ""])
async def test_a_step_that_may_write_anywhere_is_flagged(make: Make, glob: str) -> None:
    bench = make(model(propose({**STORE, "files": [glob]})), lambda _r: "no",
                 settings="[objective]\nmax_attempts = 1\n")  # fmt: skip
    await bench.chat.turn("build it")
    assert cards(bench)[0].card.risk == "HIGH" and "any file" in cards(bench)[0].card.risk_reason


@pytest.mark.parametrize("glob", ["src/**", "store.py", "**/*.py", "docs/*.md"])
async def test_a_named_part_of_the_project_is_not(make: Make, glob: str) -> None:
    bench = make(model(propose({**STORE, "files": [glob]})), lambda _r: "no",
                 settings="[objective]\nmax_attempts = 1\n")  # fmt: skip
    await bench.chat.turn("build it")
    assert cards(bench)[0].card.risk == "MEDIUM" and not cards(bench)[0].card.risk_reason


async def test_a_secret_in_a_plan_is_neither_kept_nor_shown_and_the_plan_is_carried_out(make: Make) -> None:
    bench = make(model(propose({**STORE, "description": "use hunter2 there"})))
    bench.session.redact = lambda text: text.replace("hunter2", "[secret]")
    await started(bench)
    await through(bench)
    assert "[secret]" in cards(bench)[0].card.preview and "hunter2" not in cards(bench)[0].card.preview
    assert the_plan(bench).status == "completed"


# --- what the approval covers ---------------------------------------------------------------------------------------


async def test_the_yes_covers_the_declared_writes_of_the_step_and_nothing_else(make: Make) -> None:
    listed = tasks(
        write("store.py"),
        act("file_ops.edit_file", path="store.py", search="# store.py", replace="# mine"),
        write("other.py"),
        act("shell.run", command="true"),
        act("file_ops.delete_file", path="store.py"),
    )
    bench = make(model(propose({**STORE, "commands": ["true"]}), tasks=listed))
    await started(bench)
    await through(bench)
    shown = asked_for(bench)
    assert len(shown) == 3 and "other.py" in shown[0] and shown[1] == "true" and "store.py" in shown[2]
    passed = [e for e in bench.events("gate.answered") if e.by == "grant"]
    assert [e.operation for e in passed] == ["file_ops.write_file", "file_ops.edit_file"]
    assert all("todo app" in e.comment for e in passed)


@pytest.mark.parametrize("path", [".env", "shrinks.txt"])
async def test_what_is_riskier_than_medium_asks_although_it_was_declared(make: Make, path: str) -> None:
    bench = make(model(propose({**STORE, "files": [".env", "*.txt"]}), tasks=tasks(write(path, "short\n"))))
    bench.write("shrinks.txt", "long\n" * 100)
    await started(bench)
    await through(bench)
    assert len(asked_for(bench)) == 1 and bench.session.state.plans["P1"].status == "completed"


async def test_what_one_step_declared_does_not_cover_another(make: Make) -> None:
    bench = make(model(tasks=by_step(storage=writes("store.py"), commands=writes("cli.py", "store.py"))))
    bench.write("note", "x")
    await started(bench)
    await through(bench)
    assert asked_for(bench) == []  # it writes the same text: nothing to do
    bench = make(
        model(tasks=by_step(storage=writes("store.py"), commands=tasks(write("cli.py"), write("store.py", "other\n")))),
        home=bench.root.parent / "second",
    )
    await started(bench)
    await through(bench)
    (shown,) = asked_for(bench)
    assert "store.py" in shown and "cli.py" not in shown


async def test_the_grants_end_with_the_step(make: Make) -> None:
    later = decision(write("store.py", "later\n"), profile="modification", next_step="done", reply="ok",
                     requirements=["r"])  # fmt: skip
    bench = make(model([propose(STORE), later]))
    await started(bench)
    await through(bench)
    await bench.chat.turn("change it again")
    (shown,) = asked_for(bench)
    assert "store.py" in shown


async def test_the_yes_is_bound_to_the_content_of_the_plan(make: Make) -> None:
    from duckflow.engine.plan_card import plan_grants
    from duckflow.record import replace
    from duckflow.state.plan import plan_changed

    bench = make(model(propose(STORE)))
    await started(bench)
    await through(bench)
    run = next(r.id for r in bench.session.state.runs.values() if r.plan_step)
    approved = replace(the_plan(bench), status="in_progress")
    assert plan_grants(replace(bench.session.state, plans={"P1": approved}), run)
    wider = replace(approved, steps=(replace(approved.steps[0], files=("**",)),))
    assert not plan_grants(replace(bench.session.state, plans={"P1": wider}), run)
    assert not plan_grants(bench.session.state, run), "a plan that is over grants nothing"
    bench.session.append(plan_changed(wider), run="run1")
    assert not bench.session.state.plans["P1"].is_approved


# --- keeping plans --------------------------------------------------------------------------------------------------


def asks(*actions: dict[str, Any]) -> str:
    return decision(*actions, profile="creation", next_step="continue")


async def operated(make: Make, *actions: dict[str, Any], answer: Any = lambda _r: "no", **rest: Any) -> Bench:
    """A plan is proposed and refused, then the model does this with it."""
    bench = make(
        model(execute=[asks(*actions), DONE, DONE, DONE, DONE, DONE], **rest), answer,
        settings="[objective]\nmax_attempts = 1\n",
    )  # fmt: skip
    await bench.chat.turn("build it")
    return bench


async def test_no_model_completes_a_step(make: Make) -> None:
    bench = await operated(make, act("plan_tool.update_step", step_id="S1", status="completed"))
    assert "only proof completes a step" in results(bench, "plan_tool.update_step")[0].error
    assert steps(bench)[0] == ("storage", "pending")


async def test_a_model_may_fail_a_step_and_take_that_back(make: Make) -> None:
    bench = await operated(
        make,
        act("plan_tool.update_step", step_id="S1", status="failed"),
        act("plan_tool.get", plan_id="P1"),
        act("plan_tool.update_step", step_id="S1", status="pending"),
        act("plan_tool.update_step", step_id="S9", status="failed"),
    )
    shown = bench.asked[2].messages[-1].text
    assert "S1 storage: failed" in shown and "S2 commands: blocked (waits for 'storage', which failed)" in shown
    assert steps(bench) == [("storage", "pending"), ("commands", "pending")]
    assert "there is no step S9; there are: S1, S2" in shown


async def test_plans_are_listed_shown_and_deleted(make: Make) -> None:
    bench = await operated(
        make,
        act("plan_tool.list"),
        act("plan_tool.get", plan_id="P1"),
        act("plan_tool.get", plan_id="P7"),
        act("plan_tool.delete", plan_id="P1"),
        act("plan_tool.approve", plan_id="P1"),
        act("plan_tool.list"),
    )
    shown = bench.asked[2].messages[-1].text
    assert "Plan P1 “todo app” (refused): 0 of 2 steps done" in shown and "files: store.py" in shown
    assert "there is no plan P7; there are: P1" in shown and "P1 is deleted" in shown
    assert the_plan(bench).status == "deleted" and "nothing to approve" in shown


async def test_the_task_list_of_a_step_is_made_once_and_used_by_the_step(make: Make) -> None:
    again = act("task_tool.generate_list", step_id="S1")
    approve = act("plan_tool.approve", plan_id="P1")
    said = iter(["no", "yes"])
    bench = make(
        model(execute=[asks(again), asks(again), asks(approve)], tasks=BOTH), lambda request: next(said, "yes")
    )
    bench.write("store.py", "# old\n")
    await started(bench, "build a blue app")
    await through(bench)
    assert bench.nodes == ["understand", "execute", "tasks", "execute", "execute", "tasks", "evaluate", "report"]
    listed = [e for e in bench.events("action.finished") if e.operation == "task_tool.generate_list"]
    assert all(e.ok for e in listed) and len(listed) == 2
    assert [t.id for t in bench.session.state.tasks["S1"]] == ["T1"] and the_plan(bench).status == "completed"
    call = bench.asked[2]
    assert "Step “storage”" in call.messages[-1].text and "a small todo app" in call.messages[-1].text
    assert any("build a blue app" in message.text for message in call.messages)


async def test_the_tasks_call_of_a_step_knows_goal_step_earlier_results_and_the_conversation(make: Make) -> None:
    bench = make(model(propose(STORE, {**CLI, "done_when": []})))
    await started(bench, "build a todo app, all in blue")
    await through(bench)
    first, second = (r for r in bench.asked if r.node == "tasks")
    tail = second.messages[-1].text
    assert "Goal of the plan: a small todo app" in tail and "Step “commands”: cli.py" in tail
    assert "S1 storage: completed, changed store.py" in tail and "all in blue" in tail
    said = "\n".join(message.text for message in second.messages)
    assert "1│# store.py" in said, "the file of the step before, as it is on disk"
    assert "Results of earlier steps" not in first.messages[-1].text


async def test_a_long_conversation_is_summarised_for_the_steps(make: Make) -> None:
    answer = decision(profile="guidance", reply="Blue it is.", actions=[])
    bench = make(model([answer, propose(STORE)], summarize="The person likes blue."))
    await bench.chat.turn("which colour?")
    said = ev.HistoryAdded(thread="chat", role="user", kind="message", text="blue, as I said " * 40)
    bench.session.append(*[said] * 60, run="run1")
    await started(bench)
    await through(bench)
    call = next(r for r in bench.asked if r.node == "tasks")
    assert "The person likes blue." in call.messages[-1].text and bench.nodes.count("summarize") == 1


@pytest.mark.parametrize("listed", [writes("store.py"), tasks()])
async def test_a_list_that_has_begun_stays_as_it_is(make: Make, listed: str) -> None:
    after = decision(act("task_tool.generate_list", step_id="S1"), profile="guidance", next_step="continue")
    answer = decision(profile="guidance", reply="I see.")
    free = decision(write("store.py"), next_step="done")
    bench = make(model([propose(STORE), after], tasks=listed, execute=lambda r: free if step_of(r) else answer))
    await started(bench)
    await through(bench)
    await bench.chat.turn("make its list again")
    assert "S1 has begun" in results(bench, "task_tool.generate_list")[0].error


# --- asking for a step ----------------------------------------------------------------------------------------------


async def test_a_step_of_a_plan_that_is_not_approved_does_not_run(make: Make) -> None:
    bench = await operated(make, act("task_loop.run", step_id="S1"), act("task_loop.run", step_id="S7"))
    shown = bench.asked[2].messages[-1].text
    assert "plan P1 is not approved" in shown and "there is no step S7" in shown
    assert bench.nodes.count("tasks") == 0 and not list(bench.root.iterdir())


async def test_a_failed_step_goes_on_when_the_person_wants_it_and_the_plan_is_judged_again(make: Make) -> None:
    flaky = {**STORE, "done_when": ["test -e ok"]}
    again = decision(act("task_loop.run", step_id="S1"), profile="guidance", objective="side", next_step="continue")
    answer = decision(profile="guidance", reply="It goes on.")
    bench = make(model([propose(flaky, CLI), again], execute=lambda r: DONE if step_of(r) else answer),
                 settings="[objective]\nmax_attempts = 1\n")  # fmt: skip
    await started(bench)
    await through(bench)
    assert steps(bench) == [("storage", "failed"), ("commands", "blocked")]
    assert bench.session.run("run1").escalated
    bench.write("ok", "")
    await bench.chat.turn("I mended it: run the storage step again")
    await through(bench)
    assert steps(bench) == [("storage", "completed"), ("commands", "completed")]
    assert [r.status for r in bench.events("report")] == ["failed", "success"]
    assert bench.session.run("run1").outcome == "satisfied" and not bench.session.run("run1").escalated
    assert len([e for e in bench.events("action.finished") if e.changed == ("store.py",)]) == 1


async def test_a_blocked_step_names_the_one_that_has_to_run_first(make: Make) -> None:
    wants = decision(act("task_loop.run", step_id="S2"), profile="guidance", objective="side", next_step="continue")
    answer = decision(profile="guidance", reply="It is blocked.")
    bench = make(model([propose({**STORE, "done_when": ["false"]}, CLI), wants], execute=answer),
                 settings="[objective]\nmax_attempts = 1\n")  # fmt: skip
    await started(bench)
    await through(bench)
    await bench.chat.turn("run commands")
    assert "waits for 'storage', which failed: run that one first" in results(bench, "task_loop.run")[0].error


# --- tasks, Decisions and proof -------------------------------------------------------------------------------------


async def test_a_failing_proof_goes_on_as_decisions(make: Make) -> None:
    proved = {**STORE, "done_when": ["grep -q right store.py"]}
    mend = decision(act("file_ops.edit_file", path="store.py", search="# store.py", replace="# right"),
                    next_step="done")  # fmt: skip
    bench = make(model(propose(proved), execute=mend))
    await started(bench)
    await through(bench)
    assert bench.read("store.py") == b"# right\n"
    assert bench.nodes == ["understand", "tasks", "execute", "evaluate", "report"]
    assert "grep -q right store.py" in bench.asked[2].messages[-1].text


async def test_a_proof_that_fails_three_times_fails_the_step(make: Make) -> None:
    bench = make(model([propose({**STORE, "done_when": ["false"]}, CLI), *[DONE] * 4], evaluate=verdict(0.2)),
                 settings="[objective]\nmax_attempts = 3\n")  # fmt: skip
    await started(bench)
    await through(bench)
    first = bench.session.state.plans["P1"]
    assert [s.status for s in first.steps] == ["failed", "blocked"] and "false: exit 1" in first.steps[0].reason
    step = next(r for r in bench.session.state.runs.values() if r.plan_step == "S1")
    assert step.decisions == 2 and step.outcome == "failed"  # the tasks, then two more tries: three proofs
    assert "Both parts" not in bench.events("report")[0].summary
    assert not any("Everything is done" in text for _, text in bench.said())
    assert bench.session.state.objectives["O1"].status == "escalated"


async def test_a_failed_step_blocks_its_dependants_and_says_so(make: Make) -> None:
    bench = make(model([propose({**STORE, "done_when": ["false"]}, CLI), *[DONE] * 20]),
                 settings="[objective]\nmax_attempts = 1\n")  # fmt: skip
    await started(bench)
    await through(bench)
    assert steps(bench) == [("storage", "failed"), ("commands", "blocked")]
    assert "storage" in the_plan(bench).steps[1].reason
    reported = bench.events("report")[0]
    assert reported.status == "failed" and "Both parts are there" not in reported.summary
    assert bench.session.state.objectives["O1"].status == "escalated"


async def test_an_empty_list_is_worked_on_freely(make: Make) -> None:
    does = decision(write("store.py"), next_step="done")
    bench = make(model(propose(STORE), tasks=tasks(), execute=does))
    await started(bench)
    await through(bench)
    assert bench.nodes == ["understand", "tasks", "execute", "evaluate", "report"]
    assert "no task was known in advance" in bench.asked[2].messages[-1].text
    assert the_plan(bench).status == "completed"


async def test_a_task_list_nobody_can_read_is_worked_on_freely(make: Make) -> None:
    bench = make(model(propose(STORE), tasks="nothing", execute=decision(write("store.py"), next_step="done")))
    await started(bench)
    await through(bench)
    assert bench.nodes == ["understand", "tasks", "tasks", "execute", "evaluate", "report"]
    assert the_plan(bench).status == "completed"


EDIT = act("file_ops.edit_file", path="./store.py", search="nope", replace="x")


async def test_a_task_that_fails_goes_on_as_decisions_which_may_make_it_good(make: Make) -> None:
    better = decision(act("file_ops.edit_file", path="store.py", search="# store.py", replace="# better"),
                      next_step="done")  # fmt: skip
    looks = act("file_ops.list_dir", path=".")
    bench = make(model(propose(STORE), tasks=tasks(write("store.py"), EDIT, looks), execute=better))
    await started(bench)
    await through(bench)
    shown = next(r for r in bench.asked if r.node == "execute").messages[-1].text
    assert "The step is not done yet: file_ops.edit_file ./store.py" in shown and "not run: file_ops.list_dir" in shown
    assert the_plan(bench).status == "completed" and task_states(bench) == ["completed"] * 3
    assert bench.read("store.py") == b"# better\n"


@pytest.mark.parametrize(
    ("listed", "undone"),
    [
        ([write("store.py"), EDIT, write("store.py", "# other\n")], "T2 file_ops.edit_file"),
        ([write("store.py"), act("file_ops.writefile", path="b.py")], "T2 file_ops.writefile"),
        ([write("store.py"), act("file_ops.delete_file", path="gone.py")], "T2 file_ops.delete_file"),
        ([write("store.py"), act("shell.run", command="")], "T2 shell.run"),
        ([act("file_ops.read_file", path="nope.py"), write("store.py")], "T1 file_ops.read_file"),
    ],
)
async def test_a_failed_task_is_not_made_good_by_words_or_by_the_other_tasks(
    make: Make, listed: list[dict[str, Any]], undone: str
) -> None:
    bench = make(model([propose(STORE), *[DONE] * 9], tasks=tasks(*listed), evaluate=verdict(0.2)))
    await started(bench)
    await through(bench)
    first = bench.session.state.plans["P1"].steps[0]
    assert first.status == "failed" and undone in first.reason
    assert bench.session.state.objectives["O1"].status == "escalated"


async def test_a_refused_task_is_not_made_good_by_saying_done(make: Make) -> None:
    listed = tasks(write("store.py"), write("other.py"))

    def answer(request: Request) -> Any:
        return "yes" if request.kind == "plan" else ("no", "not that file")

    bench = make(model([propose(STORE), *[DONE] * 9], tasks=listed, evaluate=verdict(0.2)), answer)
    await started(bench)
    await through(bench)
    assert "not that file" in next(r for r in bench.asked if r.node == "execute").messages[-1].text
    first = bench.session.state.plans["P1"]
    assert first.steps[0].status == "failed" and "other.py" in first.steps[0].reason
    assert bench.session.state.objectives["O1"].status != "satisfied"


async def test_without_a_proof_a_declared_file_must_change(make: Make) -> None:
    bench = make(model([propose(STORE), *[DONE] * 9], tasks=tasks(write("other.py"))))
    await started(bench)
    await through(bench)
    first = bench.session.state.plans["P1"]
    assert first.steps[0].status == "failed" and "none of its files changed: store.py" in first.steps[0].reason


@pytest.mark.parametrize("listed", [tasks(), tasks(act("plan_tool.list"))])
async def test_words_alone_complete_no_step_whatever_it_declares(make: Make, listed: str) -> None:
    bare = {"name": "think", "description": "think about it"}
    bench = make(model([propose(bare), *[DONE] * 9], tasks=listed))
    await started(bench)
    await through(bench)
    done = listed != tasks()
    assert bench.session.state.plans["P1"].steps[0].status == ("completed" if done else "failed")
    assert bench.session.state.objectives["O1"].status != "satisfied"


async def test_a_step_that_only_looks_is_done_when_it_has_looked(make: Make) -> None:
    bare = {"name": "look", "description": "see what is there"}
    looks = decision(act("file_ops.list_dir", path="."), next_step="continue")
    listed = by_step(look=tasks(), storage=writes("store.py"))
    bench = make(model(propose(bare, {**STORE, "depends_on": ["look"]}), tasks=listed, execute=[looks, DONE]))
    await started(bench)
    await through(bench)
    assert steps(bench) == [("look", "completed"), ("storage", "completed")]


async def test_a_proof_that_may_not_run_ends_the_step_at_once(make: Make) -> None:
    def answer(request: Request) -> Any:
        return "yes" if request.kind == "plan" else ("no", "not here")

    bench = make(model([propose({**STORE, "done_when": ["true"]}), *[DONE] * 9]), answer,
                 settings="[objective]\nmax_attempts = 3\n")  # fmt: skip
    await started(bench)
    await through(bench)
    first = bench.session.state.plans["P1"].steps[0]
    assert first.status == "failed" and "not here" in first.reason
    assert next(r for r in bench.session.state.runs.values() if r.plan_step).decisions == 0


async def test_a_step_that_spends_its_decisions_fails_and_the_others_go_on(make: Make) -> None:
    reads = decision(act("file_ops.list_dir", path="."), next_step="continue")
    looping = by_step(storage=reads, docs=DONE)
    bench = make(
        model([propose({**STORE, "done_when": ["false"]}, DOCS), *[DONE] * 9], execute=looping,
              tasks=by_step(storage=tasks(), docs=writes("docs.md"))),
        settings="[limits]\nmax_turns = 3\n[objective]\nmax_attempts = 1\n",
    )  # fmt: skip
    await started(bench)
    await through(bench)
    assert steps(bench) == [("storage", "failed"), ("docs", "completed")]
    assert "3" in the_plan(bench).steps[0].reason


async def test_a_step_makes_no_plans_of_its_own_and_holds_nothing(make: Make) -> None:
    wants = [
        decision(act("plan_tool.propose", goal="g", plan=plan(DOCS)), next_step="continue"),
        decision(act("task_loop.run", tasks=[write("docs.md")]), next_step="continue"),
        decision(act("plan_tool.list"), write("store.py"), next_step="continue"),
        decision(act("task_loop.pause"), next_step="continue"),
        DONE,
    ]
    bench = make(model(propose(STORE), tasks=tasks(), execute=wants))
    await started(bench)
    await through(bench)
    wrong = [e.operation for e in bench.events("action.finished") if not e.ok]
    assert wrong == ["plan_tool.propose", "task_loop.run", "task_loop.pause"]
    assert list(bench.session.state.plans) == ["P1"] and the_plan(bench).status == "completed"
    assert not (bench.root / "docs.md").exists()


# --- loose lists ----------------------------------------------------------------------------------------------------

LOOSE = decision(act("task_loop.run", tasks=[write("a.txt"), write("b.txt")]), profile="creation", next_step="done",
                 requirements=["both are there"], reply="Both written.")  # fmt: skip


async def test_a_loose_list_works_beside_the_conversation_is_reported_and_judged(make: Make) -> None:
    bench = make(model(LOOSE))
    await started(bench)
    await through(bench)
    assert bench.read("a.txt") == b"# a.txt\n" and bench.nodes == ["understand", "report", "evaluate"]
    (reported,) = bench.events("report")
    assert (reported.unit, reported.status, reported.succeeded, reported.total) == ("tasks", "success", 2, 2)
    assert bench.session.state.objectives["O1"].status == "satisfied"
    assert len(asked_for(bench)) == 1, "no plan was approved: its writes share one card"
    assert {r.kind: r.outcome for r in bench.session.state.runs.values()} == {"turn": "satisfied", "tasks": "satisfied"}


async def test_a_loose_list_without_a_person_is_done_inside_the_turn(make: Make) -> None:
    bench = make(model(LOOSE), None, overrides=HEADLESS)
    ending = await bench.chat.turn("write both")
    assert ending.status == "satisfied" and bench.read("b.txt") == b"# b.txt\n"
    assert [r.status for r in bench.events("report")] == ["success"]


async def test_a_loose_list_of_which_a_part_failed_is_no_success_by_saying_done(make: Make) -> None:
    listed = [write("a.txt"), act("file_ops.edit_file", path="b.txt", search="x", replace="y")]
    loose = decision(act("task_loop.run", tasks=listed), profile="creation", next_step="done", requirements=["both"],
                     reply="Both written.")  # fmt: skip
    lies = json.dumps({"status": "success", "succeeded": 2, "failed": 0, "summary": "All is well."})
    bench = make(model([loose, *[DONE] * 5], report=lies), settings="[objective]\nmax_attempts = 1\n")
    await started(bench)
    await through(bench)
    (reported,) = bench.events("report")
    assert (reported.status, reported.succeeded, reported.failed) == ("partial", 1, 1) and not reported.summary
    assert "b.txt" in reported.causes[0] and not any("All is well" in text for _, text in bench.said())


@pytest.mark.parametrize(
    ("args", "says"),
    [({}, "give step_id, or tasks"), ({"tasks": [{"operation": "file_ops.read_file"}]}, "0.reasoning|reasoning")],
)
async def test_a_list_that_cannot_be_read_goes_back_to_the_model(make: Make, args: dict[str, Any], says: str) -> None:
    first = decision(act("task_loop.run", **args), profile="creation", next_step="continue", requirements=["r"])
    bench = make(model(first, execute=decision(write("a.txt"), next_step="done", reply="ok")))
    await bench.chat.turn("do it")
    error = results(bench, "task_loop.run")[0].error
    assert any(part in error for part in says.split("|")) and not bench.events("report")


# --- reports --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "lie",
    [
        {"status": "success", "succeeded": 2, "failed": 0, "summary": "All steps are done."},
        {"summary": "Everything works."},
        {"status": "partial", "succeeded": 2, "failed": 0, "summary": "It went fine."},
        {"status": "partial", "succeeded": 1, "failed": 1, "summary": "All steps completed successfully."},
        {"status": "partial", "succeeded": 1, "failed": 1, "summary": "すべて完了しました。"},
        {"status": "partial", "succeeded": 1, "failed": 1, "recommended_next": "Nothing, everything is done."},
        {"status": "partial", "succeeded": 1, "failed": 1, "causes": ["none: all tests passed"]},
    ],
)
async def test_no_claim_of_success_survives_the_counts(make: Make, lie: dict[str, Any]) -> None:
    bench = make(
        model([propose(STORE, {**CLI, "done_when": ["false"]}), *[DONE] * 9], report=json.dumps(lie)),
        settings="[objective]\nmax_attempts = 1\n",
    )
    await started(bench)
    await through(bench)
    (reported,) = bench.events("report")
    assert (reported.status, reported.succeeded, reported.failed) == ("partial", 1, 1)
    told = next(text for kind, text in bench.said() if kind == "report")
    assert "1 of 2 steps done" in told
    claims = [str(value) for key, value in lie.items() if key in ("summary", "recommended_next")]
    assert not any(claim in told for claim in [*claims, *lie.get("causes", [])])


async def test_an_honest_report_of_a_failure_is_told(make: Make) -> None:
    honest = {
        "status": "partial",
        "succeeded": 1,
        "failed": 1,
        "causes": ["the check is red"],
        "recommended_next": "Look at the check.",
        "summary": "Storage is there, the commands are not done.",
    }
    bench = make(
        model([propose(STORE, {**CLI, "done_when": ["false"]}), *[DONE] * 9], report=json.dumps(honest)),
        settings="[objective]\nmax_attempts = 1\n",
    )
    await started(bench)
    await through(bench)
    told = next(text for kind, text in bench.said() if kind == "report")
    assert all(text in told for text in ("Storage is there", "the check is red", "Look at the check.", "false: exit 1"))


async def test_a_report_nobody_words_has_its_counts(make: Make) -> None:
    bench = make(model(report=Reply(error=500)))
    await started(bench)
    await through(bench)
    told = next(text for kind, text in bench.said() if kind == "report")
    assert "2 of 2 steps done" in told


async def test_the_last_words_of_a_step_that_gave_up_are_no_success(make: Make) -> None:
    claims = decision(next_step="defer", profile="creation", reply="All steps are complete.", actions=[])
    bench = make(model([propose({**STORE, "done_when": ["false"]}), *[DONE] * 9], tasks=tasks(), execute=claims),
                 settings="[objective]\nmax_attempts = 1\n")  # fmt: skip
    await started(bench)
    await through(bench)
    assert the_plan(bench).steps[0].status == "failed"
    told = [text for kind, text in bench.said() if kind in ("report", "outcome")]
    assert told and not any("All steps are complete" in text for text in told)


# --- what the conversation knows ------------------------------------------------------------------------------------


async def test_the_main_prompt_says_how_far_the_plan_is(make: Make) -> None:
    mends = decision(write("cli.py", "# cli\n"), next_step="done")
    bench = make(model(propose(STORE, CLI), tasks=by_step(storage=writes("store.py"), commands=tasks()), execute=mends))
    await started(bench)
    await through(bench)
    assert "0 of 2 steps done" not in bench.asked[0].messages[-1].text
    of_step = next(r for r in bench.asked if r.node == "execute")
    assert "1 of 2 steps done; running: S2 commands" in of_step.messages[-1].text


async def test_plan_brief_follows_the_plan(make: Make) -> None:
    four = (STORE, CLI, DOCS, {**DOCS, "name": "more"})
    listed = by_step(
        storage=writes("store.py"), commands=writes("cli.py"), docs=writes("docs.md"), more=writes("docs.md")
    )
    bench = make(model(propose(*four, state_delta={"goal": "g", "plan_brief": ["something else"]}), tasks=listed))
    await started(bench)
    assert bench.session.run("run1").agent.plan_brief == ("storage", "commands", "docs")
    await through(bench)


async def test_a_plan_proposes_effects_so_no_word_makes_it_a_mere_answer(make: Make) -> None:
    shrugs = decision(profile="guidance", next_step="done", reply="It is fine as it is.", actions=[])
    bench = make(model([propose({**STORE, "done_when": ["false"]}), *[shrugs] * 9], tasks=tasks(), execute=shrugs),
                 settings="[objective]\nmax_attempts = 2\n")  # fmt: skip
    await started(bench)
    await through(bench)
    objective = bench.session.state.objectives["O1"]
    assert (objective.profile, objective.proposed, objective.status) == ("creation", "files", "escalated")
    assert bench.session.run("run1").outcome is None and bench.session.run("run1").escalated


def test_what_a_step_holds_is_what_the_approval_covers() -> None:
    content = PlanStep("S1", "a").content()
    assert set(content) == set(PlanStep.FIELDS) - {"status", "reason"}


async def test_a_plan_whose_steps_are_done_but_whose_work_is_not_enough_reports_that(make: Make) -> None:
    poor = verdict(0.3, {"R1": []}, missing_aspects=["it has no tests"])
    said = by_node(understand=propose(), tasks=BOTH, evaluate=poor)
    bench = make(said, None, overrides=HEADLESS, settings="[objective]\nmax_attempts = 1\n")
    ending = await bench.chat.turn("build a todo app")
    assert ending.exit_code == 3
    reported = bench.events("report")
    assert [(r.status, r.succeeded, r.total) for r in reported] == [("partial", 2, 2)]
    assert "it has no tests" in reported[0].causes
