"""Watching a reply as it streams: how much of `reply` is there, what stands beside it. For display only."""

from __future__ import annotations

import re

from duckflow.llm.blocks import opens
from duckflow.record import Record

_START = re.compile(r'\{(?=\s*["}])')
_PLAIN = re.compile(r'[^"\\]+')
_SYNTAX = re.compile(r'["{}\[\]:,]')
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_THINKING = re.compile(r"\s*<(think|thinking|reasoning)>")
_KNOWN = frozenset({"reply", "actions", "rationale", "goal_consistency"})


class PartialReply(Record):
    text: str = ""  # of `reply` so far, unescaped
    actions_seen: bool = False  # the field `actions` is there, to its end or to its first action
    actions_empty: bool = True  # no action has appeared
    operations: tuple[str, ...] = ()  # of the actions so far
    next_step: str | None = None
    complete: bool = False  # `reply` has come to its end
    closed: bool = False  # the object has come to its end: what is absent now stays absent


def partial_reply(prefix: str) -> PartialReply:
    """What is there of a reply, from its beginning."""
    return ReplyWatcher().feed(prefix)


class ReplyWatcher:
    """Feed the pieces as they come; each is read once."""

    def __init__(self) -> None:
        self._text = ""
        self._buffer = ""  # before the object: what was not yet searched; after it: the unfinished line
        self._thoughts_end: str | None = None  # what ends the model's thoughts; "": there are none any more
        self._scan: _Scan | None = None
        self._closed = False
        self._inside: str | None = None  # the block that is open
        self._complete = False

    def feed(self, piece: str) -> PartialReply:
        if not self._closed:
            piece = self._object(piece)
        if self._closed:
            self._after(piece)
        return self._seen()

    def _seen(self) -> PartialReply:
        scan = self._scan
        if scan is None:
            return PartialReply()
        scan.reply[:] = ["".join(scan.reply)]
        return PartialReply(
            text=scan.reply[0] + self._text,
            actions_seen=scan.actions_seen,
            actions_empty=not scan.actions_begun,
            operations=tuple(scan.operations),
            next_step=scan.next_step,
            complete=scan.reply_over if scan.block is None else self._complete,
            closed=self._closed,
        )

    def _object(self, piece: str) -> str:
        """Read up to the end of the object; what follows it is given back."""
        while piece:
            if self._scan is None:
                piece = self._found(piece)
                if not piece:
                    return ""
                self._scan = _Scan()
            piece, over = self._scan.read(piece)
            if not over:
                return ""
            if self._scan.keys & _KNOWN:
                self._closed = True
                return piece
            self._scan = None  # an example in the prose
        return ""

    def _found(self, piece: str) -> str:
        """From the brace of the object on; empty while it has not come."""
        self._buffer += piece
        if self._thoughts_end is None:  # only at the very beginning
            thinking = _THINKING.match(self._buffer)
            if thinking is not None:
                self._thoughts_end = f"</{thinking[1]}>"
            elif len(self._buffer.lstrip()) > len("<reasoning>"):
                self._thoughts_end = ""
        if self._thoughts_end:
            _, end, rest = self._buffer.partition(self._thoughts_end)
            self._buffer = rest if end else self._buffer[-len(self._thoughts_end) :]
            if not end:
                return ""
            self._thoughts_end = ""
        start = _START.search(self._buffer)
        if start is not None:
            found, self._buffer = self._buffer[start.start() :], ""
            return found
        if len(self._buffer) >= 64:  # prose; only an open brace can still become the beginning
            brace = self._buffer.rfind("{")
            kept = brace >= 0 and not self._buffer[brace + 1 :].strip()
            self._buffer = self._buffer[brace:] if kept else ""
        return ""

    def _after(self, piece: str) -> None:
        """A `reply` that is a block follows the object."""
        wanted = self._scan.block if self._scan else None
        if wanted is None or self._complete:
            return
        *lines, rest = (self._buffer + piece).split("\n")
        shown = len(self._buffer) if self._inside == wanted and self._showable(self._buffer) else 0
        for line in lines:
            if self._inside is None:
                self._inside = opens(line + "\n")
            elif line.removesuffix("\r") == f"{self._inside}>>>":
                self._complete = self._inside == wanted
                self._inside = None
                if self._complete:
                    return
            elif self._inside == wanted:
                self._text += line[shown:] + "\n"
            shown = 0
        self._buffer = rest
        if self._inside == wanted and self._showable(rest):
            self._text += rest[shown:]

    def _showable(self, line: str) -> bool:
        """An unfinished line that cannot become the closing one."""
        return bool(line) and not f"{self._inside}>>>\r".startswith(line)


