"""Encodings and line ends: found, named, and put back byte for byte."""

from __future__ import annotations

import codecs
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckflow.tools.text import Binary, NotEncodable, Text, read_text

JAPANESE = "東京は日本の首都です。カタカナとひらがな、句読点。\n二行目：設定ファイルを読み込む\n"


@pytest.mark.parametrize(
    ("data", "label"),
    [
        (b"", "utf-8 LF"),
        (b"plain\n", "utf-8 LF"),
        (b"a\r\nb\r\n", "utf-8 CRLF"),
        (b"a\rb\rc", "utf-8 CR"),
        (b"a\r\nb\r\nc\n", "utf-8 mixed CRLF"),
        (b"a\nb\nc\r\n", "utf-8 mixed LF"),
        (JAPANESE.encode(), "utf-8 LF"),
        (codecs.BOM_UTF8 + b"a\n", "utf-8 BOM LF"),
        (codecs.BOM_UTF16_LE + JAPANESE.encode("utf-16-le"), "utf-16-le BOM LF"),
        (codecs.BOM_UTF16_BE + "a\r\n".encode("utf-16-be"), "utf-16-be BOM CRLF"),
        (codecs.BOM_UTF32_LE + "a\n".encode("utf-32-le"), "utf-32-le BOM LF"),
        ("plain text\nfrom Windows\n".encode("utf-16-le"), "utf-16-le LF"),
        (JAPANESE.encode("cp932"), "cp932 LF"),
        ("東京\n".encode("cp932"), "cp932 LF"),
        ("①番の項目\r\n".encode("cp932"), "cp932 CRLF"),
        ("x = 1  # ｱｲｳｴｵ は半角\n".encode("cp932"), "cp932 LF"),
        (JAPANESE.encode("euc_jp"), "euc_jp LF"),
        ("漢字仮名\n".encode("euc_jp"), "euc_jp LF"),
        (JAPANESE.encode("iso2022_jp"), "iso2022_jp LF"),
        ("café résumé naïve\n".encode("latin-1"), "latin-1 LF"),
        ("Straße, größer\n".encode("latin-1"), "latin-1 LF"),
        ("“quoted” – dash\n".encode("cp1252"), "cp1252 LF"),
        (b"\x1b[31mcolour\x1b[0m\n", "utf-8 LF"),
    ],
)
def test_what_kind_of_text_it_is(data: bytes, label: str) -> None:
    found = read_text(data)
    assert isinstance(found, Text), found
    assert found.label == label
    assert found.encode(found.text) == data


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "PNG"),
        (b"\x7fELF\x02\x01\x01\0\0", "ELF"),
        (b"PK\x03\x04\x14\0\0\0", "ZIP"),
        (b"\0\1\2\3\4\5", "unknown"),
        (random.Random(1).randbytes(2000), "unknown"),
        (bytes(range(1, 32)) * 10, "unknown"),
    ],
)
def test_what_is_no_text(data: bytes, kind: str) -> None:
    found = read_text(data)
    assert isinstance(found, Binary) and kind in str(found) and f"{len(data):,} bytes" in str(found)


def test_some_japanese_files_do_not_come_back_from_their_text() -> None:
    found = read_text("表示 ≒ です\n".encode("cp932").replace(b"\x81\xe0", b"\x87\x90"))
    assert isinstance(found, Text) and found.encoding == "cp932" and not found.exact


def test_a_character_without_a_place_is_named_with_its_line() -> None:
    found = read_text(JAPANESE.encode("cp932"))
    assert isinstance(found, Text)
    with pytest.raises(NotEncodable, match=r"'é' \(U\+00E9\) in line 2"):
        found.encode("一\né")


@given(st.binary(max_size=200))
def test_any_bytes_that_pass_for_text_keep_every_byte(data: bytes) -> None:
    found = read_text(data)
    if isinstance(found, Text) and found.exact:
        assert found.encode(found.text) == data


@given(
    st.text(alphabet="abc \tあいう漢字。", max_size=60),
    st.sampled_from(["utf-8", "utf-16-le", "utf-16-be", "cp932", "euc_jp", "iso2022_jp"]),
    st.sampled_from(["\n", "\r\n"]),
)
def test_text_of_each_encoding_is_read_as_it_was_written(text: str, encoding: str, newline: str) -> None:
    bom = {"utf-16-le": codecs.BOM_UTF16_LE, "utf-16-be": codecs.BOM_UTF16_BE}.get(encoding, b"")
    whole = f"{JAPANESE}{text}\n".replace("\n", newline)
    found = read_text(bom + whole.encode(encoding))
    assert isinstance(found, Text) and found.text == whole and found.plain == whole.replace("\r\n", "\n")
