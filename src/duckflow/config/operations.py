"""The names of all operations, so that a rule for one that does not exist is not taken in silence.

Settings are read before any tool is known, and without importing one. A test compares this with the tools.
"""

from __future__ import annotations

OPERATIONS = (
    *(f"file_ops.{name}" for name in ("read_file", "write_file", "edit_file", "delete_file", "move_file")),
    *("file_ops.list_dir", "file_ops.find_files", "search.text", "search.symbols", "search.project", "shell.run"),
    *(f"plan_tool.{name}" for name in ("propose", "approve", "update_step", "get", "list", "delete")),
    *("task_tool.generate_list", "task_loop.run"),
    *(f"task_loop.{name}" for name in ("status", "pause", "resume", "stop")),
    *("memory.remember", "memory.recall", "memory.forget", "user.ask"),
)


def is_known(glob: str) -> bool:
    """Whether the operation part of a rule names at least one operation."""
    from fnmatch import fnmatchcase

    return any(fnmatchcase(name, glob) for name in OPERATIONS)


def nearest(glob: str) -> str:
    """The operation, or the family, that was most likely meant; empty: nothing is near."""
    from difflib import get_close_matches

    families = sorted({name.partition(".")[0] for name in OPERATIONS})
    found = get_close_matches(glob, [*OPERATIONS, *(f"{family}.*" for family in families)], 1)
    if found:
        return found[0]
    last = {name.partition(".")[2]: name for name in reversed(OPERATIONS)}
    close = get_close_matches(glob.rpartition(".")[2], last, 1, 0.75)
    return last[close[0]] if close else ""
