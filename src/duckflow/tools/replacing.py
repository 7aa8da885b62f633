"""Exact search and replace on a text file: what is not replaced keeps its bytes. Pure: no disk, no operation."""

from __future__ import annotations

import codecs
import re
from bisect import bisect_left
from collections.abc import Sequence

from duckflow.record import Record
from duckflow.tools.diff import align
from duckflow.tools.text import Text

Span = tuple[int, int, str]  # start, end, what comes instead


class EditFailed(Exception):
    """The edit cannot be made; the text is for the model."""


class Replacement(Record):
    search: str
    replace: str
    count: int = 1


class Mismatch(EditFailed):
    """Not as many occurrences as `count` says."""

    def __init__(self, edit: Replacement, found: int, lines: Sequence[int]) -> None:
        super().__init__()
        self.edit = edit
        self.found = found
        self.lines = tuple(lines)  # where, from 1; not all of them when they are many


def replace_exactly(doc: Text, edit: Replacement) -> Text:
    """The document with exactly `count` occurrences replaced. Raises EditFailed and text.NotEncodable."""
    search, new = _lf(edit.search), _lf(edit.replace)
    if not search:
        raise EditFailed("search is empty")
    if search == new:
        raise EditFailed("search and replace are the same: nothing would change")
    plain = doc.plain
    open_end = search.endswith("\n") and plain != "" and not plain.endswith("\n")
    starts = _occurrences(plain + "\n" if open_end else plain, search)
    if len(starts) != edit.count:
        raise Mismatch(edit, len(starts), [plain.count("\n", 0, at) + 1 for at in starts[:20]])
    spans: list[Span] = [_trimmed(at, search, new) for at in starts]
    if open_end and spans[-1][1] > len(plain):
        spans = _keep_open_end([*spans[:-1], (starts[-1], len(plain), new)], plain)
    return _splice(doc, spans)


def _lf(text: str) -> str:
    return text.replace("\r\n", "\n")


def _occurrences(text: str, search: str) -> list[int]:
    out, at = [], text.find(search)
    while at >= 0:
        out.append(at)
        at = text.find(search, at + len(search))
    return out


def _trimmed(at: int, search: str, new: str) -> Span:
    """Only what differs is replaced, in whole lines: common lines around it keep their own line ends."""
    old_lines, new_lines = search.splitlines(keepends=True), new.splitlines(keepends=True)
    head = 0
    while head < min(len(old_lines), len(new_lines)) and old_lines[head] == new_lines[head]:
        head += 1
    tail = 0
    most = min(len(old_lines), len(new_lines)) - head
    while tail < most and old_lines[-1 - tail] == new_lines[-1 - tail]:
        tail += 1
    before, after = sum(map(len, old_lines[:head])), sum(map(len, old_lines[len(old_lines) - tail :]))
    return at + before, at + len(search) - after, new[before : len(new) - after]


def _keep_open_end(spans: list[Span], plain: str) -> list[Span]:
    """A match took in the line end that the file does not have: it stays missing in the result."""
    size = len(plain)
    out = list(spans)
    for at in range(len(out) - 1, -1, -1):  # find the last line end of the result and leave it out
        start, end, new = out[at]
        following = out[at + 1][0] if at + 1 < len(out) else size
        if end < following:
            if plain[following - 1] == "\n":
                out.insert(at + 1, (following - 1, following, ""))
            return out
        if new:
            out[at] = (start, end, new.removesuffix("\n"))
            return out
    first = out[0][0]
    if first and plain[first - 1] == "\n":
        out.insert(0, (first - 1, first, ""))
    return out


