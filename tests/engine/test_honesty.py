"""No model, however it lies, makes Duckflow say "done" without evidence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

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
