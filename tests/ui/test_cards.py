"""The card: what would happen first, the model's words as its claim, and answers that cannot be mistaken."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from duckflow.human import ANSWERS, Card
from duckflow.i18n import set_language
from duckflow.record import replace
from duckflow.ui.cards import COURTESIES, Picked, draw, invitation, read_answer
from duckflow.ui.out import Out
from duckflow.ui.wrap import cells

DIFF = "--- a/README.md\n+++ b/README.md\n@@ -1,2 +1,2 @@\n # tally\n-A small ledger.\n+小さな元帳です。\n"
CARD = Card(
    title="file_ops.edit_file: may I?",
    preview=DIFF,
    preview_kind="diff",
    risk="MEDIUM",
    risk_reason="69 % of the lines change",
    intent="edit README.md (+1 −1)",
    claim="説明文を日本語にする",
    impact="1 file, +1 −1 lines",
    alternatives=("say no and write what you want instead", "make the change yourself"),
    options=(("yes", "yes"), ("step", "yes for this step (README.md)"), ("no", "no, with a comment")),
    default="no",
    pattern="README.md",
)


def out(colour: bool = False, width: int = 80) -> Out:
    return Out(lambda _text: None, colour=colour, width=lambda: width)


def test_a_card_at_80_columns() -> None:
    assert "\n".join(draw(CARD, "gate", out()).lines) == snapshot("""\

── file_ops.edit_file: may I?
│ --- a/README.md
│ +++ b/README.md
│ @@ -1,2 +1,2 @@
│  # tally
│ -A small ledger.
│ +小さな元帳です。
Risk              MEDIUM · 69 % of the lines change
Intent            edit README.md (+1 −1)
Impact            1 file, +1 −1 lines
The model claims  説明文を日本語にする
Instead           say no and write what you want instead / make the change
                  yourself\
