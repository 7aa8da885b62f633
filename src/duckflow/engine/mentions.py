"""Files a message names come with it: `@path`, `@path:10-40`, or a path that exists."""

from __future__ import annotations

import re
from stat import S_ISREG

from duckflow.engine.kit import Kit
from duckflow.engine.ledger import Outcome
from duckflow.prompts.replies import Action
from duckflow.safety.paths import PathRefused

MOST_FILES = 3
MOST_LINES = 200
_AT = re.compile(r"(?:^|(?<=[\s「『（(、。,]))@([^\s「」『』（）、。,]+)")
_BARE = re.compile(r"(?<![@\w./\-])([\w.\-]+(?:/[\w.\-]+)*\.\w+|[\w.\-]+(?:/[\w.\-]+)+|Makefile|Dockerfile)", re.ASCII)


def mentioned(text: str, kit: Kit) -> list[tuple[str, int, int]]:
    """(path, first line, last line) of the files a message names, each once."""
    found: dict[str, tuple[str, int, int]] = {}
    for name in [*_AT.findall(text), *_BARE.findall(text)]:
        path, first, last = _span(name)
        if len(found) < MOST_FILES and path not in found and is_readable(kit, path):
            found[path] = (path, first, min(last, first + MOST_LINES - 1))
    return list(found.values())


def names_a_place(text: str) -> bool:
    """Does a message say which file it is about, existing or not, or quote a piece of code?"""
    return bool(_AT.search(text) or _BARE.search(text) or "`" in text)


def is_readable(kit: Kit, path: str) -> bool:
    """A file of the workspace that may be read without asking anybody."""
    try:
        place = kit.workspace.locate(path)
        found = kit.workspace.stat(place.path) if place.where == "inside" else None
    except (PathRefused, OSError):
        return False
    return found is not None and S_ISREG(found.st_mode) and not (place.secret or place.protected)


def _span(name: str) -> tuple[str, int, int]:
    match = re.fullmatch(r"(.+?):(\d+)(?:-(\d+))?", name)
    if match is None:
        return name.rstrip(".,:;"), 1, MOST_LINES
    first = max(1, int(match[2]))
    return match[1], first, int(match[3] or first + MOST_LINES - 1)


async def attach(kit: Kit, run: str, text: str) -> list[Outcome]:
    """Read the named files through the dispatcher, as far as reading them asks nobody."""
    actions = [
        Action(
            operation="file_ops.read_file",
            args={"path": path, "start": first, "end": last},
            reasoning="named in the message",
        )
        for path, first, last in mentioned(text, kit)
    ]
    return await kit.dispatcher.batch(run, actions) if actions else []
