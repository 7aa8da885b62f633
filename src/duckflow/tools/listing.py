"""file_ops.list_dir and file_ops.find_files: what there is, within limits, ignored files marked or left out."""

from __future__ import annotations

import os
import stat
import unicodedata
from dataclasses import dataclass, field

from pydantic import Field

from duckflow.i18n import _
from duckflow.safety.change import Change, Effect, Place
from duckflow.safety.globs import braces, path_glob
from duckflow.safety.names import TEMP_PREFIX
from duckflow.safety.neutral import one_line
from duckflow.safety.paths import Workspace
from duckflow.tools.base import Args, Context, OneLine, Operation, PathText, ToolResult, failed
from duckflow.tools.effects import in_thread
from duckflow.tools.walk import printable, walk

_MAX_ENTRIES = 500
_MAX_FILES = 200
_MAX_PATTERN = 500
_MAX_CROSSING = 4  # `**/` in one pattern


class ListArgs(Args):
    path: PathText = "."
    depth: int = Field(default=1, ge=1, le=8)


@dataclass
class _Listing:
    workspace: Workspace
    kept: frozenset[str] | None  # None: no ignore rules apply
    depth: int
    lines: list[str] = field(default_factory=list)
    more: int = 0

    def add(self, path: str, level: int = 0) -> None:
        entries = [
            (name, found)
            for name, found in self.workspace.entries(path)
            if name != ".git" and not name.startswith(TEMP_PREFIX)
        ]
        entries.sort(key=lambda entry: (not stat.S_ISDIR(entry[1].st_mode), entry[0].casefold(), entry[0]))
        for name, found in entries:
            if len(self.lines) >= _MAX_ENTRIES:
                self.more += 1
                continue
            full = name if path == "." else f"{path.rstrip('/')}/{name}"
            ignored = self.kept is not None and full not in self.kept
            self.lines.append(f"{'  ' * level}{self._entry(full, name, found, ignored)}")
            if stat.S_ISDIR(found.st_mode) and not ignored and level + 1 < self.depth:
                self.add(full, level + 1)

    def _entry(self, full: str, name: str, found: os.stat_result, ignored: bool) -> str:
        shown = one_line(printable(name), 200) if not name.isprintable() else name
        mark = " (ignored)" if ignored else ""
        if stat.S_ISDIR(found.st_mode):
            return f"{shown}/{mark}"
        if stat.S_ISLNK(found.st_mode):
            return f"{shown} (link){mark}"
        return f"{shown}  {size(found.st_size)}{mark}"


def size(count: int) -> str:
    """`512 B`, `1.5 KB`, …"""
    amount = float(count)
    for unit in ("B", "KB", "MB"):
        if amount < 1000:
            return f"{count} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"


@in_thread
def _prepare_list(args: ListArgs, ctx: Context) -> Change | ToolResult:
    place = ctx.workspace.locate(args.path)
    if place.where == "output":
        return failed(f"{args.path} is an output, not a directory: use file_ops.read_file")
    summary = _("list {path}", path=place.path)
    return Change("file_ops.list_dir", Effect.NONE, summary, (place,), preview=place.path)


@in_thread
def _run_list(args: ListArgs, change: Change, ctx: Context) -> ToolResult:
    place, workspace = change.places[0], ctx.workspace
    found = workspace.stat(place.path)
    if found is None:
        return failed(f"{place.path}: no such directory")
    if not stat.S_ISDIR(found.st_mode):
        return failed(f"{place.path} is a file: use file_ops.read_file")
    kept = frozenset(walk(workspace.root, place.path, args.depth)) if place.where == "inside" else None
    listing = _Listing(workspace, kept, args.depth)
    listing.add(place.path)
    count = len(listing.lines) + listing.more
    if listing.more:
        listing.lines.append(f"… {listing.more} more entries: list a directory below, or use file_ops.find_files")
    facts = {"path": place.path, "entries": count}
    text = "\n".join(listing.lines) or "(empty)"
    head = ("1 entry" if count == 1 else f"{count} entries",)
    return ToolResult(True, text, head, kind="read", facts=facts)


class FindArgs(Args):
    pattern: OneLine


@in_thread
def _prepare_find(args: FindArgs, ctx: Context) -> Change | ToolResult:
    patterns = _patterns(args.pattern, ctx.workspace)
    if isinstance(patterns, ToolResult):
        return patterns
    summary = _("find {pattern}", pattern=args.pattern)
    return Change("file_ops.find_files", Effect.NONE, summary, (Place(".", "inside"),), preview=args.pattern)


def _patterns(pattern: str, workspace: Workspace) -> list[str] | ToolResult:
    pattern = pattern.strip().removeprefix(f"{workspace.root}/").removeprefix("./")
    if not pattern:
        return failed("pattern is empty; give a glob such as src/**/*.py")
    if pattern.startswith(("/", "~")) or ".." in pattern.split("/"):
        return failed("find_files looks in the workspace only; give a pattern relative to it")
    if len(pattern) > _MAX_PATTERN or pattern.count("**") > _MAX_CROSSING or "\0" in pattern:
        return failed(f"the pattern is too complex (at most {_MAX_CROSSING} times **)")
    pattern = unicodedata.normalize("NFC", pattern)
    return [found if "/" in found else f"**/{found}" for found in braces(pattern)]


@in_thread
def _run_find(args: FindArgs, change: Change, ctx: Context) -> ToolResult:
    patterns = _patterns(args.pattern, ctx.workspace)
    if isinstance(patterns, ToolResult):
        return patterns
    globs = [path_glob(pattern) for pattern in patterns]
    root = ctx.workspace.root
    found = sorted(
        path
        for path in walk(root)
        if any(glob.fullmatch(_composed(path)) for glob in globs) and not (root / path).is_dir()
    )
    facts = {"pattern": args.pattern, "files": len(found)}
    shown = [printable(path) for path in found[:_MAX_FILES]]
    if len(found) > _MAX_FILES:
        shown.append(f"… {len(found) - _MAX_FILES} more files: use a narrower pattern")
    if not found:
        shown = [f"no file matches{_directory_hint(args.pattern, ctx)} (ignored files are not looked at)"]
    head = (f"{len(found)} files" if len(found) != 1 else "1 file",)
    return ToolResult(True, "\n".join(shown), head, kind="read", facts=facts)


def _composed(path: str) -> str:
    return path if path.isascii() else unicodedata.normalize("NFC", path)


def _directory_hint(pattern: str, ctx: Context) -> str:
    plain = pattern.strip("/")
    is_dir = plain.isprintable() and len(plain) < 200 and (ctx.workspace.root / plain).is_dir()
    return f"; {plain} is a directory, its files are {plain}/**" if is_dir else ""


LIST_DIR = Operation("file_ops.list_dir", ListArgs, Effect.NONE, "", _prepare_list, _run_list, "{path, depth?}")
FIND_FILES = Operation(
    "file_ops.find_files", FindArgs, Effect.NONE, 'glob, e.g. "src/**/*.py"', _prepare_find, _run_find
)
