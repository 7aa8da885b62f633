"""Where settings and data live. The same on every system: the XDG variables, else their usual defaults."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def user_file(env: Mapping[str, str]) -> Path:
    return _base(env, "XDG_CONFIG_HOME", ".config") / "duckflow" / "config.toml"


def data_home(env: Mapping[str, str]) -> Path:
    if chosen := env.get("DUCKFLOW_HOME"):
        return Path(chosen).expanduser().absolute()
    return _base(env, "XDG_DATA_HOME", ".local/share") / "duckflow"


def project_files(workspace: Path) -> tuple[Path, Path]:
    """The shared one and the private one, weaker first."""
    folder = workspace / ".duckflow"
    return folder / "config.toml", folder / "config.local.toml"


def _base(env: Mapping[str, str], variable: str, default: str) -> Path:
    chosen = Path(env.get(variable, ""))
    if chosen.is_absolute():  # the XDG specification: anything else is to be ignored
        return chosen
    return (Path(env["HOME"]) if env.get("HOME") else Path.home()) / default
