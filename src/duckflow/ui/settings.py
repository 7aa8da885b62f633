"""`duckflow config`: every setting with where it came from, the files in question, and whether they hold."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from duckflow.config import Settings, data_home, describe, project_files, user_file
from duckflow.i18n import _, listed
from duckflow.ui.out import Out, stdout
from duckflow.ui.safe import safe_line
from duckflow.ui.table import table


def show(settings: Settings, out: Out | None = None) -> int:
    """Key, value and origin of everything that counts, then what does not count and why."""
    out = out or stdout()
    rows = [(safe_line(key), safe_line(value), _origin(origin)) for key, value, origin in describe(settings)]
    if out.colour:
        table(out, (_("KEY"), _("VALUE"), _("FROM")), rows, flexible=1)
    else:  # for a file or a pipe nothing is shortened
        for key, value, origin in rows:
            out.line(f"{key} = {value}  # {origin}")
    _notes(settings, out)
    return 0


def paths(workspace: Path, env: Mapping[str, str], config_file: Path | None = None, out: Out | None = None) -> int:
    """The files that are read, weakest first, and the data directory. Works when they are wrong, too."""
    out = out or stdout()
    files = [(_("yours"), config_file or user_file(env))]
    files += [(_("project"), path) for path in project_files(workspace)]
    rows = [(name, str(path), _("there") if os.path.isfile(path) else _("not there")) for name, path in files]
    rows.append((_("data"), str(data_home(env)), _("there") if os.path.isdir(data_home(env)) else _("not there")))
    room = max(len(path) for _name, path, _state in rows)
    for name, path, state in rows:
        out.line(f"{safe_line(path, exact=True):<{room}}  {listed((name, state))}")
    return 0


def check(settings: Settings, out: Out | None = None) -> int:
    """The settings could be read: say what they came to."""
    out = out or stdout()
    for path in settings.files:
        out.line(_("{path}: valid", path=safe_line(str(path), exact=True)))
    if not settings.files:
        out.line(_("There is no settings file; the built-in settings and the environment count."))
    _notes(settings, out)
    if not settings.has_model:
        out.line(_("No model is configured yet: `duckflow doctor` says what is missing."), "yellow")
    return 0


def _origin(name: str) -> str:
    return _("built-in") if name == "built-in" else safe_line(name)


def _notes(settings: Settings, out: Out) -> None:
    for item in settings.ignored:
        key, file = safe_line(item.key), safe_line(item.file, exact=True)
        told = _("ignored: {key} in {file} ({reason})", key=key, file=file, reason=_(item.reason))
        out.block(told, "yellow", indent="  ", first="")
    for name in settings.unknown_variables:
        out.block(_("The variable {name} is not known.", name=safe_line(name)), "yellow")
