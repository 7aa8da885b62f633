"""Text on its way to a screen: made safe, wrapped in cells, streamed by blocks. Laws, mostly."""

from __future__ import annotations

import json
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckflow.ui.markdown import rendered
from duckflow.ui.safe import safe, safe_json, safe_line
from duckflow.ui.stream import Stream
from duckflow.ui.usage import show_help
from duckflow.ui.wrap import cells, fit, flowed, wrapped

NASTY = st.text(
    st.one_of(
        st.sampled_from(
            "\x00\x07\x08\x0b\x0c\r\x1b\x7f\x80\x9b\x9d\u202e\u200b\u2028\ufeff\u2066\ufe0f\U000e0041\ud800"
        ),
        st.characters(),
    )
)
MIXED = st.text(st.sampled_from("abc def。、「」（）日本語カタカナ漢字ー…\u0301 xyz.,!"), max_size=120)


def is_harmless(char: str) -> bool:
    return char in "\n\t" or unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Zl", "Zp")


@given(NASTY)
def test_no_control_or_invisible_character_survives(text: str) -> None:
    for exact in (False, True):
        assert all(is_harmless(char) for char in safe(text, exact=exact))
        assert "\n" not in safe_line(text, exact=exact)


@given(NASTY)
def test_making_safe_twice_changes_nothing_more(text: str) -> None:
    assert safe(safe(text)) == safe(text)


FILLERS = "\u115f\u1160\u3164\uffa0"  # letters by name, invisible by nature


@given(st.text(st.characters(categories=("L", "N", "P"), exclude_characters=FILLERS)))
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert safe(text) == text


def test_every_control_and_format_character_of_unicode_is_spelt_out() -> None:
    wrong = [
        hex(code) for code in range(sys.maxunicode + 1) if safe(chr(code)) == chr(code) and not is_harmless(chr(code))
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]52;c;aGk=\x07", "‹U+001B›]52;c;aGk=‹U+0007›"),
        ("\x1b]8;;http://evil\x1b\\click", "‹U+001B›]8;;http://evil‹U+001B›\\click"),
        ("a\x9b2Jb", "a‹U+009B›2Jb"),
        ("pass\rfail", "pass‹U+000D›fail"),
        ("one\r\ntwo", "one\ntwo"),
        ("exe.\u202egpj", "exe.‹U+202E›gpj"),
        ("a\u200bb", "a‹U+200B›b"),
        ("\U000e0041", "‹U+E0041›"),
        ("⚠\ufe0f care", "⚠ care"),
        ("x\ufe0f", "x‹U+FE0F›"),
        ("日本語\tok", "日本語\tok"),
    ],
)
def test_what_is_done_to_known_tricks(text: str, shown: str) -> None:
    assert safe(text) == shown


def test_in_commands_every_character_counts() -> None:
    assert safe("rm\u00a0-rf ⚠\ufe0f", exact=True) == "rm‹U+00A0›-rf ⚠‹U+FE0F›"
    assert safe_line("a\nb", exact=True) == "a⏎b"


@given(st.dictionaries(NASTY, NASTY))
def test_json_lines_keep_their_value_and_lose_their_teeth(value: dict[str, str]) -> None:
    line = safe_json(json.dumps(value, ensure_ascii=False))
    assert json.loads(line) == value
    assert not any(unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") for char in line)


@given(MIXED, st.integers(2, 40))
def test_no_line_is_wider_than_the_screen_and_nothing_is_lost(text: str, width: int) -> None:
    lines = wrapped(text, width)
    assert all(cells(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())


def test_japanese_breaks_where_it_may() -> None:
    assert wrapped("日本語の文章です。次の文「引用」", 16) == ["日本語の文章で", "す。次の文「引", "用」"]
    assert wrapped("これは README.md です", 10) == ["これは", "README.md", "です"]
    assert wrapped("abcdefghijkl", 5) == ["abcde", "fghij", "kl"]


@given(MIXED, st.integers(1, 20))
def test_a_text_that_does_not_fit_says_so(text: str, width: int) -> None:
    short = fit(text, width)
    assert cells(short) <= width
    assert short == text or short.endswith("…")


def test_parts_stay_whole_when_they_flow() -> None:
    assert flowed(["y yes", "n no", "other text: no"], 14) == "y yes · n no\nother text: no"


@given(
    st.lists(st.sampled_from(["word ", "語", "\n", "\n\n", "```\n", "- item\n", "  more\n", "# H\n"])),
    st.integers(1, 7),
)
def test_a_streamed_text_is_handed_out_whole_and_in_order(pieces: list[str], size: int) -> None:
    text = "".join(pieces)
    stream, out = Stream(), ""
    for i in range(0, len(text), size):
        out += stream.feed(text[i : i + size])
    assert text.startswith(out) and stream.printed == out
    assert out + stream.rest(text) == text


def test_a_block_is_finished_when_the_next_begins_or_its_fence_closes() -> None:
    stream = Stream()
    assert stream.feed("One.\n\nTw") == "One.\n\n"
    assert stream.feed("o.\n\n```py\nx = 1\n\ny = 2\n") == "Two.\n\n"
    assert stream.feed("```\nafter") == "```py\nx = 1\n\ny = 2\n```\n"
    assert stream.rest("something else") == "something else"


def test_list_items_with_indented_parts_stay_together() -> None:
    stream = Stream()
    assert stream.feed("- a\n\n  more of a\n\n") == ""
    assert stream.feed("End\n") == "- a\n\n  more of a\n\n"


def test_markdown_shows_html_keeps_tables_whole_and_makes_no_links() -> None:
    text = (
        "A List<String> and <b>bold</b>, [here](http://evil).\n\n| a | b |\n|---|---|\n| 1 | "
        + "長い文章。" * 20
        + " |\n"
    )
    shown = rendered(text, width=60, colour=True)
    assert "List<String>" in shown and "<b>bold</b>" in shown and "http://evil" in shown
    assert "\x1b]8" not in shown and "…" not in shown
    assert shown.count("長い文章。") + shown.count("長い文") >= 20
    assert all(cells(line) <= 60 for line in rendered(text, width=60, colour=False).split("\n"))


@given(NASTY)
def test_markdown_of_anything_is_harmless(text: str) -> None:
    assert all(is_harmless(char) for char in rendered(text, width=40, colour=False))


def test_usage_on_a_narrow_screen_too(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    show_help("")
    assert "  duckflow\n      chat in the current directory\n" in capsys.readouterr().out
