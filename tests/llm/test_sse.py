"""The parser of server-sent events, whatever the borders of the chunks are."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckflow.llm.sse import EventTooLong, SseEvent, SseParser

STREAM = (
    "\ufeff: welcome\r\n\r\nevent: ping\ndata\n\n"
    'data: {"a": 1}\r\ndata:two\r\n\r\n'
    ":keep-alive\n\nid: 7\nretry: 100\nevent:note\rdata:  日本語\r\r"
    "data: [DONE]\n\ndata: unterminated"
).encode()
EVENTS = [
    SseEvent("ping", ""),
    SseEvent("", '{"a": 1}\ntwo'),
    SseEvent("note", " 日本語"),
    SseEvent("", "[DONE]"),
    SseEvent("", "unterminated"),
]


def parse(chunks: list[bytes]) -> list[SseEvent]:
    parser = SseParser()
    return [event for chunk in chunks for event in parser.feed(chunk)] + parser.close()


def test_all_line_ends_comments_and_unknown_fields() -> None:
    assert parse([STREAM]) == EVENTS
    assert parse([STREAM.replace(b"\r\n", b"\n").replace(b"\r", b"\n")]) == EVENTS


def test_byte_by_byte_gives_the_same_events() -> None:
    assert parse([STREAM[i : i + 1] for i in range(len(STREAM))]) == EVENTS


@given(st.binary(max_size=400), st.lists(st.integers(0, 400), max_size=8))
def test_events_do_not_depend_on_chunk_borders(noise: bytes, cuts: list[int]) -> None:
    data = STREAM + b"\n\n" + noise
    borders = [0, *sorted(cuts), len(data)]
    chunks = [data[start:end] for start, end in pairwise(borders)]
    assert parse(chunks) == parse([data])


def test_bytes_that_are_not_utf8_are_marked() -> None:
    assert parse([b"data: a\xffb\n\n"]) == [SseEvent("", "a\ufffdb", damaged=True)]


def test_a_character_cut_by_a_chunk_border_is_not_damage() -> None:
    data = "data: 鴨\n\n".encode()
    assert parse([data[:7], data[7:]]) == [SseEvent("", "鴨")]


@pytest.mark.parametrize("chunk", [b"x" * 100, b"data: y\n" * 20])
def test_an_endless_line_or_event_is_refused(chunk: bytes) -> None:
    parser = SseParser(max_event=1000)
    with pytest.raises(EventTooLong):
        for _ in range(100):
            parser.feed(chunk)


def test_many_short_events_are_no_long_one() -> None:
    parser = SseParser(max_event=100)
    assert sum(len(parser.feed(b": keep-alive\n\ndata: x\n\n")) for _ in range(1000)) == 1000
