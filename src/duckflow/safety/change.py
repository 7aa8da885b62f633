"""What an action would do, computed before it is done: what preview, risk, approval and effect share."""

from __future__ import annotations

import hashlib
from enum import StrEnum
from typing import Literal

from duckflow.record import Record


class Effect(StrEnum):
    """What kind of trace an operation leaves."""

    NONE = "none"  # reads only
    SESSION = "session"  # changes what Duckflow knows, nothing outside
    FILES = "files"
    COMMAND = "command"
    PERSON = "person"  # asks the user


def content_hash(data: bytes | None) -> str | None:
    """The name of a content; None stands for "does not exist"."""
    return None if data is None else hashlib.sha256(data).hexdigest()


class FileChange(Record):
    """One file before and after. Paths are relative to the workspace, with forward slashes, resolved."""

    path: str
    before: bytes | None
    after: bytes | None
    mode: int | None = None  # permission bits to keep; None: the default for new files
    added: int = 0  # lines, as the preview shows them
    removed: int = 0


class Place(Record):
    """A path an action reads or touches, as the boundary sees it."""

    path: str
    where: Literal["inside", "outside", "output"]
    protected: bool = False  # .git, .duckflow, start-up files
    secret: bool = False


class Change(Record):
    """Exactly what would happen. `hash` is what an approval is bound to."""

    operation: str
    effect: Effect
    summary: str  # one line for people: "edit src/app.py (+3 −1)", "run pytest -q"
    places: tuple[Place, ...] = ()
    files: tuple[FileChange, ...] = ()
    command: str | None = None
    preview: str = ""  # the diff or the exact command
    preview_kind: Literal["diff", "command", "text"] = "text"

    @property
    def hash(self) -> str:
        digest = hashlib.sha256()
        for piece in (self.operation, self.command or "", self.preview):
            digest.update(piece.encode("utf-8", "surrogatepass") + b"\0")
        for place in self.places:
            digest.update(f"{place.path}\0{place.where}\0".encode("utf-8", "surrogatepass"))
        for file in self.files:
            line = f"{file.path}\0{content_hash(file.before)}\0{content_hash(file.after)}\0"
            digest.update(line.encode("utf-8", "surrogatepass"))
        return digest.hexdigest()
