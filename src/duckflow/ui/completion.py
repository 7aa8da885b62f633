"""Completion of slash commands and @paths. Lists the workspace once per question, in a thread, within bounds."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

MOST_FILES = 20_000
MOST_SECONDS = 1.0
FRESH_SECONDS = 5.0
SHOWN = 30
_AT = re.compile(r"(?:^|(?<=[\s（「]))@([^\s@]*)$")


def wants_completion(text: str) -> bool:
    """Whether what stands before the cursor can be completed: only then is room made for a menu."""
    return bool(_AT.search(text)) or (text.startswith("/") and " " not in text)


class ChatCompleter(Completer):
    def __init__(self, commands: Sequence[tuple[str, str]], root: Path) -> None:
        self._commands = commands
        self._files = FileList(root)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        text = document.text_before_cursor
        if at := _AT.search(text):
            wanted = at[1]
            for path in ranked(wanted, self._files.paths()):
                yield Completion(path, start_position=-len(wanted))
        elif text.startswith("/") and " " not in text:
            for name, meaning in self._commands:
                if name.startswith(text):
                    yield Completion(name, start_position=-len(text), display_meta=meaning)


class FileList:
    """Names of files below a directory, ignored ones left out."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._paths: list[str] = []
        self._at = float("-inf")

    def paths(self) -> list[str]:
        if time.monotonic() - self._at > FRESH_SECONDS:
            self._paths = list(self._list())
            self._at = time.monotonic()
        return self._paths

    def _list(self) -> Iterator[str]:
        from ignore import Error, WalkBuilder

        walker = WalkBuilder(self._root)
        walker.hidden(True)
        walker.require_git(False)
        until = time.monotonic() + MOST_SECONDS
        entries = iter(walker.build())
        for _turn in range(MOST_FILES):
            try:
                path = Path(next(entries).path())
            except StopIteration:
                return
            except Error:  # a directory that may not be read
                continue
            name = path.relative_to(self._root).as_posix()
            if name != "." and name.isprintable() and " " not in name:
                yield name + ("/" if path.is_dir() else "")
            if time.monotonic() > until:
                return


def ranked(wanted: str, paths: Iterable[str]) -> list[str]:
    """The best matches first: beginning of the name, inside the name, inside the path, letters in order."""
    needle = wanted.casefold()
    found: list[tuple[int, int, str]] = []
    for path in paths:
        rank = _rank(needle, path.casefold())
        if rank is not None:
            found.append((rank, len(path), path))
    return [path for _rank_, _length, path in sorted(found)[:SHOWN]]


def _rank(needle: str, path: str) -> int | None:
    name = path.rstrip("/").rpartition("/")[2]
    if path.startswith(needle) or name.startswith(needle):
        return 0
    if needle in name:
        return 1
    if needle in path:
        return 2
    letters = iter(path)
    return 3 if all(letter in letters for letter in needle) else None
