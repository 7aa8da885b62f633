"""The files of a workspace that are not ignored (.gitignore, .duckflowignore). Names only; opens none of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from duckflow.safety.names import TEMP_PREFIX
from duckflow.safety.neutral import pictured

IGNORE_FILE = ".duckflowignore"
_NEVER = ("!.git", "!.duckflow", f"!{TEMP_PREFIX}*")
_MAX_ERRORS = 1_000


def walk(root: Path, under: str = ".", depth: int | None = None) -> Iterator[str]:
    """Paths relative to the root, directories too, in no order. `under` is searched even when it is ignored itself.

    The walk always begins at the root, because the rules of every directory above `under` count.
    """
    if under == ".":
        yield from _walk(root, root, _in_repository(root), depth)
        return
    levels = under.count("/") + 1
    reached = False
    limit = None if depth is None else levels + depth
    for path in _walk(root, root, _in_repository(root), limit):
        if path == under:
            reached = True
        elif path.startswith(under + "/"):
            yield path
    if not reached:
        yield from _walk(root, root / under, False, depth)


def _walk(root: Path, start: Path, parents: bool, depth: int | None) -> Iterator[str]:
    from ignore import Error, WalkBuilder
    from ignore.overrides import OverrideBuilder

    overrides = OverrideBuilder(start)
    for pattern in _NEVER:
        overrides.add(pattern)
    builder = WalkBuilder(start).hidden(False).ignore(False).git_global(False).require_git(False)
    builder.parents(parents).follow_links(False).max_depth(depth).overrides(overrides.build())
    builder.add_custom_ignore_filename(IGNORE_FILE)
    found, errors, prefix = builder.build(), 0, len(str(root)) + 1
    while errors < _MAX_ERRORS:
        try:
            entry = next(found)
        except StopIteration:
            return
        except (Error, OSError):  # a directory that cannot be read, or went away
            errors += 1
            continue
        path = str(entry.path())
        if entry.depth() > 0:
            yield path[prefix:]


def _in_repository(root: Path) -> bool:
    """Whether ignore files above the root count: only where the root is a part of a larger repository."""
    if (root / ".git").exists():
        return False
    return any((parent / ".git").exists() for parent in root.parents)


def printable(path: str) -> str:
    """A name as one line of text that can be stored: not every name is valid Unicode, or without line ends."""
    text = path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return pictured(text).replace("\n", "␊").replace("\t", "␉")
