"""Questions: never the same twice in either language, none without end, and short answers only while one is open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckflow import events as ev
from duckflow.engine.clarify import SAME, resolved, similarity
from duckflow.llm.base import ModelRequest
from tests.engine.workbench import Bench, act, by_node, check_transitions, decision, verdict, yes

# --- similarity ------------------------------------------------------------------------------------------------------

PARAPHRASES = [
    ("どのファイルを変更しますか？", "変更するファイルはどれですか？"),
    ("保存形式は JSON と SQLite のどちらにしますか？", "JSON と SQLite、どちらの形式で保存しますか？"),
    ("テストも書きますか？", "テストも書いたほうがいいですか？"),
    ("出力先のディレクトリはどこですか？", "どこのディレクトリに出力しますか？"),
    ("ＡＰＩキーはどこにありますか？", "API キーはどこにありますか?"),
    ("ファイル名は何にしますか？", "ファイルの名前は何がいいですか？"),
    ("既存のファイルを上書きしてもよいですか？", "既存ファイルは上書きしていいでしょうか？"),
    ("どの言語で書きますか？", "書く言語は何ですか？"),
    ("Which file should I change?", "What file do you want me to change?"),
    ("Should I write tests too?", "Do you want tests written as well?"),
    ("Where should the output go?", "Where do you want the output to go?"),
    ("JSON or SQLite for storage?", "Should storage be JSON or SQLite?"),
    ("May I delete the old config file?", "Should the old config file be deleted?"),
    ("Which version of Python?", "which version of python"),
]
DIFFERENT = [
    ("保存先は JSON ですか SQLite ですか？", "テストも書きますか？"),
    ("どのファイルを変更しますか？", "どのファイルを削除しますか？"),
    ("どのファイルを変更しますか？", "いつファイルを変更しますか？"),
    ("ファイルを変更しますか？", "どのファイルを変更しますか？"),
    ("テストも書きますか？", "ドキュメントも書きますか？"),
    ("入力はどこから読みますか？", "出力はどこへ書きますか？"),
    ("ファイルをつくりますか？", "ファイルをけしますか？"),
    ("ログは残しますか？", "ログはどこに残しますか？"),
    ("続けますか？", "中止しますか？"),
    ("Which file should I change?", "Which file should I delete?"),
    ("Which test file in src should I change?", "Which test file in src should I delete?"),
    ("Should I delete test_a.py?", "Should I delete test_b.py?"),
    ("Should I write tests too?", "Should I write documentation too?"),
    ("Where should the output go?", "When should the output go?"),
    ("How many workers do you want?", "How should the workers be started?"),
    ("Which name?", "Which one?"),
    ("Which file?", "Which file should hold the settings of the parser?"),
    ("Python 3.11 or 3.12?", "Python 3.12 or 3.13?"),
]


@pytest.mark.parametrize(("one", "other"), PARAPHRASES)
def test_a_paraphrase_is_the_same_question(one: str, other: str) -> None:
    assert similarity(one, other) >= SAME and similarity(other, one) >= SAME


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_another_question_is_not_the_same(one: str, other: str) -> None:
    assert similarity(one, other) < SAME and similarity(other, one) < SAME


@given(st.text(max_size=60), st.text(max_size=60))
def test_similarity_is_a_share_and_the_same_in_both_directions(one: str, other: str) -> None:
    assert 0.0 <= similarity(one, other) <= 1.0
    assert similarity(one, other) == pytest.approx(similarity(other, one))


@given(
    st.text(alphabet="abcdefgh ファイル変更？ますか", min_size=1, max_size=40).filter(
        lambda t: any(c.isalnum() for c in t)
    )
)
def test_a_question_is_the_same_as_itself(text: str) -> None:
    assert similarity(text, text) == pytest.approx(1.0)


# --- the cache -------------------------------------------------------------------------------------------------------

LOOK = decision(
    act("file_ops.list_dir", path="."), profile="modification", requirements=["a.py says y"], confidence=0.9
)
EDIT = act("file_ops.edit_file", path="a.py", search="x", replace="y")


def asks(text: str, *options: str, **fields: Any) -> str:
    question = {"text": text, "options": list(options), "default": fields.pop("default", None)}
    return decision(profile="modification", question=question, **fields)


def history(request: ModelRequest) -> str:
    return "\n".join(message.text for message in request.messages)


def done(**fields: Any) -> str:
    return decision(EDIT, profile="modification", next_step="done", **fields)


def with_file(bench: Bench) -> Bench:
    bench.write("a.py", "x = 1\n")
    return bench


async def test_a_repeated_question_gets_the_earlier_answer_instead(tmp_path: Path) -> None:
    replies = [
        asks("どのファイルを変更しますか？"),
        asks("変更するファイルはどれですか？"),
        done(requirements=["a.py says y"]),
        verdict(1.0, {"R1": ["E1", "E2"]}),
    ]
    bench = with_file(Bench(tmp_path, list(replies), yes))
    assert (await bench.chat.turn("変数を直して")).status == "asked"
    ending = await bench.chat.turn("a.py のほう")
    assert ending.status == "satisfied" and len(bench.events("question")) == 1
    assert "You asked this already; the answer was: a.py のほう" in history(bench.asked[2])
    check_transitions(bench)


async def test_a_different_question_is_asked(tmp_path: Path) -> None:
    bench = with_file(Bench(tmp_path, [asks("Which file should I change?"), asks("Should I write tests too?")], yes))
    await bench.chat.turn("make it better")
    assert (await bench.chat.turn("a.py")).status == "asked"
    assert [q.text for q in bench.events("question")] == ["Which file should I change?", "Should I write tests too?"]


async def test_without_an_answer_the_default_is_taken_and_said(tmp_path: Path) -> None:
    one, again = asks("Which name?", "a", "b", default="a"), asks("Which name?", "a", "b", default="a")
    replies = [one, again, done(requirements=["a.py says y"]), verdict(1.0, {"R1": ["E1"]})]
    bench = with_file(Bench(tmp_path, list(replies), overrides=None, settings='mode = "auto-edit"\n'))
    assert (await bench.chat.turn("make it better")).status == "satisfied"
    assert [q.answered for q in bench.events("question")] == ["default"]
    assert "You asked this already. Take the default (a)" in history(bench.asked[2])


# --- no questions without end ----------------------------------------------------------------------------------------


async def test_after_two_fruitless_questions_the_default_is_announced_and_the_work_goes_on(tmp_path: Path) -> None:
    replies = [
        LOOK,
        asks("Which colour?"),
        asks("Which size?"),
        asks("Which shape?", "round", "square", default="round"),
        done(),
        verdict(1.0, {"R1": ["E2"]}),
    ]
    bench = with_file(Bench(tmp_path, list(replies), yes))
    assert (await bench.chat.turn("improve a.py")).status == "asked"
    assert (await bench.chat.turn("no idea")).status == "asked"
    ending = await bench.chat.turn("you choose")
    assert ending.status == "satisfied"
    assert [q.text for q in bench.events("question")] == ["Which colour?", "Which size?"]
    assert ("reply", "The last questions brought nothing new, so I decide for now: round.") in bench.said()
    told = history(bench.asked[4])
    assert "“Which shape?” was not asked" in told and "Take the default (round)" in told and "safest small step" in told
    check_transitions(bench)


async def test_without_a_default_the_safest_small_step_is_announced(tmp_path: Path) -> None:
    replies = [
        LOOK,
        asks("Which colour?"),
        asks("Which size?"),
        asks("Which shape?"),
        done(),
        verdict(1.0, {"R1": ["E2"]}),
    ]
    bench = with_file(Bench(tmp_path, list(replies), yes))
    for text in ("improve a.py", "no idea", "you choose"):
        ending = await bench.chat.turn(text)
    assert ending.status == "satisfied"
    assert ("reply", "The last questions brought nothing new, so I go on with the safest small step.") in bench.said()


async def test_a_question_that_brought_something_new_resets_the_count(tmp_path: Path) -> None:
    learned = {"goal": "the goal", "constraints": ["no new files"]}
    replies = [
        LOOK,
        asks("Which colour?"),
        asks("Which size?", state_delta=learned),
        asks("Which shape?", state_delta=learned),
        asks("Which weight?", state_delta=learned),
        done(),
        verdict(1.0, {"R1": ["E2"]}),
    ]
    bench = with_file(Bench(tmp_path, list(replies), yes))
    await bench.chat.turn("improve a.py")
    assert (await bench.chat.turn("red, and no new files")).status == "asked"
    assert (await bench.chat.turn("hm")).status == "asked"  # the third: the first one had brought a constraint
    assert (await bench.chat.turn("hm")).status == "satisfied"
    assert [q.text for q in bench.events("question")] == ["Which colour?", "Which size?", "Which shape?"]


async def test_a_model_that_does_nothing_but_ask_comes_to_an_honest_end(tmp_path: Path) -> None:
    things = iter(["colour", "size", "shape", "weight", "smell", "sound", "taste", "price", *map(chr, range(97, 123))])

    def model(request: ModelRequest) -> str:
        if request.node == "evaluate":
            return verdict(1.0, {"R1": ["E1"]})
        return asks(f"Which {next(things)}?", requirements=["r"])

    bench = Bench(tmp_path, model, yes)
    for text in ("improve it", "hm", "hm"):
        ending = await bench.chat.turn(text)
    assert ending.status == "escalated" and len(bench.events("question")) == 2 and len(bench.asked) < 20


async def test_whether_to_go_on_is_no_question_about_the_work(tmp_path: Path) -> None:
    shaky = decision(EDIT, profile="modification", confidence=0.1, requirements=["r"])
    replies = [shaky, asks("Which colour?"), asks("Which size?")]
    bench = with_file(Bench(tmp_path, list(replies), yes))
    await bench.chat.turn("improve a.py")
    assert (await bench.chat.turn("go on")).status == "asked"
    assert (await bench.chat.turn("hm")).status == "asked" and len(bench.events("question")) == 3


# --- short answers ---------------------------------------------------------------------------------------------------

TWO = ev.QuestionAsked(text="Which?", options=("alpha", "beta"), default="alpha")
OPEN = ev.QuestionAsked(text="Which?")


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("1", "alpha"),
        ("2", "beta"),
        ("２", "beta"),
        ("2.", "beta"),
        ("2で", "beta"),
        ("２番でお願いします", "beta"),
        ("beta", "beta"),
        (" Beta! ", "beta"),
        ("OK", "alpha"),
        ("ok.", "alpha"),
        ("ＯＫ", "alpha"),
        ("はい", "alpha"),
        ("はい。", "alpha"),
        ("はい、お願いします", "alpha"),
        ("それで", "alpha"),
        ("yes please", "alpha"),
        ("3", None),
        ("0", None),
        ("12", None),
        ("no", None),
        ("いいえ", None),
        ("1 and 2", None),
        ("はい、でも名前は変えて", None),
        ("ok but call it gamma", None),
        ("2で始まる名前", None),
    ],
)
def test_short_answers_mean_an_option(text: str, meant: str | None) -> None:
    assert resolved(TWO, text) == meant


@pytest.mark.parametrize("text", ["1", "OK", "はい", "2で"])
def test_where_nothing_was_offered_a_short_answer_means_nothing_by_itself(text: str) -> None:
    assert resolved(OPEN, text) is None


@pytest.mark.parametrize(
    ("text", "meant"), [("1", "json"), ("OK", "json"), ("2で", "sqlite"), ("はい", "json"), ("２", "sqlite")]
)
async def test_a_short_answer_is_understood_while_the_question_is_open(tmp_path: Path, text: str, meant: str) -> None:
    replies = [
        asks("保存先は？", "json", "sqlite", default="json"),
        done(requirements=["r"]),
        verdict(1.0, {"R1": ["E1"]}),
    ]
    bench = with_file(Bench(tmp_path, list(replies), yes))
    await bench.chat.turn("保存できるようにして")
    assert (await bench.chat.turn(text)).status == "satisfied"
    assert f"(the answer to your question: {meant})" in history(bench.asked[1])


@pytest.mark.parametrize("text", ["1", "OK", "はい", "２"])
async def test_without_an_open_question_it_is_a_message_like_any_other(tmp_path: Path, text: str) -> None:
    hello = decision(profile="guidance", reply="What do you mean?", actions=[])
    model = by_node(understand=[asks("Which?", "a", "b", default="a"), hello, hello])
    bench = Bench(tmp_path, model, yes)
    await bench.chat.turn("x")
    await bench.chat.turn("neither, forget it")
    assert (await bench.chat.turn(text)).status == "answered"
    assert "the answer to your question" not in history(bench.asked[2])
