"""file_ops.read_file: numbered lines of a file or of an earlier output, however large the file is."""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from pydantic import Field

from duckflow.i18n import _
from duckflow.safety.change import Change, Effect, content_hash
from duckflow.safety.neutral import pictured
from duckflow.safety.paths import OUTPUT, PathMissing
from duckflow.tools.base import Args, Context, Operation, PathText, ToolResult, failed
from duckflow.tools.effects import in_thread, numbered, short
from duckflow.tools.text import Binary, Text, read_text, split_lines

WHOLE = 10_000_000  # bytes of a file that is read as a whole
_MAX_LINES = 5_000
_MAX_TEXT = 400_000  # characters
_MAX_LINE = 4_000
_SAMPLE = 64 * 1024
_CHUNK = 1 << 20


class ReadArgs(Args):
    path: PathText
    start: int | None = Field(default=None, ge=1)
    end: int | None = Field(default=None, ge=1)


@in_thread
def _prepare(args: ReadArgs, ctx: Context) -> Change | ToolResult:
    if args.start and args.end and args.end < args.start:
        return failed(f"end {args.end} is before start {args.start}")
    place = ctx.workspace.locate(args.path)
    summary = _("read {path}", path=place.path)
    return Change("file_ops.read_file", Effect.NONE, summary, (place,), preview=place.path)


@in_thread
def _run(args: ReadArgs, change: Change, ctx: Context) -> ToolResult:
    path = change.places[0].path
    if path.startswith(OUTPUT):
        text = ctx.output(path.removeprefix(OUTPUT))
        return failed(f"there is no output named {path}") if text is None else _lines(text, path, args, "", {})
    try:
        handle = ctx.workspace.open(path)
    except PathMissing:
        return failed(f"{path}: no such file. Look with file_ops.find_files or file_ops.list_dir")
    with handle:
        size = os.fstat(handle.fileno()).st_size
        if size > WHOLE:
            return _part(handle, path, size, args)
        data = handle.read(WHOLE + 1)
    found = read_text(data)
    if isinstance(found, Binary):
        return failed(f"{path} is {found}; it cannot be read as text")
    digest = content_hash(data)
    return _lines(found.plain, path, args, found.label, {"hash": digest})


def _lines(plain: str, path: str, args: ReadArgs, label: str, facts: Mapping[str, Any]) -> ToolResult:
    lines = split_lines(plain)
    total = len(lines)
    start, end = args.start or 1, min(args.end or total, total)
    if start > max(total, 1):
        return failed(f"{path} has only {total} lines")
    shown: list[str] = []
    used = 0
    for line in lines[start - 1 : min(end, start - 1 + _MAX_LINES)]:
        used += min(len(line), _MAX_LINE) + 8
        if used > _MAX_TEXT and shown:
            break
        shown.append(line)
    last = start + len(shown) - 1
    head = f"lines {start}-{last} of {total}" if shown else "empty"
    text = numbered(shown, start, _MAX_LINE)
    if last < end:
        text += f"\n… {end - last:,} more lines: give start and end"
    return _result(path, text, head, label, start, facts)


def _result(path: str, text: str, head: str, label: str, first: int, facts: Mapping[str, Any]) -> ToolResult:
    digest = facts.get("hash")
    heads = [head, label, short(digest) if digest else ""]
    return ToolResult(
        ok=True,
        text=text,
        head=tuple(item for item in heads if item),
        kind="read",
        facts={"path": path, "lines": head.removeprefix("lines "), **facts},
        first_line=first,
    )


# --- large files: only a window of lines is ever in memory ---


def _part(handle: BinaryIO, path: str, size: int, args: ReadArgs) -> ToolResult:
    if args.start is None and args.end is None:
        return failed(f"{path} has {size:,} bytes; give start and end to read some lines of it")
    sample = _sample(handle.read(_SAMPLE))
    if isinstance(sample, Binary):
        return failed(f"{path} is {Binary(sample.kind, size)}; it cannot be read as text")
    handle.seek(len(sample.bom))
    start = args.start or 1
    end = min(args.end or start + _MAX_LINES - 1, start + _MAX_LINES - 1)
    lines, passed = _window(_decoded(handle, sample), start, end)
    if not lines:
        return failed(f"{path} has only {passed:,} lines")
    last = start + len(lines) - 1
    text = "\n".join(f"{start + at}│{line}" for at, line in enumerate(lines))
    if last < (args.end or last):
        text += f"\n… lines from {last + 1} on: give start and end" if len(lines) == _MAX_LINES else ""
    return _result(path, text, f"lines {start}-{last} of a file of {size:,} bytes", sample.label, start, {})


def _sample(data: bytes) -> Text | Binary:
    """The kind of text, from its beginning; a character cut in two at the end must not mislead."""
    found: Text | Binary = Binary("unknown kind", len(data))
    for less in range(5):
        found = read_text(data[: len(data) - less])
        if isinstance(found, Text) and (found.encoding not in ("latin-1", "cp1252") or less == 4):
            return found
    return found


def _decoded(handle: BinaryIO, sample: Text) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder(sample.encoding)("replace")
    held = ""
    while piece := handle.read(_CHUNK):
        text = held + decoder.decode(piece)
        held = "\r" if text.endswith("\r") else ""  # its LF may be in the next piece
        text = text[: len(text) - len(held)].replace("\r\n", "\n")
        yield text.replace("\r", "\n") if sample.newline == "\r" else text
    yield held.replace("\r", "\n") if sample.newline == "\r" else held


def _window(pieces: Iterator[str], start: int, end: int) -> tuple[list[str], int]:
    """Lines start..end, each cut to what may be shown, and how many lines there were up to there."""
    line, current, dropped, out, used, text = 1, "", 0, list[str](), 0, ""

    def close() -> None:
        nonlocal current, dropped, used
        shown = pictured(current) + (f"… [{dropped:,} more characters]" if dropped else "")
        out.append(shown)
        used += len(shown)
        current, dropped = "", 0

    for text in pieces:
        breaks = text.count("\n")
        if line + breaks < start:
            line += breaks
            continue
        for at, part in enumerate(text.split("\n")):
            if at:
                if line >= start:
                    close()
                line += 1
            if line > end or used > _MAX_TEXT:
                return out, line - 1
            if line >= start:
                room = _MAX_LINE - len(current)
                current, dropped = current + part[:room], dropped + max(0, len(part) - room)
    if line >= start and (current or dropped):
        close()
        line += 1
    return out, line - 1


READ_FILE = Operation(
    "file_ops.read_file", ReadArgs, Effect.NONE, "text of a file, or lines start..end", _prepare, _run
)
