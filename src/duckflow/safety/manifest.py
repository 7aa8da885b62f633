"""What the files of a workspace look like from outside: sizes and times, to see what a command changed."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

MOST = 20_000
SKIPPED = frozenset(
    {".git", ".hg", ".svn", ".venv", "venv", "node_modules", "__pycache__", ".pytest_cache", ".mypy_cache",
     ".ruff_cache", ".hypothesis", ".tox", ".cache", ".gradle", "target"}
)  # fmt: skip
"""Directories that hold no work of the user: caches, installed packages, version control."""

Manifest = Mapping[str, tuple[int, int]]


def snapshot(root: Path, seconds: float = 2.0) -> Manifest | None:
    """Path → (size, time of change). None: too many files or too slow, so nothing can be said."""
    end = time.monotonic() + seconds
    found: dict[str, tuple[int, int]] = {}
    stack = [str(root)]
    prefix = len(str(root)) + 1
    while stack:
        try:
            with os.scandir(stack.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        if entry.name not in SKIPPED:
                            stack.append(entry.path)
                    elif entry.is_file(follow_symlinks=False):
                        stat = entry.stat(follow_symlinks=False)
                        found[entry.path[prefix:]] = (stat.st_size, stat.st_mtime_ns)
        except OSError:
            continue
        if len(found) > MOST or time.monotonic() > end:
            return None
    return found


def changed_between(before: Manifest | None, after: Manifest | None) -> tuple[str, ...] | None:
    """The paths that differ, sorted. None: not known."""
    if before is None or after is None:
        return None
    return tuple(sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path)))
