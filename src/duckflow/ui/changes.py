"""What this session changed in the workspace, as one diff against the files as they were before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from duckflow.i18n import _

if TYPE_CHECKING:
    from duckflow.safety.paths import Workspace
    from duckflow.state.session import Session

MOST_BYTES = 2_000_000


def originals(session: Session) -> dict[str, bytes | None]:
    """The files this session touched as they were before. None: it was not there."""
    names: dict[str, str | None] = {}
    for objective in session.state.objectives.values():
        for path, name in objective.originals.items():
            names.setdefault(path, name)
    return {path: None if name is None else session.store.get(name) for path, name in names.items()}


def diff_since(before: Mapping[str, bytes | None], workspace: Workspace) -> str:
    """Empty when nothing is different now. Blocking: reads files."""
    found = [_one(path, data, _now(workspace, path)) for path, data in sorted(before.items())]
    return "\n".join(part for part in found if part)


def _now(workspace: Workspace, path: str) -> bytes | None:
    from duckflow.safety.paths import PathMissing, PathRefused

    try:
        return workspace.read_bytes(path, MOST_BYTES)
    except PathMissing:
        return None
    except PathRefused as error:
        return str(error).encode("utf-8")


def _one(path: str, before: bytes | None, after: bytes | None) -> str:
    from duckflow.tools.diff import unified

    if before == after:
        return ""
    if any(b"\0" in data[:8000] for data in (before, after) if data is not None):
        return _("{path}: binary, changed", path=path)
    return unified(path, _text(before), _text(after)).text.rstrip("\n")


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "replace")
