"""search.text: lines that contain a text, in the files that are not ignored, or in an earlier output."""

from __future__ import annotations

import os
import re
import stat
import time
from bisect import bisect_right
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import accumulate

from duckflow.i18n import _
from duckflow.safety.change import Change, Effect
from duckflow.safety.links import secret_inodes
from duckflow.safety.names import is_protected, is_secret
from duckflow.safety.neutral import pictured
from duckflow.safety.paths import OUTPUT, PathRefused
from duckflow.tools.base import Args, Context, OneLine, Operation, PathText, ToolResult, failed
from duckflow.tools.effects import in_thread
from duckflow.tools.matching import Matcher, TooSlow, expression, literal
from duckflow.tools.text import Text, read_text
from duckflow.tools.walk import printable, walk

_MAX_MATCHES = 100
_MAX_LINE = 300
_MAX_FILE = 2_000_000
_MAX_NAMED = 32_000_000  # a file that was named, not found
_SECONDS = 20.0
_BATCH = 1_000_000  # characters


class SearchArgs(Args):
    query: OneLine
    path: PathText | None = None
    regex: bool = False


@dataclass
class _Search:
    ctx: Context
    query: str
    regex: bool
    find: Matcher
    lines: list[str] = field(default_factory=list)
    files: int = 0
    skipped: dict[str, int] = field(default_factory=dict)
    full: bool = False
    end: float = field(default_factory=lambda: time.monotonic() + _SECONDS)
    _secrets: frozenset[tuple[int, int]] | None = None
    _held: list[tuple[str, str]] = field(default_factory=list)  # path and text, not searched yet
    _held_size: int = 0

    def directory(self, under: str) -> None:
        for path in sorted(walk(self.ctx.workspace.root, under)):
            if self.full:
                return
            if time.monotonic() > self.end:
                self._skip("files after the time limit")
                continue
            parts = path.split("/")
            if is_protected(parts) or is_secret(parts) or self.ctx.hidden(path):
                self._skip("protected or secret")
                continue
            self._file(path, _MAX_FILE)

    def _skip(self, why: str) -> None:
        self.skipped[why] = self.skipped.get(why, 0) + 1

    def _file(self, path: str, limit: int) -> None:
        try:
            with self.ctx.workspace.open(path) as handle:
                found = os.fstat(handle.fileno())
                if found.st_size > limit:
                    return self._skip("too large")
                if found.st_nlink > 1 and limit == _MAX_FILE and self._is_secret(found):
                    return self._skip("protected or secret")
                data = handle.read(limit)
        except (PathRefused, OSError):  # a directory, a link, a pipe, gone
            return None
        return self.text(path, data)

    def _is_secret(self, found: os.stat_result) -> bool:
        if self._secrets is None:
            self._secrets = secret_inodes(self.ctx.workspace.root)
        return (found.st_dev, found.st_ino) in self._secrets

    def text(self, path: str, data: bytes) -> None:
        if not data or (not self.regex and not self._possible(data)):
            return
        found = read_text(data)
        if isinstance(found, Text):
            self.matches(path, found.plain)

    def _possible(self, data: bytes) -> bool:
        """Most files are ruled out without decoding them."""
        if self.query.encode("utf-8") in data:
            return True
        if b"\0" in data or b"\x1b" in data:
            return True
        return not self.query.isascii() and not data.isascii()

    def matches(self, path: str, plain: str) -> None:
        """Regular expressions get many small files at once: each question to their process costs time."""
        self._held.append((path, plain))
        self._held_size += len(plain)
        if not self.regex or self._held_size > _BATCH:
            self.flush()

    def flush(self) -> None:
        held, self._held, self._held_size = self._held, [], 0
        if not held or self.full:
            return
        texts = [plain.removesuffix("\n") for _path, plain in held]
        firsts = [0, *accumulate(text.count("\n") + 1 for text in texts)]
        found = self.find("\n".join(texts))
        self.files += len({bisect_right(firsts, number) for number in found[:_MAX_MATCHES]})
        lines: tuple[int, list[str]] = (-1, [])
        for number in found:
            if len(self.lines) >= _MAX_MATCHES:
                self.full = True
                return
            at = bisect_right(firsts, number) - 1
            if lines[0] != at:
                lines = (at, texts[at].split("\n"))
            number -= firsts[at]
            self.lines.append(f"{printable(held[at][0])}:{number + 1}│{self._cut(lines[1][number])}")

    def _cut(self, line: str) -> str:
        if len(line) <= _MAX_LINE:
            return pictured(line)
        at = 0 if self.regex else line.find(self.query)
        start = max(0, min(at - 100, len(line) - _MAX_LINE))
        return f"{'…' if start else ''}{pictured(line[start : start + _MAX_LINE])}…"


@in_thread
def _prepare(args: SearchArgs, ctx: Context) -> Change | ToolResult:
    query = args.query
    if not query:
        return failed("query is empty")
    if "\n" in query:
        return failed("query has several lines; search for one of them")
    place = ctx.workspace.locate(args.path or ".")
    summary = _("search {path} for {query}", path=place.path, query=query[:80])
    return Change("search.text", Effect.NONE, summary, (place,), preview=f"{query} in {place.path}")


@in_thread
def _run(args: SearchArgs, change: Change, ctx: Context) -> ToolResult:
    query = args.query
    try:
        with ExitStack() as stack:
            find = stack.enter_context(expression(query, _SECONDS)) if args.regex else literal(query)
            search = _Search(ctx, query, args.regex, find)
            problem = _look(search, change, ctx)
            search.flush()
    except re.error as error:
        return failed(f"not a regular expression: {error}")
    except TooSlow:
        return failed("the regular expression takes too long; make it simpler or search a narrower path")
    return problem or _result(search, query, change.places[0].path)


def _look(search: _Search, change: Change, ctx: Context) -> ToolResult | None:
    path = change.places[0].path
    if path.startswith(OUTPUT):
        text = ctx.output(path.removeprefix(OUTPUT))
        if text is None:
            return failed(f"there is no output named {path}")
        search.matches(path, text)
        return None
    found = ctx.workspace.stat(path)
    if found is None:
        return failed(f"{path}: no such file or directory")
    if not stat.S_ISDIR(found.st_mode):
        search.text(path, ctx.workspace.read_bytes(path, _MAX_NAMED))
    elif change.places[0].where == "outside":
        return failed(f"{path} is a directory outside the workspace; name one file of it")
    else:
        search.directory(path)
    return None


def _result(search: _Search, query: str, path: str) -> ToolResult:
    count = len(search.lines)
    lines = list(search.lines)
    if search.full:
        lines.append(f"… only the first {_MAX_MATCHES} matches; narrow the query or the path")
    if search.skipped:
        what = ", ".join(f"{n} {why}" for why, n in search.skipped.items())
        lines.append(f"(not searched: {what})")
    matches = f"{count}+ matches" if search.full else "1 match" if count == 1 else f"{count} matches"
    head = (matches, "1 file" if search.files == 1 else f"{search.files} files")
    facts = {"query": query, "path": path, "matches": count, "files": search.files}
    return ToolResult(True, "\n".join(lines) or "no match", head, kind="read", facts=facts)


SEARCH_TEXT = Operation("search.text", SearchArgs, Effect.NONE, "lines that contain the query", _prepare, _run)
