"""Diffs: right, small for small edits, and readable."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from duckflow.tools.diff import align, new_lines, unified

_LINES = st.lists(st.sampled_from("abcd"), max_size=14)


@given(_LINES, _LINES)
def test_aligned_blocks_cover_both_sides_in_order(a: list[str], b: list[str]) -> None:
    at = (0, 0)
    for tag, a1, a2, b1, b2 in align(a, b):
        assert (a1, b1) == at and (a2 > a1 or b2 > b1)
        assert tag != "equal" or a[a1:a2] == b[b1:b2]
        at = (a2, b2)
    assert at == (len(a), len(b))


@given(_LINES, _LINES, st.booleans())
def test_a_diff_applied_gives_the_new_text(a: list[str], b: list[str], final: bool) -> None:
    before, after = "".join(f"{x}\n" for x in a), "\n".join(b) + ("\n" if final and b else "")
    diff = unified("f", before, after)
    assert _patched(before, diff.text) == after
    body = diff.text.splitlines()[2:]
    assert diff.added == sum(line.startswith("+") for line in body)
    assert diff.removed == sum(line.startswith("-") for line in body)


def _patched(before: str, diff: str) -> str:
    old, out, at, open_end = before.splitlines(keepends=True), [], 0, False
    for line in diff.splitlines()[2:]:
        if line.startswith("@@"):
            start, count = (int(n) for n in line.split()[1][1:].split(","))
            out += old[at : start - 1 if count else start]
            at = start - 1 if count else start
        elif line.startswith("\\"):
            open_end = True
        elif line[0] in " -":
            assert old[at] == line[1:] + "\n"
            out += [old[at]] if line[0] == " " else []
            at += 1
        else:
            out.append(line[1:] + "\n")
    whole = "".join(out + old[at:])
    return whole.removesuffix("\n") if open_end else whole


def test_two_edits_far_apart_in_a_long_file_are_two_small_hunks() -> None:
    lines = ["x = 1", ""] * 50_000
    changed = ["first", *lines[:50_000], "middle", *lines[50_001:], "last"]
    began = time.perf_counter()
    diff = unified("f", "\n".join(lines) + "\n", "\n".join(changed) + "\n")
    assert (diff.added, diff.removed) == (3, 1) and diff.text.count("@@ ") == 3
    assert time.perf_counter() - began < 5


def test_line_ends_are_shown_only_where_they_differ() -> None:
    assert "␍" not in unified("f", "a\r\nb\r\n", "a\r\nc\r\n").text
    assert "+a␍" in unified("f", "a\n", "a\r\n").text


def test_the_lines_to_show_after_an_edit() -> None:
    before = [str(n) for n in range(20)]
    after = [*before[:5], "new", *before[5:15], *before[16:]]
    assert new_lines(before, after) == [(3, 8), (14, 18)]
