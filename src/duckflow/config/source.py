"""Reads one settings file: TOML to checked values, each with the file and line it stands on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from duckflow.config.schema import SECRETS, TREE, Field, Key, Problem, Tree, dotted, nearest
from duckflow.errors import N_, ConfigError, UsageError

_NAME = r"""(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')"""
_NAMES = rf"{_NAME}(?:\s*\.\s*{_NAME})*"
_HEADER = re.compile(rf"\s*\[{{1,2}}\s*({_NAMES})\s*\]{{1,2}}\s*(?:#.*)?$")
_ASSIGNMENT = re.compile(rf"\s*({_NAMES})\s*=")
_PART = re.compile(_NAME)
_POSITION = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")


class Origin(NamedTuple):
    """Where a value came from: a file with a line, a variable, an option, or built in."""

    name: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.name}:{self.line}" if self.line else self.name


class Entry(NamedTuple):
    value: object
    origin: Origin


Values = dict[Key, Entry]
BUILT_IN = Origin("built-in")


def error(problem: Problem, origin: Origin, key: str) -> ConfigError | UsageError:
    """The user's version of a problem: wrong usage when it was said on the command line."""
    kind = UsageError if origin.name.startswith("-") else ConfigError
    where = str(origin)
    what = key if where == key else f"{where}: {key}"  # an option or a variable is its own place
    return kind(problem.message, hint=problem.hint, **{**problem.params, "where": where, "key": key, "what": what})


def check(field: Field, value: object, origin: Origin, key: str) -> Entry:
    try:
        return Entry(field.check(value), origin)
    except Problem as problem:
        raise error(problem, origin, key) from None


def read(path: Path) -> Values:
    """Raises ConfigError when the file cannot be read, is not TOML, or says something unknown."""
    import tomllib

    try:
        source = path.read_bytes().decode("utf-8-sig")
    except OSError as problem:
        reason = problem.strerror or type(problem).__name__
        raise ConfigError(N_("{where}: cannot be read: {problem}"), where=str(path), problem=reason) from None
    except UnicodeDecodeError:
        raise ConfigError(N_("{where}: is not UTF-8 text."), where=str(path)) from None
    try:
        data = tomllib.loads(source)
    except ValueError as problem:  # TOMLDecodeError, or a number with thousands of digits
        raise _not_toml(path, source, str(problem)) from None
    except RecursionError:
        raise _not_toml(path, source, "nested too deeply (at end of document)") from None
    return dict(_flatten(data, TREE, (), path, source))


def _not_toml(path: Path, source: str, problem: str) -> ConfigError:
    found = _POSITION.search(problem)
    line = int(found[1]) if found and found[1] else source.count("\n") + 1
    reason = _POSITION.sub("", problem)
    return ConfigError(N_("{where}: is not valid TOML: {problem}"), where=str(Origin(str(path), line)), problem=reason)


def _flatten(data: dict[str, object], tree: Tree, prefix: Key, path: Path, source: str) -> Iterator[tuple[Key, Entry]]:
    for name, value in data.items():
        key = (*prefix, name)
        node = tree.get(name) if name != "*" else None
        node = tree.get("*") if node is None else node
        if node is None:
            raise error(_unknown(name, prefix, tree), Origin(str(path), _line(source, key)), dotted(key))
        if isinstance(node, Field):
            yield key, check(node, value, Origin(str(path), _line(source, key)), dotted(key))
        elif isinstance(value, dict):
            yield from _flatten(value, node, key, path, source)
        else:
            problem = Problem(N_("{what} must be a table, [{key}]."))
            raise error(problem, Origin(str(path), _line(source, key)), dotted(key))


def _unknown(name: str, prefix: Key, tree: Tree) -> Problem:
    message = N_("{where}: unknown key {key}.")
    if close := nearest(name, prefix, tree):
        return Problem(message, hint=N_("Did you mean {nearest}?"), nearest=close)
    known = ", ".join(dotted((*prefix, name)) for name in tree if name not in SECRETS)
    return Problem(message, hint=N_("Known here: {known}."), known=known)


def _line(source: str, key: Key) -> int:
    """The line that sets the key, or that of what holds it (an inline table, a section)."""
    table: Key = ()
    best, best_length = 1, 0
    for number, text in enumerate(source.splitlines(), 1):
        if header := _HEADER.match(text):
            table = found = _split(header[1])
        elif assignment := _ASSIGNMENT.match(text):
            found = (*table, *_split(assignment[1]))
        else:
            continue
        length = len(key) if found[: len(key)] == key else len(found) if key[: len(found)] == found else 0
        if length > best_length:
            best, best_length = number, length
    return best


def _split(name: str) -> Key:
    return tuple(part.strip("\"'") for part in _PART.findall(name))
