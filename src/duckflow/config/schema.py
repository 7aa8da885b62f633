"""Which keys exist, what they may hold, their defaults, and what an untrusted project may do with them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple, cast, get_args

from duckflow.config import operations
from duckflow.config.settings import LangSetting, Mode, ProviderKind
from duckflow.errors import N_

Key = tuple[str, ...]
Check = Callable[[object], object]

MODES: tuple[str, ...] = get_args(Mode)  # strictest first
TIERS = ("creative", "fast", "evaluator")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RULE = re.compile(r"[a-z*?][a-z0-9_*?]*(\.[a-z0-9_*?]+)*(:.+)?", re.DOTALL)


class Problem(Exception):
    """A value that cannot be. `message` is a message id with {what} (the place and the key) and the params."""

    def __init__(self, message: str, *, hint: str = "", **params: object) -> None:
        super().__init__(message)
        self.message, self.hint, self.params = message, hint, params


class Field(NamedTuple):
    check: Check  # returns the value to use or raises Problem
    default: object = None
    untrusted: Literal["no", "yes", "lower", "higher"] = "no"  # what counts from a folder nobody trusts yet

    def loosens(self, new: object, current: object) -> bool:
        """Whether an untrusted file would widen what is allowed."""
        if self.untrusted in ("no", "yes"):
            return self.untrusted == "no"
        rank_new, rank_current = _rank(new), _rank(current)
        return rank_new > rank_current if self.untrusted == "lower" else rank_new < rank_current


Tree = dict[str, "Field | Tree"]


def _rank(value: object) -> float:
    if isinstance(value, str):
        return MODES.index(value)
    assert isinstance(value, int | float)
    return value


def choice(*choices: str) -> Check:
    def check(value: object) -> object:
        if value not in choices:
            raise Problem(N_("{what} must be one of: {choices}."), choices=", ".join(choices))
        return value

    return check


def whole(low: int) -> Check:
    def check(value: object) -> object:
        if not isinstance(value, int) or isinstance(value, bool) or value < low:
            raise Problem(N_("{what} must be a whole number, {low} or more."), low=low)
        return value

    return check


def number(low: float, high: float = math.inf, above: bool = False) -> Check:
    """A finite number from low to high; `above`: greater than low."""

    def check(value: object) -> object:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if is_number and low <= cast(float, value) <= min(high, 1e12) and not (above and value == low):
            return float(cast(float, value))
        if above:
            raise Problem(N_("{what} must be a number above {low}."), low=f"{low:g}")
        if high == math.inf:
            raise Problem(N_("{what} must be a number, {low} or more."), low=f"{low:g}")
        raise Problem(N_("{what} must be a number from {low} to {high}."), low=f"{low:g}", high=f"{high:g}")

    return check


def text(value: object) -> object:
    if not isinstance(value, str) or not value.strip():
        raise Problem(N_("{what} must be text and not empty."))
    return value


def texts(value: object) -> object:
    if not isinstance(value, list) or not all(isinstance(item, str) and item.strip() for item in value):
        raise Problem(N_("{what} must be a list of texts."))
    return tuple(value)


def chain(value: object) -> object:
    """A model's name or a list of them, first choice first."""
    names = texts([value] if isinstance(value, str) else value)
    if not names:
        raise Problem(N_("{what} must name at least one model."))
    return names


def rules(value: object) -> object:
    patterns = texts(value)
    assert isinstance(patterns, tuple)
    for pattern in patterns:
        if not _RULE.fullmatch(pattern):
            raise Problem(
                N_("{what}: “{pattern}” is not a rule."),
                hint=N_("A rule is an operation or operation:glob, for example shell.run:pytest* or file_ops.*"),
                pattern=printable(pattern),
            )
        _check_operation(pattern)
    return patterns


def _check_operation(pattern: str) -> None:
    """A rule for an operation that does not exist would protect nobody."""
    operation = pattern.partition(":")[0].strip()
    if operations.is_known(operation):
        return
    message = N_("{what}: no operation matches “{operation}”.")
    if close := operations.nearest(operation):
        raise Problem(message, hint=N_("Did you mean {nearest}?"), operation=operation, nearest=close)
    known = ", ".join(operations.OPERATIONS)
    raise Problem(message, hint=N_("Operations: {known}."), operation=operation, known=known)


