"""edit_file: exactly what was asked, nothing else touched, errors that help."""

from __future__ import annotations

import codecs
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duckflow.safety.change import Change, content_hash
from duckflow.tools.replacing import EditFailed, Replacement, replace_exactly, rewritten
from duckflow.tools.text import NotEncodable, Text, read_text
from tests.tools.bench import Bench

CODE = "def f():\n    return 1\n\n\ndef g():\n    return 1\n"


async def test_one_edit_and_the_new_lines_with_their_numbers(bench: Bench) -> None:
    bench.put("a.py", CODE)
    result = await bench.act(
        "file_ops.edit_file", path="a.py", search="def g():\n    return 1\n", replace="def g():\n    return 2\n"
    )
    assert result.ok and result.kind == "change" and result.changed == ("a.py",)
    assert bench.get("a.py") == CODE.replace("g():\n    return 1", "g():\n    return 2").encode()
    assert "6│    return 2" in result.text and "+    return 2" in result.output
    assert result.facts["path"] == "a.py" and (result.facts["added"], result.facts["removed"]) == (1, 1)
    assert result.facts["hash"] == content_hash(bench.get("a.py"))
    assert result.facts["before"] == (content_hash(CODE.encode()) or "")[:8]


async def test_several_edits_apply_in_order_and_once_or_not_at_all(bench: Bench) -> None:
    bench.put("a.py", CODE)
    edits = [{"search": "def f", "replace": "def h"}, {"search": "def h", "replace": "def k"}]
    assert (await bench.act("file_ops.edit_file", path="a.py", edits=edits)).ok
    assert bench.get("a.py").startswith(b"def k")
    bad = [{"search": "def k", "replace": "def z"}, {"search": "nowhere", "replace": ""}]
    result = await bench.act("file_ops.edit_file", path="a.py", edits=bad)
    assert not result.ok and "edit 2" in result.error and "Nothing was changed" in result.error
    assert bench.get("a.py").startswith(b"def k")


async def test_count_must_be_exact(bench: Bench) -> None:
    bench.put("a.py", CODE)
    twice = await bench.act("file_ops.edit_file", path="a.py", search="    return 1\n", replace="    return 2\n")
    assert not twice.ok and "found 2 times (line 2, 6); needs exactly 1" in twice.error
    assert "2│    return 1" in twice.text and "6│    return 1" in twice.text
    three = await bench.act("file_ops.edit_file", path="a.py", search="return 1", replace="x", count=3)
    assert not three.ok and "needs exactly 3" in three.error
    assert bench.get("a.py") == CODE.encode()
    both = await bench.act("file_ops.edit_file", path="a.py", search="return 1", replace="return 2", count=2)
    assert both.ok and bench.get("a.py") == CODE.replace("return 1", "return 2").encode()


async def test_not_found_shows_the_nearest_lines(bench: Bench) -> None:
    bench.put("a.py", CODE.replace("g():", "total_of(items):"))
    result = await bench.act("file_ops.edit_file", path="a.py", search="def total_off(items):\n", replace="x")
    assert not result.ok and "not found" in result.error and "nearest" in result.error
    assert "5│def total_of(items):" in result.text


async def test_not_found_says_why_when_it_can_be_known(bench: Bench) -> None:
    bench.put("a.py", CODE)
    numbers = await bench.act("file_ops.edit_file", path="a.py", search="5│def g():\n6│    return 1\n", replace="x")
    assert "line numbers" in numbers.error and "without them it is found" in numbers.error
    bench.seen["a.py"] = "0" * 64
    stale = await bench.act("file_ops.edit_file", path="a.py", search="gone", replace="x")
    assert "changed since it was read (00000000, now" in stale.error
    bench.seen["a.py"] = content_hash(CODE.encode()) or ""
    fresh = await bench.act("file_ops.edit_file", path="a.py", search="gone", replace="x")
    assert "changed since" not in fresh.error
    bench.overlay["a.py"] = b"planned\n"
    planned = await bench.act("file_ops.edit_file", path="a.py", search="gone", replace="x")
    assert "earlier action of this batch" in planned.error


@pytest.mark.parametrize(
    ("before", "search", "replace", "after"),
    [
        ("a\nlast", "last\n", "new\n", "a\nnew"),
        ("a\nlast", "last\n", "new\nmore\n", "a\nnew\nmore"),
        ("a\nlast", "last\n", "new", "a\nnew"),
        ("a\nlast", "last\n", "", "a"),
        ("a\nlast", "a\nlast\n", "b\nlast\n", "b\nlast"),
        ("last", "last\n", "", ""),
        ("a\nlast", "a\n", "b\n", "b\nlast"),
        ("a\nlast\n", "last\n", "new\n", "a\nnew\n"),
        ("a\nlast\n", "last", "new", "a\nnew\n"),
    ],
)
def test_a_missing_final_newline_does_not_hinder_and_stays_missing(
    before: str, search: str, replace: str, after: str
) -> None:
    for newline in ("\n", "\r\n"):
        doc = read_text(before.replace("\n", newline).encode())
        assert isinstance(doc, Text)
        assert replace_exactly(doc, Replacement(search, replace)).data == after.replace("\n", newline).encode()


