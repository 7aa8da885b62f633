"""What to tell the person when a command ends badly: what happened, what was kept, what to do next. On stderr."""

from __future__ import annotations

import os
from pathlib import Path

from duckflow.errors import DuckflowError
from duckflow.i18n import _, explain
from duckflow.ui.out import stderr
from duckflow.ui.safe import safe, safe_line


def explain_error(error: DuckflowError) -> None:
    message, hint = explain(error)
    out = stderr()
    out.block(safe(message), "red", first="duckflow: ", indent="  ")
    if hint:
        out.block(safe(hint), first="  → ", indent="    ")


def explain_bug(error: Exception, *, verbose: bool) -> None:
    """Two lines for the person, the traceback in a file; also on the screen when they asked for details."""
    from duckflow.config import data_home
    from duckflow.ui import crash

    path = crash.record(error, data_home(os.environ))
    out = stderr()
    out.block(what_happened(error), "red", first="duckflow: ", indent="  ")
    out.block(where_to_look(path) or _("Run it again with -v for details."), first="  → ", indent="    ")
    if verbose:
        out.write(safe(crash.report(error)))


def what_happened(error: Exception) -> str:
    name = type(error).__name__
    return _("Something went wrong inside Duckflow ({error}). The session is kept.", error=name)


def where_to_look(path: Path | None) -> str:
    return _("Details: {path}", path=safe_line(str(path), exact=True)) if path else ""


def note(text: str) -> None:
    stderr().block(text, "dim", first="duckflow: ", indent="  ")
