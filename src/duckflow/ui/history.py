"""What the person typed before, per workspace: a file only they can read, without keys, of bounded size."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from prompt_toolkit.history import History

MOST = 1000
MOST_BYTES = 1_000_000


class InputHistory(History):
    """One JSON string per line. A file that cannot be read or written is no reason to stop."""

    def __init__(self, path: Path, redact: Callable[[str], str]) -> None:
        super().__init__()
        self._path = path
        self._redact = redact

    def load_history_strings(self) -> Iterable[str]:
        """Newest first."""
        try:
            with self._path.open("rb") as file:
                file.seek(0, os.SEEK_END)
                file.seek(max(0, file.tell() - MOST_BYTES))
                raw = file.read()
        except OSError:
            return []
        found = [text for line in raw.decode("utf-8", "replace").splitlines() if (text := _text(line))]
        if len(raw) >= MOST_BYTES or len(found) > 2 * MOST:
            self._rewrite(found[-MOST:])
        return found[: -MOST - 1 : -1]

    def store_string(self, string: str) -> None:
        self._write(os.O_APPEND, [self._redact(string)])

    def _rewrite(self, texts: list[str]) -> None:
        self._write(os.O_TRUNC, texts)

    def _write(self, flag: int, texts: list[str]) -> None:
        data = "".join(json.dumps(text) + "\n" for text in texts).encode("ascii")
        try:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | flag, 0o600)
        except OSError:
            return
        try:
            os.write(descriptor, data)
        except OSError:
            pass
        finally:
            os.close(descriptor)


def _text(line: str) -> str:
    try:
        value = json.loads(line)
    except ValueError:
        return ""
    return value if isinstance(value, str) else ""
