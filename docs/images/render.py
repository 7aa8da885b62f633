"""Draws docs/images/demo*.svg from the real output of `duckflow demo`. Run it after the demo's screen has changed.

    .venv/bin/python docs/images/render.py

Plain SVG: no scripts, no addresses, the reader's own monospace font. The path of the temporary project and the times
are replaced, so that the pictures change only when the screen does (but for the last digit of the token estimate).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html import escape
from itertools import groupby
from pathlib import Path

from rich.cells import cell_len
from rich.console import Console
from rich.style import Style
from rich.text import Text

HERE = Path(__file__).resolve().parent
COLUMNS = 80
SIZE, CELL, ROW, EDGE, BAR = 14, 8.43, 19, 14, 34
INK, PAPER = "#d7dae0", "#1b1e24"
COLOURS = {1: "#f2777a", 2: "#8fc97f", 3: "#e8c46a", 4: "#7fb2ea", 5: "#c9a0dc", 6: "#6fc7c7"}
FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', 'Noto Sans Mono CJK JP', monospace"
_CONSOLE = Console()


def demo(language: str) -> str:
    """What the demo prints on a terminal of 80 columns, with colours."""
    environment = {**os.environ, "FORCE_COLOR": "1", "COLUMNS": str(COLUMNS), "LC_ALL": "C.UTF-8"}
    command = [str(Path(sys.executable).with_name("duckflow")), "demo", "--lang", language]
    done = subprocess.run(command, env=environment, capture_output=True, encoding="utf-8", check=True)
    text = re.sub(r"/\S*?duckflow-demo-\w+", "/tmp/duckflow-demo", done.stdout)
    text = re.sub(r"\bin \d+\.\d+s\b", "in 0.001s", text)
    return re.sub(r"\d+\.\d (?=s\b|秒)", "0.2 ", text)


def excerpt(lines: list[Text]) -> list[Text]:
    """From the request on, without the first card (the one for a command): the picture should fit on a screen."""
    first = next(i for i, line in enumerate(lines) if line.plain.startswith("> "))
    cards = [i for i, line in enumerate(lines) if line.plain.startswith("── ")]
    last = next(i for i, line in enumerate(lines) if "demo/" in line.plain and i > cards[1])
    return [*lines[first : cards[0] - 1], Text("  ⋮", style="dim"), *lines[cards[1] - 1 : last + 1]]


def pieces(line: Text) -> Iterator[tuple[int, str, Style]]:
    """Stretches of one style and one kind of width, with the column they begin in. Blanks draw nothing."""
    column = 0
    styled = [(char, line.get_style_at_offset(_CONSOLE, i)) for i, char in enumerate(line.plain)]
    for (style, _wide, blank), group in groupby(styled, lambda one: (one[1], cell_len(one[0]), one[0] == " ")):
        text = "".join(char for char, _style in group)
        if not blank:
            yield column, text, style
        column += cell_len(text)


def drawn(line: Text, y: float) -> Iterator[str]:
    for column, text, style in pieces(line):
        number = style.color.number if style.color is not None else None
        looks = f' fill="{COLOURS[number % 8]}"' if number is not None and number % 8 in COLOURS else ""
        looks += ' font-weight="bold"' if style.bold else ""
        looks += ' opacity="0.62"' if style.dim else ""
        x, width = EDGE + column * CELL, cell_len(text) * CELL
        place = f'x="{x:.1f}" y="{y:.1f}" textLength="{width:.1f}" lengthAdjust="spacingAndGlyphs"'
        yield f"<text {place}{looks}>{escape(text)}</text>"


def picture(lines: list[Text], title: str) -> str:
    width, height = 2 * EDGE + COLUMNS * CELL, BAR + EDGE + len(lines) * ROW
    body = [part for n, line in enumerate(lines) for part in drawn(line, BAR + (n + 0.8) * ROW)]
    dots = [f'<circle cx="{18 + n * 18}" cy="17" r="5" fill="#4a4f5a"/>' for n in range(3)]
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" role="img">',
            f"<title>{escape(title)}</title>",
            f'<rect width="{width:.0f}" height="{height:.0f}" rx="8" fill="{PAPER}"/>',
            *dots,
            f'<g font-family="{FONT}" font-size="{SIZE}" fill="{INK}" xml:space="preserve">',
            *body,
            "</g>",
            "</svg>\n",
        )
    )


def main() -> None:
    for language, name in (("en", "demo.svg"), ("ja", "demo.ja.svg")):
        lines = [Text.from_ansi(text) for text in demo(language).splitlines()]
        (HERE / name).write_text(picture(excerpt(lines), "duckflow demo"), encoding="utf-8")


if __name__ == "__main__":
    main()
