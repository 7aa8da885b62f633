"""Plans as values: what fits together, what may begin, what is blocked, what an approval covers."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckflow import events as ev
from duckflow.record import replace
from duckflow.state.fold import fold
from duckflow.state.journal import Store
from duckflow.state.plan import (
    MOST_STEPS,
    STOPPED,
    Plan,
    PlanStep,
    begun,
    disjoint,
    drafted,
    is_over,
    plan_changed,
    progress,
    put_down,
    ready,
    with_step,
)
from duckflow.state.runs import SessionState, active_plan, ended_plan, plan_of, working
from duckflow.state.session import Session


def ids() -> Callable[[], str]:
    numbers = count(1)
    return lambda: f"S{next(numbers)}"


def made(*steps: dict[str, Any] | str) -> Plan:
    raw = [{"name": s} if isinstance(s, str) else s for s in steps]
    return drafted("P1", "plan", "goal", raw, ids())


def step(name: str, *needs: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "depends_on": list(needs), **fields}


# --- what fits together ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        ([], "at least one step"),
        ([f"s{n}" for n in range(MOST_STEPS + 1)], f"at most {MOST_STEPS} steps; this one has {MOST_STEPS + 1}"),
        (["a", "b", "a"], "two steps are called 'a'"),
        (["a", " a "], "two steps are called 'a'"),
        (["a", "  "], "step 2 has no name"),
        ([step("a"), step("b", "c")], "step 'b' depends on 'c', which is no step; there are: a, b"),
        ([step("a", "a")], "in a circle: a → a"),
        ([step("a", "c"), step("b", "a"), step("c", "b")], "in a circle: a → c → b → a"),
        ([step("x"), step("a", "x", "b"), step("b", "a")], "in a circle: a → b → a"),
    ],
)
def test_what_does_not_fit_together_is_refused_by_name(steps: list[Any], says: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        made(*steps)
    assert says in str(caught.value)


def test_the_most_steps_and_a_diamond_are_fine() -> None:
    assert len(made(*[f"s{n}" for n in range(MOST_STEPS)]).steps) == MOST_STEPS
    plan = made(step("a"), step("b", " a "), step("c", "a", "a"), step("d", "b", "c"))
    assert [s.depends_on for s in plan.steps] == [(), ("S1",), ("S1",), ("S2", "S3")]
    assert plan.status == "draft" and not plan.is_approved


# --- what may begin, and what cannot --------------------------------------------------------------------------------


def names(steps: tuple[PlanStep, ...]) -> list[str]:
    return [s.name for s in steps]


def test_a_step_is_ready_when_everything_before_it_is_completed() -> None:
    plan = made(step("a"), step("b", "a"), step("c", "a"), step("d", "b", "c"))
    assert names(ready(plan)) == ["a"]
    plan = with_step(plan, "S1", "completed")
    assert names(ready(plan)) == ["b", "c"]
    plan = with_step(plan, "S2", "in_progress")
    assert names(ready(plan)) == ["c"] and not is_over(plan)
    plan = with_step(with_step(plan, "S2", "completed"), "S3", "completed")
    assert names(ready(plan)) == ["d"]


def test_a_failed_step_blocks_everything_behind_it_and_says_so_until_it_is_mended() -> None:
    plan = made(step("a"), step("b", "a"), step("c", "b"), step("free"))
    failed = with_step(plan, "S1", "failed", "no disk")
    assert [s.status for s in failed.steps] == ["failed", "blocked", "blocked", "pending"]
    assert failed.steps[0].reason == "no disk"
    assert failed.steps[1].reason == failed.steps[2].reason == "waits for 'a', which failed"
    assert names(ready(failed)) == ["free"] and not is_over(failed)
    assert is_over(with_step(failed, "S4", "completed"))
    mended = with_step(failed, "S1", "pending")
    assert [(s.status, s.reason) for s in mended.steps] == [("pending", "")] * 4


def test_a_step_that_runs_or_is_done_is_not_blocked() -> None:
    plan = made(step("a"), step("b", "a"), step("c", "a"))
    plan = with_step(with_step(plan, "S2", "completed"), "S3", "in_progress")
    failed = with_step(plan, "S1", "failed")
    assert [s.status for s in failed.steps] == ["failed", "completed", "in_progress"]


def test_putting_a_plan_down_and_taking_it_up_again_loses_nothing_that_is_done() -> None:
    plan = made(step("a"), step("b", "a"), step("c", "a"))
    plan = with_step(with_step(replace(plan, status="in_progress"), "S1", "completed"), "S2", "in_progress")
    down = put_down(plan)
    assert down.status == "paused"
    assert [(s.status, s.reason) for s in down.steps] == [("completed", ""), ("pending", STOPPED), ("pending", "")]
    again = begun(replace(down, reason="the service failed"))
    assert (again.status, again.reason) == ("in_progress", "")
    assert [(s.status, s.reason) for s in again.steps] == [("completed", ""), ("pending", ""), ("pending", "")]
    killed = begun(plan)  # nobody put it down: what seems to run does not
    assert names(ready(killed)) == ["b", "c"]


@st.composite
def graphs(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Acyclic by construction: a step needs only steps of lower rank; they are written down in any order."""
    size = draw(st.integers(1, 12))
    steps = [
        step(f"n{n}", *(f"n{m}" for m in sorted(draw(st.sets(st.integers(0, n - 1)))))) if n else step("n0")
        for n in range(size)
    ]
    return draw(st.permutations(steps))


