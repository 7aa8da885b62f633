"""Raw blocks: long text that travels after the JSON object, byte for byte. Knows nothing of JSON.

    <<<NAME
    any text
    NAME>>>

The text of a block is every line between its two marker lines, line ends included. Only LF ends a line (a CR
before it belongs to it). Markers of other names inside a block are text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

NAME = r"[A-Za-z0-9_.-]+"

_OPENING = re.compile(rf"^<<<({NAME})[ \t]*\r?(?:\n|\Z)", re.MULTILINE)
_CLOSING = re.compile(rf"^({NAME})>>>\r?$", re.MULTILINE)
_FENCE = re.compile(r"^[ \t]*(?:```|~~~)[\w.+-]*[ \t]*\r?$", re.MULTILINE)


@dataclass(slots=True)
class Blocks:
    texts: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    strays: list[str] = field(default_factory=list)  # closing lines of blocks that were never opened
    outside: str = ""  # what stands between and after the blocks, without code fences


def read_blocks(text: str, start: int) -> Blocks:
    """All blocks from `start` on."""
    blocks, outside, position = Blocks(), [], start
    while (opening := _OPENING.search(text, position)) is not None:
        outside.append(text[position : opening.start()])
        name, position = opening[1], len(text)
        closing = _closing(name).search(text, opening.end())
        if closing is None:
            blocks.problems.append(
                f'Block "{name}" (opened in line {line_of(text, opening.start())}) is not closed: '
                f"write {name}>>> alone on its own line after its text."
            )
            break
        if name in blocks.texts:
            line = line_of(text, opening.start())
            blocks.problems.append(f'Block "{name}" is defined twice, again in line {line}: use two names.')
        blocks.texts[name] = text[opening.end() : closing.start()]
        position = closing.end()
    outside.append(text[position:])
    _look_at_the_rest(blocks, "\n".join(outside))
    return blocks


def skip_block(text: str, start: int, end: int) -> int | None:
    """Where the first block that opens between `start` and `end` is over. None: none opens there."""
    opening = _OPENING.search(text, start, end)
    if opening is None:
        return None
    closing = _closing(opening[1]).search(text, opening.end())
    return len(text) if closing is None else closing.end()


def unfinished(text: str, name: str) -> str | None:
    """The text of a block whose end may be missing. For display only."""
    for opening in _OPENING.finditer(text):
        if opening[1] == name:
            closing = _closing(name).search(text, opening.end())
            return text[opening.end() :] if closing is None else text[opening.end() : closing.start()]
    return None


def opens(line: str) -> str | None:
    """The name of the block this line opens."""
    opening = _OPENING.fullmatch(line)
    return opening[1] if opening else None


def line_of(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def without_fences(text: str) -> str:
    return _FENCE.sub("", text).strip()


def _closing(name: str) -> re.Pattern[str]:
    return re.compile(rf"^{re.escape(name)}>>>\r?$", re.MULTILINE)


def _look_at_the_rest(blocks: Blocks, rest: str) -> None:
    for name in _CLOSING.findall(rest):
        if name in blocks.texts:  # its text holds its own closing line: what was read is only the beginning
            blocks.problems.append(
                f'Block "{name}" is closed twice: its text contains the line {name}>>>. Use another name.'
            )
        else:
            blocks.strays.append(name)
    blocks.outside = without_fences(_CLOSING.sub("", rest))
