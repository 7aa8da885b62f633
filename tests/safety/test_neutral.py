"""Nothing that a terminal would obey comes through."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from duckflow.safety.neutral import has_invisible, neutral, one_line, pictured, visible

ATTACKS = [
    "\x1b]52;c;ZXZpbA==\x07",
    "\x1b]8;;http://x\x1b\\",
    "\x1b[2J",
    "\x9b2J",
    "\x1b]0;title",
    "\x1b",
    "\x00\x08\x7f",
]


def test_escape_sequences_become_text() -> None:
    for attack in ATTACKS:
        for made in (neutral(attack), pictured(attack), visible(attack)):
            assert not any(unicodedata.category(ch) == "Cc" for ch in made)
            assert made
    assert neutral("\x1b[31mred\x1b[0m") == "red"
    assert neutral("a\r\nb\rc\td") == "a\nb\nc\td"


def test_invisible_and_direction_changing_characters_are_spelt_out_for_people() -> None:
    assert visible("rm \u202eexe.txt") == "rm <U+202E>exe.txt"
    assert visible("a\u200bb") == "a<U+200B>b"
    assert has_invisible("ls \u2066x") and has_invisible("ls \x1b[2J") and not has_invisible("ls 日本語 ~")
    assert visible("👨‍👩‍👧 が ﾊﾝｶｸ") == "👨‍👩‍👧 が ﾊﾝｶｸ"


@given(st.text())
def test_nothing_that_controls_is_left(text: str) -> None:
    shown = visible(text)
    assert not any(unicodedata.category(ch) == "Cc" and ch not in "\n\t" for ch in shown)
    assert visible(shown) == shown
    assert "\n" not in one_line(text, 50) and len(one_line(text, 50)) <= 50