def _splice(doc: Text, spans: Sequence[Span]) -> Text:
    """Spans of the LF text, carried over to the file's own line ends and, where need be, to its bytes."""
    removed = [] if "\r\n" not in doc.text else [m.start() for m in re.finditer("\r\n", doc.text)]
    in_plain = [at - n for n, at in enumerate(removed)]
    own: list[Span] = []
    for start, end, new in spans:
        a, b = start + bisect_left(in_plain, start), end + bisect_left(in_plain, end)
        own.append((a, b, new.replace("\n", _newline_for(doc, doc.text[a:b]))))
    text = _joined(doc.text, own)
    return doc.with_text(text) if doc.exact else doc.with_data(_bytes_joined(doc, own, text), text)


def _newline_for(doc: Text, region: str) -> str:
    """In a file with mixed line ends the replaced lines decide, if they agree."""
    if not doc.mixed or "\n" not in region:
        return doc.newline
    crlf = region.count("\r\n")
    return "\r\n" if crlf == region.count("\n") else "\n" if crlf == 0 else doc.newline


def _joined(text: str, spans: Sequence[Span]) -> str:
    out, at = [], 0
    for start, end, new in spans:
        out += [text[at:start], new]
        at = end
    return "".join([*out, text[at:]])


# --- files whose bytes do not come back from their text ---


def _bytes_joined(doc: Text, spans: Sequence[Span], text: str) -> bytes:
    offsets = _offsets(doc)
    out, at = [], 0
    bare = Text(b"", "", doc.encoding, b"", doc.newline, doc.mixed)
    for start, end, new in spans:
        out += [doc.data[at : offsets[start]], bare.encode(new)]
        at = offsets[end]
    data = b"".join([*out, doc.data[at:]])
    if data[len(doc.bom) :].decode(doc.encoding, "replace") != text:
        raise EditFailed(f"this {doc.encoding} file cannot be edited without changing other bytes of it")
    return data


def _offsets(doc: Text) -> list[int]:
    """The byte at which each character begins. Only for encodings without shift states."""
    if doc.encoding.startswith("iso2022"):
        raise EditFailed(f"this {doc.encoding} file cannot be edited without changing other bytes of it")
    decoder = codecs.getincrementaldecoder(doc.encoding)()
    offsets, begin = [], len(doc.bom)
    for at in range(len(doc.bom), len(doc.data)):
        chars = decoder.decode(doc.data[at : at + 1])
        if chars:
            offsets += [begin] * len(chars)
            begin = at + 1
    return [*offsets, len(doc.data)]


# --- a whole new content for an existing file ---


def rewritten(doc: Text, content: str) -> bytes:
    """New content in the file's encoding and line ends; lines that stay keep their bytes."""
    content = _lf(content)
    if doc.bom:
        content = content.removeprefix("\ufeff")
    if doc.exact and not doc.mixed:
        return doc.encode(content.replace("\n", doc.newline))
    if not doc.exact and (doc.newline == "\r" or doc.encoding.startswith("iso2022")):
        return doc.encode(content.replace("\n", doc.newline))
    old, new = _with_ends(doc.text), _with_ends(content)
    own = _with_ends_bytes(doc) if not doc.exact else None
    bare = Text(b"", "", doc.encoding, b"", doc.newline, False)
    pieces: list[str] = []
    encoded: list[bytes] = []
    for tag, a1, a2, b1, b2 in align([_lf(line) for line in old], new):
        if tag == "equal":
            pieces += old[a1:a2]
            encoded += own[a1:a2] if own else []
            continue
        fresh = [line.replace("\n", doc.newline) for line in new[b1:b2]]
        pieces += fresh
        encoded += [bare.encode(line) for line in fresh] if own else []
    return doc.bom + b"".join(encoded) if own else doc.encode("".join(pieces))


def _with_ends(text: str) -> list[str]:
    lines = text.split("\n")
    last = lines.pop()
    return [line + "\n" for line in lines] + ([last] if last else [])


def _with_ends_bytes(doc: Text) -> list[bytes]:
    lines = doc.data[len(doc.bom) :].split(b"\n")
    last = lines.pop()
    return [line + b"\n" for line in lines] + ([last] if last else [])
