"""What a rule or a grant covers: `operation` or `operation:glob` against a change."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from duckflow.record import Record
from duckflow.safety import commands, globs
from duckflow.safety.change import Change
from duckflow.safety.neutral import has_invisible
from duckflow.safety.risk import Risk, RiskLevel


class Grant(Record):
    """A yes for this step, or what an approved plan step declared: an operation, a pattern, up to a risk."""

    operation: str
    pattern: str  # a glob without the operation; empty: everything
    up_to: RiskLevel = RiskLevel.MEDIUM
    sandboxed: bool = False  # it holds only where commands run in a sandbox
    plan: str = ""  # the plan whose approval gave it


def first_match(patterns: Sequence[str], change: Change, *, tighten: bool) -> str:
    """The first pattern that fits. `tighten`: for deny and ask, where any part that fits counts."""
    for pattern in patterns:
        operation, _colon, glob = pattern.partition(":")
        named = globs.text_glob(operation.strip(), fold=tighten).fullmatch(change.operation)
        if named and covers(glob.strip(), change, tighten=tighten):
            return pattern
    return ""


def covers(glob: str, change: Change, *, tighten: bool) -> bool:
    if change.command is not None:
        return _covers_command(glob, change.command, tighten)
    if not glob:
        return True
    paths = {*(place.path for place in change.places), *(file.path for file in change.files)}
    if tighten:
        pattern = globs.path_glob(folded(glob), fold=True, own=True)
        return any(pattern.fullmatch(folded(path)) for path in paths)
    pattern = globs.path_glob(glob)
    return bool(paths) and all(pattern.fullmatch(path) for path in paths)


def _covers_command(glob: str, command: str, tighten: bool) -> bool:
    """Loosening needs a simple command or the very same text; tightening looks at every part."""
    if tighten:
        pattern = globs.text_glob(glob)
        return not glob or any(pattern.fullmatch(part) for part in commands.parts(command))
    if command in (glob, globs.literal(glob)):
        return True
    if has_invisible(command.replace("\n", " ")):
        return False
    if not glob:
        return True
    return commands.is_simple(command) and globs.text_glob(glob).fullmatch(command.strip()) is not None


def folded(path: str) -> str:
    return unicodedata.normalize("NFKC", path).casefold()


def granted(grant: Grant, change: Change, risk: Risk) -> bool:
    """Whether an earlier yes reaches this change. A very same command is as risky as it was when it was shown."""
    glob = grant.pattern.removeprefix(f"{grant.operation}:")  # as pattern_for spells it
    if not glob or not covers(glob, change, tighten=False):
        return False
    return risk.level <= grant.up_to or (change.command is not None and change.command == globs.literal(glob))


def pattern_for(change: Change) -> str:
    """The narrow pattern that "yes for this step" would cover: this command, this operation on this file."""
    first = [*(file.path for file in change.files), *(place.path for place in change.places)][:1]
    return f"{change.operation}:{globs.escape(_target(change) or ''.join(first))}"


def grant_for(change: Change, risk: Risk) -> Grant | None:
    """What a "yes for this step" to this change is worth later. None: it cannot happen twice (a move)."""
    target = _target(change)
    if target is None:
        return None
    ceiling = risk.level if change.command is not None else max(risk.level, RiskLevel.MEDIUM)
    return Grant(change.operation, globs.escape(target), ceiling)


def _target(change: Change) -> str | None:
    if change.command is not None:
        return change.command
    paths = {*(file.path for file in change.files), *(place.path for place in change.places)}
    return paths.pop() if len(paths) == 1 else None