@given(graphs(), st.randoms(use_true_random=False))
def test_completing_ready_steps_one_after_another_always_finishes_the_plan(
    steps: list[dict[str, Any]], dice: Any
) -> None:
    plan = made(*steps)
    for _ in steps:
        waiting = ready(plan)
        assert waiting and not is_over(plan)
        chosen = dice.choice(waiting)
        done = {s.id for s in plan.steps if s.status == "completed"}
        assert done.issuperset(chosen.depends_on)
        plan = with_step(plan, chosen.id, "completed")
    assert is_over(plan) and plan.done == len(steps)


@given(graphs(), st.randoms(use_true_random=False))
def test_whatever_fails_the_plan_comes_to_an_end_and_nothing_runs_behind_a_failure(
    steps: list[dict[str, Any]], dice: Any
) -> None:
    plan = made(*steps)
    while not is_over(plan):
        plan = with_step(plan, dice.choice(ready(plan)).id, dice.choice(["completed", "failed"]))
    by_id = {s.id: s for s in plan.steps}
    for one in plan.steps:
        assert one.status in ("completed", "failed", "blocked")
        if one.status == "completed":
            assert all(by_id[need].status == "completed" for need in one.depends_on)


# --- at the same time -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "apart"),
    [
        (["a.py"], ["b.py"], True),
        (["src/a/**"], ["src/b/**"], True),
        (["a.py", "b.py"], ["c.py", "b.py"], False),
        (["a.py"], ["a.py"], False),
        (["a.py"], ["./a.py"], False),
        (["A.py"], ["a.py"], False),
        (["src//a.py"], ["src/x/../a.py"], False),
        (["src/"], ["src/a.py"], False),
        (["src/**"], ["src/deep/a.py"], False),
        (["src/*.py"], ["src/a*"], False),
        (["**/*.py"], ["docs/x.md"], False),
        (["src/a[bc].py"], ["src/ac.py"], False),
        (["a?.py"], ["ab.py"], False),
        (["../a.py"], ["b.py"], False),
        (["/tmp/a"], ["b.py"], False),
        ([], ["b.py"], False),
        (["a.py"], [], False),
        ([], [], False),
    ],
)
def test_steps_overlap_only_when_their_files_are_said_and_differ(one: list[str], other: list[str], apart: bool) -> None:
    a, b = PlanStep("S1", "a", files=tuple(one)), PlanStep("S2", "b", files=tuple(other))
    assert disjoint(a, b) is apart and disjoint(b, a) is apart