""")
    assert invitation(CARD, "gate") == snapshot(
        ["y yes", "s yes for this step (README.md)", "n no", "other text: no, and why"]
    )


def test_a_card_in_japanese_fits_too() -> None:
    set_language("ja")
    try:
        card = replace(CARD, impact="ファイルひとつ、保存済みです。" * 6, claim="これは一覧を見るだけです。" * 20)
        lines = draw(card, "gate", out()).lines
    finally:
        set_language("en")
    assert all(cells(line) <= 80 for line in lines)
    assert any("…" in line for line in lines)  # the claim is cut, not the rest
    assert "".join("".join(lines).split()).count("保存済みです。") == 6


def test_the_command_comes_first_and_the_claim_is_labelled() -> None:
    claim = "this only lists files\n" * 400
    card = Card(title="Run this command?", preview="curl x | sh", preview_kind="command", claim=claim)
    lines = draw(card, "gate", out()).lines
    text = "\n".join(lines)
    assert text.index("$ curl x | sh") < text.index("The model claims")
    assert len(lines) < 12


def test_nothing_in_a_preview_can_pass_for_a_part_of_the_card() -> None:
    card = Card(title="x", preview="ls\nRisk  LOW\n── approved", preview_kind="command", risk="HIGH")
    lines = draw(card, "gate", out()).lines
    assert [line for line in lines if line.startswith("Risk")] == ["Risk  HIGH"]
    assert "│   Risk  LOW" in lines and "│   ── approved" in lines


def test_a_long_preview_is_cut_to_the_screen_and_says_by_how_much() -> None:
    card = replace(CARD, preview="\n".join(f"+line {n}" for n in range(100)))
    drawn = draw(card, "gate", out(), height=24)
    assert drawn.hidden == 90 and any("90 lines more" in line for line in drawn.lines)
    assert "v shows all" in invitation(card, "gate", hidden=drawn.hidden)
    whole = draw(card, "gate", out(), height=24, full=True)
    assert whole.hidden == 0 and "│ +line 99" in whole.lines


def test_the_end_of_a_long_command_is_never_left_out() -> None:
    card = Card(title="x", preview="\n".join(["echo hi"] * 100 + ["rm -rf /"]), preview_kind="command")
    assert any("rm -rf /" in line for line in draw(card, "gate", out(), height=24).lines)
    long = Card(title="x", preview="echo " + "a" * 5000 + "; rm -rf /", preview_kind="command")
    assert "rm -rf /" in "".join(draw(long, "gate", out(), height=24).lines).replace("│ ", "")


@given(st.text(), st.sampled_from(["diff", "command", "text"]), st.integers(20, 100))
def test_no_line_of_any_preview_leaves_the_screen(text: str, kind: str, width: int) -> None:
    card = Card(title=text, preview=text, preview_kind=kind, claim=text, risk_reason=text, impact=text)  # type: ignore[arg-type]
    for line in draw(card, "gate", out(width=width), full=True).lines:
        assert cells(line) <= width and "\x1b" not in line


def test_a_diff_is_coloured() -> None:
    lines = draw(CARD, "gate", out(colour=True)).lines
    assert "│ \x1b[31m-A small ledger.\x1b[0m" in lines and "│ \x1b[32m+小さな元帳です。\x1b[0m" in lines


@pytest.mark.parametrize(
    ("typed", "picked"),
    [
        ("y", Picked("yes")),
        (" YES ", Picked("yes")),
        ("はい。", Picked("yes")),
        ("Ｙ", Picked("yes")),
        ("s", Picked("step")),
        ("n", Picked("no")),
        ("いいえ", Picked("no")),
        ("yes please do", Picked("no", "yes please do")),
        ("はい、お願いします", Picked("yes")),
        ("はい。お願いします。", Picked("yes")),
        ("OK、進めて", Picked("yes")),
        ("ＯＫ！　進めてください！", Picked("yes")),
        ("Yes, go ahead.", Picked("yes")),
        ("はい、でもお願いします", Picked("no", "はい、でもお願いします")),
        ("はい、お願いします、でも後で", Picked("no", "はい、お願いします、でも後で")),
        ("はい、やめて", Picked("no", "はい、やめて")),
        ("いいえ、お願いします", Picked("no", "いいえ、お願いします")),
        ("yes, but shorter", Picked("no", "yes, but shorter")),
        ("s, please", Picked("no", "s, please")),
        ("、お願いします", Picked("no", "、お願いします")),
        ("1", Picked("no", "1")),
        ("use edit_file", Picked("no", "use edit_file")),
        ("", None),
        ("   ", None),
        ("a", None),  # "always" is not offered here
        ("v", "all"),
    ],
)
def test_what_a_gate_understands(typed: str, picked: object) -> None:
    assert read_answer(CARD, "gate", typed) == picked


WORDS = st.one_of(st.text(), st.sampled_from([*ANSWERS, *COURTESIES, "yes\n", "y\u200b", "ye s", "Y."]))


@given(st.lists(WORDS, min_size=1, max_size=3), st.sampled_from(["", " ", "、", ", ", "。"]))
def test_only_known_words_ever_approve(words: list[str], mark: str) -> None:
    typed = mark.join(words)
    picked = read_answer(CARD, "gate", typed)
    if isinstance(picked, Picked) and picked.choice != "no":
        word = unicodedata.normalize("NFKC", typed).strip().rstrip("。.!").strip().casefold()
        yes, *courtesy = [part.strip() for part in re.split("[、,。.!]", word, maxsplit=1)]
        is_polite = ANSWERS.get(yes) == picked.choice == "yes" and set(courtesy) <= COURTESIES
        assert is_polite or ANSWERS.get(word) == picked.choice or word in dict(CARD.options)[picked.choice]


def test_a_plan_has_no_yes_for_a_step_and_says_who_asks() -> None:
    card = Card(title="Carry out the plan?", preview="1 storage", asker="storage\x1b[2J")
    assert invitation(card, "plan") == ["y yes", "n no", "other text: no, and why"]
    assert read_answer(card, "plan", "s") is None
    assert "\n".join(draw(card, "plan", out()).lines) == snapshot("""\

── Carry out the plan?
   asked by storage‹U+001B›[2J
│ 1 storage\
""")


@pytest.mark.parametrize(
    ("typed", "picked"),
    [
        ("2", Picked("blue")),
        ("２", Picked("blue")),
        ("Red one", Picked("red")),
        ("", Picked("blue")),
        ("3", Picked("no", "3")),
        ("neither", Picked("no", "neither")),
    ],
)
def test_what_a_question_understands(typed: str, picked: object) -> None:
    card = Card(title="Which?", options=(("red", "red one"), ("blue", "blue one")), default="blue")
    assert read_answer(card, "question", typed) == picked


def test_a_question_shows_numbers_and_its_default() -> None:
    card = Card(title="Which?", options=(("red", "red one"), ("blue", "blue one")), default="blue")
    assert "\n".join(draw(card, "question", out()).lines) == snapshot("""\

── Which?
  1 red one
  2 blue one (default)\
""")
    assert invitation(card, "question") == snapshot(["number or your own words", "Enter: default"])
