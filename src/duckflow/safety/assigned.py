"""Passwords without a form of their own, found by the name they are assigned to: `DB_PASSWORD=…`, `"token": "…"`.

Works on lines of any language, so it weighs: a literal goes, an expression, a placeholder or an ordinary word stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_STEMS = (
    "passw", "passphrase", "secret", "token", "credential", "apikey", "api_key", "api-key",
    "privatekey", "private_key", "private-key", "accesskey", "access_key", "access-key",
)  # fmt: skip
_HIT = re.compile("|".join(_STEMS), re.IGNORECASE | re.ASCII)
_NAME = re.compile(
    r"passw(?:or)?d|passphrase|secret|(?-i:[Tt]oken(?![a-z])|TOKEN(?![A-Z]))|credential|(?:api|private|access)[-_]?key",
    re.IGNORECASE,
)
_LEFT = re.compile(r"[A-Za-z0-9_-]{0,60}\Z", re.ASCII)
_WEIGHED = 200  # characters of a value that are looked at
# The rest of the name, its closing quote or bracket, a type, then one `=`, `:`, `:=` or `=>`.
_SIGN = re.compile(
    r"(?P<rest>[A-Za-z0-9_-]{0,60})(?P<quote>\\{0,3}[\"'`]?)\]?(?P<space>[ \t]{0,20})"
    r"(?::[ \t]{0,4}&?[A-Za-z_][\w.\[\], |]{0,40}?[ \t]{0,4}=(?![=>~])|=>|\?=|:?=(?![=>~])|:(?![:=]))"
    r"(?P<gap>[ \t]{0,20})"
)
_VALUE = re.compile(
    r"[rbfuRBFU]{0,2}(?:\"(?P<a>(?:[^\"\\\n]|\\.){8,1024}+)|'(?P<b>(?:[^'\\\n]|\\.){8,1024}+)"
    r"|`(?P<c>(?:[^`\\\n]|\\.){8,1024}+)|\\{1,3}[\"'](?P<d>[^\"'\\\n]{8,1024}+))"
    r"|(?P<bare>[^\s\"'`\\]{8,1024}+)"
)
_ENV = re.compile(r"[A-Z][A-Z0-9_]*")
_START = re.compile(r"(?:[^\n│]*│)?[+\- \t]*(?:export |set |setx |ENV |ARG |declare -x |readonly )?[\"']?")
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_ABOUT = frozenset((
    "field", "name", "env", "var", "variable", "file", "path", "dir", "url", "uri", "type", "kind", "len", "length",
    "size", "min", "max", "regex", "pattern", "re", "policy", "prompt", "label", "hint", "help", "text", "title",
    "message", "msg", "error", "count", "limit", "expiry", "expires", "ttl", "timeout", "age", "header", "endpoint",
    "arn", "class", "format", "placeholder", "schema", "store", "manager", "backend", "provider", "service",
    "algorithm", "hasher", "hashers", "validators", "selector", "input", "version", "at", "date", "description",
    "ref", "index", "pos", "prefix", "suffix", "source", "mode", "required", "enabled", "scope", "scopes", "audience",
    "issuer", "usage", "budget", "names", "form", "view", "template", "test", "tests"
))  # fmt: skip
"""Last words of names that speak about a secret instead of holding one."""
_KEYWORDS = frozenset((
    "password", "passwd", "passwords", "passphrase", "secret", "secrets", "token", "tokens", "key", "keys", "apikey",
    "credential", "credentials", "auth"
))  # fmt: skip
_PLAIN = frozenset((
    "disabled", "enabled", "required", "optional", "undefined", "notimplemented", "unchanged", "unknown", "inherited",
    "redacted", "same-origin"
))  # fmt: skip
_PLACEHOLDER = re.compile(
    r"<.*>?$|\[|\$[({A-Za-z_]|.*(?:\$\{|\{\{|%\(|\{[A-Za-z_][\w.]*[^}\n]*\})|%[\w]+%$|@\w+@$|\{\}|%s|"
    r".*(?:change[-_ ]?(?:me|this|it)|placeholder|redacted)|"
    r"(?:your|example|sample|dummy|insert|replace|enter|put|todo|fixme)(?![a-z])|"
    r"(.)\1*$|(?:x{3,}|\*{3,}|\.{3,})|.*(?:x{6}|\*{4}|…|\.{3}$)",
    re.IGNORECASE,
)
_ELSEWHERE = re.compile(r"(?:\.{0,2}|~|[A-Za-z]:)[/\\]|[A-Za-z][\w+.-]*://|arn:|file:|env:|//")
_REGEX = re.compile(r"\\[wdsWDSb]|\[\^|[aA]-[zZ]|0-9|\(\?|\.\*")
_REFERENCE = re.compile(
    r"&{0,2}[A-Za-z_]\w*(?:(?:\.|->|::|\?\.)[A-Za-z_]\w*)+[;,)\]}]*$"
    r"|[!&*]?[A-Za-z_][\w.:>-]*[(\[{<]"
)
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*[;,)\]}]*$", re.ASCII)
_NUMBER = re.compile(r"[-+]?[0-9][0-9_.,]*(?:e[-+]?[0-9]+)?[;,)\]}]*$|0x[0-9a-f]+$", re.IGNORECASE)
_TERMS = re.compile(
    r"oauth2|base64|base32|sha(?:1|256|384|512)|md5|utf8|hs256|rs256|x509|ed25519|(?<![a-z])v[0-9](?![0-9])", re.I
)
_ODD = re.compile("[0-9!@#$%^*+~?]")
_WORDY = re.compile(r"[A-Za-z#.\[*][A-Za-z\-_. /:#\[\]=*]*$")


def redact_assigned(text: str) -> str:
    """The text with literal values of secret-like names replaced by `[redacted:NAME]`."""
    out: list[str] = []
    done = 0
    for at in _hits(text):
        if at < done:
            continue
        found = _assigned(text, at)
        if found is not None:
            name, start, end = found
            out += [text[done:start], f"[redacted:{name}]"]
            done = end
    return "".join([*out, text[done:]]) if out else text


def _hits(text: str) -> Iterator[int]:
    lower = text.lower()
    if len(lower) != len(text):  # İ: places would not agree
        yield from (found.start() for found in _HIT.finditer(text))
        return
    places = []
    for stem in _STEMS:
        at = lower.find(stem)
        while at >= 0:
            places.append(at)
            at = lower.find(stem, at + len(stem))
    yield from sorted(places)


def _assigned(text: str, at: int) -> tuple[str, int, int] | None:
    """The name, and where the value that must go begins and ends."""
    sign = _SIGN.match(text, at)
    if sign is None:
        return None
    value = _VALUE.match(text, sign.end())
    if value is None:
        return None
    left = _LEFT.search(text[max(0, at - 60) : at])
    begin = at - len(left[0]) if left else at
    name = text[begin : sign.end("rest")]
    before = text[max(text.rfind("\n", max(0, begin - 200), begin) + 1, begin - 200) : begin]
    if before.endswith(("[redacted:", "?", "&")) or not _holds(name):
        return None
    name = name.strip("-") or name
    tight = "=" in sign[0] and not sign["space"] and not sign["gap"]
    env = tight and _ENV.fullmatch(name) is not None and _START.fullmatch(before) is not None
    kind = value.lastgroup or "bare"
    start, end = value.span(kind)
    if kind == "bare" and not env:
        end = start + len(re.split("[,;]", text[start:end], maxsplit=1)[0])
    elif kind == "bare":
        end = start + len(text[start:end].rstrip(",;"))
    literal = text[start : min(end, start + _WEIGHED)]
    if env:
        secret = kind != "bare" or not (_REFERENCE.match(literal) or re.fullmatch("[A-Z_]+", literal))
    else:
        secret = _bare(name, literal, before) if kind == "bare" else _quoted(name, literal)
    return (name, start, end) if secret and len(literal) >= 8 and not _harmless(name, literal) else None


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORDS.findall(name)]


def _holds(name: str) -> bool:
    """Whether something of this name usually is a secret, not about one."""
    words = _words(name)
    return _NAME.search(name) is not None and bool(words) and words[-1] not in _ABOUT


def _harmless(name: str, value: str) -> bool:
    """Placeholders, places and words like the name, wherever they stand."""
    low = value.strip().lower()
    return (
        low in _PLAIN
        or _PLACEHOLDER.match(value) is not None
        or _ELSEWHERE.match(value) is not None
        or re.sub(r"[\W_]", "", low) == re.sub(r"[\W_]", "", name.lower())
        or _named(value)
    )


def _named(value: str) -> bool:
    """`csrf_token`, `X-Api-Key`, `oauth2_secret`: the name of a secret."""
    plain = _TERMS.sub("x", value)
    return _WORDY.match(plain) is not None and not _KEYWORDS.isdisjoint(_words(plain))


def _is_password(name: str) -> bool:
    return re.search("passw|passphrase", name, re.IGNORECASE) is not None


def _quoted(name: str, value: str) -> bool:
    """Whether a text in quotes is a secret."""
    if re.search(r"\s", value) or _REGEX.search(value):
        return False
    plain = _TERMS.sub("x", value)
    if not re.search("[^A-Za-z]", plain):  # one word
        single = plain.islower() and "token" not in name.lower()
        return single or (not plain.istitle() and len(_words(plain)) > 3)
    if not plain.isascii() and plain.isalpha():
        return False
    if re.fullmatch(r"[A-Za-z_./:-]+", plain):  # several words
        return _is_password(name) and not plain.isupper()
    return re.fullmatch("[0-9_.,]+", value) is None or _is_password(name)


def _bare(name: str, value: str, before: str) -> bool:
    """Whether a text without quotes is a secret: it must not read like code."""
    if len(value) < 8 or not _ODD.search(value):
        return False
    if "://" in before.rpartition(" ")[2] or _REFERENCE.match(value) or value[0] in "()[]{}|<>*&!%@":
        return False
    if _NUMBER.match(value):
        return _is_password(name) and value.isdigit()
    code = before.rstrip()[-1:] in tuple("(,{[") or "_" in value
    if _IDENTIFIER.match(value) and (code or not _KEYWORDS.isdisjoint(_words(value))):
        return False
    plain = _TERMS.sub("x", value)
    return _ODD.search(plain) is not None and not plain.startswith("#") and plain.isascii()