def url(value: object) -> object:
    if not isinstance(value, str) or not re.match(r"https?://[^/\s]", value):
        raise Problem(N_("{what} must be an address that starts with http:// or https://."))
    if "@" in value.split("/")[2]:
        raise Problem(N_("{what} must not carry a user name or password."), hint=KEY_HINT)
    return value.rstrip("/")


def variable(value: object) -> object:
    # Never repeat the value: it may be the key itself.
    if not isinstance(value, str) or not _VARIABLE.fullmatch(value):
        raise Problem(N_("{what} must be the name of an environment variable, not the key."), hint=KEY_HINT)
    return value


def no_key(_value: object) -> object:
    raise Problem(N_("{where}: keys never stand in a file ({key})."), hint=KEY_HINT)


def output(value: object) -> object:
    choice("text", "tool", "json_schema")(value)
    if value != "text":
        raise Problem(
            N_("{what} = “{value}” is not supported by this version."),
            hint=N_('Use output = "text" or leave the line out.'),
            value=value,
        )
    return value


KEY_HINT = N_("Put the key into an environment variable and its name into api_key_env.")
SECRETS = ("api_key", "apikey", "key", "token", "secret", "password")

TREE: Tree = {
    "lang": Field(choice(*get_args(LangSetting)), "auto", "yes"),
    "mode": Field(choice(*MODES), "ask", "lower"),
    "providers": {
        "*": {
            "kind": Field(choice(*get_args(ProviderKind))),
            "base_url": Field(url),
            "api_key_env": Field(variable),
            **{name: Field(no_key) for name in SECRETS},
        }
    },
    "models": {
        "*": {
            "provider": Field(text),
            "model": Field(text),
            "window": Field(whole(1)),
            "output": Field(output),
            "max_output": Field(whole(1)),
            "price": {name: Field(number(0)) for name in ("input", "cached_input", "output")},
        }
    },
    "tiers": {name: Field(chain) for name in TIERS},
    "prompts": {
        "profile": Field(choice("full", "compact"), "full"),
        "lang": Field(choice("en", "ja"), "en"),
        "base_max_tokens": Field(whole(1), 500),
        "main_max_tokens": Field(whole(1), 800),
        "specialized_max_tokens": Field(whole(1), 1200),
    },
    "objective": {
        "satisfaction": Field(number(0, 1), 0.8, "higher"),
        "max_attempts": Field(whole(1), 3, "lower"),
    },
    "checks": {"commands": Field(texts, ())},
    "routing": {"clarify_below": Field(number(0, 1), 0.5), "judge_below": Field(number(0, 1), 0.8)},
    "limits": {
        "max_turns": Field(whole(1), 40, "lower"),
        "max_cost_usd": Field(number(0), 5.0, "lower"),
        "gate_timeout_s": Field(number(0, above=True), 600.0, "lower"),
        "first_byte_s": Field(number(0, above=True), None, "lower"),
        "idle_s": Field(number(0, above=True), None, "lower"),
        "total_s": Field(number(0, above=True), None, "lower"),
    },
    "rules": {"allow": Field(rules, ()), "ask": Field(rules, (), "yes"), "deny": Field(rules, (), "yes")},
}


def find(key: Key) -> Field:
    node: Field | Tree = TREE
    for part in key:
        assert isinstance(node, dict)
        node = node.get(part) or node["*"]
    assert isinstance(node, Field)
    return node


def leaves(tree: Tree = TREE, prefix: Key = ()) -> Iterator[tuple[Key, Field]]:
    """Every key with its field; `*` stands for a name the user chooses."""
    for name, node in tree.items():
        if isinstance(node, Field):
            yield (*prefix, name), node
        else:
            yield from leaves(node, (*prefix, name))


def dotted(key: Key) -> str:
    return ".".join(part if _BARE.fullmatch(part) else f'"{printable(part)}"' for part in key)


def printable(text: str) -> str:
    """A project's file is nobody's word: no escape sequence from it may reach the terminal."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def nearest(name: str, prefix: Key, tree: Tree) -> str:
    """The known key the user most likely meant, written in full, or nothing."""
    from difflib import get_close_matches

    here = [known for known in tree if known != "*" and known not in SECRETS]
    if close := get_close_matches(name, here, 1):
        return dotted((*prefix, close[0]))
    elsewhere = {key[-1]: key for key, _ in leaves() if key[-1] not in SECRETS}
    if close := get_close_matches(name, elsewhere, 1, 0.8):
        return dotted(elsewhere[close[0]]).replace('"*"', "NAME")
    return ""