async def test_line_ends_follow_the_file(bench: Bench) -> None:
    bench.put("a.txt", b"one\r\ntwo\r\nthree\r\n")
    assert (await bench.act("file_ops.edit_file", path="a.txt", search="one\ntwo\n", replace="1\n2\n2b\n")).ok
    assert bench.get("a.txt") == b"1\r\n2\r\n2b\r\nthree\r\n"
    bench.put("b.txt", b"one\ntwo\n")
    assert (await bench.act("file_ops.edit_file", path="b.txt", search="one\r\ntwo\r\n", replace="1\r\n")).ok
    assert bench.get("b.txt") == b"1\n"
    bench.put("mixed.txt", b"a\r\nb\nc\r\nd\n\x0cform\x0b feed\n")
    assert (await bench.act("file_ops.edit_file", path="mixed.txt", search="a\nb\nc\n", replace="a\nB\nc\n")).ok
    assert bench.get("mixed.txt") == b"a\r\nB\nc\r\nd\n\x0cform\x0b feed\n"
    bench.put("mac.txt", b"a\rb\rc\r")
    assert (await bench.act("file_ops.edit_file", path="mac.txt", search="b\n", replace="x\ny\n")).ok
    assert bench.get("mac.txt") == b"a\rx\ry\rc\r"


async def test_files_that_cannot_be_edited(bench: Bench) -> None:
    bench.put("image.png", b"\x89PNG\0\0")
    bench.put("sjis.txt", "日本語のテキスト\n".encode("cp932"))
    bench.put(".env", "KEY=1\n")
    bench.put("ro", "x\n").chmod(0o444)
    (bench.root / "dir").mkdir()
    edit = {"search": "x", "replace": "y"}
    for path, says in (
        ("none.py", "no such file"),
        ("image.png", "binary (PNG image, 6 bytes)"),
        ("dir", "is a directory"),
        ("out:A1", "is an output"),
        (".env", "read it first"),
        ("ro", "read-only"),
    ):
        result = await bench.act("file_ops.edit_file", path=path, **edit)
        assert not result.ok and says in result.error, (path, result)
    result = await bench.act("file_ops.edit_file", path="sjis.txt", search="日本語", replace="café")
    assert not result.ok and "cp932" in result.error and bench.get("sjis.txt") == "日本語のテキスト\n".encode("cp932")


async def test_what_a_secret_file_holds_is_not_told_by_errors_or_results(bench: Bench) -> None:
    bench.put(".env", "KEY=secretvalue\nB=2\n")
    bench.seen[".env"] = content_hash(bench.get(".env")) or ""
    result = await bench.act("file_ops.edit_file", path=".env", search="B=2", replace="B=3")
    assert result.ok and "secretvalue" not in result.text + result.output


@pytest.mark.parametrize(
    "args",
    [
        {"path": "a"}, {"path": "a", "search": "x"}, {"path": "a", "edits": []},
        {"path": "a", "search": "x", "replace": "y", "count": 0},
        {"path": "a", "search": "x", "replace": "y", "edits": [{"search": "x", "replace": "y"}]},
        {"path": "a", "search": "x", "replace": "y", "fuzzy": True}, {"path": 1, "search": "x", "replace": "y"},
    ],
)  # fmt: skip
async def test_wrong_arguments_are_failures(bench: Bench, args: dict[str, object]) -> None:
    result = await bench.act("file_ops.edit_file", **args)
    assert not result.ok and "wrong arguments" in result.error and "{path, search, replace, count?}" in result.error


async def test_edits_that_change_nothing_are_failures(bench: Bench) -> None:
    bench.put("a", "x\n")
    for args in (
        {"search": "x", "replace": "x"},
        {"search": "", "replace": "y"},
        {"edits": [{"search": "x", "replace": "y"}, {"search": "y", "replace": "x"}]},
    ):
        assert not (await bench.act("file_ops.edit_file", path="a", **args)).ok


async def test_an_edit_sees_what_earlier_actions_of_the_batch_will_leave(bench: Bench) -> None:
    bench.overlay["new.py"] = b"x = 1\n"
    change = await bench.changed("file_ops.edit_file", path="new.py", search="1", replace="2")
    assert change.files[0].before == b"x = 1\n" and change.files[0].after == b"x = 2\n"
    bench.put("gone.py", "x\n")
    bench.overlay["gone.py"] = None
    result = await bench.act("file_ops.edit_file", path="gone.py", search="x", replace="y")
    assert not result.ok and "no such file" in result.error


async def test_a_file_that_changes_between_preview_and_effect_is_left_alone(bench: Bench) -> None:
    bench.put("a", "one\n")
    args = {"path": "a", "search": "one", "replace": "two"}
    change = await bench.prepare("file_ops.edit_file", args)
    assert isinstance(change, Change)
    bench.put("a", "one and more\n")
    result = await bench.perform("file_ops.edit_file", args, change)
    assert not result.ok and result.facts["stale"] and bench.get("a") == b"one and more\n"


# --- the law: str.replace on the decoded text, every other byte identical ---

