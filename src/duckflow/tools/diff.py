"""What changed between two texts: aligned lines, a unified diff for people and models, counts. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from duckflow.record import Record

Block = tuple[str, int, int, int, int]  # equal | replace, from and to in a, from and to in b
Kept = tuple[int, int, int]  # where in a, where in b, how many equal lines
_MAX_CHANGES = 200  # lines added and removed, up to which the exact way is taken
_MAX_MIDDLE = 40_000  # lines compared in the other way; more than that is shown as replaced


class Diff(Record):
    text: str
    added: int
    removed: int

    def __str__(self) -> str:
        return f"+{self.added} −{self.removed}"


def align(a: Sequence[str], b: Sequence[str]) -> list[Block]:
    """Which lines stayed. Equal ends are taken off first: an edit in a long file costs what the edit is worth."""
    head = 0
    most = min(len(a), len(b))
    while head < most and a[head] == b[head]:
        head += 1
    tail = 0
    while tail < most - head and a[-1 - tail] == b[-1 - tail]:
        tail += 1
    end_a, end_b = len(a) - tail, len(b) - tail
    blocks: list[Block] = [("equal", 0, head, 0, head)] if head else []
    blocks += _middle(a[head:end_a], b[head:end_b], head)
    if tail:
        blocks.append(("equal", end_a, len(a), end_b, len(b)))
    return blocks


def _middle(a: Sequence[str], b: Sequence[str], offset: int) -> Iterator[Block]:
    if not a and not b:
        return
    kept = _few_changes(a, b) if a and b else []
    if kept is None:
        kept = _many_changes(a, b) if len(a) + len(b) <= _MAX_MIDDLE else []
    x = y = 0
    for at_a, at_b, size in [*kept, (len(a), len(b), 0)]:
        if at_a > x or at_b > y:
            yield "replace", offset + x, offset + at_a, offset + y, offset + at_b
        if size:
            yield "equal", offset + at_a, offset + at_a + size, offset + at_b, offset + at_b + size
        x, y = at_a + size, at_b + size


def _many_changes(a: Sequence[str], b: Sequence[str]) -> list[Kept]:
    from difflib import SequenceMatcher

    return [(m.a, m.b, m.size) for m in SequenceMatcher(None, a, b).get_matching_blocks() if m.size]


def _few_changes(a: Sequence[str], b: Sequence[str]) -> list[Kept] | None:
    """The shortest edit script (Myers, greedy), which is quick for few changes however long the texts are.

    None: there are more than that.
    """
    n, m = len(a), len(b)
    furthest = {1: 0}  # diagonal x - y → furthest x
    trace: list[dict[int, int]] = []
    for d in range(_MAX_CHANGES + 1):
        trace.append(dict(furthest))
        for k in range(-d, d + 1, 2):
            down = k == -d or (k != d and furthest[k - 1] < furthest[k + 1])
            x = furthest[k + 1] if down else furthest[k - 1] + 1
            while x < n and x - k < m and a[x] == b[x - k]:
                x += 1
            furthest[k] = x
            if x >= n and x - k >= m:
                return _walked_back(trace, n, m)
    return None


def _walked_back(trace: list[dict[int, int]], x: int, y: int) -> list[Kept]:
    kept: list[Kept] = []
    for d in range(len(trace) - 1, -1, -1):
        furthest, k = trace[d], x - y
        down = k == -d or (k != d and furthest[k - 1] < furthest[k + 1])
        before = k + 1 if down else k - 1
        start_x = furthest[before] if d else 0
        start_y = start_x - before if d else 0
        begin = (start_x + (0 if down else 1)) if d else 0  # after the step, before the run of equal lines
        if x > begin:
            kept.append((begin, begin - k, x - begin))
        x, y = start_x, start_y
    return kept[::-1]


def unified(path: str, before: str | None, after: str | None, context: int = 3) -> Diff:
    """Of two texts with their own line ends (None: no file). A CR is shown where not every line end has one."""
    a, b = _lines(before or ""), _lines(after or "")
    if _all_crlf(a) and _all_crlf(b):
        a, b = [line.replace("\r\n", "\n") for line in a], [line.replace("\r\n", "\n") for line in b]
    blocks = align(a, b)
    added = sum(b2 - b1 for tag, _a1, _a2, b1, b2 in blocks if tag != "equal")
    removed = sum(a2 - a1 for tag, a1, a2, _b1, _b2 in blocks if tag != "equal")
    out = [f"--- {_side('a', path, before)}", f"+++ {_side('b', path, after)}"]
    for hunk in _hunks(blocks, context):
        out += _hunk(hunk, a, b)
    return Diff("\n".join(out) + "\n", added, removed)


def _side(side: str, path: str, text: str | None) -> str:
    return "/dev/null" if text is None else f"{side}/{path}"


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    last = lines.pop()
    return [line + "\n" for line in lines] + ([last] if last else [])


def _all_crlf(lines: Sequence[str]) -> bool:
    return all(line.endswith("\r\n") or not line.endswith("\n") for line in lines)


def _hunks(blocks: list[Block], context: int) -> Iterator[list[Block]]:
    """Changed blocks with up to `context` equal lines around them."""
    current: list[Block] = []
    for tag, a1, a2, b1, b2 in blocks:
        if tag != "equal":
            current.append((tag, a1, a2, b1, b2))
            continue
        if current and a2 - a1 > 2 * context:
            yield [*current, (tag, a1, a1 + context, b1, b1 + context)]
            current = []
        if not current:
            keep = min(context, a2 - a1)
            a1, b1 = a2 - keep, b2 - keep
        current.append((tag, a1, a2, b1, b2))
    if any(tag != "equal" for tag, *_rest in current):
        tag, a1, a2, b1, b2 = current[-1]
        if tag == "equal":
            current[-1] = (tag, a1, min(a2, a1 + context), b1, min(b2, b1 + context))
        yield current


def _hunk(blocks: list[Block], a: Sequence[str], b: Sequence[str]) -> Iterator[str]:
    a1, a2, b1, b2 = blocks[0][1], blocks[-1][2], blocks[0][3], blocks[-1][4]
    yield f"@@ -{_range(a1, a2)} +{_range(b1, b2)} @@"
    for tag, x1, x2, y1, y2 in blocks:
        if tag == "equal":
            for line in b[y1:y2]:
                yield from _shown(" ", line)
            continue
        for line in a[x1:x2]:
            yield from _shown("-", line)
        for line in b[y1:y2]:
            yield from _shown("+", line)


def _range(start: int, end: int) -> str:
    return f"{start + 1},{end - start}" if end > start else f"{start},0"


def _shown(sign: str, line: str) -> Iterator[str]:
    yield sign + line.removesuffix("\n").replace("\r", "␍")
    if not line.endswith("\n"):
        yield "\\ No newline at end of file"


def new_lines(before: Sequence[str], after: Sequence[str], context: int = 2) -> list[tuple[int, int]]:
    """The ranges of `after` (from 0, end exclusive) to show after an edit: what is new, and what surrounds it."""
    ranges: list[tuple[int, int]] = []
    for tag, _a1, _a2, b1, b2 in align(before, after):
        if tag == "equal":
            continue
        start, end = max(0, b1 - context), min(len(after), b2 + context)
        if ranges and start <= ranges[-1][1]:
            ranges[-1] = (ranges[-1][0], end)
        else:
            ranges.append((start, end))
    return ranges
