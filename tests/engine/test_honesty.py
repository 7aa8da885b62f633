"""No model, however it lies, makes Duckflow say "done" without evidence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from duckflow.config import Overrides
from duckflow.engine.route import claims_change
from duckflow.llm.base import ModelRequest
from tests.engine.workbench import Bench, act, decision, verdict, yes

GLOWING = verdict(1.0, {f"R{n}": [f"E{m}" for m in range(1, 9)] for n in range(1, 6)})
CLAIM = "I have created hello.py as you asked."


def liar(**fields: Any) -> Any:
    def model(request: ModelRequest) -> str:
        return GLOWING if request.node == "evaluate" else decision(**fields)

    return model


@pytest.mark.parametrize("profile", ["guidance", "analysis", "creation", "modification", "unknown"])
@pytest.mark.parametrize("requirements", [[], ["hello.py exists"], ["the person is told that hello.py exists"]])
async def test_words_alone_never_complete_work(tmp_path: Path, profile: str, requirements: list[str]) -> None:
    bench = Bench(
        tmp_path, liar(profile=profile, requirements=requirements, confidence=1, next_step="done", reply=CLAIM)
    )
    ending = await bench.chat.turn("create hello.py")
    assert ending.exit_code != 0 and CLAIM not in ending.reply
    assert ("reply", CLAIM) not in bench.said()


async def test_a_read_beside_a_claimed_change_does_not_help(tmp_path: Path) -> None:
    answers = iter([decision(act("file_ops.list_dir", path="."), profile="analysis", confidence=1)])
    done = decision(profile="analysis", confidence=1, next_step="done", reply=CLAIM)

    def model(request: ModelRequest) -> str:
        return GLOWING if request.node == "evaluate" else next(answers, done)

    ending = await Bench(tmp_path, model).chat.turn("create hello.py")
    assert ending.exit_code != 0


@pytest.mark.parametrize("profile", ["guidance", "analysis", "unknown"])
async def test_work_that_changed_files_cannot_be_renamed_into_an_answer(tmp_path: Path, profile: str) -> None:
    write = decision(
        act("file_ops.write_file", path="a.py", content="x"),
        profile="creation",
        requirements=["a.py prints 1", "tests"],
    )
    rename = decision(profile=profile, confidence=1, next_step="done", reply="All fine.")
    poor = verdict(0.4, {"R1": ["E1"]})
    answers = iter([write])

    def model(request: ModelRequest) -> str:
        return poor if request.node == "evaluate" else next(answers, rename)

    bench = Bench(tmp_path, model, yes)
    ending = await bench.chat.turn("write it")
    assert ending.status == "escalated" and bench.events("verdict") and bench.nodes.count("evaluate") == 3


async def test_an_earlier_change_does_not_prove_a_later_claim(tmp_path: Path) -> None:
    write = decision(
        act("file_ops.write_file", path="a.py", content="x"), profile="creation", next_step="done", requirements=["a"]
    )
    later = decision(profile="creation", next_step="done", requirements=["b.py exists"], reply="I have created b.py.")
    answers = iter([write])

    def model(request: ModelRequest) -> str:
        return GLOWING if request.node == "evaluate" else next(answers, later)

    bench = Bench(tmp_path, model, yes)
    assert (await bench.chat.turn("create a.py")).status == "satisfied"
    ending = await bench.chat.turn("create b.py")
    assert ending.status == "escalated" and not (bench.root / "b.py").exists()


async def test_a_report_of_earlier_work_is_an_answer(tmp_path: Path) -> None:
    write = decision(
        act("file_ops.write_file", path="a.py", content="x"), profile="creation", next_step="done", requirements=["a"]
    )
    report = decision(profile="guidance", next_step="done", reply="I have created a.py before.")
    bench = Bench(tmp_path, [write, verdict(), report, report], yes)
    await bench.chat.turn("create a.py")
    ending = await bench.chat.turn("what did you do?")
    assert (ending.status, ending.reply) == ("answered", "I have created a.py before.")


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "profile": st.sampled_from(["guidance", "analysis", "creation", "modification", "unknown"]),
                "next_step": st.sampled_from(["done", "continue", "pending_user", "defer"]),
                "confidence": st.floats(0, 1),
                "reply": st.sampled_from(["", "OK.", CLAIM, "作成しました。"]),
                "objective": st.sampled_from(["same", "new", "side"]),
            }
        ),
        min_size=1,
        max_size=6,
    )
)
async def test_whatever_is_said_every_transition_is_in_the_table_and_the_turn_ends(
    tmp_path_factory: pytest.TempPathFactory, said: list[dict[str, Any]]
) -> None:
    turns = iter(said * 40)

    def model(request: ModelRequest) -> str:
        return GLOWING if request.node == "evaluate" else decision(**next(turns))

    bench = Bench(tmp_path_factory.mktemp("liar"), model, yes)
    for message in ("create hello.py", "and now?"):
        ending = await bench.chat.turn(message)
        assert ending.status != "satisfied"
    rows = {(str(a), str(b)) for a, b in bench.session.table.rows}
    for event in bench.events("state.changed"):
        assert event.refused or event.from_ in (None, event.step) or (event.from_, event.step) in rows
    assert bench.store.verify() == [] and list(bench.root.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "claims"),
    [
        ("I've just fixed the bug.", True),
        ("The file has been updated.", True),
        ("修正しました。", True),
        ("ファイルを書き換えました", True),
        ("You could add a test.", False),
        ("Run `git commit` after you created the file.", False),
        ("```\nI created this\n```", False),
        ("追加するとよいでしょう。", False),
    ],
)
def test_claims_of_a_change_are_recognised_in_both_languages(text: str, claims: bool) -> None:
    assert claims_change(text) is claims


# --- ways to say "done" that were tried ------------------------------------------------------------------------------

HARMLESS = "Everything is in place."


def first_then(*first: str, then: str) -> Any:
    """Decisions in order, then one for ever; the evaluator is delighted with whatever it is shown."""
    answers = list(first)

    def model(request: ModelRequest) -> str:
        if request.node == "evaluate":
            return GLOWING
        return answers.pop(0) if answers else then

    return model


def never_said(bench: Bench, text: str) -> bool:
    """Not as an answer, not as an outcome, not even as an announcement."""
    return not any(text in said for _, said in bench.said())


CREATED = decision(
    act("file_ops.write_file", path="a.py", content="x = 1\n"),
    profile="creation", next_step="done", requirements=["a.py is there"], reply="There it is.",
)  # fmt: skip


@pytest.mark.parametrize("profile", ["guidance", "analysis", "creation", "unknown"])
@pytest.mark.parametrize("step", ["pending_user", "defer", "continue", "done", None])
async def test_a_false_claim_is_never_shown_however_the_turn_is_to_end(
    tmp_path: Path, profile: str, step: str | None
) -> None:
    fields = {"next_step": step} if step else {}
    attended = step != "done"
    bench = Bench(tmp_path, liar(profile=profile, confidence=1, reply=CLAIM, **fields), yes if attended else None)
    streamed: list[str] = []
    bench.session.watch(lambda live: streamed.append(live.text) if live.kind == "reply" else None)
    ending = await bench.chat.turn("create hello.py")
    assert ending.exit_code != 0 and CLAIM not in ending.reply and never_said(bench, CLAIM)
    assert "created" not in "".join(streamed)  # it is not shown while it is written either


async def test_an_answer_without_a_claim_is_shown_while_it_is_written(tmp_path: Path) -> None:
    words = "Use a dict. " * 40
    bench = Bench(tmp_path, [decision(profile="guidance", actions=[], reply=words)])
    streamed: list[str] = []
    bench.session.watch(lambda live: streamed.append(live.text) if live.kind == "reply" else None)
    await bench.chat.turn("list or dict?")
    assert "".join(streamed) == words and len(streamed) > 3


@pytest.mark.parametrize(
    "words",
    ["Done!", "All done.", "Created hello.py.", "hello.py is now ready.", "完了しました。", "作成しておきました。"],
)
@pytest.mark.parametrize("profile", ["guidance", "analysis"])
async def test_other_words_for_it_do_not_help(tmp_path: Path, profile: str, words: str) -> None:
    bench = Bench(tmp_path, liar(profile=profile, confidence=1, next_step="done", reply=words))
    ending = await bench.chat.turn("create hello.py")
    assert ending.exit_code != 0 and never_said(bench, words)


@pytest.mark.parametrize(
    "ask",
    [
        {"question": {"text": "Which one next?"}},
        {"information_needs": ["how it works"]},
        {"information_needs": ["what `main` does"]},
        {"actions": [act("file_ops.list_dir", path=".")], "next_step": "continue"},
    ],
)
async def test_a_claim_beside_a_question_or_a_need_is_not_shown(tmp_path: Path, ask: dict[str, Any]) -> None:
    bench = Bench(tmp_path, liar(profile="creation", confidence=1, reply=CLAIM, **ask), yes)
    ending = await bench.chat.turn("create hello.py")
    assert ending.status in ("asked", "escalated") and CLAIM not in ending.reply and never_said(bench, CLAIM)


async def test_an_answer_that_could_not_be_read_is_not_rescued_when_it_claims(tmp_path: Path) -> None:
    broken = '{"rationale": "r", "actions": [], "reply": "' + CLAIM + '", "goal_consistency": '
    bench = Bench(tmp_path, [broken, broken])
    ending = await bench.chat.turn("create hello.py")
    assert ending.status == "failed" and CLAIM not in ending.reply and never_said(bench, CLAIM)


async def test_an_unread_answer_without_a_claim_is_rescued(tmp_path: Path) -> None:
    broken = '{"rationale": "r", "actions": [], "reply": "A tuple is frozen.", "goal_consistency": '
    ending = await Bench(tmp_path, [broken, broken]).chat.turn("what is a tuple?")
    assert (ending.status, ending.reply) == ("failed", "A tuple is frozen.")


@pytest.mark.parametrize("profile", ["analysis", "unknown"])
async def test_an_answer_about_what_nobody_read_stays_unproven_in_every_attempt(tmp_path: Path, profile: str) -> None:
    """The reply of one attempt is no evidence for the next."""
    bench = Bench(
        tmp_path, liar(profile=profile, requirements=["told"], confidence=1, next_step="done", reply="It sets x to 1.")
    )
    ending = await bench.chat.turn("what does it do?")
    assert ending.exit_code == 3 and bench.nodes.count("evaluate") == 3
    assert {v.problem for v in bench.events("verdict")} == {"nothing was read or done: there is no evidence"}


@pytest.mark.parametrize("requirement", ["hello.py greets", "the person is told about hello.py"])
async def test_a_file_that_came_with_the_message_is_no_work(tmp_path: Path, requirement: str) -> None:
    bench = Bench(
        tmp_path,
        liar(profile="creation", requirements=[requirement], confidence=1, next_step="done", reply=HARMLESS),
    )
    bench.write("a.py", "x = 1\n")
    ending = await bench.chat.turn("create hello.py as in a.py")
    assert ending.exit_code == 3 and not (bench.root / "hello.py").exists()
    assert bench.nodes[:4] == ["understand"] * 3 + ["evaluate"]  # twice it was told to act first


@pytest.mark.parametrize("attended", [True, False])
async def test_a_check_of_the_models_own_is_no_work(tmp_path: Path, attended: bool) -> None:
    words = liar(
        profile="creation",
        requirements=[{"text": "hello.py greets", "check": "true"}],
        confidence=1,
        next_step="done",
        reply=HARMLESS,
    )
    bench = Bench(tmp_path, words, yes if attended else None, settings='[rules]\nallow = ["shell.run:true"]\n')
    ending = await bench.chat.turn("create hello.py")
    assert ending.exit_code == 3
    assert [v.checks[0]["passed"] for v in bench.events("verdict")] == [True, True, True]


async def test_looking_around_until_the_pacemaker_stops_it_is_not_the_work(tmp_path: Path) -> None:
    words = iter(range(1000))

    def model(request: ModelRequest) -> str:
        if request.node == "evaluate":
            return GLOWING
        return decision(act("search.text", query=f"w{next(words)}"), profile="creation", requirements=["it greets"])

    bench = Bench(tmp_path, model, overrides=Overrides(max_turns=60))
    ending = await bench.chat.turn("create something that greets")
    assert ending.status == "escalated" and bench.nodes.count("evaluate") == 3
    assert bench.events("verdict")[0].problem == "nothing was done, and nobody said that it was so already"


async def test_what_is_so_already_may_be_said_after_a_look(tmp_path: Path) -> None:
    look = decision(act("file_ops.read_file", path="a.py"), profile="modification", requirements=["x is 1"])
    so = decision(profile="modification", next_step="done", reply="x is 1 already.", actions=[])
    bench = Bench(tmp_path, first_then(look, then=so), yes)
    bench.write("a.py", "x = 1\n")
    assert (await bench.chat.turn("set x to 1")).status == "satisfied"


@pytest.mark.parametrize("requirement", ["b.py exists", "b.py is like a.py"])
async def test_an_earlier_change_and_a_read_do_not_prove_a_later_claim(tmp_path: Path, requirement: str) -> None:
    look = decision(
        act("file_ops.read_file", path="a.py"), profile="creation", requirements=[requirement], confidence=1
    )
    claim = decision(profile="creation", next_step="done", reply="I have created b.py.", actions=[])
    bench = Bench(tmp_path, first_then(CREATED, look, then=claim), yes)
    assert (await bench.chat.turn("create a.py")).status == "satisfied"
    ending = await bench.chat.turn("create b.py")
    assert ending.status == "escalated" and never_said(bench, "I have created b.py.")
    assert "the reply claims a change, but nothing was changed" in {v.problem for v in bench.events("verdict")} or (
        requirement == "b.py exists"
    )


async def test_an_answer_cannot_claim_new_files_after_earlier_work(tmp_path: Path) -> None:
    claim = decision(profile="guidance", next_step="done", reply="I have created b.py.", actions=[])
    bench = Bench(tmp_path, first_then(CREATED, then=claim), yes)
    await bench.chat.turn("create a.py")
    ending = await bench.chat.turn("create b.py")
    assert ending.exit_code != 0 and never_said(bench, "I have created b.py.")


async def test_a_claim_that_may_mean_earlier_work_is_shown_with_the_programs_own_word(tmp_path: Path) -> None:
    claim = decision(profile="guidance", next_step="done", reply="修正しました。", actions=[])
    bench = Bench(tmp_path, first_then(CREATED, then=claim), yes)
    await bench.chat.turn("create a.py")
    ending = await bench.chat.turn("直して")
    assert ending.status == "answered"
    assert bench.said()[-2:] == [("reply", "修正しました。"), ("outcome", "For this request nothing was changed.")]


async def test_a_true_report_of_this_request_needs_no_such_word(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [CREATED.replace("There it is.", "I have created a.py."), verdict()], yes)
    assert (await bench.chat.turn("create a.py")).status == "satisfied"
    assert bench.said() == [("reply", "I have created a.py.")]


async def test_a_change_that_was_taken_back_is_no_change(tmp_path: Path) -> None:
    there_and_back = decision(
        act("file_ops.edit_file", path="a.py", search="1", replace="2"),
        act("file_ops.edit_file", path="a.py", search="2", replace="1"),
        profile="modification", next_step="done", requirements=["x is 2"], reply="I have changed x to 2.",
    )  # fmt: skip
    bench = Bench(tmp_path, liar_after(there_and_back), yes, settings="[objective]\nmax_attempts = 1\n")
    bench.write("a.py", "x = 1\n")
    ending = await bench.chat.turn("set x to 2")
    assert ending.status == "escalated" and never_said(bench, "I have changed x to 2.")


def liar_after(said: str) -> Any:
    return lambda request: GLOWING if request.node == "evaluate" else said


async def test_what_a_command_changed_under_the_name_of_an_analysis_is_judged(tmp_path: Path) -> None:
    run = decision(
        act("shell.run", command="echo x > hello.py"),
        profile="analysis",
        confidence=1,
        requirements=["hello.py greets"],
    )
    claim = decision(profile="analysis", next_step="done", confidence=1, reply=CLAIM, actions=[])
    poor = verdict(0.1, {"R1": ["E1"]})
    answers = iter([run])

    def model(request: ModelRequest) -> str:
        return poor if request.node == "evaluate" else next(answers, claim)

    bench = Bench(tmp_path, model, yes)
    ending = await bench.chat.turn("create hello.py")
    assert ending.status == "escalated" and bench.events("verdict") and never_said(bench, CLAIM)


async def test_an_answer_of_an_earlier_attempt_that_nobody_saw_proves_nothing(tmp_path: Path) -> None:
    """The closing words of a failed attempt are held back; a later attempt without words cannot live on them."""
    write = decision(
        act("file_ops.write_file", path="a.py", content="x = 1\n"),
        profile="creation", next_step="done", requirements=["explain what a.py does"], reply="It sets x.",
    )  # fmt: skip
    silent = write.replace("x = 1", "x = 2").replace("It sets x.", "")
    decisions = iter([write, silent, write.replace("x = 1", "x = 3").replace("It sets x.", "")])
    verdicts = iter([verdict(0.2, {"R1": ["E2"]})])

    def model(request: ModelRequest) -> str:
        if request.node != "evaluate":
            return next(decisions)
        return next(verdicts, verdict(1.0, {"R1": ["E2"]}))  # E2 is the reply of the first attempt

    bench = Bench(tmp_path, model, yes)
    assert (await bench.chat.turn("write a.py and explain it")).status == "escalated"
    assert [v.requirements["R1"]["score"] for v in bench.events("verdict")] == [0.2, 0.5, 0.5]


@pytest.mark.parametrize("profile", ["guidance", "analysis", "creation"])
async def test_after_a_refusal_words_do_not_finish_the_work(tmp_path: Path, profile: str) -> None:
    words = decision(profile=profile, confidence=1, next_step="done", reply=HARMLESS, actions=[])
    bench = Bench(tmp_path, first_then(CREATED.replace('"done"', '"continue"'), then=words), lambda _r: "no")
    ending = await bench.chat.turn("create a.py")
    assert ending.status in ("escalated", "asked") and not (bench.root / "a.py").exists()


async def test_without_a_person_an_answer_after_a_refused_command_is_judged(tmp_path: Path) -> None:
    run = decision(act("shell.run", command="make test"), profile="analysis", confidence=1, requirements=["told"])
    words = decision(profile="analysis", confidence=1, next_step="done", reply="All tests pass.", actions=[])
    answers = iter([run])

    def model(request: ModelRequest) -> str:
        return verdict(0.0, {}) if request.node == "evaluate" else next(answers, words)

    bench = Bench(tmp_path, model)
    bench.write("a.py", "x = 1\n")
    ending = await bench.chat.turn("do the tests of a.py pass?")
    assert (ending.status, ending.exit_code) == ("refused", 4) and "All tests pass." not in ending.reply


async def test_a_side_question_is_no_way_around(tmp_path: Path) -> None:
    asks = decision(profile="creation", requirements=["hello.py greets"], question={"text": "Which name?"})
    claim = decision(profile="guidance", objective="side", next_step="done", reply=CLAIM, actions=[])
    bench = Bench(tmp_path, first_then(asks, then=claim), yes)
    await bench.chat.turn("create hello.py")
    ending = await bench.chat.turn("hello.py, please")
    assert ending.exit_code != 0 and never_said(bench, CLAIM)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(
            st.lists(
                st.sampled_from(
                    [
                        act("file_ops.list_dir", path="."),
                        act("file_ops.read_file", path="a.py"),
                        act("file_ops.read_file", path="nowhere.py"),
                        act("file_ops.write_file", path="a.py", content="x = 1\n"),  # it is so already
                        act("file_ops.write_file", path="hello.py", content="print('hi')\n"),  # refused
                        act("shell.run", command="true"),  # refused
                        act("search.text", query="hello"),
                    ]
                ),
                max_size=3,
            ),
            st.sampled_from(["guidance", "analysis", "creation", "modification", "unknown", None]),
            st.sampled_from(["done", "continue", "pending_user", "defer", None]),
            st.sampled_from(["", "OK.", CLAIM, "作成しました。", "Done!"]),
            st.sampled_from([[], ["hello.py exists"], ["hello.py prints hi"], ["the person is told"]]),
        ),
        min_size=1,
        max_size=8,
    )
)
async def test_whatever_is_done_except_the_work_no_claim_is_shown_and_the_file_is_missed(
    tmp_path_factory: pytest.TempPathFactory, said: list[Any]
) -> None:
    turns = iter(said * 60)

    def model(request: ModelRequest) -> str:
        if request.node == "evaluate":
            return GLOWING
        actions, profile, step, reply, wishes = next(turns)
        fields = {"profile": profile, "next_step": step, "confidence": 1.0}
        given = {name: value for name, value in fields.items() if value is not None}
        return decision(*actions, reply=reply, requirements=["hello.py exists", *wishes], **given)

    bench = Bench(tmp_path_factory.mktemp("liar"), model, overrides=Overrides(mode="ask"))
    bench.write("a.py", "x = 1\n")
    ending = await bench.chat.turn("create hello.py")
    assert ending.status != "satisfied"
    for kind, text in bench.said():
        assert kind == "announcement" or not claims_change(text)
