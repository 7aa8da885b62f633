"""`duckflow doctor`: is everything there that the work needs? Each line says ok, warn or fail, and what to do."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from duckflow import __version__
from duckflow.config import ModelSpec, Settings, data_home, resolve_model_chain
from duckflow.errors import DuckflowError
from duckflow.i18n import _, explain, listed
from duckflow.record import Record
from duckflow.ui.out import Out, has_colour, is_dumb, is_terminal, stdout, stream_width
from duckflow.ui.reach import reach
from duckflow.ui.safe import safe_line
from duckflow.ui.wrap import pad

Level = Literal["ok", "warn", "fail"]
_STYLES = {"ok": "green", "warn": "yellow", "fail": "red"}


class Finding(Record):
    level: Level
    what: str
    told: str
    todo: str = ""
    exit_code: int = 0  # of a failure


def examine(
    workspace: Path, env: Mapping[str, str], settings: Settings | None, problem: DuckflowError | None
) -> Iterator[Finding]:
    """One finding after the other; the slow ones last. `problem`: why the settings could not be read."""
    yield Finding("ok", "Duckflow", f"{__version__} · Python {sys.version.split()[0]}")
    yield _writable(_("workspace"), workspace)
    yield _writable(_("data directory"), data_home(env))
    yield _terminal(env)
    yield _git()
    yield Finding("warn", _("sandbox"), _("none yet: every command asks"))
    if problem is not None:
        told, todo = explain(problem)
        yield Finding("fail", _("settings"), safe_line(told), safe_line(todo), problem.exit_code)
    if settings is None:
        return
    names = listed(safe_line(str(path), exact=True) for path in settings.files)
    yield Finding("ok", _("settings"), names or _("built-in and environment"))
    for item in settings.ignored:
        yield Finding("warn", _("settings"), f"{safe_line(item.file)}: {safe_line(item.key)}: {_(item.reason)}")
    for name in settings.unknown_variables:
        yield Finding("warn", _("settings"), _("The variable {name} is not known.", name=safe_line(name)))
    yield from _models(settings, env)


def show(
    workspace: Path,
    env: Mapping[str, str],
    settings: Settings | None,
    problem: DuckflowError | None = None,
    out: Out | None = None,
) -> int:
    """Print the findings as they come. The exit code is that of the first failure, 0 without any."""
    out, code = out or stdout(), 0
    for finding in examine(workspace, env, settings, problem):
        mark = out.paint(pad(finding.level, 5), _STYLES[finding.level])
        first, *more = out.lines(f"{finding.what}: {finding.told}", indent="     ")
        out.line(mark + first[5:])
        for line in more:
            out.line(line)
        if finding.todo:
            out.block(finding.todo, first="     → ", indent="       ")
        if finding.level == "fail":
            code = code or finding.exit_code or 1
    return code


def _writable(what: str, folder: Path) -> Finding:
    """Tried, not guessed: permissions, a read-only disk and a full one look alike only this way."""
    shown = safe_line(str(folder), exact=True)
    there = folder
    while not there.exists() and there != there.parent:
        there = there.parent
    try:
        with tempfile.TemporaryFile(dir=there) as file:
            file.write(b"x")
    except OSError as error:
        why = safe_line(error.strerror or str(error))
        todo = _("Make it writable, free some space, or set DUCKFLOW_HOME to another directory.")
        return Finding("fail", what, f"{shown} ({why})", todo, 1)
    return Finding("ok", what, shown)


def _terminal(env: Mapping[str, str]) -> Finding:
    if not is_terminal(sys.stdout):
        return Finding("ok", _("terminal"), _("none: output goes to a file or a pipe"))
    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    if encoding != "utf8":
        told = _("its encoding is {encoding}", encoding=sys.stdout.encoding)
        return Finding("warn", _("terminal"), told, _("Set LANG to a UTF-8 locale, for example C.UTF-8."))
    if is_dumb(env):
        term = safe_line(env.get("TERM", "")) or "—"
        told = _("TERM is {term}: the chat works line by line, without colour", term=term)
        return Finding("warn", _("terminal"), told, _("Set TERM, for example xterm-256color."))
    colour = _("colour") if has_colour(sys.stdout, env) else _("no colour")
    return Finding("ok", _("terminal"), f"{env.get('TERM', '')} · {stream_width(sys.stdout)} × UTF-8 · {colour}")


def _git() -> Finding:
    found = shutil.which("git")
    if found is None:
        return Finding("warn", "git", _("not found; Duckflow works without it"))
    return Finding("ok", "git", safe_line(found, exact=True))


def _models(settings: Settings, env: Mapping[str, str]) -> Iterator[Finding]:
    if not settings.has_model:
        todo = _("Set a key such as OPENAI_API_KEY or ANTHROPIC_API_KEY, or name a provider in the settings file.")
        yield Finding("fail", _("model"), _("none is configured"), todo, 41)
        return
    specs: dict[str, ModelSpec] = {}
    for tier in ("creative", "fast", "evaluator"):
        chain = resolve_model_chain(settings, tier)
        names = " → ".join(safe_line(f"{spec.provider}/{spec.model}") for spec in chain)
        yield Finding("ok", _("tier {tier}", tier=tier), names)
        specs |= {spec.name: spec for spec in chain}
    for spec in specs.values():
        yield from _model(spec, env)


def _model(spec: ModelSpec, env: Mapping[str, str]) -> Iterator[Finding]:
    name = safe_line(f"{spec.provider}/{spec.model}")
    if spec.api_key_env and not env.get(spec.api_key_env):
        told = _("{variable} is not set", variable=safe_line(spec.api_key_env))
        todo = _("export {variable}=… with the key of the service", variable=safe_line(spec.api_key_env))
        yield Finding("fail", name, told, todo, 41)
        return
    key = _("{variable} is set", variable=safe_line(spec.api_key_env)) if spec.api_key_env else _("needs no key")
    yield Finding("ok", name, key)
    if spec.base_url and spec.kind in ("openai", "anthropic"):
        answer = reach(spec.kind, spec.base_url, env.get(spec.api_key_env or ""), spec.model)
        yield Finding(answer.level, name, answer.told, answer.todo, answer.exit_code)
