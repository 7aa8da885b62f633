"""How the work is doing: mood, focus and stamina from measurements, and the loop limit they allow. Pure.

Mood follows the verdicts and what the person refuses; focus falls with failing and repeated actions and recovers as
they leave the window; stamina is what is left of the budget. The model's opinion of itself plays no part.
"""

from __future__ import annotations

from collections.abc import Sequence

from duckflow.record import Record

REPLAN_BELOW = 0.3  # focus
CONSULT_BELOW = 0.1  # stamina
ASK_BELOW = 0.4  # mood
WINDOW = 10
FAILED_IN_A_ROW = 3
FAILED_OF_WINDOW = 5
IDENTICAL = 4
SAME_FAILURES = 3  # of one call for one reason, after which it is refused
MOST_LOOPS = 30
LEAST_LOOPS = 8


class Vitals(Record):
    mood: float = 0.8
    focus: float = 1.0
    stamina: float = 1.0

    @property
    def loop_limit(self) -> int:
        """The pacemaker: how many Decisions in a row an attempt may take before it is judged."""
        return max(LEAST_LOOPS, round(MOST_LOOPS * min(self.mood + 0.2, self.focus, self.stamina + 0.2, 1.0)))


class Trace(Record):
    """One finished action, as far as the guards look at it."""

    call: str  # digest of operation and arguments
    result: str  # digest of what came of it
    ok: bool
    effect: bool = False


def mood(verdicts: Sequence[float], refusals: int) -> float:
    """Every verdict pulls it towards its score, a fall pulls harder; each refusal of the person costs a little."""
    value, before = 0.8, None
    for score in verdicts:
        value = 0.75 * value + 0.25 * score + 0.3 * min(0.0, score - (score if before is None else before))
        before = score
    return _unit(value - 0.1 * refusals)


def focus(recent: Sequence[Trace]) -> float:
    """Failing actions and repetitions of the window count against it; what moved the work counts for it."""
    window = recent[-WINDOW:]
    failed = sum(not trace.ok for trace in window)
    seen: set[tuple[str, str]] = set()
    repeated = 0
    for trace in window:
        key = (trace.call, trace.result)
        repeated += key in seen and not trace.effect
        seen.add(key)
    moved = sum(trace.ok and trace.effect for trace in window)
    return _unit(1.0 - 0.12 * failed - 0.15 * repeated + 0.05 * moved)


def stamina(spent: Sequence[tuple[float, float]]) -> float:
    """What is left of the scarcest budget. `spent`: (used, limit) of Decisions, attempts and money."""
    shares = [used / limit for used, limit in spent if limit > 0]
    return _unit(1.0 - max(shares, default=0.0))


def stalled(recent: Sequence[Trace]) -> str:
    """Why the work must be thought over, in words for the model; empty while it moves."""
    tail = recent[-FAILED_IN_A_ROW:]
    if len(tail) == FAILED_IN_A_ROW and not any(trace.ok for trace in tail):
        return f"{FAILED_IN_A_ROW} operations failed in a row"
    window = recent[-WINDOW:]
    if sum(not trace.ok for trace in window) >= FAILED_OF_WINDOW:
        return f"{FAILED_OF_WINDOW} of the last {len(window)} operations failed"
    last = recent[-1:]
    same = [t for t in window if last and (t.call, t.result) == (last[0].call, last[0].result)]
    if len(same) >= IDENTICAL:
        return f"the same action gave the same result {IDENTICAL} times"
    return ""


def _unit(value: float) -> float:
    return round(min(max(value, 0.0), 1.0), 3)
