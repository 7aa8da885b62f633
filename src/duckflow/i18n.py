"""The language of what people read: stdlib gettext over English message ids. Knows errors only by their shape."""

from __future__ import annotations

import gettext as _gettext
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

from duckflow.errors import DuckflowError, fill

Lang = Literal["en", "ja"]

_LOCALE = Path(__file__).parent / "locale"
_current: _gettext.NullTranslations = _gettext.NullTranslations()
_lang: Lang = "en"


def set_language(lang: Lang) -> None:
    """Choose the language of every later message of this process."""
    global _current, _lang
    _lang = lang
    _current = (
        _gettext.NullTranslations()
        if lang == "en"
        else _gettext.translation("duckflow", _LOCALE, [lang], fallback=True)
    )


def language() -> Lang:
    return _lang


def _(message: str, /, **params: object) -> str:
    """Translate a message id and fill its {placeholders}."""
    text = _current.gettext(message) if message else ""
    return fill(text, params) if params else text


def ngettext(one: str, many: str, n: int, /, **params: object) -> str:
    """Translate a message with a number in it: `one` for 1, `many` otherwise; {n} is the number."""
    return fill(_current.ngettext(one, many, n), {"n": n, **params})


def listed(parts: Iterable[str]) -> str:
    """Names or phrases side by side: a, b, c."""
    return _(", ").join(part for part in parts if part)


def clauses(parts: Iterable[str]) -> str:
    """Statements side by side: a; b; c."""
    return _("; ").join(part for part in parts if part)


def explain(error: DuckflowError) -> tuple[str, str]:
    """What happened and what to do next, in the user's language."""
    return _(error.message, **error.params), _(error.hint, **error.params)


def detect(setting: str, env: Mapping[str, str] | None = None, sample: str = "") -> Lang:
    """`ja` or `en` from the setting, the locale, or (where the locale says nothing) the user's own words."""
    if setting in ("ja", "en"):
        return "ja" if setting == "ja" else "en"
    env = os.environ if env is None else env
    locale = env.get("LC_ALL") or env.get("LC_MESSAGES") or env.get("LANG") or ""
    if locale.startswith("ja"):
        return "ja"
    if locale.split(".")[0] in ("", "C", "POSIX") and any("\u3040" <= ch <= "\u30ff" for ch in sample):
        return "ja"
    return "en"