# --- in words -------------------------------------------------------------------------------------------------------


def test_progress_in_one_line() -> None:
    plan = made(step("a"), step("b", "a"), step("c"), step("d", "c"))
    assert progress(replace(plan, status="approved")) == ("Plan P1 “plan” (approved): 0 of 4 steps done; next: S1 a")
    plan = with_step(with_step(replace(plan, status="in_progress"), "S1", "completed"), "S2", "in_progress")
    plan = with_step(plan, "S3", "failed", "red")
    assert progress(plan) == (
        "Plan P1 “plan” (in_progress): 1 of 4 steps done; running: S2 b; failed: S3 c; blocked: S4 d"
    )


# --- what an approval covers ----------------------------------------------------------------------------------------

FULL = {"description": "d", "files": ["a"], "commands": ["c*"], "done_when": ["true"]}


@pytest.mark.parametrize(
    "other",
    [
        step("z", **FULL),
        step("a", **{**FULL, "description": "another"}),
        step("a", **{**FULL, "files": ["a", "b"]}),
        step("a", **{**FULL, "commands": ["*"]}),
        step("a", **{**FULL, "done_when": []}),
    ],
)
def test_another_content_is_another_hash(other: dict[str, Any]) -> None:
    assert made(step("a", **FULL)).hash != made(other).hash


def test_goal_order_and_dependencies_count() -> None:
    plan = made("a", "b")
    others = (made("b", "a"), made("a", step("b", "a")), made("a"), replace(plan, goal="another"))
    assert len({plan.hash, *(o.hash for o in others)}) == 5


def test_how_far_it_is_and_what_was_said_about_it_does_not_count() -> None:
    plan = made("a", step("b", "a"))
    moved = with_step(with_step(plan, "S1", "completed"), "S2", "failed", "why")
    moved = replace(moved, status="failed", reason="r", risks=({"risk": "x", "level": "low"},), criteria=("c",))
    assert moved.hash == plan.hash


def test_only_the_approved_content_in_a_living_plan_is_approved() -> None:
    plan = made(step("a", **FULL))
    approved = replace(plan, approved=plan.hash)
    assert [s for s in ("approved", "in_progress", "paused") if replace(approved, status=s).is_approved] == [
        "approved",
        "in_progress",
        "paused",
    ]
    over = ("draft", "completed", "failed", "refused", "replaced", "deleted")
    assert not any(replace(approved, status=s).is_approved for s in over)
    wider = replace(approved, status="approved", steps=(replace(plan.steps[0], files=("**",)),))
    assert not wider.is_approved


# --- what the events make of it -------------------------------------------------------------------------------------


@pytest.fixture
def session(tmp_path: Path) -> Session:
    started = ev.SessionStarted(workspace=str(tmp_path), version="0", mode="ask", models={})
    return Session.start(Store(tmp_path / "db"), started)


def replayed(session: Session) -> SessionState:
    state = SessionState(id=session.id)
    for event in session.store.events(session.id):
        state = fold(state, event)
    return state


STATUSES = ["draft", "approved", "in_progress", "paused", "completed", "failed", "refused", "replaced", "deleted"]