class _Scan:
    """A JSON object read piece by piece, just closely enough to know where it stands."""

    def __init__(self) -> None:
        self.reply: list[str] = []
        self.reply_over = False
        self.block: str | None = None
        self.actions_seen = False
        self.actions_begun = False
        self.operations: list[str] = []
        self.next_step: str | None = None
        self.keys: set[str] = set()
        self._stack: list[str] = []  # open brackets
        self._path: list[str] = []  # the current key at each depth
        self._key_next = False
        self._string: _String | None = None

    def read(self, piece: str) -> tuple[str, bool]:
        """What is left of the piece after the object's end, and whether it ended."""
        at = 0
        while at < len(piece):
            if self._string is not None:
                at = self._string.read(piece, at)
                if self._string.over:
                    self._ended(self._string)
                    self._string = None
                continue
            sign = _SYNTAX.search(piece, at)
            self._value_seen(piece[at : sign.start() if sign else len(piece)])
            if sign is None:
                break
            at = sign.end()
            if self._syntax(sign[0]):
                return piece[at:], True
        return "", False

    def _syntax(self, sign: str) -> bool:
        if sign not in "]},:":
            self._value_seen(sign)
        if sign == '"':
            self._string = _String(self._sink())
        elif sign in "{[":
            self._stack.append(sign)
            self._path.append("")
            self._key_next = sign == "{"
        elif sign in "}]":
            del self._stack[-1:], self._path[-1:]
            self._key_next = False
            self.actions_seen |= self._path == ["actions"]  # an array that is still open may yet hold one
            return not self._stack
        elif sign == ",":
            self.actions_seen |= self._path == ["actions"]
            self._key_next = self._stack[-1:] == ["{"]
        else:
            self._key_next = False
        return False

    def _value_seen(self, text: str) -> None:
        if not self.actions_begun and self._path == ["actions", ""] and text.strip():
            self.actions_begun = self.actions_seen = True

    def _sink(self) -> list[str] | None:
        """Where the text of the string that begins here is wanted."""
        if self._key_next or self._path in (["next_step"], ["reply", "block"], ["actions", "", "operation"]):
            return []
        if self._path == ["reply"]:
            self.reply.clear()
            return self.reply
        return None

    def _ended(self, string: _String) -> None:
        text = "".join(string.sink or ())
        if self._key_next:
            self._key_next = False
            self._path[-1] = text
            if len(self._path) == 1:
                self.keys.add(text)
        elif self._path == ["reply"]:
            self.reply_over = True
        elif self._path == ["reply", "block"]:
            self.block = text
        elif self._path == ["next_step"]:
            self.next_step = text
        elif self._path == ["actions", "", "operation"]:
            self.operations.append(text)


class _String:
    """A JSON string read piece by piece. Without a sink it is only skipped."""

    def __init__(self, sink: list[str] | None) -> None:
        self.sink = sink
        self.over = False
        self._escape: str | None = None  # what came after a backslash
        self._high = ""  # the first half of a character written as two escapes

    def read(self, piece: str, at: int) -> int:
        while at < len(piece) and not self.over:
            if self._escape is not None:
                self._escape += piece[at]
                at += 1
                self._unescape()
                continue
            plain = _PLAIN.match(piece, at)
            if plain is not None:
                self._add(plain[0])
                at = plain.end()
                continue
            self.over = piece[at] == '"'
            self._escape = None if self.over else ""
            at += 1
        return at

    def _add(self, text: str) -> None:
        if self.sink is not None and text:
            self.sink.append("\ufffd" + text if self._high else text)
        self._high = ""

    def _unescape(self) -> None:
        code = self._escape or ""
        if self.sink is not None and code[0] == "u" and len(code) < 5:
            return
        self._escape = None
        if self.sink is None:
            return
        if code[0] != "u":
            self._add(_ESCAPES.get(code, code))
            return
        try:
            unit = int(code[1:], 16)
        except ValueError:
            self._add(f"\\{code}")
            return
        if 0xD800 <= unit < 0xDC00:
            self._high = chr(unit)
        elif 0xDC00 <= unit < 0xE000:
            pair = self._high + chr(unit)
            self._high = ""
            self._add(pair.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"))
        else:
            self._add(chr(unit))
