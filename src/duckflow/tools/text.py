"""Text files as they are: encoding, byte order mark and line ends found, kept, and put back byte for byte."""

from __future__ import annotations

import codecs
import re
from functools import cached_property

from duckflow.record import Record, replace

_BOMS = (  # longest first: UTF-32 LE begins like UTF-16 LE
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_MAGIC = (
    (b"\x89PNG", "PNG image"),
    (b"\xff\xd8\xff", "JPEG image"),
    (b"GIF8", "GIF image"),
    (b"%PDF", "PDF document"),
    (b"PK\x03\x04", "ZIP archive or office document"),
    (b"\x1f\x8b", "gzip archive"),
    (b"\x7fELF", "ELF program"),
    (b"MZ", "Windows program"),
    (b"SQLite format 3\0", "SQLite database"),
    (b"\0asm", "WebAssembly"),
    (b"\xca\xfe\xba\xbe", "Java class"),
    (b"RIFF", "RIFF media"),
)
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\r\f\b\x1b")) + b"\x7f"
_ENDS = {"\n": "LF", "\r\n": "CRLF", "\r": "CR"}
_SHORT = 64 * 1024


class NotEncodable(Exception):
    """A character has no place in the file's encoding."""


class Binary(Record):
    kind: str
    size: int

    def __str__(self) -> str:
        return f"binary ({self.kind}, {self.size:,} bytes)"


class Text(Record):
    """`data` is the file, `text` what it says (without the mark, line ends as they are)."""

    data: bytes
    text: str
    encoding: str
    bom: bytes
    newline: str  # the one most lines end with
    mixed: bool

    @property
    def label(self) -> str:
        bom = " BOM" if self.bom else ""
        return f"{self.encoding}{bom} {'mixed ' if self.mixed else ''}{_ENDS[self.newline]}"

    @cached_property
    def exact(self) -> bool:
        """Whether encoding the text again gives the same bytes. Some characters have two codes in Japanese sets."""
        try:
            return self.encode(self.text) == self.data
        except NotEncodable:
            return False

    @cached_property
    def plain(self) -> str:
        """The text with LF line ends, as the model sees it."""
        text = self.text.replace("\r\n", "\n")
        return text.replace("\r", "\n") if self.newline == "\r" else text

    def lines(self) -> list[str]:
        """Without line ends; a final line end makes no further line."""
        return split_lines(self.plain)

    def encode(self, text: str) -> bytes:
        try:
            return self.bom + text.encode(self.encoding)
        except UnicodeEncodeError as error:
            char = error.object[error.start]
            line = error.object.count("\n", 0, error.start) + 1
            known = f"{char!r} (U+{ord(char):04X}) in line {line}" if char.isprintable() else f"U+{ord(char):04X}"
            raise NotEncodable(
                f"{known} cannot be written in {self.encoding}, the file's encoding. "
                "Use other characters; nothing was changed."
            ) from error

    def with_text(self, text: str) -> Text:
        return self.with_data(self.encode(text), text)

    def with_data(self, data: bytes, text: str) -> Text:
        newline, mixed = line_ends(text) if re.search(r"[\r\n]", text) else (self.newline, False)
        return replace(self, data=data, text=text, newline=newline, mixed=mixed)


def split_lines(plain: str) -> list[str]:
    """Lines of LF text. Not `splitlines`: form feeds and Unicode separators are no line ends in a source file."""
    lines = plain.split("\n")
    if lines[-1] == "":
        lines.pop()
    return lines


def line_ends(text: str) -> tuple[str, bool]:
    """The dominant line end, and whether there are others. A lone CR counts only where it is the most frequent."""
    crlf = text.count("\r\n")
    lf, cr = text.count("\n") - crlf, text.count("\r") - crlf
    if cr > crlf + lf:
        return "\r", crlf + lf > 0
    return ("\r\n" if crlf > lf else "\n"), crlf > 0 and lf > 0


def read_text(data: bytes) -> Text | Binary:
    """What kind of text these bytes are. Whatever is chosen, bytes that are not edited stay as they are."""
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            found = _decoded(data, encoding, bom)
            if found is not None:
                return found
    encoding = _encoding_of(data)
    found = _decoded(data, encoding, b"") if encoding else None
    return found or Binary(_kind(data), len(data))


def _decoded(data: bytes, encoding: str, bom: bytes) -> Text | None:
    try:
        text = data[len(bom) :].decode(encoding)
    except UnicodeDecodeError:
        return None
    newline, mixed = line_ends(text)
    return Text(data, text, encoding, bom, newline, mixed)


def _encoding_of(data: bytes) -> str:
    """Empty: binary."""
    if b"\0" in data:
        return _wide(data)
    if len(data.translate(None, _CONTROLS)) < 0.95 * len(data):
        return ""
    if b"\x1b$" in data and data.isascii() and (found := _first_codec(data, ("iso2022_jp", "iso2022_jp_ext"))):
        return found
    if data.isascii() or _first_codec(data, ("utf-8",)):
        return "utf-8"
    return _japanese(data) or _western(data)


def _first_codec(data: bytes, codecs_: tuple[str, ...]) -> str:
    for codec in codecs_:
        try:
            data.decode(codec)
        except UnicodeDecodeError:
            continue
        return codec
    return ""


def _wide(data: bytes) -> str:
    """UTF-16 without a mark: mostly ASCII or Japanese text, zero bytes on one side only."""
    if len(data) % 2:
        return ""
    even, odd = data[::2].count(0), data[1::2].count(0)
    encoding = "utf-16-le" if odd > even else "utf-16-be"
    if min(even, odd) > 0 or max(even, odd) < 0.2 * len(data) / 2 or not _first_codec(data, (encoding,)):
        return ""
    text = data.decode(encoding)
    odd_ones = sum(1 for ch in text[:_SHORT] if not ch.isprintable() and ch not in "\t\r\n\f")
    return encoding if odd_ones == 0 else ""


def _japanese(data: bytes) -> str:
    """The likelier of cp932 and EUC-JP, if either reads as Japanese."""
    best, best_score = "", 0.5
    for codecs_ in (("euc_jp", "euc_jis_2004"), ("cp932",)):
        codec = _first_codec(data, codecs_)
        score = _japanese_share(data.decode(codec)[: _SHORT * 4]) if codec else 0.0
        if score > best_score:
            best, best_score = codec, score
    return best


_RUN = "[\u3000-\u30ff\u4e00-\u9fff\uff01-\uff9f\u2010-\u2312\u2500-\u2642]+"
_KANA = "[\u3001-\u3003\u3041-\u30fe]"


def _japanese_share(text: str) -> float:
    """How much of what is not ASCII stands in runs of Japanese; lone ideographs between letters are accidents."""
    other = sum(1 for ch in text if ch > "\x7f")
    runs = re.findall(_RUN, text)
    good = sum(len(run) for run in runs if len(run) > 1 or re.search(_KANA, run))
    kana = sum(1 for run in runs for ch in run if "\u3041" <= ch <= "\u30fe")
    return (good + 0.2 * min(kana, good)) / other if other else 0.0


def _western(data: bytes) -> str:
    """Latin-1 takes any byte; with many control codes it is not text at all."""
    c1 = len(data) - len(data.translate(None, bytes(range(0x80, 0xA0))))
    if c1 and _first_codec(data, ("cp1252",)):
        return "cp1252"
    return "latin-1" if c1 <= 0.02 * len(data) else ""


def _kind(data: bytes) -> str:
    return next((kind for magic, kind in _MAGIC if data.startswith(magic)), "unknown kind")