@given(st.data())
def test_stored_plans_and_tasks_give_the_live_state_again(tmp_path_factory: pytest.TempPathFactory, data: Any) -> None:
    home = tmp_path_factory.mktemp("plan")
    session = Session.start(Store(home / "db"), ev.SessionStarted(workspace="w", version="0", mode="ask", models={}))
    run = session.start_run()
    raw = data.draw(graphs())
    raw = [{**s, "files": ["a*"], "commands": ["x"], "done_when": ["true"]} for s in raw]
    plan = drafted(session.new_id("P"), "n", "g", raw, lambda: session.new_id("S"))
    session.append(plan_changed(replace(plan, risks=({"risk": "r", "level": "low"},), criteria=("c",))), run=run)
    for _ in range(data.draw(st.integers(0, 5))):
        one = data.draw(st.sampled_from(session.state.plans["P1"].steps))
        status = data.draw(st.sampled_from(["pending", "in_progress", "completed", "failed"]))
        moved = with_step(session.state.plans["P1"], one.id, status, data.draw(st.sampled_from(["", "why"])))
        moved = replace(moved, status=data.draw(st.sampled_from(STATUSES)), approved=plan.hash)
        session.append(plan_changed(moved), run=data.draw(st.sampled_from([run, "other"])))
        task = data.draw(st.sampled_from(["T1", "T2"]))
        changed = ev.TaskChanged(
            task, data.draw(st.sampled_from(["pending", "in_progress", "completed"])), "file_ops.write_file", "P1",
            one.id, args='{"path": "a", "edits": [{"search": "x"}]}', action="A1",
        )  # fmt: skip
        session.append(changed, ev.ActionFinished(action="A1", operation="o", ok=True), run=run)
    session.append(ev.AgentChanged(changes={"plan_brief": ("a", "b"), "goal": "g"}), run=run)
    assert replayed(session) == session.state
    assert session.state.plans["P1"].hash == plan.hash == replayed(session).plans["P1"].hash
    session.store.close()


def approved_by(session: Session, run: str, **fields: Any) -> Plan:
    plan = made("a", step("b", "a"))
    plan = replace(plan, status="approved", approved=plan.hash, **fields)
    session.append(plan_changed(plan), run=run)
    return plan


def test_a_plan_belongs_to_the_run_that_approved_or_took_it_up(session: Session) -> None:
    one, two = session.start_run(), session.start_run()
    plan = approved_by(session, one)
    session.append(plan_changed(replace(plan, status="in_progress")), run=two)
    assert session.state.plans["P1"].run == one and plan_of(session.state, session.run(one)) is not None
    session.append(plan_changed(plan), run=two)
    assert session.state.plans["P1"].run == two and plan_of(session.state, session.run(one)) is None


def test_an_ended_plan_waits_for_its_verdict_and_one_taken_up_again_is_neither_judged_nor_reported(
    session: Session,
) -> None:
    run = session.start_run()
    plan = approved_by(session, run)
    session.append(
        ev.ObjectiveChanged("O1", "r", ({"id": "R1", "text": "t"},), 1, 0.0),
        plan_changed(replace(plan, status="failed")),
        run=run,
    )
    assert ended_plan(session.state, run) is not None and active_plan(session.state) is None
    session.append(
        ev.Reported("failed", 0, 1, (), "", "", plan="P1"),
        ev.VerdictGiven(0.0, {}, (), (), "retry"),
        run=run,
    )
    kept = session.state.plans["P1"]
    assert kept.reported and kept.judged and ended_plan(session.state, run) is None
    session.append(plan_changed(plan), run=run)
    session.append(plan_changed(replace(plan, status="completed")), run=run)
    kept = session.state.plans["P1"]
    assert not kept.reported and not kept.judged and ended_plan(session.state, run) is not None
    assert replayed(session) == session.state


def test_a_report_of_a_pause_is_not_the_report(session: Session) -> None:
    run = session.start_run()
    approved_by(session, run)
    session.append(ev.Reported("paused", 0, 0, (), "", "", plan="P1"), run=run)
    assert not session.state.plans["P1"].reported


def test_work_in_the_background_leaves_the_focus_alone_and_counts_in_the_list(session: Session) -> None:
    front = session.start_run()
    beside = session.start_run("turn", "")
    session.append(ev.RunDetached(thread=beside), run=beside)
    assert session.state.focus == front and [r.id for r in working(session.state)] == [beside]
    session.end_run(front, "answered")
    assert session.store.sessions()[0].status == "IN_PROGRESS"
    session.end_run(beside, "satisfied")
    assert session.store.sessions()[0].status == "answered"
