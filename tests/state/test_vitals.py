"""Vitals are computed from what happened, stay between 0 and 1, and say exactly when the work must be thought over."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckflow.state.vitals import LEAST_LOOPS, MOST_LOOPS, WINDOW, Trace, Vitals, focus, mood, stalled, stamina


def trace(what: str = "", ok: bool = True, effect: bool = False) -> Trace:
    """An action of its own; the same letter is the same call with the same result."""
    return Trace(what or f"call{next(_numbers)}", what or "result", ok, effect)


_numbers = iter(range(1_000_000))


def history(signs: str) -> list[Trace]:
    """`.` a fresh success, `x` a fresh failure, `+` a change, a letter: that very call with that very result."""
    made = {".": (True, False), "x": (False, False), "+": (True, True)}
    return [trace("", *made[sign]) if sign in made else trace(sign) for sign in signs]


# --- stall guards ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("signs", "why"),
    [
        ("", ""),
        ("xx", ""),
        ("xxx", "3 operations failed in a row"),
        ("xxx.", ""),
        ("xx.xx", ""),
        (".xxx", "3 operations failed in a row"),
        ("x.x.x.x", ""),  # four of seven
        ("x.x.x.x.x", "5 of the last 9 operations failed"),
        ("x.x.x.x..x", "5 of the last 10 operations failed"),
        ("x.x.x.x...x", ""),  # the first one has left the window of ten
        ("x.x.x.x.x.", "5 of the last 10 operations failed"),
        ("aaa", ""),
        ("aaaa", "the same action gave the same result 4 times"),
        ("a.a.a.a", "the same action gave the same result 4 times"),
        ("aaaab", ""),  # it went on to something else
        ("abababa", "the same action gave the same result 4 times"),
        ("a...a...a..a", ""),  # the first one has left the window of ten
    ],
)
def test_the_guards_strike_exactly_at_their_limits(signs: str, why: str) -> None:
    assert stalled(history(signs)) == why


def test_the_same_call_with_another_result_is_no_repetition() -> None:
    assert not stalled([Trace("call", f"result{n}", True) for n in range(9)])


# --- focus -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("signs", "value"),
    [("", 1.0), (".....", 1.0), ("x", 0.88), ("x.x.x.x", 0.52), ("aa", 0.85), ("aaa", 0.7), ("xx+", 0.81)],
)
def test_focus_falls_with_failures_and_repetitions_and_recovers_with_changes(signs: str, value: float) -> None:
    assert focus(history(signs)) == pytest.approx(value)


def test_what_left_the_window_no_longer_counts() -> None:
    assert focus(history("xxxx" + "." * WINDOW)) == 1.0


def test_failures_and_repetitions_together_are_too_much_before_a_guard_strikes() -> None:
    mixed = history("xaxaxax")
    assert not stalled(mixed) and focus(mixed) < 0.3


TRACES = st.lists(
    st.builds(Trace, st.sampled_from("abcd"), st.sampled_from("rs"), st.booleans(), st.booleans()), max_size=25
)


@given(TRACES)
def test_focus_stays_between_0_and_1(recent: list[Trace]) -> None:
    assert 0.0 <= focus(recent) <= 1.0


@given(TRACES, st.sampled_from("abcdz"), st.sampled_from("rsz"))
def test_progress_never_lowers_focus(recent: list[Trace], call: str, result: str) -> None:
    assert focus([*recent, Trace(call, result, True, effect=True)]) >= focus(recent)


@given(TRACES)
def test_a_failure_never_raises_focus_in_a_short_history(recent: list[Trace]) -> None:
    short = recent[: WINDOW - 1]
    assert focus([*short, Trace("f", "f", False)]) <= focus(short)


# --- mood ------------------------------------------------------------------------------------------------------------


def test_mood_begins_well_and_follows_the_verdicts() -> None:
    assert mood((), 0) == 0.8
    assert mood((1.0,), 0) > 0.8 > mood((0.5,), 0) > mood((0.0,), 0)
    assert mood((0.2, 0.6), 0) == pytest.approx(0.75 * 0.65 + 0.15, abs=0.001)
    assert mood((0.6, 0.2), 0) == pytest.approx(0.75 * 0.75 + 0.05 - 0.12, abs=0.001)  # a fall pulls harder


def test_every_refusal_of_the_person_costs_a_little() -> None:
    assert [mood((), n) for n in range(6)] == [0.8, 0.7, 0.6, 0.5, 0.4, 0.3]


@given(st.lists(st.floats(0, 1), max_size=20), st.integers(0, 30))
def test_mood_stays_between_0_and_1(verdicts: list[float], refusals: int) -> None:
    assert 0.0 <= mood(verdicts, refusals) <= 1.0


@given(st.lists(st.floats(0, 1), max_size=6), st.integers(0, 5))
def test_a_better_last_verdict_never_makes_the_mood_worse(verdicts: list[float], refusals: int) -> None:
    assert mood([*verdicts, 1.0], refusals) >= mood([*verdicts, 0.3], refusals)


# --- stamina and the pacemaker ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spent", "left"),
    [
        ((), 1.0),
        (((0, 40), (0, 3), (0.0, 5.0)), 1.0),
        (((10, 40), (0, 3), (0.0, 5.0)), 0.75),
        (((10, 40), (2, 3), (0.0, 5.0)), 0.333),  # the scarcest counts
        (((37, 40),), 0.075),
        (((50, 40),), 0.0),
        (((1, 0),), 1.0),  # no limit
    ],
)
def test_stamina_is_what_is_left_of_the_scarcest_budget(spent: tuple[tuple[float, float], ...], left: float) -> None:
    assert stamina(spent) == left


@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1e6)), max_size=5))
def test_stamina_stays_between_0_and_1(spent: list[tuple[float, float]]) -> None:
    assert 0.0 <= stamina(spent) <= 1.0


@pytest.mark.parametrize(
    ("vitals", "limit"),
    [
        (Vitals(), MOST_LOOPS),
        (Vitals(0.8, 0.5, 1.0), 15),
        (Vitals(0.4, 1.0, 1.0), 18),
        (Vitals(1.0, 1.0, 0.3), 15),
        (Vitals(0.0, 0.0, 0.0), LEAST_LOOPS),
    ],
)
def test_the_pacemaker_sizes_the_loop_limit(vitals: Vitals, limit: int) -> None:
    assert vitals.loop_limit == limit


@given(*[st.floats(0, 1)] * 3)
def test_the_loop_limit_stays_within_its_bounds(a: float, b: float, c: float) -> None:
    assert LEAST_LOOPS <= Vitals(a, b, c).loop_limit <= MOST_LOOPS
