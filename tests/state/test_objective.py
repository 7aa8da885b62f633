"""The verdict: caps, checks, weights, and what follows from it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from duckflow.state.objective import (
    Check,
    Evidence,
    Objective,
    Opinion,
    Requirement,
    extended,
    judge,
    next_move,
)

R1, R2 = Requirement("R1", "a", 1), Requirement("R2", "b", 3)
HELD = {"R1": frozenset({"E1"}), "R2": frozenset({"E1"})}


def said(scores: dict[str, float], evidence: dict[str, list[str]], overall: float = 1.0, ok: bool = True) -> Opinion:
    return Opinion(overall, scores, evidence, recommends=ok)


def test_a_requirement_without_evidence_cannot_exceed_one_half() -> None:
    verdict = judge(said({"R1": 1.0}, {}), [R1], HELD, [])
    assert verdict.scores["R1"].score == 0.5
    assert next_move(Objective("O1", "x"), verdict, 0.8, 3) == "retry"


def test_evidence_ids_that_were_not_shown_do_not_count() -> None:
    verdict = judge(said({"R1": 1.0}, {"R1": ["E99"]}), [R1], HELD, [])
    assert verdict.scores["R1"].evidence == () and verdict.overall == 0.5


def test_overall_is_the_smaller_of_the_figure_and_the_weighted_mean() -> None:
    good = {"R1": ["E1"], "R2": ["E1"]}
    assert judge(said({"R1": 1.0, "R2": 0.0}, good), [R1, R2], HELD, []).overall == 0.75
    assert judge(said({"R1": 1.0, "R2": 1.0}, good, overall=0.3), [R1, R2], HELD, []).overall == 0.3


def test_an_unscored_requirement_is_zero_and_an_unreadable_verdict_too() -> None:
    assert judge(said({"R1": 1.0}, {"R1": ["E1"]}), [R1, R2], HELD, []).scores["R2"].score == 0.0
    unreadable = judge(None, [R1], HELD, [])
    assert unreadable.overall == 0.0 and unreadable.blocked


def test_a_failed_check_overrules_any_score() -> None:
    check = Check("C1", "pytest -q", False, "E2", detail="exit 1")
    verdict = judge(said({"R1": 1.0}, {"R1": ["E1"]}), [R1], HELD, [check])
    assert verdict.overall == 1.0 and verdict.failed_checks
    assert next_move(Objective("O1", "x"), verdict, 0.8, 3) == "retry"


def test_a_check_that_did_not_run_blocks_unless_evidence_covers_it() -> None:
    check = Check("C1", "pytest -q", None, requirements=("R1",), detail="refused")
    covered = judge(said({"R1": 1.0}, {"R1": ["E1"]}), [R1], HELD, [check])
    bare = judge(said({"R1": 1.0}, {}), [R1], HELD, [check])
    assert not covered.blocked and bare.blocked


def test_the_evaluator_may_block_completion() -> None:
    verdict = judge(said({"R1": 1.0}, {"R1": ["E1"]}, ok=False), [R1], HELD, [])
    assert next_move(Objective("O1", "x"), verdict, 0.8, 3) == "retry"


def test_three_attempts_then_escalation() -> None:
    verdict = judge(None, [R1], HELD, [])
    moves = [next_move(Objective("O1", "x", attempt=n), verdict, 0.8, 3) for n in (1, 2, 3)]
    assert moves == ["retry", "retry", "escalate"]


@given(
    st.dictionaries(st.sampled_from(["R1", "R2", "R9"]), st.floats(allow_nan=True, allow_infinity=True)),
    st.dictionaries(st.sampled_from(["R1", "R2"]), st.lists(st.sampled_from(["E1", "E7"]))),
    st.floats(allow_nan=True, allow_infinity=True),
)
def test_no_opinion_whatever_it_says_passes_without_held_evidence(
    scores: dict[str, float], evidence: dict[str, list[str]], overall: float
) -> None:
    verdict = judge(said(scores, evidence, overall), [R1, R2], {}, [])
    assert 0.0 <= verdict.overall <= 0.5
    assert next_move(Objective("O1", "x"), verdict, 0.8, 3) != "complete"


def test_evidence_of_a_command_dies_with_the_next_change_and_of_a_file_with_its_content() -> None:
    ran = Evidence("E1", "command", "A1", {"command": "pytest", "exit": 0}, effects=2)
    assert ran.fresh(2, {}) and not ran.fresh(3, {})
    read = Evidence("E2", "read", "A2", {"path": "a.py", "hash": "h1"})
    assert read.fresh(9, {"a.py": "h1"}) and not read.fresh(9, {"a.py": "h2"}) and not read.fresh(9, {"a.py": None})


@given(st.lists(st.text(min_size=1, max_size=5), max_size=6), st.lists(st.text(min_size=1, max_size=5), max_size=6))
def test_requirements_are_added_never_dropped(first: list[str], more: list[str]) -> None:
    known = extended((), [(t, 2, None) for t in first])
    later = extended(known, [(t, 2, "true") for t in more])
    assert [r.text for r in later[: len(known)]] == [r.text for r in known]
    assert [r.id for r in later] == [f"R{n + 1}" for n in range(len(later))]
