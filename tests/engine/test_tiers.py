"""Which tier a call goes to and why, when it moves up, and that every choice is recorded."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from duckflow.llm.base import Model, ModelRequest
from duckflow.llm.scripted import FunctionModel, Reply
from tests.engine.workbench import Bench, act, all_evidence, by_node, decision, verdict, yes

WRITE = decision(
    act("file_ops.write_file", path="a.txt", content="x"),
    profile="creation", confidence=0.9, next_step="done", requirements=["a.txt exists"], reply="There.",
)  # fmt: skip
HELLO = decision(profile="guidance", reply="Hello.", actions=[])
LONG = "please " * 100 + "say hello"
FAST, WORK, VERDICT = "a short request and nothing open", "the work itself", "a verdict"


def calls(bench: Bench) -> list[tuple[str, str, str, str]]:
    return [(c.node, c.tier, c.model, c.reason) for c in bench.events("model.called")]


def named(name: str, says: Callable[[ModelRequest], Any] | str) -> Model:
    return FunctionModel(says if callable(says) else lambda _r: says, name=name)


def bench_of(
    tmp_path: Path, creative: Any, fast: Any = None, evaluator: Any = None, settings: str = "", attended: bool = True
) -> Bench:
    """A model of its own for every tier that is given."""
    given = {"fast": fast, "evaluator": evaluator}
    tiers = {tier: named(tier, says) for tier, says in given.items() if says is not None}
    return Bench(tmp_path, named("creative", creative), yes if attended else None, settings=settings, tiers=tiers)


# --- which tier ------------------------------------------------------------------------------------------------------


async def test_a_short_first_request_with_nothing_open_is_looked_at_by_the_fast_tier(tmp_path: Path) -> None:
    bench = bench_of(tmp_path, HELLO, fast=HELLO)
    assert (await bench.chat.turn("hi")).reply == "Hello."
    assert calls(bench) == [("understand", "fast", "fast", FAST)]


async def test_a_long_request_goes_to_the_creative_tier(tmp_path: Path) -> None:
    bench = bench_of(tmp_path, HELLO, fast="never asked")
    await bench.chat.turn(LONG)
    assert calls(bench) == [("understand", "creative", "creative", "a long request")]


async def test_with_other_work_open_a_new_request_goes_to_the_creative_tier(tmp_path: Path) -> None:
    defer = decision(act("file_ops.list_dir", path="."), profile="creation", next_step="defer", requirements=["r"])
    other = decision(profile="guidance", objective="new", reply="Hello.", actions=[])
    bench = bench_of(tmp_path, by_node(understand=[other, HELLO]), fast=by_node(understand=[defer]))
    assert (await bench.chat.turn("x")).status == "deferred"
    await bench.chat.turn("hi")
    await bench.chat.turn("hi again")
    assert calls(bench)[1:] == [
        ("understand", "creative", "creative", WORK),
        ("understand", "creative", "creative", "other work is open"),
    ]


async def test_the_nodes_of_an_attempt_use_their_tiers(tmp_path: Path) -> None:
    look = decision(
        act("file_ops.list_dir", path="."), profile="creation", requirements=["a.txt exists"], confidence=0.9
    )
    bench = bench_of(tmp_path, by_node(execute=WRITE), fast=by_node(understand=look), evaluator=all_evidence)
    await bench.chat.turn("create a.txt")
    assert calls(bench) == [
        ("understand", "fast", "fast", FAST),
        ("execute", "creative", "creative", WORK),
        ("evaluate", "evaluator", "evaluator", VERDICT),
    ]


async def test_another_attempt_is_understood_by_the_creative_tier(tmp_path: Path) -> None:
    again = WRITE.replace('"x"', '"y"')
    poor = verdict(0.1, {"R1": ["E1"]})
    bench = bench_of(
        tmp_path,
        by_node(understand=[WRITE, again]),
        fast=WRITE,
        evaluator=by_node(evaluate=[poor, all_evidence(_shown())]),
    )
    await bench.chat.turn("create a.txt")
    tiers = [(node, tier) for node, tier, *_rest in calls(bench)]
    assert tiers[-2:] == [("understand", "creative"), ("evaluate", "evaluator")]


def _shown() -> ModelRequest:
    """A request that shows E1 to E9."""
    from duckflow.llm.base import Message, Part

    blocks = "\n".join(f"<<<E{n} x" for n in range(1, 10))
    return ModelRequest("evaluate", "evaluator", (Message("user", (Part(blocks),)),))


PLAN = {"name": "p", "goal": "g", "steps": [{"name": "s", "description": "d", "files": ["a.txt"]}]}
TASKS = json.dumps({"tasks": [act("file_ops.write_file", path="a.txt", content="x")]})
REPORT = json.dumps({"status": "success", "succeeded": 1, "failed": 0, "summary": "It is there."})


async def test_plan_and_tasks_are_creative_and_the_report_is_fast(tmp_path: Path) -> None:
    propose = decision(act("plan_tool.propose", goal="g"), profile="creation", confidence=0.9, requirements=["r"])
    bench = bench_of(
        tmp_path,
        by_node(understand=propose, plan=json.dumps(PLAN), tasks=TASKS),
        fast=by_node(understand=propose, report=REPORT),
        evaluator=all_evidence,
        settings='mode = "auto"\n',
        attended=False,
    )
    assert (await bench.chat.turn("build it")).status == "satisfied"
    assert [(node, tier, reason) for node, tier, _model, reason in calls(bench)] == [
        ("understand", "fast", FAST),
        ("understand", "creative", "moved up from fast: it proposes an effect"),
        ("plan", "creative", "a plan"),
        ("tasks", "creative", "the tasks of a step"),
        ("evaluate", "evaluator", VERDICT),
        ("report", "fast", "a report"),
    ]


async def test_a_long_conversation_is_summarised_by_the_fast_tier(tmp_path: Path) -> None:
    propose = decision(act("plan_tool.propose", goal="g", plan=PLAN), profile="creation", requirements=["r"])
    long = decision(profile="guidance", reply="word " * 1500, actions=[])
    bench = bench_of(
        tmp_path,
        by_node(understand=[*[long] * 4, propose], tasks=TASKS),
        fast=by_node(summarize="They talked.", report=REPORT),
        evaluator=all_evidence,
    )
    for _ in range(5):
        await bench.chat.turn(LONG * 3)
    await bench.settled()
    assert ("summarize", "fast", "fast", "a summary") in calls(bench)


# --- moving up -------------------------------------------------------------------------------------------------------


async def test_a_fast_decision_that_proposes_an_effect_is_asked_again_one_tier_up(tmp_path: Path) -> None:
    poor = WRITE.replace('"x"', '"poor"')
    bench = bench_of(tmp_path, WRITE, fast=poor, evaluator=all_evidence)
    assert (await bench.chat.turn("create a.txt")).status == "satisfied" and bench.read("a.txt") == b"x"
    assert calls(bench)[:2] == [
        ("understand", "fast", "fast", FAST),
        ("understand", "creative", "creative", "moved up from fast: it proposes an effect"),
    ]
    assert len(bench.events("decision")) == 1  # what the fast one said counts for nothing


@pytest.mark.parametrize(("confidence", "below", "up"), [(0.4, 0.5, True), (0.5, 0.5, False), (0.4, 0.3, False)])
async def test_a_fast_decision_that_is_unsure_is_asked_again(
    tmp_path: Path, confidence: float, below: float, up: bool
) -> None:
    unsure = decision(profile="guidance", confidence=confidence, reply="Perhaps.", actions=[])
    bench = bench_of(tmp_path, HELLO, fast=unsure, settings=f"[routing]\nclarify_below = {below}\n")
    assert (await bench.chat.turn("hi")).reply == ("Hello." if up else "Perhaps.")
    assert [reason for *_rest, reason in calls(bench)] == [FAST, *["moved up from fast: it is not sure"] * up]


async def test_a_question_of_the_fast_tier_is_asked(tmp_path: Path) -> None:
    ask = decision(profile="creation", confidence=0.2, question={"text": "Which?"})
    bench = bench_of(tmp_path, "never asked", fast=ask)
    assert (await bench.chat.turn("do it")).status == "asked" and len(calls(bench)) == 1


async def test_reads_of_the_fast_tier_are_run(tmp_path: Path) -> None:
    look = decision(act("file_ops.list_dir", path="."), profile="analysis", confidence=0.9)
    answer = decision(profile="analysis", next_step="done", reply="Nothing there.", actions=[])
    bench = bench_of(tmp_path, by_node(execute=answer), fast=look)
    assert (await bench.chat.turn("what is here?")).reply == "Nothing there."
    assert [(node, tier) for node, tier, *_rest in calls(bench)] == [("understand", "fast"), ("execute", "creative")]


async def test_one_model_for_all_tiers_is_not_asked_twice(tmp_path: Path) -> None:
    bench = Bench(tmp_path, by_node(understand=WRITE, evaluate=verdict()), yes)
    assert (await bench.chat.turn("create a.txt")).status == "satisfied" and bench.nodes == ["understand", "evaluate"]


BROKEN = {
    "unreadable": ("no JSON at all", ["evaluator", "evaluator", "creative"], "moved up from evaluator: unreadable"),
    "service down": (Reply(error=500), ["creative"], "moved up from evaluator: service"),
    "no credentials": (Reply(error=401), ["creative"], "moved up from evaluator: credentials"),
    "refused": (Reply("no such model", error=404), ["creative"], "moved up from evaluator: request"),
}


@pytest.mark.parametrize("how", BROKEN)
async def test_an_evaluator_that_cannot_gives_way_to_the_creative_tier(tmp_path: Path, how: str) -> None:
    answer, tiers, reason = BROKEN[how]
    bench = bench_of(
        tmp_path, by_node(understand=WRITE, evaluate=all_evidence), fast=WRITE, evaluator=lambda _r: answer
    )
    assert (await bench.chat.turn("create a.txt")).status == "satisfied"
    judged = [(tier, why) for node, tier, _model, why in calls(bench) if node == "evaluate"]
    assert [tier for tier, _why in judged] == tiers and judged[-1][1] == reason


async def test_where_the_evaluator_is_the_creative_model_an_unreadable_verdict_is_nought(tmp_path: Path) -> None:
    model = by_node(understand=WRITE, execute=WRITE, evaluate="no JSON at all")
    bench = Bench(tmp_path, model, yes, settings="[objective]\nmax_attempts = 1\n")
    assert (await bench.chat.turn("create a.txt")).status == "escalated"
    assert bench.nodes == ["understand", "evaluate", "evaluate"] and bench.events("verdict")[0].overall == 0.0
    assert bench.events("verdict")[0].problem == "the verdict could not be read"


async def test_where_both_cannot_be_read_it_is_nought_too(tmp_path: Path) -> None:
    bench = bench_of(
        tmp_path, by_node(understand=WRITE, evaluate="no JSON"), evaluator="no JSON",
        settings="[objective]\nmax_attempts = 1\n",
    )  # fmt: skip
    assert (await bench.chat.turn("create a.txt")).status == "escalated"
    judged = [tier for node, tier, *_rest in calls(bench) if node == "evaluate"]
    assert judged == ["evaluator", "evaluator", "creative", "creative"]


@pytest.mark.parametrize("broken", ["no JSON", Reply(error=500), Reply(error=401)])
async def test_a_fast_tier_that_cannot_gives_way_too(tmp_path: Path, broken: Any) -> None:
    bench = bench_of(tmp_path, HELLO, fast=lambda _r: broken)
    assert (await bench.chat.turn("hi")).reply == "Hello."
    assert calls(bench)[-1][1] == "creative" and calls(bench)[-1][3].startswith("moved up from fast: ")


async def test_the_creative_tier_has_nobody_above_it(tmp_path: Path) -> None:
    bench = bench_of(tmp_path, lambda _r: Reply(error=500), fast=HELLO)
    ending = await bench.chat.turn(LONG)
    assert (ending.status, ending.exit_code) == ("failed", 75)


async def test_every_call_says_why_it_went_where_it_went(tmp_path: Path) -> None:
    model = by_node(understand=WRITE, evaluate=all_evidence)
    bench = Bench(tmp_path, model, yes)
    await bench.chat.turn("create a.txt")
    assert all(called.reason for called in bench.events("model.called"))
