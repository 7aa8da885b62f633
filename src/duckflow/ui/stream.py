"""A Markdown text while it arrives: which blocks are finished and may be printed for good. Pure; knows no screen."""

from __future__ import annotations

import re

_LINE = re.compile(r"[^\n]*\n|[^\n]+$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")


class Stream:
    """Hands out finished blocks, each once. A block is finished when the next one has begun or its fence is closed."""

    def __init__(self) -> None:
        self.printed = ""  # everything handed out, byte for byte
        self._waiting = ""

    @property
    def started(self) -> bool:
        return bool(self.printed or self._waiting)

    @property
    def tail(self) -> str:
        """What has arrived and is not finished yet."""
        return self._waiting

    def feed(self, piece: str) -> str:
        """The blocks this piece finished, as they were written; empty when there are none."""
        self._waiting += piece
        if "\n" not in piece:
            return ""
        end = _finished(self._waiting)
        block, self._waiting = self._waiting[:end], self._waiting[end:]
        self.printed += block
        return block

    def rest(self, final: str) -> str:
        """What is left to print of the final text: all of it unless it goes on where the printing stopped."""
        same = final.startswith((self.printed, self.printed.rstrip()))
        return final[len(self.printed) :] if same else final


def _finished(text: str) -> int:
    """The offset up to which blocks are complete. Indented lines belong to the block before them."""
    end = position = 0
    fence, gap = "", False
    for line in _LINE.findall(text):
        begins = bool(line.strip()) and not line[0].isspace()
        if gap and begins and not fence:
            end = position
        if not line.endswith("\n"):
            break
        position += len(line)
        gap = not line.strip()
        mark = _FENCE.match(line)
        if mark and not fence:
            fence = mark[1]
        elif fence and mark and mark[1].startswith(fence) and not line.strip().strip(fence[0]):
            fence = ""
            end = position if not line[0].isspace() else end
    return end
