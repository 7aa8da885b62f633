"""The look of Markdown. The only user of rich, which costs 100 ms to import: load this module on first use."""

from __future__ import annotations

import re
from io import StringIO
from typing import TYPE_CHECKING, ClassVar

from markdown_it import MarkdownIt
from rich.console import Console, JustifyMethod, OverflowMethod
from rich.containers import Lines
from rich.markdown import (
    CodeBlock,
    Heading,
    Markdown,
    MarkdownContext,
    MarkdownElement,
    Paragraph,
    TableDataElement,
)
from rich.text import Text
from rich.theme import Theme

from duckflow.ui.safe import safe
from duckflow.ui.wrap import breaks

if TYPE_CHECKING:
    from rich.console import ConsoleOptions, RenderResult

_PADDING = re.compile(r"(?:\x1b\[[0-9;]*m| )+$")
THEME = Theme(
    {
        "markdown.code": "cyan",
        "markdown.code_block": "default",
        "markdown.h1": "bold",
        "markdown.h2": "bold",
        "markdown.h3": "bold",
        "markdown.link": "default",
        "markdown.link_url": "dim",
        "markdown.block_quote": "dim",
    }
)


class _Wrapping(Text):
    """Text that breaks where Japanese allows it, not only at spaces."""

    def wrap(
        self,
        console: Console,
        width: int,
        *,
        justify: JustifyMethod | None = None,
        overflow: OverflowMethod | None = None,
        tab_size: int = 8,
        no_wrap: bool | None = None,
    ) -> Lines:
        lines = Lines()
        for line in self.split(allow_blank=True):
            for piece in line.divide(breaks(line.plain, width)):
                piece.rstrip_end(width)
                lines.append(piece)
        return lines


class _Paragraph(Paragraph):
    def on_enter(self, context: MarkdownContext) -> None:
        super().on_enter(context)
        self.text = _Wrapping(justify="left")


class _Heading(Heading):
    """Bold, at the left, without a box: it must not be taken for a part of the program."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        yield self.text


class _Code(CodeBlock):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.syntax import Syntax

        yield Syntax(str(self.text).rstrip(), self.lexer_name, theme=self.theme, word_wrap=True, padding=(0, 1))


class _Cell(TableDataElement):
    """What does not fit into a column is wrapped, never left out."""

    def __init__(self, justify: JustifyMethod) -> None:
        super().__init__(justify)
        self.content = _Wrapping("", justify=justify, overflow="fold")


class _Look(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "paragraph_open": _Paragraph,
        "heading_open": _Heading,
        "fence": _Code,
        "code_block": _Code,
        "td_open": _Cell,
        "th_open": _Cell,
    }

    def __init__(self, text: str) -> None:
        super().__init__(text, code_theme="ansi_dark", hyperlinks=False)
        # HTML is shown as it was written: `List<String>` outside of code must not vanish.
        self.parsed = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"]).parse(text)


def rendered(text: str, *, width: int, colour: bool) -> str:
    """A Markdown text as lines for a terminal. Neutralised here, whatever the caller did."""
    console = Console(
        file=StringIO(),
        width=width,
        force_terminal=colour,
        color_system="standard" if colour else None,
        no_color=not colour,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
        theme=THEME,
        _environ={},
    )
    with console.capture() as capture:
        console.print(_Look(safe(text)))
    lines = [_trimmed(line) for line in capture.get().split("\n")]
    return "\n".join(lines).strip("\n") + "\n"


def _trimmed(line: str) -> str:
    """Without the spaces rich fills lines with: they would be copied and, in a narrower window, wrap."""
    end = _PADDING.search(line)
    if end is None:
        return line
    return line[: end.start()] + ("\x1b[0m" if "\x1b" in end[0] and end.start() else "")
