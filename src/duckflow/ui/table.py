"""Rows in columns that fit the screen: the widest text column gives way, nothing else is cut. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from duckflow.ui.out import Out
from duckflow.ui.wrap import cells, fit, pad

GAP = "  "


def table(out: Out, heads: Sequence[str], rows: Sequence[Sequence[str]], *, flexible: int) -> None:
    """Print rows under dim headings. `flexible` is the column that is shortened when the screen is narrow."""
    columns = range(len(heads))
    widths = [max((cells(line[i]) for line in (heads, *rows)), default=0) for i in columns]
    over = sum(widths) + len(GAP) * (len(widths) - 1) - out.width
    if over > 0:
        widths[flexible] = max(cells(heads[flexible]), widths[flexible] - over, 8)
    out.line(_line(heads, widths), "dim")
    for row in rows:
        out.line(_line(row, widths))


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    return GAP.join(pad(fit(text, width), width) for text, width in zip(row, widths, strict=True)).rstrip()
