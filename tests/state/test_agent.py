"""The working memory keeps its limits and tells what it cut."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from duckflow.state.agent import AgentState, changed, misfits

TEXTS = st.lists(st.text(max_size=300), max_size=8)


@given(st.text(max_size=600), TEXTS, TEXTS, TEXTS)
def test_whatever_a_delta_says_the_limits_hold(
    goal: str, constraints: list[str], plan: list[str], ask: list[str]
) -> None:
    delta = {"goal": goal, "constraints": constraints, "plan_brief": plan, "open_questions": ask, "decision": goal}
    agent, _, cuts = changed(AgentState(), delta)
    assert len(agent.goal) <= 200
    assert len(agent.constraints) <= 2 and len(agent.plan_brief) <= 3 and len(agent.open_questions) <= 2
    assert all(
        len(t) <= 100 for t in (*agent.constraints, *agent.plan_brief, *agent.open_questions, *agent.decision_log)
    )
    if len(constraints) > 2 or len(plan) > 3 or len(ask) > 2:
        assert cuts


def test_what_is_cut_or_unknown_is_told() -> None:
    _, _, cuts = changed(AgentState(), {"goal": "x" * 201, "gaol": "y"})
    assert any("goal was cut" in c for c in cuts) and any("gaol" in c for c in cuts)


def test_a_plain_line_is_the_last_change_and_nothing_else() -> None:
    agent, changes, cuts = changed(AgentState(goal="g"), "found the bug")
    assert agent == AgentState(goal="g", last_delta="found the bug") and changes and not cuts


def test_fields_left_out_stay_as_they_are() -> None:
    before = AgentState(goal="g", constraints=("c",))
    agent, changes, _ = changed(before, {"why_now": "w", "constraints": None})
    assert agent.goal == "g" and agent.constraints == ("c",) and set(changes) == {"why_now"}


def test_a_missing_goal_is_a_misfit() -> None:
    assert misfits(AgentState()) and not misfits(AgentState(goal="g"))
