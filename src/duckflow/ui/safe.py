"""Text nobody vouches for (models, files, commands) made safe to print: seen, never obeyed. Knows only characters."""

from __future__ import annotations

import re

_ODD_SPACES = "\u00a0\u1680\u2000-\u200a\u202f\u205f"
_UNSEEN = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 without tab and line feed, DEL, C1
    "\u00ad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    "\ud800-\udfff"
    "\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_ANY = re.compile(f"[{_UNSEEN}]")
_EXACT = re.compile(f"[{_UNSEEN}{_ODD_SPACES}]")
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
# Only a look is chosen by these, and only right after a symbol: "⚠️". Terminals disagree on its width.
_EMOJI_STYLE = re.compile("(?<=[\u00a9\u00ae\u203c-\u3299\U0001f000-\U0001faff])[\ufe0e\ufe0f]")


def _escape(match: re.Match[str]) -> str:
    return f"‹U+{ord(match[0]):04X}›"


def safe(text: str, *, exact: bool = False) -> str:
    """Every control, invisible or direction-changing character spelt out (‹U+202E›); tabs and line feeds stay.

    `exact`: for commands and paths, where every character counts; there unusual spaces are spelt out too.
    """
    text = text.replace("\r\n", "\n")
    if exact:
        return _EXACT.sub(_escape, text)
    return _ANY.sub(_escape, _EMOJI_STYLE.sub("", text))


def safe_line(text: str, *, exact: bool = False) -> str:
    """The same on one line: line ends become ⏎ where they matter, a space elsewhere."""
    joint = "⏎" if exact else " "
    return joint.join(safe(text, exact=exact).strip("\n").split("\n")).replace("\t", " ")


def safe_json(line: str) -> str:
    """A line of JSON whose remaining control characters are escaped the JSON way: the same value, harmless to see."""
    return _CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", line)
