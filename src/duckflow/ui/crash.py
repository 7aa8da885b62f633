"""What is left of a bug: a log file with the traceback, without secrets, for whoever repairs it."""

from __future__ import annotations

import os
import tempfile
import traceback
from datetime import UTC, datetime
from pathlib import Path


def report(error: BaseException) -> str:
    from duckflow.safety.secrets import Redactor

    return Redactor(os.environ).redact("".join(traceback.format_exception(error)))


def record(error: BaseException, home: Path) -> Path | None:
    """Write the traceback below the data directory, or among the temporary files when that is gone (the demo's is,
    and must not come back). None: that was not possible either."""
    for place in (_log_of, _temporary):
        try:
            descriptor, path = place(home)
            with open(descriptor, "a", encoding="utf-8", errors="backslashreplace") as file:
                file.write(report(error) + "\n")
            return path
        except OSError:
            continue
    return None


def _log_of(home: Path) -> tuple[int, Path]:
    folder = home / "logs"
    folder.mkdir(exist_ok=True, mode=0o700)
    path = folder / f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{os.getpid()}.log"
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), path


def _temporary(_home: Path) -> tuple[int, Path]:
    descriptor, name = tempfile.mkstemp(prefix="duckflow-", suffix=".log")
    return descriptor, Path(name)
