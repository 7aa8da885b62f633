"""Not satisfied: another attempt that knows why, three in all, then a report and five ways on, each working."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from duckflow import i18n
from duckflow.config import Overrides
from duckflow.engine.escalate import options
from duckflow.llm.base import ModelRequest
from duckflow.llm.scripted import Reply
from tests.engine.workbench import Bench, act, by_node, check_transitions, decision, verdict, yes

NEVER = verdict(
    0.4,
    {f"R{n}": [f"E{m}" for m in range(1, 20)] for n in range(1, 6)},
    missing_aspects=["it does not greet"],
    lessons=["a bare print is not enough"],
    problems=["no newline"],
)
EVERYTHING = verdict(1.0, {f"R{n}": [f"E{m}" for m in range(1, 20)] for n in range(1, 6)})


@pytest.fixture(autouse=True)
def _english() -> Iterator[None]:
    i18n.set_language("en")
    yield
    i18n.set_language("en")


def write(content: str, **fields: Any) -> str:
    given = {"profile": "creation", "next_step": "done", "requirements": ["a.txt greets"], "confidence": 0.9}
    return decision(act("file_ops.write_file", path="a.txt", content=content), **{**given, **fields})


class Trying:
    """A model that writes something new each time it is asked; the evaluator says what it is told to."""

    def __init__(self, evaluate: Any = NEVER) -> None:
        self.evaluate, self.n = evaluate, 0

    def __call__(self, request: ModelRequest) -> Any:
        if request.node == "evaluate":
            return self.evaluate(request) if callable(self.evaluate) else self.evaluate
        self.n += 1
        return write(f"version {self.n}\n", strategy=f"plan {self.n}", reply=f"All done, version {self.n}.")


def history(request: ModelRequest) -> str:
    return "\n".join(message.text for message in request.messages)


async def escalated(tmp_path: Path, model: Any = None) -> Bench:
    bench = Bench(tmp_path, model or Trying(), yes)
    assert (await bench.chat.turn("a.txt should greet")).status == "escalated"
    return bench


# --- what the next attempt knows -------------------------------------------------------------------------------------


async def test_the_next_attempt_gets_what_is_missing_what_failed_and_what_was_learned(tmp_path: Path) -> None:
    bench = Bench(
        tmp_path,
        by_node(understand=[write("one\n", strategy="print it"), write("two\n")], evaluate=[NEVER, EVERYTHING]),
        yes,
        settings='[checks]\ncommands = ["grep -q two a.txt"]\n',
    )
    assert (await bench.chat.turn("a.txt should greet")).status == "satisfied"
    told = history(bench.asked[2])
    for part in (
        "understand again (attempt 2 of 3)",
        "0.40 of 1.0, 0.80 is needed",
        "In the way: a check failed",
        "grep -q two a.txt: exit 1",  # the failed check
        "- it does not greet",
        "- no newline",
        "- R1 0.40 a.txt greets",  # the score of each requirement
        "- a bare print is not enough",
        "- attempt 1 (print it) reached 0.40",
    ):
        assert part in told, part
    assert "Attempt 2 of 3" in bench.asked[2].messages[-1].text
    check_transitions(bench)


async def test_an_attempt_without_a_strategy_is_remembered_by_what_it_changed(tmp_path: Path) -> None:
    model = by_node(understand=[write("one\n"), write("two\n")], evaluate=[NEVER, EVERYTHING])
    bench = Bench(tmp_path, model, yes)
    await bench.chat.turn("a.txt should greet")
    assert "- attempt 1 (changed a.txt) reached 0.40" in history(bench.asked[2])


async def test_the_evaluator_hears_everything_the_person_said(tmp_path: Path) -> None:
    ask = decision(profile="creation", question={"text": "In which language?"}, requirements=["a.txt greets"])
    bench = Bench(tmp_path, [ask, write("やあ\n"), verdict()], yes)
    await bench.chat.turn("a.txt should greet")
    await bench.chat.turn("in Japanese")
    shown = bench.asked[2].messages[-1].text
    assert bench.nodes[2] == "evaluate" and "a.txt should greet" in shown
    assert "asked “In which language?” they said: in Japanese" in shown


# --- failed approaches are not repeated ------------------------------------------------------------------------------


async def test_a_repeated_approach_is_refused_once_and_costs_no_attempt(tmp_path: Path) -> None:
    model = by_node(understand=[write("one\n"), write("one\n")], execute=[write("two\n")], evaluate=[NEVER, EVERYTHING])
    bench = Bench(tmp_path, model, yes)
    assert (await bench.chat.turn("a.txt should greet")).status == "satisfied"
    assert bench.nodes == ["understand", "evaluate", "understand", "execute", "evaluate"]
    assert "nothing of this was run: it is exactly what an earlier attempt did" in history(bench.asked[3])
    assert "judged 0.40" in history(bench.asked[3])
    assert [a.operation for a in bench.events("action.finished")] == ["file_ops.write_file"] * 2
    assert bench.session.state.objectives["O1"].attempt == 2 and bench.read("a.txt") == b"two\n"
    check_transitions(bench)


async def test_the_second_repetition_runs(tmp_path: Path) -> None:
    model = by_node(understand=[write("one\n"), write("one\n")], execute=[write("one\n")], evaluate=[NEVER, EVERYTHING])
    bench = Bench(tmp_path, model, yes)
    assert (await bench.chat.turn("a.txt should greet")).status == "satisfied"
    assert len(bench.events("action.finished")) == 2 and bench.nodes.count("evaluate") == 2


async def test_it_may_be_refused_again_in_the_attempt_after(tmp_path: Path) -> None:
    model = by_node(understand=write("one\n"), execute=write("one\n"), evaluate=NEVER)
    bench = Bench(tmp_path, model, yes)
    assert (await bench.chat.turn("a.txt should greet")).status == "escalated"
    assert bench.nodes == ["understand", "evaluate", *["understand", "execute", "evaluate"] * 2]


@pytest.mark.parametrize(
    "other",
    [
        act("file_ops.write_file", path="b.txt", content="one\n"),
        act("file_ops.write_file", path="a.txt", content="one!\n"),
        act("file_ops.edit_file", path="a.txt", search="one", replace="two"),
    ],
)
async def test_another_target_content_or_operation_is_another_approach(tmp_path: Path, other: dict[str, Any]) -> None:
    again = decision(other, profile="creation", next_step="done")
    model = by_node(understand=[write("one\n"), again], evaluate=[NEVER, EVERYTHING])
    bench = Bench(tmp_path, model, yes)
    assert (await bench.chat.turn("a.txt should greet")).status == "satisfied" and "execute" not in bench.nodes


async def test_commands_alone_are_never_refused_as_a_repetition(tmp_path: Path) -> None:
    run = decision(
        act("shell.run", command="echo hi >> a.txt"),
        profile="creation",
        next_step="done",
        requirements=["a.txt greets"],
    )
    bench = Bench(tmp_path, by_node(understand=run, evaluate=NEVER), yes)
    assert (await bench.chat.turn("a.txt should greet")).status == "escalated"
    assert bench.nodes == ["understand", "evaluate"] * 3 and bench.read("a.txt") == b"hi\n" * 3


async def test_a_refused_repetition_does_not_excuse_a_done_beside_unseen_reads(tmp_path: Path) -> None:
    guess = decision(act("file_ops.read_file", path="a.txt"), profile="creation", next_step="done", reply="I guess.")
    model = by_node(
        understand=[write("one\n"), write("one\n")],
        execute=[guess, write("two\n", reply="Now I have seen it.")],
        evaluate=[NEVER, EVERYTHING],
    )
    bench = Bench(tmp_path, model, yes)
    assert (await bench.chat.turn("a.txt should greet")).reply == "Now I have seen it."
    assert "you had not seen these results" in history(bench.asked[4])


# --- three attempts, then the report ---------------------------------------------------------------------------------


@pytest.mark.parametrize("attended", [True, False])
async def test_a_model_that_never_satisfies_costs_exactly_three_attempts(tmp_path: Path, attended: bool) -> None:
    bench = Bench(tmp_path, Trying(), yes if attended else None, overrides=Overrides(mode="auto-edit"))
    ending = await bench.chat.turn("a.txt should greet")
    assert (ending.status, ending.exit_code) == ("escalated", 3)
    assert bench.nodes == ["understand", "evaluate"] * 3
    assert [v.next for v in bench.events("verdict")] == ["retry", "retry", "escalate"]
    assert [o.attempt for o in bench.events("objective.changed")][-1] == 3
    report = bench.events("escalation")[0]
    assert report.options == options() and len(report.options) == 5
    assert "Not finished after 3 attempts: a.txt should greet" in report.report
    assert "Changed: `a.txt`." in report.report and "Judged 0.40 of 1.0." in report.report
    assert "- it does not greet" in report.report and report.report == ending.reply
    assert not any("All done" in text for _, text in bench.said())
    check_transitions(bench)


async def test_max_attempts_is_configurable(tmp_path: Path) -> None:
    bench = Bench(tmp_path, Trying(), yes, overrides=Overrides(max_attempts=1))
    assert (await bench.chat.turn("x")).status == "escalated" and bench.nodes == ["understand", "evaluate"]
    assert "Not finished after 1 attempt: x" in bench.events("escalation")[0].report


async def test_without_a_person_the_run_is_over_after_the_report(tmp_path: Path) -> None:
    bench = Bench(tmp_path, Trying(), overrides=Overrides(mode="auto-edit"))
    await bench.chat.turn("a.txt should greet")
    run = bench.session.run("run1")
    assert run.outcome == "escalated" and bench.session.state.objectives["O1"].status == "escalated"


# --- 1: more detail --------------------------------------------------------------------------------------------------


def then(first: int, *rest: str) -> Any:
    """Not satisfied so many times, then what follows."""
    answers = [NEVER] * first + list(rest)

    def model(_request: ModelRequest) -> str:
        return answers.pop(0) if len(answers) > 1 else answers[0]

    return model


async def test_words_of_ones_own_are_more_detail(tmp_path: Path) -> None:
    bench = await escalated(tmp_path, Trying(then(3, EVERYTHING)))
    assert bench.session.state.objectives["O1"].requirements[0].text == "a.txt greets"
    ending = await bench.chat.turn("it must greet in French")
    objective = bench.session.state.objectives["O1"]
    assert ending.status == "satisfied" and objective.request == "a.txt should greet\nit must greet in French"
    assert objective.attempt == 1 and bench.nodes[-2:] == ["understand", "evaluate"]
    told = history(bench.asked[6])
    assert "Write `requirements` anew" in told and "it must greet in French" in told
    assert "it must greet in French" in bench.asked[7].messages[-1].text  # the evaluator hears it too
    check_transitions(bench)


async def test_requirements_are_extracted_anew_and_the_attempts_begin_again(tmp_path: Path) -> None:
    french = write("bonjour\n", requirements=["a.txt greets in French"])
    model = by_node(
        understand=[write("1\n"), write("2\n"), write("3\n"), french, write("5\n"), write("6\n")], evaluate=NEVER
    )
    bench = await escalated(tmp_path, model)
    ending = await bench.chat.turn("in French, please")
    assert ending.status == "escalated" and bench.nodes.count("evaluate") == 6
    texts = [[r["text"] for r in o.requirements] for o in bench.events("objective.changed")]
    assert [] in texts and texts[-1] == ["a.txt greets in French", "a.txt greets"]
    check_transitions(bench)


async def test_one_without_words_asks_what_is_needed_and_the_answer_extends_the_request(tmp_path: Path) -> None:
    vague = write("4\n", requirements=[])
    model = by_node(understand=[write("1\n"), write("2\n"), write("3\n"), vague], evaluate=then(3, EVERYTHING))
    bench = await escalated(tmp_path, model)
    ending = await bench.chat.turn("1")
    assert ending.status == "asked" and "What exactly do you need?" in ending.reply and len(bench.asked) == 6
    assert bench.session.state.objectives["O1"].requirements == ()
    assert (await bench.chat.turn("greet in French")).status == "satisfied"
    objective = bench.session.state.objectives["O1"]
    assert objective.request == "a.txt should greet\ngreet in French" and objective.attempt == 1
    assert [r.text for r in objective.requirements] == [objective.request]  # none were given: the words themselves
    assert bench.nodes[-2:] == ["understand", "evaluate"]
    check_transitions(bench)


# --- 2: another approach ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["2", "２", "2で", "try another approach"])
async def test_another_approach_is_one_more_attempt_then_the_options_again(tmp_path: Path, way: str) -> None:
    bench = await escalated(tmp_path)
    ending = await bench.chat.turn(way)
    assert ending.status == "escalated" and bench.nodes == ["understand", "evaluate"] * 4
    assert "The person asks for another approach" in history(bench.asked[6]) and len(bench.events("escalation")) == 2
    assert "Not finished after 4 attempts" in ending.reply and not bench.events("question")
    check_transitions(bench)


async def test_another_approach_that_works_is_satisfied(tmp_path: Path) -> None:
    bench = await escalated(tmp_path, Trying(then(3, EVERYTHING)))
    ending = await bench.chat.turn("2")
    assert (ending.status, ending.reply) == ("satisfied", "All done, version 4.")
    assert bench.session.run("run1").outcome == "satisfied"


async def test_the_way_on_begins_with_understanding_also_after_execute(tmp_path: Path) -> None:
    look = decision(act("file_ops.list_dir", path="."), profile="creation", requirements=["a.txt greets"])
    contents = iter(f"{n}\n" for n in range(9))
    model = by_node(understand=look, execute=lambda _r: write(next(contents)), evaluate=then(3, EVERYTHING))
    bench = await escalated(tmp_path, model)
    assert bench.nodes[-2:] == ["execute", "evaluate"]
    assert (await bench.chat.turn("2")).status == "satisfied"
    assert bench.nodes[9:] == ["understand", "execute", "evaluate"]


# --- 3: accept -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["3", "３", "3番でお願いします", "accept the result as it is"])
async def test_accepting_ends_done_as_partial(tmp_path: Path, way: str) -> None:
    bench = await escalated(tmp_path)
    ending = await bench.chat.turn(way)
    assert (ending.status, ending.exit_code) == ("partial", 3) and len(bench.asked) == 6
    assert "Accepted as it is, a partial result." in ending.reply and "Changed: `a.txt`." in ending.reply
    last = bench.events("state.changed")[-1]
    assert (last.from_, last.step, last.status) == ("REVIEW", "DONE", "SUCCESS")
    assert bench.session.state.objectives["O1"].status == "partial" and bench.session.run("run1").outcome == "partial"
    assert not any("All done" in text for _, text in bench.said())
    check_transitions(bench)


async def test_what_was_given_up_without_a_verdict_can_be_accepted_too(tmp_path: Path) -> None:
    first = write("one\n", next_step="continue")
    bad = [decision(*[act("file_ops.read_file", path=f"no{m}{n}") for n in range(3)]) for m in range(9)]
    bench = Bench(tmp_path, [first, *bad], yes)
    assert (await bench.chat.turn("a.txt should greet")).status == "escalated" and "evaluate" not in bench.nodes
    assert (await bench.chat.turn("3")).status == "partial" and bench.session.run("run1").step == "DONE"
    check_transitions(bench)


# --- 4: technical help -----------------------------------------------------------------------------------------------

ANALYSIS = verdict(
    0.4,
    {"R1": ["E1"]},
    failure_analysis={"cause": "the template is wrong", "fix": "edit greet.tpl"},
    improvements=["run make greet"],
    alternatives=["use gettext"],
)


@pytest.mark.parametrize("way", ["4", "４", "technical help: why it failed and what would help"])
async def test_technical_help_names_the_cause_and_steps_then_offers_the_options_again(tmp_path: Path, way: str) -> None:
    bench = await escalated(tmp_path, Trying(then(3, ANALYSIS)))
    ending = await bench.chat.turn(way)
    assert ending.status == "escalated"
    for part in ("the template is wrong", "1. edit greet.tpl", "2. run make greet", "3. use gettext"):
        assert part in ending.reply
    called = bench.events("model.called")[-1]
    assert (called.node, called.tier, called.reason) == ("evaluate", "evaluator", "a failure analysis")
    assert "it does not greet" in bench.asked[-1].messages[-1].text  # facts, not the conversation
    assert len(bench.events("escalation")) == 2 and len(bench.events("verdict")) == 3
    assert (await bench.chat.turn("5")).status == "cancelled"
    check_transitions(bench)


async def test_help_that_cannot_be_read_gives_the_facts_instead(tmp_path: Path) -> None:
    fails = write("x\n", next_step="continue")
    bad = decision(act("file_ops.read_file", path="nowhere.txt"), next_step="continue")
    wrong = iter([verdict(0.4, {"R1": ["E1"]}, missing_aspects=["it does not greet"])])
    model = by_node(
        understand=fails,
        execute=[bad, decision(next_step="done", actions=[])],
        evaluate=lambda _r: next(wrong, "no JSON"),
    )
    bench = Bench(tmp_path, model, yes, overrides=Overrides(max_attempts=1))
    assert (await bench.chat.turn("a.txt should greet")).status == "escalated"
    ending = await bench.chat.turn("4")
    assert ending.status == "escalated" and "nowhere.txt" in ending.reply
    assert "What is missing: it does not greet" in ending.reply
    assert (await bench.chat.turn("3")).status == "partial"


async def test_help_from_a_service_that_is_down_gives_the_facts_and_says_so(tmp_path: Path) -> None:
    def evaluate(_request: ModelRequest) -> str | Reply:
        return NEVER if len(bench.events("verdict")) < 3 else Reply(error=500)

    bench = Bench(tmp_path, Trying(evaluate), yes)
    await bench.chat.turn("a.txt should greet")
    ending = await bench.chat.turn("4")
    assert ending.status == "escalated" and "No model answered" in ending.reply
    assert "What is missing: it does not greet" in ending.reply


async def test_help_without_any_recorded_failure_still_says_something(tmp_path: Path) -> None:
    poor = iter([verdict(0.1, {"R1": ["E1"]})])
    bench = Bench(tmp_path, Trying(lambda _r: next(poor, "no JSON")), yes, overrides=Overrides(max_attempts=1))
    await bench.chat.turn("a.txt should greet")
    assert "Changed: `a.txt`." in (await bench.chat.turn("4")).reply


# --- 5: cancel -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["5", "５", "cancel", "Cancel."])
async def test_cancelling_ends_it_and_keeps_what_is_there(tmp_path: Path, way: str) -> None:
    bench = await escalated(tmp_path)
    ending = await bench.chat.turn(way)
    assert (ending.status, ending.exit_code) == ("cancelled", 3) and len(bench.asked) == 6
    assert bench.session.state.objectives["O1"].status == "cancelled" and bench.read("a.txt") == b"version 3\n"
    assert bench.session.run("run1").outcome == "cancelled"
    check_transitions(bench)


# --- choosing --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "status"), [(3, "partial"), (5, "cancelled")])
async def test_the_ways_on_are_chosen_by_label_in_japanese_too(tmp_path: Path, number: int, status: str) -> None:
    i18n.set_language("ja")
    bench = await escalated(tmp_path)
    label = bench.events("escalation")[0].options[number - 1]
    assert label != ("", "", "accept the result as it is", "", "cancel")[number - 1]
    assert (await bench.chat.turn(label + "。")).status == status


@pytest.mark.parametrize("text", ["3 files are wrong", "0", "6", "cancel the greeting only", "はい"])
async def test_what_only_looks_like_a_choice_is_more_detail(tmp_path: Path, text: str) -> None:
    bench = await escalated(tmp_path)
    await bench.chat.turn(text)
    assert bench.session.state.objectives["O1"].request == f"a.txt should greet\n{text}"


# --- something else while the ways on are open -----------------------------------------------------------------------


async def test_a_side_question_is_answered_and_the_ways_on_stay_open(tmp_path: Path) -> None:
    side = decision(profile="guidance", objective="side", reply="A tuple is frozen.", actions=[])
    model = by_node(understand=[write("1\n"), write("2\n"), write("3\n"), side], evaluate=NEVER)
    bench = await escalated(tmp_path, model)
    ending = await bench.chat.turn("what is a tuple?")
    assert (ending.status, ending.reply) == ("answered", "A tuple is frozen.")
    objective = bench.session.state.objectives["O1"]
    assert (objective.request, objective.status, objective.attempt) == ("a.txt should greet", "escalated", 3)
    assert [r.text for r in objective.requirements] == ["a.txt greets"] and bench.session.run("run1").escalated
    assert (await bench.chat.turn("3")).status == "partial"
    assert bench.session.run("run1").step == "DONE" and bench.session.run("run2").kind == "side"
    check_transitions(bench)


async def test_new_work_puts_the_escalated_one_off(tmp_path: Path) -> None:
    other = decision(
        act("file_ops.write_file", path="b.txt", content="b"),
        objective="new", profile="creation", next_step="done", requirements=["b.txt exists"],
    )  # fmt: skip
    model = by_node(understand=[write("1\n"), write("2\n"), write("3\n"), other], evaluate=then(3, EVERYTHING))
    bench = await escalated(tmp_path, model)
    ending = await bench.chat.turn("leave it; create b.txt")
    assert ending.status == "satisfied" and bench.read("b.txt") == b"b"
    first, second = bench.session.state.objectives.values()
    assert (first.status, first.request) == ("deferred", "a.txt should greet")
    assert (second.status, second.request) == ("satisfied", "leave it; create b.txt")
    check_transitions(bench)


# --- resume ----------------------------------------------------------------------------------------------------------


async def test_the_open_escalation_and_the_table_survive_a_restart(tmp_path: Path) -> None:
    before = await escalated(tmp_path)
    before.store.close()
    bench = Bench(tmp_path, Trying(EVERYTHING), yes, resume=True)
    objective = bench.session.state.objectives["O1"]
    assert bench.session.run("run1").escalated and objective.status == "escalated"
    assert {name: score.score for name, score in objective.scores.items()} == {"R1": 0.4}
    assert objective.scores["R1"].evidence and objective.verdicts == (0.4, 0.4, 0.4)
    assert objective.missing[0] == "it does not greet" and len(objective.approaches) == 2
    assert (await bench.chat.turn("3")).status == "partial"


async def test_another_approach_works_after_a_restart(tmp_path: Path) -> None:
    before = await escalated(tmp_path)
    before.store.close()
    bench = Bench(tmp_path, Trying(EVERYTHING), yes, resume=True)
    repeated = write("version 1\n")
    bench.model._function = by_node(understand=repeated, execute=write("version 9\n"), evaluate=EVERYTHING)
    assert (await bench.chat.turn("2")).status == "satisfied"
    assert bench.nodes == ["understand", "execute", "evaluate"]  # the repetition of attempt 1 was refused
    assert bench.read("a.txt") == b"version 9\n"


async def test_an_open_attempt_goes_on_after_a_restart_with_what_it_learned(tmp_path: Path) -> None:
    ask = decision(profile="creation", question={"text": "Which language?"})
    before = Bench(tmp_path, by_node(understand=[write("one\n"), ask], evaluate=NEVER), yes)
    assert (await before.chat.turn("a.txt should greet")).status == "asked"
    before.store.close()
    bench = Bench(tmp_path, by_node(understand=write("deux\n"), evaluate=EVERYTHING), yes, resume=True)
    objective = bench.session.state.objectives["O1"]
    assert objective.attempt == 2 and objective.scores["R1"].score == 0.4
    assert (await bench.chat.turn("French")).status == "satisfied"
    assert "it does not greet" in history(bench.asked[0])
