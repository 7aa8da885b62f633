"""file_ops.edit_file: exact search and replace, once or not at all, with errors a model can act on."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pydantic import Field, model_validator

from duckflow.errors import N_
from duckflow.safety.change import Change, Effect, content_hash
from duckflow.tools.base import Args, Context, Operation, PathText, ToolResult, failed
from duckflow.tools.effects import Stop, Target, apply, file_change, in_thread, look, numbered, short
from duckflow.tools.replacing import EditFailed, Mismatch, Replacement, replace_exactly
from duckflow.tools.text import Binary, NotEncodable, Text, read_text, split_lines

_NAME = "file_ops.edit_file"
_NUMBERED = re.compile(r"^ *\d+│")
_COMPARED = 300  # characters of a line that are compared
_MAX_LINES = 50_000
_PLACES = 3
_AROUND = 2


class Edit(Args):
    search: str
    replace: str
    count: int = Field(default=1, ge=1)


class EditArgs(Args):
    path: PathText
    search: str | None = None
    replace: str | None = None
    count: int | None = Field(default=None, ge=1)
    edits: list[Edit] | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _one_form(self) -> EditArgs:
        single = (self.search, self.replace)
        if self.edits is not None and (single != (None, None) or self.count is not None):
            raise ValueError("give either search and replace, or edits")
        if self.edits is None and None in single:
            raise ValueError("search and replace are both needed (or edits)")
        return self

    def replacements(self) -> list[Replacement]:
        if self.edits is not None:
            return [Replacement(edit.search, edit.replace, edit.count) for edit in self.edits]
        return [Replacement(self.search or "", self.replace or "", self.count or 1)]


@in_thread
def _prepare(args: EditArgs, ctx: Context) -> Change | ToolResult:
    try:
        target = look(_NAME, args.path, ctx)
        doc = _readable(target, ctx)
    except Stop as stop:
        return stop.result
    edited = doc
    for number, edit in enumerate(args.replacements(), start=1):
        which = f"edit {number}: " if args.edits is not None and len(args.edits) > 1 else ""
        try:
            edited = replace_exactly(edited, edit)
        except Mismatch as error:
            return _mismatch(error, edited, target, ctx, which)
        except EditFailed as error:
            return failed(f"{which}{error}. Nothing was changed.")
        except NotEncodable as error:
            return failed(f"{which}{error}")
    if edited.data == doc.data:
        return failed("the edits cancel each other: nothing would change")
    return file_change(_NAME, N_("edit {path} ({counts})"), target, edited.data)


@in_thread
def _run(args: EditArgs, change: Change, ctx: Context) -> ToolResult:
    return apply(change, ctx)


def _readable(target: Target, ctx: Context) -> Text:
    path = target.place.path
    if target.data is None:
        raise Stop(failed(f"{path}: no such file. To create it use file_ops.write_file"))
    if target.place.secret and path not in ctx.seen:
        raise Stop(failed(f"{path} may hold secrets: read it first (the person is asked), then edit it"))
    found = read_text(target.data)
    if isinstance(found, Binary):
        raise Stop(failed(f"{path} is {found}; it cannot be edited as text"))
    return found


# --- why there was no match ---


def _mismatch(error: Mismatch, doc: Text, target: Target, ctx: Context, which: str) -> ToolResult:
    edit = error.edit
    lines = doc.lines()
    if error.found:
        times = f"{error.found} times" if error.found != 1 else "1 time"
        where = ", ".join(str(line) for line in error.lines) + (", …" if error.found > len(error.lines) else "")
        message = f"{which}search found {times} (line {where}); needs exactly {edit.count}. Nothing was changed."
        hint = " Add lines around it to search, or set count." if error.found > edit.count else ""
        span = len(split_lines(edit.search.replace("\r\n", "\n")))
        places = [(line - 1, line - 1 + span) for line in error.lines[:_PLACES]]
        return failed(message + hint, _excerpts(lines, places))
    reasons = _reasons(edit.search, doc, target, ctx)
    places = _nearest(edit.search, lines)
    nearest = " The nearest lines are below." if places else ""
    message = f"{which}search not found.{''.join(f' {reason}' for reason in reasons)} Nothing was changed.{nearest}"
    return failed(message, _excerpts(lines, places))


def _reasons(search: str, doc: Text, target: Target, ctx: Context) -> list[str]:
    path = target.place.path
    out = []
    wanted = [line for line in search.split("\n") if line.strip()]
    if wanted and all(_NUMBERED.match(line) for line in wanted):
        bare = "\n".join(_NUMBERED.sub("", line) for line in search.split("\n"))
        matches = " (without them it is found)" if bare in doc.plain else ""
        out.append(f"search carries line numbers (`12│`): leave them out{matches}.")
    now, seen = content_hash(target.data), ctx.seen.get(path)
    if path in ctx.overlay:
        out.append("An earlier action of this batch changes the file.")
    elif seen is not None and seen != now:
        out.append(f"The file changed since it was read ({short(seen)}, now {short(now)}): read it again.")
    if any("\u2400" <= char <= "\u2421" for char in search):
        out.append("Pictures such as ␛ stand for control characters in what was read.")
    return out


def _nearest(search: str, lines: Sequence[str]) -> list[tuple[int, int]]:
    """Where the file looks most like `search`, by its most telling line."""
    wanted = split_lines(search.replace("\r\n", "\n"))
    wanted = [_NUMBERED.sub("", line) for line in wanted]
    anchor = max(range(len(wanted)), key=lambda at: len(wanted[at].strip()), default=0)
    if not wanted or not wanted[anchor].strip():
        return []
    from rapidfuzz import fuzz, process

    known = [line.strip()[:_COMPARED] for line in lines[:_MAX_LINES]]
    query = wanted[anchor].strip()[:_COMPARED]
    found = process.extract(query, known, scorer=fuzz.ratio, limit=_PLACES, score_cutoff=55)
    best = found[0][1] if found else 0.0
    starts = sorted(at - anchor for _line, score, at in found if score >= best - 15)
    return [(max(0, at), min(len(lines), max(0, at) + len(wanted))) for at in starts]


def _excerpts(lines: Sequence[str], places: Sequence[tuple[int, int]]) -> str:
    out, shown_to = [], 0
    for start, end in places:
        start, end = max(shown_to, start - _AROUND), min(len(lines), start + 12, end + _AROUND)
        if end > start:
            out.append(numbered(lines[start:end], start + 1, _COMPARED))
            shown_to = end
    return "\n…\n".join(out)


EDIT_FILE = Operation(
    _NAME,
    EditArgs,
    Effect.FILES,
    "search is exact text that occurs count (1) times",
    _prepare,
    _run,
    usage="{path, search, replace, count?} or {path, edits: [{search, replace, count?}]}",
)
