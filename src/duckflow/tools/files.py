"""file_ops.write_file, delete_file, move_file: whole files. What is done is exactly what was prepared and shown."""

from __future__ import annotations

from pydantic import Field

from duckflow.errors import N_
from duckflow.i18n import _
from duckflow.safety.change import Change, Effect, FileChange, content_hash
from duckflow.tools.base import Args, Context, Operation, PathText, ToolResult, failed
from duckflow.tools.effects import MAX_FILE, Stop, apply, file_change, in_thread, look, short
from duckflow.tools.replacing import rewritten
from duckflow.tools.text import Binary, NotEncodable, read_text


class WriteArgs(Args):
    path: PathText
    content: str


@in_thread
def _prepare_write(args: WriteArgs, ctx: Context) -> Change | ToolResult:
    name = "file_ops.write_file"
    try:
        target = look(name, args.path, ctx)
    except Stop as stop:
        return stop.result
    path = target.place.path
    try:
        data = args.content.encode("utf-8") if not target.data else _rewritten(path, target.data, args.content)
    except UnicodeEncodeError as error:
        return failed(f"content is not valid Unicode at character {error.start}")
    except NotEncodable as error:
        return failed(f"{path}: {error}")
    if isinstance(data, ToolResult):
        return data
    if target.data is not None and data == target.data:
        return Change(name, Effect.NONE, _("{path} already has this content", path=path), (target.place,))
    verb = N_("create {path} ({counts})") if target.data is None else N_("replace {path} ({counts})")
    return file_change(name, verb, target, data)


def _rewritten(path: str, before: bytes, content: str) -> bytes | ToolResult:
    found = read_text(before)
    if isinstance(found, Binary):
        return failed(f"{path} is {found}; text would destroy it. Delete it first if that is what is wanted")
    return rewritten(found, content)


@in_thread
def _run(args: Args, change: Change, ctx: Context) -> ToolResult:
    return apply(change, ctx)


@in_thread
def _run_write(args: WriteArgs, change: Change, ctx: Context) -> ToolResult:
    if change.effect is Effect.FILES:
        return apply(change, ctx)
    path = change.places[0].path
    digest = content_hash(ctx.workspace.read_bytes(path, MAX_FILE))
    return ToolResult(
        ok=True,
        text=f"{path} already has exactly this content; nothing was written",
        head=("unchanged", short(digest)),
        kind="read",
        facts={"path": path, "hash": digest},
    )


class DeleteArgs(Args):
    path: PathText


@in_thread
def _prepare_delete(args: DeleteArgs, ctx: Context) -> Change | ToolResult:
    try:
        target = look("file_ops.delete_file", args.path, ctx, own_name=True)
    except Stop as stop:
        return stop.result
    if target.data is None:
        return failed(f"{target.place.path}: no such file")
    return file_change("file_ops.delete_file", N_("delete {path} ({counts})"), target, None)


class MoveArgs(Args):
    source: PathText = Field(alias="from")
    target: PathText = Field(alias="to")


@in_thread
def _prepare_move(args: MoveArgs, ctx: Context) -> Change | ToolResult:
    name = "file_ops.move_file"
    try:
        old = look(name, args.source, ctx, own_name=True)
        if old.data is None:
            return failed(f"{old.place.path}: no such file")
        if ctx.workspace.link_target(args.target) is not None:
            return failed(f"{args.target} exists already (a symbolic link); nothing was moved")
        new = look(name, args.target, ctx)
    except Stop as stop:
        return stop.result
    a, b = old.place.path, new.place.path
    if new.data is not None:
        return failed(f"{b} exists already; nothing was moved. Delete it first, or choose another name")
    files = (FileChange(a, old.data, None, old.mode), FileChange(b, None, old.data, old.mode))
    summary = _("move {a} to {b}", a=a, b=b)
    preview = f"rename from {a}\nrename to {b}\n"
    return Change(name, Effect.FILES, summary, (old.place, new.place), files, None, preview, "diff")


WRITE_FILE = Operation(
    "file_ops.write_file", WriteArgs, Effect.FILES, "create or replace a whole file", _prepare_write, _run_write
)
DELETE_FILE = Operation("file_ops.delete_file", DeleteArgs, Effect.FILES, "", _prepare_delete, _run)
MOVE_FILE = Operation("file_ops.move_file", MoveArgs, Effect.FILES, "", _prepare_move, _run)
