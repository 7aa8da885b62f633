"""Puts the levels together: built-in < user's file < project's files < environment < command line."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

from duckflow.config import models
from duckflow.config.places import data_home, project_files, user_file
from duckflow.config.schema import Key, dotted, find, leaves
from duckflow.config.settings import (
    Checks,
    Ignored,
    Limits,
    ModelSpec,
    Objective,
    Overrides,
    Prompts,
    Provider,
    Routing,
    Rules,
    Settings,
    TierName,
)
from duckflow.config.source import BUILT_IN, Entry, Origin, Values, check, read
from duckflow.errors import N_

NOT_TRUSTED = N_("counts only when the folder is trusted")
LOOSER = N_("would loosen a setting, and the folder is not trusted")

_VARIABLES: dict[str, Key] = {
    "DUCKFLOW_MODE": ("mode",),
    "DUCKFLOW_LANG": ("lang",),
    "DUCKFLOW_MAX_COST_USD": ("limits", "max_cost_usd"),
    "DUCKFLOW_MAX_TURNS": ("limits", "max_turns"),
    "DUCKFLOW_MAX_ATTEMPTS": ("objective", "max_attempts"),
}
_OPTIONS: dict[str, Key] = {
    "mode": ("mode",),
    "lang": ("lang",),
    "max_cost_usd": ("limits", "max_cost_usd"),
    "max_turns": ("limits", "max_turns"),
    "max_attempts": ("objective", "max_attempts"),
    "allow": ("rules", "allow"),
    "deny": ("rules", "deny"),
}
S = TypeVar("S", Prompts, Objective, Checks, Routing, Limits)


class Rule(NamedTuple):
    list: str  # allow, ask or deny
    pattern: str
    origin: Origin


class _Levels:
    """The values so far. Later levels win, except rules, which are united."""

    def __init__(self) -> None:
        self.values: Values = {
            key: Entry(field.default, BUILT_IN)
            for key, field in leaves()
            if field.default is not None and key[0] != "rules"
        }
        self.rules: list[Rule] = []
        self.files: list[Path] = []
        self.ignored: list[Ignored] = []

    def read(self, path: Path, *, required: bool = False, trusted: bool = True) -> None:
        if not required and not os.path.isfile(path):
            return
        self.files.append(path)
        self.add(read(path), trusted=trusted)

    def add(self, level: Values, *, trusted: bool = True) -> None:
        for key, entry in level.items():
            field = find(key)
            current = self.values.get(key, Entry(None, BUILT_IN)).value
            if not trusted and field.loosens(entry.value, current):
                reason = NOT_TRUSTED if field.untrusted == "no" else LOOSER
                self.ignored.append(Ignored(entry.origin.name, dotted(key), reason))
            elif key[0] == "rules":
                patterns = cast(tuple[str, ...], entry.value)
                self.rules += [Rule(key[1], pattern, entry.origin) for pattern in patterns]
            else:
                self.values[key] = entry


def load(workspace: Path, overrides: Overrides, env: Mapping[str, str], trusted: bool = False) -> Settings:
    """Raises ConfigError (a file or variable) or UsageError (the command line) for what cannot be."""
    levels = _Levels()
    levels.read(overrides.config_file or user_file(env), required=overrides.config_file is not None)
    for path in project_files(workspace):
        levels.read(path, trusted=trusted)
    levels.add(_from_environment(env))
    levels.add(_from_command_line(overrides))
    return _settings(levels, overrides, env, trusted)


def _from_environment(env: Mapping[str, str]) -> Values:
    return {
        key: check(find(key), _scalar(env[name]), Origin(name), name)
        for name, key in _VARIABLES.items()
        if env.get(name)
    }


def _from_command_line(overrides: Overrides) -> Values:
    found: Values = {}
    for name, key in _OPTIONS.items():
        value = getattr(overrides, name)
        if value is None or value == ():
            continue
        option = "--" + name.replace("_", "-")
        given = list(value) if isinstance(value, tuple) else value
        found[key] = check(find(key), given, Origin(option), option)
    return found


def _scalar(text: str) -> object:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _settings(levels: _Levels, overrides: Overrides, env: Mapping[str, str], trusted: bool) -> Settings:
    values = levels.values
    providers = models.providers(values, env)
    listed = models.models(values, providers)
    tiers, listed = _tiers(values, overrides.model, env, providers, listed)
    return Settings(
        lang=cast(Any, values[("lang",)].value),
        mode=cast(Any, values[("mode",)].value),
        prompts=_section(Prompts, "prompts", values),
        objective=_section(Objective, "objective", values),
        checks=_section(Checks, "checks", values),
        routing=_section(Routing, "routing", values),
        limits=_section(Limits, "limits", values),
        rules=_rules(levels.rules),
        providers=providers,
        models=listed,
        tiers={tier: cast(tuple[str, ...], entry.value) for tier, entry in tiers.items()},
        home=data_home(env),
        trusted=trusted,
        files=tuple(levels.files),
        ignored=tuple(levels.ignored),
        unknown_variables=_unknown_variables(env),
        origins=tuple(_origins(levels, tiers, env)),
    )


def _tiers(
    values: Values,
    option: str | None,
    env: Mapping[str, str],
    providers: Mapping[str, Provider],
    listed: dict[str, ModelSpec],
) -> tuple[dict[TierName, Entry], dict[str, ModelSpec]]:
    """The tiers, and all models they may name. `-m` and DUCKFLOW_MODEL speak for every tier."""
    configured = models.tiers(values, listed)
    wanted, origin = option, Origin("--model")
    if not wanted:
        wanted, origin = env.get("DUCKFLOW_MODEL"), Origin("DUCKFLOW_MODEL")
    if not wanted and configured:
        return configured, listed
    if wanted:
        spec = models.choose(wanted, providers, listed)
    else:
        spec = models.fallback(providers)
        origin = Origin((spec and spec.api_key_env) or "OLLAMA_HOST")
    if spec is None:
        return {}, listed
    return models.only(spec, origin), {**listed, spec.name: spec}


def _section(kind: type[S], name: str, values: Values) -> S:
    found = {item: values.get((name, item)) for item in kind._fields}  # without a default: None
    chosen: dict[str, Any] = {item: entry and entry.value for item, entry in found.items()}
    return kind(**chosen)


def _rules(found: list[Rule]) -> Rules:
    united = {
        name: tuple(dict.fromkeys(rule.pattern for rule in found if rule.list == name))
        for name in ("allow", "ask", "deny")
    }
    return Rules(**united)


def _unknown_variables(env: Mapping[str, str]) -> tuple[str, ...]:
    known = {*_VARIABLES, "DUCKFLOW_MODEL", "DUCKFLOW_HOME"}
    return tuple(sorted(name for name in env if name.startswith("DUCKFLOW_") and name not in known))


def _origins(levels: _Levels, tiers: Mapping[TierName, Entry], env: Mapping[str, str]) -> list[tuple[str, str, str]]:
    rows = [(key, entry) for key, entry in levels.values.items() if key[0] != "tiers"]
    rows += [(("tiers", tier), entry) for tier, entry in tiers.items()]
    rows += [(("rules", rule.list), Entry((rule.pattern,), rule.origin)) for rule in levels.rules]
    home = Origin("DUCKFLOW_HOME") if env.get("DUCKFLOW_HOME") else BUILT_IN
    rows.append((("home",), Entry(str(data_home(env)), home)))
    return [(dotted(key), _toml(entry.value), str(entry.origin)) for key, entry in rows]


def _toml(value: object) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return str(value)
