"""The commands that only look: sessions, audit, config, doctor."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from duckflow.app.opening import Options, load_settings, open_workspace, workspace_of
from duckflow.errors import DuckflowError

if TYPE_CHECKING:
    from duckflow.ui.audit import Query


def sessions(options: Options) -> int:
    from duckflow.ui.out import stdout
    from duckflow.ui.sessions import show

    return show(open_workspace(options).store, stdout(), as_json=options.output_format != "text")


def audit(options: Options, query: Query) -> int:
    from duckflow.ui.audit import show
    from duckflow.ui.out import stdout

    return show(open_workspace(options).store, query, stdout(), as_json=options.output_format != "text")


def settings(options: Options, action: str) -> int:
    """`duckflow config show|path|check`."""
    from duckflow.ui import settings as view
    from duckflow.ui.out import stdout

    root = workspace_of(options)
    if action == "path":
        return view.paths(root, os.environ, options.overrides.config_file, stdout())
    loaded = load_settings(options, root)
    return view.show(loaded, stdout()) if action == "show" else view.check(loaded, stdout())


def doctor(options: Options) -> int:
    from duckflow.ui.doctor import show
    from duckflow.ui.out import stdout

    root = workspace_of(options)
    try:
        loaded, problem = load_settings(options, root), None
    except DuckflowError as error:
        loaded, problem = None, error
    return show(root, os.environ, loaded, problem, stdout())
