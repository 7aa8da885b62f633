"""How risky a change is, from the change alone. Whether it may happen is the gate's business."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import IntEnum

from duckflow.errors import N_
from duckflow.i18n import _
from duckflow.record import Record
from duckflow.safety.change import Change, Effect, FileChange
from duckflow.safety.commands import destructive
from duckflow.safety.secrets import contains_secret

EXECUTABLE = (
    *(
        ".sh",
        ".bash",
        ".zsh",
        ".fish",
        ".bat",
        ".cmd",
        ".ps1",
        ".psm1",
        ".vbs",
        ".exe",
        ".com",
        ".msi",
        ".dll",
    ),
    *(".so", ".dylib", ".app", ".scr", ".jar", ".command", ".desktop", ".service"),
)
_SMALL_EDIT = 50
_MANY_LINES = 2_000
_MANY_BYTES = 1_000_000
_MANY_FILES = 10
_MANY_DELETES = 5
_SHRINK_FLOOR = 100  # bytes: below that, shrinking means nothing


class RiskLevel(IntEnum):
    LOW = 0
    MEDIUM = 1
    HIGH = 2
    CRITICAL = 3


class Risk(Record):
    level: RiskLevel
    reason: str  # one line for people

    def __str__(self) -> str:
        return f"{self.level.name}: {self.reason}" if self.reason else self.level.name


_DESTROYS = (  # what commands.destructive may say, for the catalogue of translations
    N_("deletes a root, home or whole working directory"),
    N_("deletes without the root safeguard"),
    N_("deletes everything it finds"),
    N_("formats a file system"),
    N_("overwrites a device"),
    N_("is a fork bomb"),
    N_("runs what it downloads"),
    N_("opens a network connection to run what comes in"),
    N_("changes permissions of the whole system"),
    N_("stops the machine"),
    N_("writes to a protected or start-up file"),
)


def measure(change: Change) -> Risk:
    """The highest of everything that speaks against the change, with the reasons for that level."""
    if change.effect is Effect.COMMAND:
        return _command(change.command or "")
    if change.effect is Effect.FILES:
        return _worst(
            [
                *_boundary(change),
                *(risk for file in change.files for risk in _file(file, change)),
                *_bulk(change.files),
            ]
        )
    if change.effect is Effect.NONE:
        return _read(change)
    return Risk(RiskLevel.LOW, _("changes nothing outside Duckflow"))


def combined(changes: Sequence[Change]) -> Risk:
    """Of several changes that share one card: the worst of them, and what they amount to together."""
    files = [file for change in changes for file in change.files]
    return _worst([*(measure(change) for change in changes), *_bulk(files)])


def _worst(risks: Sequence[Risk]) -> Risk:
    level = max((risk.level for risk in risks), default=RiskLevel.LOW)
    reasons = dict.fromkeys(risk.reason for risk in risks if risk.level is level and risk.reason)
    return Risk(level, "; ".join(reasons))


def _command(command: str) -> Risk:
    what = destructive(command)
    if what:
        return Risk(RiskLevel.CRITICAL, _(what))
    return Risk(RiskLevel.HIGH, _("cannot be inspected; it may do anything you may do"))


def _read(change: Change) -> Risk:
    risks = [Risk(RiskLevel.LOW, _("only reads"))]
    for place in change.places:
        if place.where == "outside":
            risks.append(Risk(RiskLevel.MEDIUM, _("reads outside the workspace: {path}", path=place.path)))
        elif place.secret:
            risks.append(Risk(RiskLevel.MEDIUM, _("reads a file that may hold secrets: {path}", path=place.path)))
        elif place.protected:
            risks.append(Risk(RiskLevel.MEDIUM, _("reads a protected file: {path}", path=place.path)))
    return _worst(risks)


def _boundary(change: Change) -> list[Risk]:
    risks = []
    for place in change.places:
        if place.where == "outside":
            risks.append(Risk(RiskLevel.CRITICAL, _("writes outside the workspace: {path}", path=place.path)))
        elif place.protected:
            risks.append(Risk(RiskLevel.CRITICAL, _("changes a protected file: {path}", path=place.path)))
        elif place.secret:
            risks.append(Risk(RiskLevel.HIGH, _("changes a file that may hold secrets: {path}", path=place.path)))
    return risks


def _file(file: FileChange, change: Change) -> list[Risk]:
    before, after = file.before, file.after
    if after is None:
        moved = any(other.after == before and other.before is None for other in change.files)
        return [Risk(RiskLevel.LOW, _("moves a file")) if moved else Risk(RiskLevel.MEDIUM, _("deletes a file"))]
    lines = changed_lines(file)
    if before is None:
        moved = any(other.before == after and other.after is None for other in change.files)
        risks = [Risk(RiskLevel.LOW, _("moves a file") if moved else _("creates a file"))]
    elif lines <= _SMALL_EDIT:
        risks = [Risk(RiskLevel.LOW, _("changes a few lines"))]
    else:
        risks = [Risk(RiskLevel.MEDIUM, _("changes {n} lines", n=lines))]
    if len(after) > _MANY_BYTES or lines > _MANY_LINES:
        level = RiskLevel.MEDIUM if before is None else RiskLevel.HIGH
        risks.append(Risk(level, _("is very large ({n} bytes)", n=f"{len(after):,}")))
    if file.path.lower().endswith(EXECUTABLE) or (file.mode or 0) & 0o111 or after.startswith(b"#!"):
        risks.append(Risk(RiskLevel.MEDIUM, _("can be executed: {path}", path=file.path)))
    if before is not None and len(before) > _SHRINK_FLOOR and len(after) < 0.3 * len(before):
        share = round(100 * (1 - len(after) / len(before)))
        risks.append(Risk(RiskLevel.HIGH, _("shrinks {path} by {n} %", path=file.path, n=share)))
    if _adds_secret(before, after):
        risks.append(Risk(RiskLevel.HIGH, _("writes what looks like a key or password into {path}", path=file.path)))
    return risks


def _adds_secret(before: bytes | None, after: bytes) -> bool:
    new = after.decode("utf-8", "replace")
    if before is None:
        return contains_secret(new)
    old = set(before.decode("utf-8", "replace").splitlines())
    return contains_secret("\n".join(line for line in new.splitlines() if line not in old))


def _bulk(files: Sequence[FileChange]) -> list[Risk]:
    gone = sum(1 for file in files if file.after is None and file.before is not None)
    gone -= sum(1 for file in files if file.before is None and any(file.after == other.before for other in files))
    if gone >= _MANY_DELETES:
        return [Risk(RiskLevel.HIGH, _("deletes {n} files", n=gone))]
    if len({file.path for file in files}) > _MANY_FILES:
        return [Risk(RiskLevel.HIGH, _("changes {n} files at once", n=len({file.path for file in files})))]
    return []


def changed_lines(file: FileChange) -> int:
    """Added plus removed lines, as the preview counted them; counted here when it did not."""
    if file.added or file.removed:
        return file.added + file.removed
    old, new = Counter((file.before or b"").split(b"\n")), Counter((file.after or b"").split(b"\n"))
    return (new - old).total() + (old - new).total()
