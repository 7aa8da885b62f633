"""Vitals and stall guards act: they send the work back to planning, ask the person, or let it be judged."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from duckflow.config import Overrides
from duckflow.human import Request
from duckflow.llm.base import ModelRequest, Price, Usage
from duckflow.llm.scripted import FunctionModel, Reply
from duckflow.state.vitals import LEAST_LOOPS, MOST_LOOPS
from tests.engine.workbench import Bench, act, by_node, check_transitions, decision, verdict, yes

GOOD = verdict(1.0, {f"R{n}": [f"E{m}" for m in range(1, 60)] for n in range(1, 4)})


def read(path: str) -> dict[str, Any]:
    return act("file_ops.read_file", path=path)


def step(*actions: dict[str, Any], **fields: Any) -> str:
    return decision(*actions, **{"profile": "modification", "confidence": 0.9, "requirements": ["r"], **fields})


def history(request: ModelRequest) -> str:
    return "\n".join(message.text for message in request.messages)


def replans(bench: Bench) -> list[str]:
    """Why the work went back to planning, each time."""
    return [e.reason for e in bench.events("state.changed") if e.trigger == "error" and e.step == "PLANNING"]


WAITS = decision(profile="modification", next_step="pending_user", reply="Your turn.")
FINISH = step(act("file_ops.write_file", path="out.txt", content="x"), next_step="done")


# --- back to planning ------------------------------------------------------------------------------------------------


async def test_three_failures_in_a_row_lead_back_to_planning_within_the_attempt(tmp_path: Path) -> None:
    replies = [step(read("no1")), step(read("no2")), step(read("no3")), FINISH, GOOD]
    bench = Bench(tmp_path, list(replies), yes)
    assert (await bench.chat.turn("go")).status == "satisfied"
    assert bench.nodes == ["understand", "execute", "execute", "understand", "evaluate"]
    assert replans(bench) == ["3 operations failed in a row"]
    assert "Stop and think: 3 operations failed in a row" in history(bench.asked[3])
    assert bench.session.state.objectives["O1"].attempt == 1
    check_transitions(bench)


async def test_lost_focus_leads_back_to_planning_before_a_guard_strikes(tmp_path: Path) -> None:
    pairs = [step(read(f"no{n}")) if n % 2 == 0 else step(read("a.txt")) for n in range(7)]  # x a x a x a x
    bench = Bench(tmp_path, [*pairs, FINISH, GOOD], yes)
    bench.write("a.txt", "same\n")
    assert (await bench.chat.turn("go")).status == "satisfied"
    assert replans(bench) == ["too much was repeated or failed"]
    assert bench.nodes == ["understand", *["execute"] * 6, "understand", "evaluate"]
    assert min(v.focus for v in bench.events("vitals")) < 0.3
    check_transitions(bench)


@pytest.mark.parametrize(("times", "back"), [(3, False), (4, True)])
async def test_four_identical_results_lead_back_to_planning(tmp_path: Path, times: int, back: bool) -> None:
    bench = Bench(tmp_path, [*[step(read("a.txt"))] * times, FINISH, GOOD], yes)
    bench.write("a.txt", "same\n")
    assert (await bench.chat.turn("go")).status == "satisfied"
    assert replans(bench) == (["the same action gave the same result 4 times"] if back else [])
    assert bench.nodes[times] == ("understand" if back else "execute")


async def test_a_file_that_changes_between_the_reads_is_no_repetition(tmp_path: Path) -> None:
    bench: Bench

    def model(request: ModelRequest) -> str:
        bench.write("a.txt", f"{len(bench.asked)}\n")
        return step(read("a.txt")) if len(bench.asked) < 7 else WAITS

    bench = Bench(tmp_path, model, yes)
    await bench.chat.turn("watch it")
    assert not replans(bench)


async def test_the_third_recovery_without_an_effect_escalates(tmp_path: Path) -> None:
    names = iter(range(100))
    bad = by_node(
        understand=lambda _r: step(*[read(f"no{next(names)}") for _ in range(3)]),
        execute=lambda _r: step(*[read(f"no{next(names)}") for _ in range(3)]),
    )
    bench = Bench(tmp_path, bad, yes)
    ending = await bench.chat.turn("go")
    assert ending.status == "escalated" and "planning again did not help" in ending.reply
    assert len(replans(bench)) == 2 and "evaluate" not in bench.nodes
    assert bench.events("escalation") and bench.session.run("run1").escalated
    check_transitions(bench)


async def test_a_successful_effect_between_them_counts_the_recoveries_anew(tmp_path: Path) -> None:
    n = iter(range(100))

    def bad() -> str:
        return step(read(f"no{next(n)}"), read(f"no{next(n)}"))

    def write() -> str:
        return step(act("file_ops.write_file", path=f"f{next(n)}", content="x"))

    rounds = [bad(), bad(), bad(), bad(), write(), bad(), bad(), bad(), bad(), FINISH]
    bench = Bench(tmp_path, [*rounds, GOOD], yes)
    assert (await bench.chat.turn("go")).status == "satisfied"
    assert len(replans(bench)) == 4
    check_transitions(bench)


async def test_a_call_that_failed_three_times_for_the_same_reason_is_refused_with_a_hint(tmp_path: Path) -> None:
    fail = step(act("file_ops.edit_file", path="a.txt", search="nope", replace="x"))
    good = step(read("a.txt"))
    bench = Bench(tmp_path, [fail, good, fail, good, fail, fail, WAITS], yes)
    bench.write("a.txt", "text\n")
    await bench.chat.turn("go")
    errors = [a.error for a in bench.events("action.finished") if a.operation == "file_ops.edit_file"]
    assert len(errors) == 4 and len(set(errors[:3])) == 1
    assert "this very call failed 3 times for the same reason" in errors[3] and "use other arguments" in errors[3]
    assert "this very call failed 3 times" in history(bench.asked[6])


# --- asking the person, once -----------------------------------------------------------------------------------------


def looks(n: int) -> list[str]:
    """Decisions that each do something new and harmless."""
    return [step(act("search.text", query=f"word{i}")) for i in range(n)]


FAIR = verdict(0.5, {"R1": ["E1"]})


def wandering() -> Any:
    """A model that looks around for ever, and an evaluator that is not content with that."""
    return by_node(understand=looks(60), execute=looks(60), evaluate=FAIR)


def decisions(bench: Bench) -> int:
    return sum(node != "evaluate" for node in bench.nodes)


@pytest.mark.parametrize(("most", "asked_at"), [(10, 10), (20, 19)])
async def test_little_stamina_asks_an_attended_person_once(tmp_path: Path, most: int, asked_at: int) -> None:
    bench = Bench(tmp_path, wandering(), yes, overrides=Overrides(max_turns=most))
    ending = await bench.chat.turn("go")
    question = bench.events("question")[0]
    assert ending.status == "asked" and question.by == "engine" and "Most of what this request may use" in question.text
    assert decisions(bench) == asked_at
    last = bench.events("vitals")[-1]
    assert last.reason == "stamina" and last.stamina < 0.1
    ending = await bench.chat.turn("OK")
    assert (ending.status, ending.exit_code) == ("failed", 53)  # the hard limit; the question is not asked again
    assert len(bench.events("question")) == 1 and decisions(bench) == most
    check_transitions(bench)


async def test_the_answer_stop_ends_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path, wandering(), yes, overrides=Overrides(max_turns=10))
    assert (await bench.chat.turn("go")).status == "asked"
    asked = len(bench.asked)
    assert (await bench.chat.turn("2")).status == "cancelled" and len(bench.asked) == asked
    check_transitions(bench)


async def test_without_a_person_the_hard_limits_stay_and_nobody_is_asked(tmp_path: Path) -> None:
    bench = Bench(tmp_path, wandering(), overrides=Overrides(max_turns=10))
    ending = await bench.chat.turn("go")
    assert (ending.status, ending.exit_code) == ("failed", 53) and decisions(bench) == 10
    assert not bench.events("question")


@pytest.mark.parametrize("attended", [True, False])
async def test_the_budget_asks_a_person_and_stops_a_run_alone(tmp_path: Path, attended: bool) -> None:
    says, usage = wandering(), Usage(prompt=100_000, cached=0, completion=0)
    model = FunctionModel(lambda r: Reply(says(r), usage=usage), price=Price(1.0, 1.0, 1.0))  # $0.10 a call
    bench = Bench(tmp_path, model, yes if attended else None, overrides=Overrides(max_cost_usd=1.05))
    ending = await bench.chat.turn("go")
    if attended:
        assert ending.status == "asked" and len(bench.asked) == 10
        ending = await bench.chat.turn("OK")
    assert (ending.status, ending.exit_code) == ("failed", 55) and len(bench.asked) == 11
    assert len(bench.events("question")) == attended


async def test_a_bad_mood_asks_once(tmp_path: Path) -> None:
    def no(_request: Request) -> str:
        return "no"

    writes = [step(act("file_ops.write_file", path=f"f{n}", content="x")) for n in range(12)]
    quiet = [text for pair in zip(writes, looks(12), strict=True) for text in pair]  # no three failures in a row
    bench = Bench(tmp_path, [*quiet[:10], FAIR, WAITS], no)
    ending = await bench.chat.turn("go")
    assert ending.status == "asked" and bench.session.run("run1").refusals == 5
    question = bench.events("question")[0]
    assert question.by == "engine" and "you had to say no several times" in question.text
    assert bench.events("vitals")[-1].reason == "mood" and bench.events("vitals")[-1].mood < 0.4
    ending = await bench.chat.turn("go on")
    assert (ending.status, ending.reply) == ("asked", "Your turn.") and len(bench.events("question")) == 1
    check_transitions(bench)


async def test_verdicts_that_get_worse_spoil_the_mood_and_it_asks_before_the_next_attempt(tmp_path: Path) -> None:
    n = iter(range(20))
    scores = iter([0.5, 0.0, 0.0, 0.0])
    model = by_node(
        understand=lambda _r: step(act("file_ops.write_file", path=f"f{next(n)}", content="x"), next_step="done"),
        evaluate=lambda _r: verdict(next(scores), {"R1": ["E1"]}),
    )
    bench = Bench(tmp_path, model, yes, overrides=Overrides(max_attempts=5))
    ending = await bench.chat.turn("go")
    assert ending.status == "asked" and bench.nodes == ["understand", "evaluate"] * 2
    assert (await bench.chat.turn("stop")).status == "cancelled"


# --- the pacemaker ---------------------------------------------------------------------------------------------------


async def test_the_pacemakers_limit_leads_to_a_verdict_not_to_an_exit(tmp_path: Path) -> None:
    begin = step(act("file_ops.write_file", path="out.txt", content="x"))
    model = by_node(understand=begin, execute=looks(60), evaluate=GOOD)
    bench = Bench(tmp_path, model, overrides=Overrides(max_turns=60, mode="auto-edit"))
    ending = await bench.chat.turn("go")
    assert ending.status == "satisfied" and bench.nodes[-1] == "evaluate"
    assert LEAST_LOOPS <= len(bench.asked) - 1 <= MOST_LOOPS
    limit = bench.session.run("run1").vitals.loop_limit
    assert len(bench.asked) - 1 == limit
    check_transitions(bench)


async def test_every_attempt_has_its_own_pace(tmp_path: Path) -> None:
    words = iter(range(1000))
    look = lambda _r: step(act("search.text", query=f"w{next(words)}"))  # noqa: E731
    model = by_node(understand=look, execute=look, evaluate=verdict(0.3, {"R1": ["E1"]}))
    bench = Bench(tmp_path, model, overrides=Overrides(max_turns=60))
    ending = await bench.chat.turn("go")
    assert (ending.status, ending.exit_code) == ("escalated", 3)
    judged = [i for i, node in enumerate(bench.nodes) if node == "evaluate"]
    lengths = [b - a - 1 for a, b in zip([-1, *judged], judged, strict=False)]
    assert len(judged) == 3 and all(LEAST_LOOPS <= n <= MOST_LOOPS for n in lengths)


# --- seen in the stream ----------------------------------------------------------------------------------------------


async def test_vitals_are_told_when_they_change_and_only_then(tmp_path: Path) -> None:
    replies = [step(read("no1")), step(read("a.txt")), *looks(3), FINISH, verdict(0.2, {"R1": ["E2"]}), WAITS]
    bench = Bench(tmp_path, list(replies), yes)
    bench.write("a.txt", "x\n")
    await bench.chat.turn("go")
    seen = [(v.mood, v.focus) for v in bench.events("vitals")]
    assert seen[0] == (0.8, 0.88)  # one failed read
    assert any(mood < 0.8 for mood, _ in seen)  # the verdict
    kept = bench.session.run("run1").vitals
    for one, other in pairwise(bench.events("vitals")):
        assert max(abs(getattr(one, n) - getattr(other, n)) for n in ("mood", "focus", "stamina")) >= 0.05
    assert (kept.mood, kept.focus) == seen[-1]


async def test_the_last_verdict_is_measured_too(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [FINISH, verdict(0.1, {"R1": ["E1"]})], yes, overrides=Overrides(max_attempts=1))
    assert (await bench.chat.turn("go")).status == "escalated"
    assert bench.events("vitals")[-1].mood == pytest.approx(0.625)


async def test_nothing_is_told_when_nothing_happened(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [decision(profile="guidance", reply="Hello.", actions=[])], yes)
    await bench.chat.turn("hi")
    assert not bench.events("vitals")
