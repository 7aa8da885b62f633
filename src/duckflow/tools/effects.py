"""What the file effects share: looking at a target, making its change, applying exactly that change."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Awaitable, Callable, Sequence
from functools import wraps
from typing import ParamSpec, TypeVar

from duckflow.i18n import _
from duckflow.record import Record
from duckflow.safety.change import Change, Effect, FileChange, Place, content_hash
from duckflow.safety.neutral import pictured
from duckflow.safety.paths import PathChanged, PathRefused
from duckflow.tools.base import Context, ToolResult, failed
from duckflow.tools.diff import Diff, new_lines, unified
from duckflow.tools.text import Binary, Text, read_text

MAX_FILE = 32_000_000  # bytes of a file that effects take into memory
_MAX_SHOWN_LINES = 120
_MAX_LINE = 500

P = ParamSpec("P")
R = TypeVar("R")


class Stop(Exception):
    """Ends a preparation early with a result."""

    def __init__(self, result: Change | ToolResult) -> None:
        super().__init__()
        self.result = result


def in_thread(work: Callable[P, R]) -> Callable[P, Awaitable[R | ToolResult]]:
    """Blocking work of an operation off the event loop. A refused path is a failure; a stop waits for the thread:
    an effect that has begun is not left without an outcome."""

    def guarded(*args: P.args, **kwargs: P.kwargs) -> R | ToolResult:
        try:
            return work(*args, **kwargs)
        except PathChanged as error:
            return ToolResult(ok=False, error=str(error), facts={"stale": True})
        except PathRefused as error:
            return failed(str(error))
        except OSError as error:  # a read that fails half-way: a broken disk, an odd file system
            return failed(f"{error.filename or 'the file'}: {error.strerror or error}")

    @wraps(work)
    async def run(*args: P.args, **kwargs: P.kwargs) -> R | ToolResult:
        task = asyncio.ensure_future(asyncio.to_thread(guarded, *args, **kwargs))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            while not task.done():
                try:
                    await asyncio.wait([task])
                except asyncio.CancelledError:
                    continue
            raise

    return run


class Target(Record):
    place: Place
    data: bytes | None  # None: there is no such file
    mode: int | None


def look(operation: str, path: str, ctx: Context, *, own_name: bool = False) -> Target:
    """The file an effect is about, as earlier actions of the batch leave it. Raises Stop and PathRefused.

    Outside and protected targets are not even read: their change goes to the gate bare, to be refused there.
    `own_name`: the effect is on the name itself, so a symbolic link is not followed.
    """
    place = ctx.workspace.locate(path)
    if place.where == "output":
        raise Stop(failed(f"{path} is an output: it can be read, not changed"))
    if place.where == "outside" or place.protected:
        summary = f"{operation} {place.path}"
        raise Stop(Change(operation, Effect.FILES, summary, places=(place,), preview=summary))
    if own_name and (target := ctx.workspace.link_target(path)) is not None:
        raise Stop(failed(f"{path} is a symbolic link to {target}; name that file, or use shell.run for the link"))
    if place.path == ".":
        raise Stop(failed(f"{path} is the workspace, not a file"))
    return _looked(place, ctx)


def _looked(place: Place, ctx: Context) -> Target:
    found = ctx.workspace.stat(place.path)
    mode = None if found is None else stat.S_IMODE(found.st_mode) & 0o777
    if place.path in ctx.overlay:
        return Target(place, ctx.overlay[place.path], mode)
    if found is None:
        return Target(place, None, None)
    if stat.S_ISDIR(found.st_mode):
        raise Stop(failed(f"{place.path} is a directory, not a file"))
    if not found.st_mode & 0o222:
        raise Stop(failed(f"{place.path} is read-only (mode {mode:o}); its owner does not want it changed"))
    return Target(place, ctx.workspace.read_bytes(place.path, MAX_FILE), mode)


def text_of(data: bytes | None) -> str | None:
    """For a diff; None when there is no file or it is no text."""
    found = read_text(data) if data is not None else None
    return found.plain if isinstance(found, Text) and found.newline == "\r" else getattr(found, "text", None)


def difference(path: str, before: bytes | None, after: bytes | None) -> Diff:
    """The diff people and the model see. Bytes that are no text are named, not shown."""
    old, new = text_of(before), text_of(after)
    if (before is not None and old is None) or (after is not None and new is None):
        was = "nothing" if before is None else str(Binary("unknown kind", len(before)))
        becomes = "deleted" if after is None else str(Binary("unknown kind", len(after)))
        found = read_text(before) if before is not None else None
        return Diff(f"{path}: {found if isinstance(found, Binary) else was} → {becomes}\n", 0, 0)
    return unified(path, old, new)


def file_change(operation: str, verb: str, target: Target, after: bytes | None) -> Change:
    """The change of one file. `verb` is a message id with {path} and {counts}."""
    path = target.place.path
    diff = difference(path, target.data, after)
    file = FileChange(path, target.data, after, target.mode, diff.added, diff.removed)
    summary = _(verb, path=path, counts=str(diff))
    return Change(operation, Effect.FILES, summary, (target.place,), (file,), None, diff.text, "diff")


def apply(change: Change, ctx: Context) -> ToolResult:
    """Do what the change says, nothing else; refused when a file is no longer as it was prepared."""
    if not change.files:
        return failed(f"{change.summary}: refused")
    files = change.files
    if len(files) == 2 and files[0].after is None and files[0].before == files[1].after:
        ctx.workspace.rename(files[0].path, files[1].path, content_hash(files[0].before) or "")
    else:
        for file in files:
            _apply_file(file, ctx)
    return _result(change)


def _apply_file(file: FileChange, ctx: Context) -> None:
    expect = content_hash(file.before)
    if file.after is not None:
        ctx.workspace.write_atomic(file.path, file.after, file.mode, expect)
    elif expect is not None:
        ctx.workspace.remove(file.path, expect)


def _result(change: Change) -> ToolResult:
    last = change.files[-1]
    added, removed = sum(f.added for f in change.files), sum(f.removed for f in change.files)
    before = content_hash(change.files[0].before)
    after = content_hash(last.after)
    facts = {
        "path": last.path,
        "before": before and before[:8],
        "after": after and after[:8],
        "hash": after,
        "added": added,
        "removed": removed,
    }
    if len(change.files) > 1:
        facts["from"] = change.files[0].path
    secret = any(place.secret for place in change.places)
    return ToolResult(
        ok=True,
        text="" if secret else _shown(last),
        head=(f"+{added} −{removed}", f"{short(before)} → {short(after)}"),
        changed=tuple(dict.fromkeys(file.path for file in change.files)),
        kind="change",
        facts=facts,
        output="" if secret else pictured(change.preview),
    )


def short(digest: str | None) -> str:
    return digest[:8] if digest else "none"


def _shown(file: FileChange) -> str:
    """The new lines with their numbers."""
    old = read_text(file.before) if file.before is not None else None
    new = read_text(file.after) if file.after is not None else None
    if not isinstance(new, Text) or not isinstance(old, Text):
        return ""
    lines = new.lines()
    pieces = [numbered(lines[start:end], start + 1) for start, end in new_lines(old.lines(), lines)]
    shown = "\n…\n".join(pieces).split("\n")
    if len(shown) > _MAX_SHOWN_LINES:
        shown = [*shown[:_MAX_SHOWN_LINES], f"… {len(shown) - _MAX_SHOWN_LINES} more lines changed"]
    return "\n".join(shown)


def numbered(lines: Sequence[str], first: int, limit: int = _MAX_LINE) -> str:
    """`12│text`, long lines cut with a note."""
    return "\n".join(f"{first + at}│{cut(pictured(line), limit)}" for at, line in enumerate(lines))


def cut(line: str, limit: int) -> str:
    return line if len(line) <= limit else f"{line[:limit]}… [{len(line) - limit:,} more characters]"
