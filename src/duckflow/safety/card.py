"""The gate card: five points computed from the changes, the model's words labelled as its claim."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Literal

from duckflow.human import Card
from duckflow.i18n import _, clauses, listed, ngettext
from duckflow.safety.change import Change, Effect
from duckflow.safety.checkpoint import uncovered
from duckflow.safety.neutral import has_invisible, one_line, visible
from duckflow.safety.patterns import grant_for, pattern_for
from duckflow.safety.risk import Risk

MAX_PREVIEW_LINES = 400
_MAX_LINE = 2_000
_MAX_CLAIM = 300


def shown_hash(changes: Sequence[Change]) -> str:
    """What an approval of these changes is bound to: all of it, also what a long preview does not show."""
    return hashlib.sha256("\n".join(change.hash for change in changes).encode("ascii")).hexdigest()


def card(changes: Sequence[Change], risk: Risk, claims: Sequence[str] = ()) -> Card:
    """One card for one action, or for consecutive file effects of one Decision."""
    preview, kind = _preview(changes)
    repeatable = all(grant_for(change, risk) is not None for change in changes)
    pattern = ", ".join(dict.fromkeys(pattern_for(change) for change in changes)) if repeatable else ""
    options = [("yes", _("yes")), ("no", _("no, with a comment"))]
    if pattern:
        options.insert(1, ("step", _("yes for this step ({pattern})", pattern=one_line(pattern, 120))))
    return Card(
        title=_title(changes),
        preview=preview,
        preview_kind=kind,
        risk=risk.level.name,
        risk_reason=risk.reason,
        intent="\n".join(one_line(change.summary, 200) for change in changes),
        claim=one_line(" / ".join(claim for claim in claims if claim.strip()), _MAX_CLAIM),
        impact=_impact(changes),
        alternatives=_alternatives(changes),
        options=tuple(options),
        default="no",
        pattern=visible(pattern),
    )


def _title(changes: Sequence[Change]) -> str:
    if len(changes) > 1:
        return _("{n} changes: may I?", n=len(changes))
    operation = changes[0].operation if changes else ""
    if changes and changes[0].effect is Effect.COMMAND:
        return _("Run this command?")
    return _("{operation}: may I?", operation=operation)


def _preview(changes: Sequence[Change]) -> tuple[str, Literal["diff", "command", "text"]]:
    kinds = {change.preview_kind for change in changes}
    kind: Literal["diff", "command", "text"] = kinds.pop() if len(kinds) == 1 else "text"
    lines = visible("\n".join(change.preview.rstrip("\n") for change in changes)).split("\n")
    shown = [line if len(line) <= _MAX_LINE else line[:_MAX_LINE] + "…" for line in lines[:MAX_PREVIEW_LINES]]
    if len(lines) > MAX_PREVIEW_LINES:
        rest = len(lines) - MAX_PREVIEW_LINES
        more = ngettext(
            "… {n} more line of {total} (your answer covers all of them)",
            "… {n} more lines of {total} (your answer covers all of them)",
            rest,
            total=len(lines),
        )
        shown.append(more)
    return "\n".join(shown), kind


def _impact(changes: Sequence[Change]) -> str:
    points: list[str] = []
    files = [file for change in changes for file in change.files]
    if files:
        added, removed = sum(file.added for file in files), sum(file.removed for file in files)
        n = len({file.path for file in files})
        size = ngettext(
            "{n} file, +{added} −{removed} lines",
            "{n} files, +{added} −{removed} lines",
            n,
            added=added,
            removed=removed,
        )
        points.append(size)
        gone = [file.path for change in changes for file in change.files if file.after is None]
        if gone:
            points.append(_("removes {paths}", paths=one_line(listed(gone), 200)))
    outside = [place.path for change in changes for place in change.places if place.where == "outside"]
    if outside:
        points.append(_("outside the workspace: {paths}", paths=one_line(listed(outside), 200)))
    secret = [place.path for change in changes for place in change.places if place.secret]
    if secret:
        points.append(_("may show secrets to the model: {paths}", paths=one_line(listed(secret), 200)))
    if any(change.effect is Effect.COMMAND for change in changes):
        points.append(_("runs with your rights and without a sandbox: files anywhere and the network are in its reach"))
    if any(has_invisible(change.command.replace("\n", " ")) for change in changes if change.command):
        points.append(_("contains invisible characters, shown as <U+…>"))
    points.append(_kept(changes))
    return clauses(points)


def _kept(changes: Sequence[Change]) -> str:
    missing = uncovered(changes)
    if missing:
        return missing
    if any(change.files for change in changes):
        return _("the files are kept in a checkpoint first")
    return _("changes nothing")


def _alternatives(changes: Sequence[Change]) -> tuple[str, ...]:
    if any(change.effect is Effect.COMMAND for change in changes):
        own, narrow = _("run it yourself and tell Duckflow the result"), _("ask for a narrower command")
    elif any(change.files for change in changes):
        own, narrow = _("make the change yourself"), _("ask for a smaller change, or one file at a time")
    else:
        own, narrow = _("paste the part that matters yourself"), _("name another file to read")
    return (_("say no and write what you want instead"), own, narrow)
