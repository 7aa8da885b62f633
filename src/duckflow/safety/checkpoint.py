"""What to keep before an effect, and what that does not cover."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from duckflow.i18n import _, clauses, listed
from duckflow.record import Record
from duckflow.safety.change import Change, Effect, content_hash
from duckflow.safety.neutral import one_line

MAX_KEPT = 10_000_000


class Kept(Record):
    """For the `checkpoint` event: `files` as it wants them, `uncovered` for people."""

    files: tuple[dict[str, Any], ...]  # path, before (blob name; None: did not exist), hash, mode
    uncovered: str = ""


def keep(changes: Sequence[Change], put: Callable[[bytes], str]) -> Kept:
    """Store what the files hold now. The first change of a path counts: later ones start from its result."""
    files: dict[str, dict[str, Any]] = {}
    for file in (file for change in changes for file in change.files):
        if file.path in files or (file.before is not None and len(file.before) > MAX_KEPT):
            continue
        blob = None if file.before is None else put(file.before)
        files[file.path] = {
            "path": file.path,
            "before": blob,
            "hash": content_hash(file.before),
            "mode": file.mode,
        }
    return Kept(tuple(files.values()), uncovered(changes))


def uncovered(changes: Sequence[Change]) -> str:
    """What is not kept; empty when everything is."""
    points = []
    if any(change.effect is Effect.COMMAND for change in changes):
        points.append(_("not kept in a checkpoint: what a command does"))
    large = dict.fromkeys(
        file.path
        for change in changes
        for file in change.files
        if file.before is not None and len(file.before) > MAX_KEPT
    )
    if large:
        paths = one_line(listed(large), 200)
        points.append(_("not kept in a checkpoint, larger than {n} MB: {paths}", n=MAX_KEPT // 1_000_000, paths=paths))
    return clauses(points)
