"""The card a person decides on: what would happen first, then what is known about it. Draws and reads; decides nothing.

Every line of a preview stands behind a bar, so that nothing in it can pass for a part of the card.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Literal, NamedTuple

from duckflow.human import ANSWERS, Card, Kind
from duckflow.i18n import _
from duckflow.ui.figures import lines as so_many_lines
from duckflow.ui.out import Out
from duckflow.ui.safe import safe, safe_line
from duckflow.ui.wrap import cells, fit, pad

KEYS = {"yes": "y", "step": "s", "always": "a", "no": "n"}
BAR = "│ "
RESERVED = 14  # lines of a screen the rest of a card needs
LEAST = 6
SAID = 4  # lines the model's own words may take
_ALL = frozenset({"v", "view", "全部", "すべて"})
_YES_AND = re.compile(r"(\w+)\s*[、,。.!]\s*(.+)")
COURTESIES = frozenset((
    "お願い", "お願いします", "お願いいたします", "よろしく", "よろしくお願いします", "どうぞ", "進めて",
    "進めてください", "続けて", "続けてください", "やって", "やってください", "それでお願いします",
    "それで進めてください", "いいですよ", "問題ありません", "ありがとう", "ありがとうございます",
    "please", "please do", "go ahead", "go on", "do it", "proceed", "sounds good", "looks good", "thanks", "thank you",
))  # fmt: skip
"""What may follow a yes without changing what it means."""
_RISKS = {"LOW": "green", "MEDIUM": "yellow", "HIGH": "alarm", "CRITICAL": "alarm"}


class Picked(NamedTuple):
    """What the person typed, understood."""

    choice: str
    comment: str = ""


class Drawn(NamedTuple):
    lines: tuple[str, ...]
    hidden: int  # lines of the preview that were left out


def draw(card: Card, kind: Kind, out: Out, *, height: int = 24, full: bool = False) -> Drawn:
    """The card as finished lines. `full`: with all of the preview, whatever the height."""
    title = out.lines(safe_line(card.title, exact=True), "title", first="── ", indent="   ")
    preview, hidden = _preview(card, out, None if full else max(height - RESERVED, LEAST))
    asker = out.lines(_("asked by {asker}", asker=safe_line(card.asker)), "dim", indent="   ") if card.asker else []
    rows = _rows(card, out)
    options = _options(card, out) if kind in ("question", "escalation") else []
    return Drawn(("", *title[:3], *asker[:1], *preview, *rows, *options), hidden)


def _preview(card: Card, out: Out, most: int | None) -> tuple[list[str], int]:
    if not card.preview:
        return [], 0
    exact = card.preview_kind != "text"
    text = safe(card.preview.rstrip("\n"), exact=exact).expandtabs(4)
    lines: list[str] = []
    for number, line in enumerate(text.split("\n")):
        lead = ("$ " if number == 0 else "  ") if card.preview_kind == "command" else ""
        style = _diff_style(line) if card.preview_kind == "diff" else ""
        if card.preview_kind == "command":
            style = "bold"
        lines += [BAR + out.paint(piece, style) for piece in _folded(lead + line, out.width - cells(BAR))]
    if most is None or len(lines) <= most:
        return lines, 0
    tail = most // 3 if card.preview_kind == "command" else 0
    hidden = len(lines) - most
    note = _("… {lines} more are not shown here; v shows all", lines=so_many_lines(hidden))
    end = lines[len(lines) - tail :] if tail else []
    return [*lines[: most - tail], BAR + out.paint(note, "yellow"), *end], hidden


def diff_lines(text: str, out: Out) -> list[str]:
    """A whole diff in colour, behind the same bar."""
    found: list[str] = []
    for line in safe(text, exact=True).expandtabs(4).split("\n"):
        found += [BAR + out.paint(piece, _diff_style(line)) for piece in _folded(line, out.width - cells(BAR))]
    return found


def _folded(text: str, width: int) -> list[str]:
    """Cut at the width exactly: no space is lost and no end is hidden."""
    pieces, piece, used = [], "", 0
    for char in text:
        step = cells(char)
        if used + step > width:
            pieces.append(piece)
            piece, used = "", 0
        piece += char
        used += step
    return [*pieces, piece]


def _diff_style(line: str) -> str:
    if line.startswith(("+++", "---", "diff ")):
        return "bold"
    return {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")


def _rows(card: Card, out: Out) -> list[str]:
    risk = safe_line(card.risk)
    rows = [
        (_("Risk"), " · ".join(filter(None, (risk, safe_line(card.risk_reason)))), _RISKS.get(risk, "yellow"), 3),
        (_("Intent"), " / ".join(safe(card.intent).split("\n")), "", SAID),
        (_("Impact"), safe_line(card.impact), "", SAID),
        (_("The model claims"), safe_line(card.claim), "dim", SAID),
        (_("Instead"), " / ".join(safe_line(item) for item in card.alternatives), "", SAID),
    ]
    rows = [row for row in rows if row[1]]
    room = max((cells(label) for label, *_rest in rows), default=0) + 2
    found: list[str] = []
    for label, text, style, most in rows:
        head = out.paint(pad(label, room), "dim")
        found += _row(head, " " * room, text, style, most, out)
    return found


def _row(head: str, indent: str, text: str, style: str, most: int, out: Out) -> list[str]:
    pieces = out.lines(text, style, indent=indent)
    if len(pieces) > most:
        short = fit(text, (out.width - len(indent)) * most - 2 * most)
        pieces = out.lines(short.rstrip("…") + "…", style, indent=indent)[:most]
    return [head + pieces[0][len(indent) :], *pieces[1:]]


def _options(card: Card, out: Out) -> list[str]:
    found: list[str] = []
    for number, (choice, label) in enumerate(card.options, 1):
        text = safe_line(label) + (" " + _("(default)") if choice == card.default else "")
        found += out.lines(text, "bold" if choice == card.default else "", first=f"{number:>3} ", indent="    ")
    return found


def choices(card: Card, kind: Kind) -> tuple[tuple[str, str], ...]:
    """Choice and label in the order shown. A gate or plan without options of its own has the usual ones."""
    if card.options or kind not in ("gate", "plan"):
        return card.options
    step = (("step", _("yes for this step")),) if kind == "gate" else ()
    return (("yes", _("yes")), *step, ("no", _("no")))


def invitation(card: Card, kind: Kind, *, hidden: int = 0) -> list[str]:
    """What stands above the input: which keys mean what. Shown only once the card can be answered."""
    offered = choices(card, kind)
    if kind in ("question", "escalation"):
        parts = free_answer(bool(offered), card.default)
    else:
        parts = [_key(choice, safe_line(label), card, n) for n, (choice, label) in enumerate(offered, 1)]
        parts.append(_("other text: no, and why"))
    if hidden:
        parts.append(_("v shows all"))
    return parts


def free_answer(has_options: bool, default: str | None) -> list[str]:
    """How a question is answered."""
    parts = [_("number or your own words") if has_options else _("your answer")]
    return [*parts, _("Enter: default")] if default is not None else parts


def _key(choice: str, label: str, card: Card, number: int) -> str:
    if choice == "no":
        label = _("no")  # what a comment does is said at the end of the line
    pattern = safe_line(card.pattern, exact=True)
    covers = f" ({pattern})" if choice in ("step", "always") and pattern and pattern not in label else ""
    return f"{KEYS.get(choice, str(number))} {label}{covers}"


def read_answer(card: Card, kind: Kind, typed: str) -> Picked | Literal["all"] | None:
    """What was meant; None: nothing that could be an answer, ask again. Free text is a no with that comment."""
    words = unicodedata.normalize("NFKC", typed).strip().rstrip("。.!").strip().casefold()
    offered = choices(card, kind)
    names = [choice for choice, _label in offered]
    if not words:
        is_open = kind in ("question", "escalation") and card.default is not None
        return Picked(card.default or "") if is_open else None
    if words in _ALL and card.preview:
        return "all"
    if words.isdecimal() and words.isascii() and 1 <= int(words) <= len(names) and _numbered(kind, names, int(words)):
        return Picked(names[int(words) - 1])
    for choice, label in offered:
        if words in (choice.casefold(), unicodedata.normalize("NFKC", label).strip().casefold()):
            return Picked(choice)
    meant = ANSWERS.get(words) or ("yes" if _is_polite_yes(words) else None)
    if meant in names:
        return Picked(str(meant))
    if meant is not None and kind in ("gate", "plan"):
        return None  # a known word for something this card does not offer
    return Picked("no", typed.strip())


def _is_polite_yes(words: str) -> bool:
    """A word that means yes, a mark, a courtesy: 「はい、お願いします」. Anything else after a yes is a comment."""
    found = _YES_AND.fullmatch(words)
    return found is not None and ANSWERS.get(found[1]) == "yes" and found[2] in COURTESIES


def _numbered(kind: Kind, names: list[str], number: int) -> bool:
    """Numbers answer where numbers are shown."""
    return kind in ("question", "escalation") or names[number - 1] not in KEYS
