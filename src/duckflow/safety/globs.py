"""Glob patterns over paths (`*` stays within a name, `**` crosses) and over commands (`*` is any text)."""

from __future__ import annotations

import re
from functools import lru_cache

_SET = re.compile(r"\[(!?)(\]?[^\]/]*)\]")
_NOTHING = re.compile(r"(?!)")


def _chunk(chunk: str, any_char: str) -> str:
    """The regular expression of a piece of pattern without stars."""
    out, at = [], 0
    while at < len(chunk):
        found = _SET.match(chunk, at) if chunk[at] == "[" else None
        if found is not None and found[2]:
            body = re.sub(r"([\\\[\]^&~|])", r"\\\1", found[2])
            out.append(f"[{'^' if found[1] else ''}{body}]")
            at = found.end()
            continue
        out.append(any_char if chunk[at] == "?" else re.escape(chunk[at]))
        at += 1
    return "".join(out)


def _segment(segment: str, any_char: str) -> str:
    """Stars are atomic but for the last: matching stays linear, whatever pattern a model thinks of."""
    segment = re.sub(r"\[([*?\[])\]", lambda match: f"\0{'*?['.index(match[1])}", segment)
    first, *rest = (
        re.sub("\0([012])", lambda match: re.escape("*?["[int(match[1])]), _chunk(piece, any_char))
        for piece in re.split(r"\*+", segment)
    )
    if not rest:
        return first
    middle = "".join(f"(?>{any_char}*?{piece})" for piece in rest[:-1])
    return f"{first}{middle}{any_char}*{rest[-1]}"


def _compile(regex: str, fold: bool) -> re.Pattern[str]:
    try:
        return re.compile(regex, re.DOTALL | (re.IGNORECASE if fold else 0))
    except re.error:  # a reversed range in a set: nothing can be meant by it
        return _NOTHING


@lru_cache(maxsize=512)
def path_glob(pattern: str, *, fold: bool = False, own: bool = False) -> re.Pattern[str]:
    """For `fullmatch` against a path with forward slashes. `own`: `a/**` also stands for `a` itself."""
    if "\0" in pattern:
        return _NOTHING
    pattern = re.sub(r"(\*\*/)+", "**/", pattern.removeprefix("./"))
    if pattern.endswith("/"):
        pattern += "**"
    tail = ""
    if own and pattern.endswith("/**"):
        pattern, tail = pattern[:-3], "(?:/.*)?"
    segments = pattern.split("/")
    out = ""
    for at, segment in enumerate(segments):
        last = at == len(segments) - 1
        if segment == "**":
            out += ".*" if last else "(?:[^/]+/)*"
        else:
            out += _segment(segment, "[^/]") + ("" if last else "/")
    return _compile(out + tail, fold)


@lru_cache(maxsize=512)
def text_glob(pattern: str, *, fold: bool = False) -> re.Pattern[str]:
    """For `fullmatch` against a command or an operation's name: `*` is any text."""
    return _NOTHING if "\0" in pattern else _compile(_segment(pattern, "."), fold)


def escape(text: str) -> str:
    """A pattern that matches exactly this text."""
    return re.sub(r"[*?\[]", lambda match: f"[{match[0]}]", text)


def literal(pattern: str) -> str | None:
    """The only text a pattern without wildcards matches; None when it has wildcards."""
    if re.search(r"[*?\[]", re.sub(r"\[([*?\[])\]", "", pattern)):
        return None
    return re.sub(r"\[([*?\[])\]", r"\1", pattern)


def braces(pattern: str, limit: int = 64) -> list[str]:
    """`*.{ts,tsx}` spelt out as several patterns."""
    done: list[str] = []
    todo = [pattern]
    while todo and len(done) + len(todo) <= limit:
        current = todo.pop(0)
        found = re.search(r"\{([^{}]*,[^{}]*)\}", current)
        if found is None:
            done.append(current)
            continue
        todo += [current[: found.start()] + choice + current[found.end() :] for choice in found[1].split(",")]
    return done + todo[: max(0, limit - len(done))]
