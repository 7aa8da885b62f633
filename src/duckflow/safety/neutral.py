"""Text from files, commands and models made harmless for a terminal or a prompt: shown, never obeyed."""

from __future__ import annotations

import re

_SGR = re.compile(r"(?:\x1b\[|\x9b)[0-9;:]*m")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_INVISIBLE = re.compile(
    "[\u00ad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\ufff9-\ufffb\uffa0"
    "\U000e0000-\U000e0fff]|(?<=[\x00-\x7f])[\u200c\u200d]|[\u200c\u200d](?=[\x00-\x7f]|$)"
)


def _picture(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"<U+{code:04X}>"


def neutral(text: str) -> str:
    """Control characters as visible pictures, line ends as LF, colours removed: an output for the model."""
    text = _SGR.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROL.sub(_picture, text)


def pictured(text: str) -> str:
    """The same for the text of a file, where a lone CR is a character to be seen and nothing is removed."""
    return _CONTROL.sub(_picture, text)


def visible(text: str) -> str:
    """For a screen where a person decides: also invisible and direction-changing characters are spelt out."""
    return _INVISIBLE.sub(lambda match: f"<U+{ord(match[0]):04X}>", neutral(text))


def has_invisible(text: str) -> bool:
    """Whether a command or name holds characters a reader would not see as they are."""
    return bool(_INVISIBLE.search(text) or re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", text))


def one_line(text: str, limit: int) -> str:
    """Visible, on one line, at most `limit` characters."""
    flat = " ".join(visible(text).split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"
