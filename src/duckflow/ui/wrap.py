"""Where lines may break, in cells: right for Japanese (no break before 。 or after 「) and for long words. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from unicodedata import combining, east_asian_width

_NOT_FIRST = frozenset(
    "、。，．・：；？！ー）］｝〉》」』】〕”’…‥々ゝゞヽヾぁぃぅぇぉっゃゅょゎァィゥェォッャュョヮヵヶ!),.:;?]}%"
)
_NOT_LAST = frozenset("（［｛〈《「『【〔“‘([{")

LEAST_COLUMN = 30  # cells; a narrower column of texts is hard to read


def cells(text: str) -> int:
    """How many columns a text takes."""
    if text.isascii():
        return len(text)
    return sum(_cell(char) for char in text)


def _cell(char: str) -> int:
    if east_asian_width(char) in "WF":
        return 2
    return 0 if combining(char) else 1


def fit(text: str, width: int) -> str:
    """The text in at most `width` columns, with … where something was left out."""
    if cells(text) <= width:
        return text
    kept, used = "", 0
    for char in text:
        used += _cell(char)
        if used > width - 1:
            break
        kept += char
    return kept + "…" if width > 0 else ""


def pad(text: str, width: int) -> str:
    return text + " " * max(0, width - cells(text))


def breaks(text: str, width: int) -> list[int]:
    """Offsets at which one line must be cut so that no piece is wider than `width` (trailing spaces aside)."""
    width = max(width, 2)
    found: list[int] = []
    start, used, good = 0, 0, 0  # of the current line: begin, columns, last offset where it may end
    i = 0
    while i < len(text):
        char = text[i]
        step = _cell(char)
        if used + step > width and char != " ":
            cut = good if good > start else i
            found.append(cut)
            used = cells(text[cut:i])
            start, good = cut, cut
            continue
        used += step
        i += 1
        if i < len(text) and _may_break(char, text[i]):
            good = i
    return found


def _may_break(before: str, after: str) -> bool:
    if before == " ":
        return after != " "
    if after == " " or after in _NOT_FIRST or before in _NOT_LAST or combining(after):
        return False
    return east_asian_width(before) in "WF" or east_asian_width(after) in "WF"


def wrapped(text: str, width: int) -> list[str]:
    """The lines of a text, each at most `width` columns."""
    lines: list[str] = []
    for line in text.expandtabs(4).split("\n"):
        edges = [0, *breaks(line, width), len(line)]
        lines += [line[a:b].rstrip(" ") for a, b in pairwise(edges)]
    return lines


def is_narrow(room: int, texts: Sequence[str]) -> bool:
    """Whether a column of texts would be broken into so many lines that it is better below its names."""
    return room < LEAST_COLUMN and any(cells(text) > room for text in texts)


def flowed(parts: Sequence[str], width: int) -> str:
    """Parts side by side, `a · b`, and a new line rather than a break inside a part."""
    lines: list[str] = []
    for part in parts:
        joined = f"{lines[-1]} · {part}" if lines else part
        if lines and cells(joined) <= width:
            lines[-1] = joined
        else:
            lines += wrapped(part, width)
    return "\n".join(lines)
