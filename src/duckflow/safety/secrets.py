"""Keys and passwords out of texts before they reach a store, a log or a model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from duckflow.safety.assigned import redact_assigned

_NAMES = re.compile(
    r"(?:^|_)(?:API_?KEYS?|ACCESS_?KEYS?|SECRET_?KEYS?|PRIVATE_?KEYS?|KEY|TOKENS?|SECRETS?|PAT|CREDENTIALS?)$"
    r"|PASSWORD|PASSWD|PASSPHRASE|(?:^|_)(?:SECRET|TOKEN)_|_KEY_ID$",
    re.IGNORECASE,
)
_URL_PASSWORD = re.compile(r"://[^\s/@:]*:([^\s/@]+)@")
_MIN = 8
_ROUNDS = 20
_PLAIN = frozenset({"disabled", "enabled", "required", "optional", "password", "changeme"})

_PEM = (
    r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----(?:\\[nr]|[\s\"'+>|])*"
    r"(?:[A-Za-z][A-Za-z0-9-]{1,30}: [^\n\\]{1,200}(?:\\[nr]|\s)+){0,4}(?>[A-Za-z0-9+/=\s\\\"'>|]{32,20000})"
    r"(?:-----END (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----)?"
)
# name, the literal each begins with, what follows it. Texts without the literal cost one substring search.
_FORMS: tuple[tuple[str, str, str], ...] = (
    ("anthropic_key", "sk-ant-", r"[A-Za-z0-9_-]{16,}"),
    ("openrouter_key", "sk-or-", r"[A-Za-z0-9_-]{16,}"),
    (
        "openai_key",
        "sk-",
        r"(?:proj-|svcacct-|admin-|None-)?(?=[A-Za-z_-]{0,200}[0-9])"
        r"(?:[A-Za-z0-9]{20,}[A-Za-z0-9_-]*|(?=[a-z0-9_-]{0,200}[A-Z])[A-Za-z0-9_-]{32,})",
    ),
    ("stripe_key", "sk_live_", r"[A-Za-z0-9]{16,}"),
    ("stripe_key", "rk_live_", r"[A-Za-z0-9]{16,}"),
    *(("github_token", prefix, r"[A-Za-z0-9]{30,}") for prefix in ("ghp_", "gho_", "ghu_", "ghs_", "ghr_")),
    ("github_pat", "github_pat_", r"[A-Za-z0-9_]{30,}"),
    ("gitlab_token", "glpat-", r"[A-Za-z0-9_-]{18,}"),
    ("aws_key_id", "AKIA", r"[A-Z0-9]{16}(?![A-Za-z0-9])"),
    ("aws_key_id", "ASIA", r"[A-Z0-9]{16}(?![A-Za-z0-9])"),
    ("google_key", "AIza", r"[A-Za-z0-9_-]{35}"),
    ("google_oauth", "ya29.", r"[A-Za-z0-9_-]{20,}"),
    ("slack_token", "xox", r"[abeoprs]-[A-Za-z0-9-]{10,}"),
    ("groq_key", "gsk_", r"[A-Za-z0-9]{20,}"),
    ("huggingface_token", "hf_", r"[A-Za-z0-9]{30,}"),
    ("npm_token", "npm_", r"[A-Za-z0-9]{36}(?![A-Za-z0-9])"),
    ("pypi_token", "pypi-AgE", r"[A-Za-z0-9_-]{40,}"),
    ("jwt", "eyJ", r"[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"),
)


def _known() -> tuple[tuple[str, str, re.Pattern[str]], ...]:
    """Compiled so that the search starts at the literal; what stands before it is looked at afterwards."""
    forms = [
        (name, start, re.compile(f"{re.escape(start)}(?<![A-Za-z0-9_+/-]{re.escape(start)}){rest}"))
        for name, start, rest in _FORMS
    ]
    bearer = r"Bearer (?=[A-Za-z._~+/-]{0,200}[0-9])[A-Za-z0-9._~+/-]{16,}=*"
    return (
        ("private_key", "-----BEGIN ", re.compile(_PEM)),
        *forms,
        ("bearer", "Bearer ", re.compile(bearer)),
    )


_KNOWN = _known()


def contains_secret(text: str) -> bool:
    """Whether a well-known form of key stands in the text."""
    return any(start in text and pattern.search(text) for _name, start, pattern in _KNOWN)


def looks_secret(name: str) -> bool:
    """Whether an environment variable of this name usually holds a key."""
    return bool(_NAMES.search(name))


class Redactor:
    """Replaces values of key-like variables, well-known forms of keys and assigned passwords by `[redacted:NAME]`."""

    def __init__(self, env: Mapping[str, str]) -> None:
        found: dict[str, str] = {}
        for name in sorted(env):
            for value in _values(name, env[name]):
                found.setdefault(value, name)
        marks = [_mark(name) for name in {*found.values(), *(name for name, _start, _p in _KNOWN)}]
        usable = [value for value in found if not any(value in mark for mark in marks)]
        self._values = [(value, _mark(found[value])) for value in sorted(usable, key=len, reverse=True)]

    def redact(self, text: str) -> str:
        """The text without secrets. Doing it twice changes nothing more."""
        for _round in range(_ROUNDS):  # what stood before a key may have hidden it; taken away, it shows
            before, text = text, self._once(text)
            if text == before:
                break
        return text

    def _once(self, text: str) -> str:
        for value, mark in self._values:
            if value in text:
                text = text.replace(value, mark)
        for name, start, pattern in _KNOWN:
            if start in text:
                kept = start if name == "bearer" else ""
                text = pattern.sub(kept + _mark(name), text)
        return redact_assigned(text)


def _mark(name: str) -> str:
    return f"[redacted:{name}]"


def _values(name: str, value: str) -> Iterator[str]:
    """What of a variable must not be seen: the value, each long line of it, a password in an address."""
    for found in _URL_PASSWORD.finditer(value):
        if len(found[1]) >= _MIN:
            yield found[1]
    if not looks_secret(name):
        return
    for line in (value.strip(), *value.strip().splitlines()):
        line = line.strip()
        if len(line) >= _MIN and line.lower() not in _PLAIN and not _harmless(line):
            yield line


def _harmless(value: str) -> bool:
    """Paths, numbers and PEM frames under a key-like name (TOKEN_LIMIT, TLS_KEY) occur in ordinary text."""
    return value.isdigit() or value.startswith(("/", "./", "~/", "-----"))
