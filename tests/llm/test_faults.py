"""Waiting times, keys taken out of messages, and what may be shown of a service's words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckflow.llm.faults import hiding, one_line, read_error, retry_after

NOW = 1_700_000_000.0  # Tue, 14 Nov 2023 22:13:20 GMT


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "-4"}, 0.0),
        ({"retry-after": "Tue, 14 Nov 2023 22:13:50 GMT"}, 30.0),
        ({"retry-after": "Tue, 14 Nov 2023 22:00:00 GMT"}, 0.0),
        ({"retry-after-ms": "250", "retry-after": "3"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "3"}, 3.0),
        ({"retry-after": "later"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": ""}, None),
        ({}, None),
    ],
)
def test_how_long_a_service_asks_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, lambda: NOW) == seconds


@given(st.text(), st.text(), st.text(alphabet="abcdefgh0123456789-", min_size=12, max_size=60))
def test_a_key_never_survives_in_a_message(before: str, after: str, key: str) -> None:
    assert key not in hiding(key)(f"{before}{key}{after}")
    assert key[:8] not in hiding(key)(f"{before} {key[:10]} {after}") or key[:8] in before + after


def test_without_a_key_words_stay_as_they_are() -> None:
    assert hiding(None)("Too many requests") == "Too many requests"


@given(st.binary(max_size=300))
def test_any_error_body_gives_one_printable_line(raw: bytes) -> None:
    message = read_error(raw).message
    assert len(message) <= 300 and (message.isprintable() or not message)


def test_escape_sequences_of_a_service_are_harmless() -> None:
    assert one_line("a\x1b]52;c;x\x07b\r\n\tc\x9b2J") == "a ]52;c;x b c 2J"