_ENCODINGS = {
    "utf-8": b"", "utf-8-bom": codecs.BOM_UTF8, "utf-16-le": codecs.BOM_UTF16_LE, "utf-16-be": codecs.BOM_UTF16_BE,
    "cp932": b"", "euc_jp": b"", "iso2022_jp": b"",
}  # fmt: skip
_ANCHOR = "これは日本語の文章です。テストのためのファイル。\n"
_PIECES = st.lists(st.sampled_from(["a", "b", "ab", " ", "\n", "日本", "語", "が", "。"]), max_size=25).map("".join)


def _encoded(text: str, name: str) -> bytes:
    return _ENCODINGS[name] + text.encode(name.removesuffix("-bom"))


@settings(max_examples=400)
@given(
    body=_PIECES,
    search=_PIECES.filter(bool),
    replace=_PIECES,
    encoding=st.sampled_from(list(_ENCODINGS)),
    newline=st.sampled_from(["\n", "\r\n", "\r"]),
)
def test_replacing_follows_the_reference(body: str, search: str, replace: str, encoding: str, newline: str) -> None:
    text = _ANCHOR * 3 + body
    doc = read_text(_encoded(text.replace("\n", newline), encoding))
    assert isinstance(doc, Text) and doc.plain == text
    virtual = search.endswith("\n") and not text.endswith("\n")
    whole = text + "\n" if virtual else text
    count = whole.count(search)
    if count == 0 or search == replace:
        with pytest.raises(EditFailed):
            replace_exactly(doc, Replacement(search, replace))
        return
    with pytest.raises(EditFailed):
        replace_exactly(doc, Replacement(search, replace, count + 1))
    expected = whole.replace(search, replace)
    if virtual:
        expected = expected.removesuffix("\n")
    made = replace_exactly(doc, Replacement(search, replace, count))
    assert made.data == _encoded(expected.replace("\n", newline), encoding)
    at, last = whole.find(search), whole.rfind(search) + len(search)
    if encoding != "iso2022_jp" and not virtual:  # bytes before the first and after the last match
        assert made.data.startswith(_encoded(text[:at].replace("\n", newline), encoding))
        assert made.data.endswith(text[last:].replace("\n", newline).encode(encoding.removesuffix("-bom")))


_LINES = st.lists(
    st.tuples(st.sampled_from(["a", "b", "日本", "表示", ""]), st.sampled_from(["\n", "\r\n"])), min_size=1, max_size=12
)


@given(lines=_LINES, encoding=st.sampled_from(["utf-8", "cp932", "euc_jp"]), data=st.data())
def test_in_mixed_files_untouched_lines_keep_their_ends(
    lines: list[tuple[str, str]], encoding: str, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(lines) - 1))
    parts = [_ANCHOR, *(text + end for text, end in lines)]
    parts[at + 1] = "unique" + lines[at][1]
    doc = read_text("".join(parts).encode(encoding))
    assert isinstance(doc, Text)
    made = replace_exactly(doc, Replacement("unique\n", "new\nlines\n"))
    head, tail = "".join(parts[: at + 1]).encode(encoding), "".join(parts[at + 2 :]).encode(encoding)
    assert made.data.startswith(head) and made.data.endswith(tail)
    assert made.data[len(head) : len(made.data) - len(tail)].replace(b"\r", b"") == b"new\nlines\n"


def test_bytes_with_two_codes_stay_as_they_are() -> None:
    """cp932 has several codes for ≒, ∪ and others: editing beside them must not normalise them."""
    odd = b"\x87\x90\xfa\x54\xed\x40"
    data = "これは日本語の文章です。\n値は".encode("cp932") + odd + "です\n終わり\n".encode("cp932")
    doc = read_text(data)
    assert isinstance(doc, Text) and doc.encoding == "cp932" and not doc.exact
    made = replace_exactly(doc, Replacement("値は", "新しい値は"))
    assert made.data == data.replace("値は".encode("cp932"), "新しい値は".encode("cp932"))
    again = replace_exactly(made, Replacement("終わり\n", "おわり\n"))
    assert odd in again.data
    assert rewritten(doc, doc.plain.replace("終わり", "おわり")) == data.replace(
        "終わり".encode("cp932"), "おわり".encode("cp932")
    )
    with pytest.raises(NotEncodable):
        replace_exactly(doc, Replacement("値は", "é"))


@settings(max_examples=60, deadline=None)
@given(
    body=_PIECES, content=_PIECES, encoding=st.sampled_from(list(_ENCODINGS)), newline=st.sampled_from(["\n", "\r\n"])
)
def test_write_file_keeps_encoding_mark_and_line_ends(body: str, content: str, encoding: str, newline: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        bench.put("f", _encoded((_ANCHOR + body).replace("\n", newline), encoding))
        result = bench.do("file_ops.write_file", path="f", content=content)
        assert result.ok
        assert bench.get("f") == _encoded(content.replace("\n", newline), encoding)


async def test_wrong_arguments_name_both_forms(bench: Bench) -> None:
    result = await bench.act("file_ops.edit_file", path="a", edit=[])
    assert "{path, search, replace, count?} or {path, edits: [{search, replace, count?}]}" in result.error
