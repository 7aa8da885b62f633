"""What the screen may show of a reply while it streams: never more than is there, the same for any pieces."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckflow.llm.decode import PartialReply, ReplyWatcher, partial_reply

WHOLE: dict[str, Any] = {
    "rationale": 'says "reply": {not yet}',
    "next_step": "done",
    "actions": [
        {"operation": "file_ops.read_file", "args": {"reply": "no", "operation": "no"}, "reasoning": "r"},
        {"operation": "shell.run", "args": {"command": "ls", "list": [{"operation": "no"}]}, "reasoning": "r"},
    ],
    "state_delta": {"reply": "no", "actions": []},
    "reply": 'Grüße 🦆 "quoted" \\ and\nlines\tand \u0001',
}


def test_the_whole_of_it() -> None:
    for ascii_only in (True, False):
        assert partial_reply(json.dumps(WHOLE, ensure_ascii=ascii_only)) == PartialReply(
            text=WHOLE["reply"],
            actions_seen=True,
            actions_empty=False,
            operations=("file_ops.read_file", "shell.run"),
            next_step="done",
            complete=True,
            closed=True,
        )


def test_every_prefix_shows_a_prefix() -> None:
    text = json.dumps(WHOLE)
    begin = text.rindex('"reply": "')
    for end in range(len(text)):
        seen = partial_reply(text[:end])
        assert WHOLE["reply"].startswith(seen.text)
        assert not seen.closed
        assert end > begin or seen.text == ""


@given(st.text(max_size=60), st.booleans(), st.lists(st.integers(0, 400), max_size=12))
def test_the_pieces_do_not_matter(reply: str, ascii_only: bool, cuts: list[int]) -> None:
    reply = reply.encode("utf-8", "replace").decode()
    text = "Here:\n```json\n" + json.dumps({**WHOLE, "reply": reply}, ensure_ascii=ascii_only) + "\n```\n"
    watcher = ReplyWatcher()
    seen = PartialReply()
    borders = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    for start, end in zip(borders, borders[1:], strict=False):  # noqa: RUF007
        before, seen = seen, watcher.feed(text[start:end])
        assert seen.text.startswith(before.text)
    assert seen == partial_reply(text)
    assert seen.text == reply


@pytest.mark.parametrize(
    ("text", "seen", "empty"),
    [
        ('{"rationale": "x", "reply": "Hel', False, True),
        ('{"rationale": "x", "actions": [], "reply": "Hel', True, True),
        ('{"rationale": "x", "actions": [ ], "reply": "Hel', True, True),
        ('{"rationale": "x", "actions": null, "reply": "Hel', True, True),
        ('{"rationale": "x", "actions": [{"operation": "a"}], "reply": "Hel', True, False),
        ('{"rationale": "x", "actions": [1], "reply": "Hel', True, False),
    ],
)
def test_whether_actions_stand_before_the_reply(text: str, seen: bool, empty: bool) -> None:
    partial = partial_reply(text)
    assert (partial.text, partial.actions_seen, partial.actions_empty) == ("Hel", seen, empty)
    assert not partial.complete


def test_a_reply_before_the_actions_is_complete_while_the_object_is_open() -> None:
    partial = partial_reply('{"reply": "Done!", "actions": [{"oper')
    assert (partial.complete, partial.closed, partial.actions_empty) == (True, False, False)


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_a_reply_that_is_a_block_is_shown_as_it_comes(size: int) -> None:
    body = "# 見出し\nRE\nREPLY>>\n<<<REPLY\nX>>>\nend\n"
    text = '{"rationale": "x", "reply": {"block": "REPLY"}}\n<<<X\n<<<REPLY\nno\nX>>>\n<<<REPLY\n'
    text += f"{body}REPLY>>>\n<<<Z\nno\nZ>>>\n"
    watcher, shown = ReplyWatcher(), [""]
    for start in range(0, len(text), size):
        seen = watcher.feed(text[start : start + size])
        assert body.startswith(seen.text)
        assert seen.text.startswith(shown[-1])
        shown.append(seen.text)
    assert seen.text == body
    assert seen.complete and seen.closed


@pytest.mark.parametrize("size", [1, 5, 1000])
def test_thoughts_and_examples_are_not_shown(size: int) -> None:
    text = '<think>maybe {"reply": "no"}</think>\nLike {"a": 1} or { x }:\n{"rationale": "x", "reply": "yes"}'
    watcher = ReplyWatcher()
    for start in range(0, len(text), size):
        seen = watcher.feed(text[start : start + size])
        assert seen.text in ("", "y", "ye", "yes")
    assert seen.text == "yes"


def test_broken_escapes_are_shown_as_they_are() -> None:
    assert partial_reply('{"reply": "a\\q\\uZZZZ\\ud83e!"}').text == "aq\\uZZZZ\ufffd!"


@given(st.text(alphabet='{}[]",:\\ \nu<>reply1', max_size=120))
def test_no_text_breaks_the_watcher(text: str) -> None:
    partial_reply(text)
    partial_reply('{"reply": {"block": "r"}}\n' + text)


def test_a_long_reply_in_small_pieces_is_read_once() -> None:
    text = json.dumps({"rationale": "x", "actions": [{"args": {"content": "y" * 300_000}}], "reply": "z" * 20_000})
    watcher = ReplyWatcher()
    for start in range(0, len(text), 8):
        seen = watcher.feed(text[start : start + 8])
    assert len(seen.text) == 20_000
