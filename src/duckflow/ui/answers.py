"""Answers at the gate, and why something was not done, as people read them.

What the engine records as an error is written for the model, in English; what is known of it is recognised here.
"""

from __future__ import annotations

import re

from duckflow.errors import N_
from duckflow.i18n import _
from duckflow.ui.safe import safe_line

_PERSON = re.compile(
    r"refused by the person\.(?: They said: (.*?))?(?: The refusal holds for the effect.*)?", re.DOTALL
)
_NOBODY = "it needs an approval and nobody is here to give it"
_KNOWN = (
    (r"the transition table .*does not allow asking here", N_("the table of transitions does not allow asking here")),
    (r"(?:the action before it|an earlier action) was refused", N_("an earlier action was refused")),
    (r"(?P<n>\d+) errors in a row", N_("{n} errors in a row")),
    (r"over the limit of .* in one answer; give it again", N_("more actions in one answer than are allowed")),
    (r"interrupted; what it did until then stays", N_("interrupted; what it did until then stays")),
    (r"interrupted, outcome unknown", N_("interrupted, outcome unknown")),
    (r"interrupted: not done", N_("interrupted: not done")),
    (r"interrupted: the files are in neither state.*", N_("interrupted: the files are in neither state: look at them")),
)


def answer_word(answer: str) -> str:
    """Short: it stands in a table."""
    words = {"yes": _("yes"), "step": _("this step"), "always": _("always"), "no": _("no")}
    return words.get(answer, safe_line(answer))


def who(by: str) -> str:
    words = {
        "user": _("you"),
        "rule": _("rule"),
        "mode": _("mode"),
        "grant": _("earlier yes"),
        "time-out": _("time-out"),
        "nobody": _("nobody"),
        "stop": _("stopped"),
    }
    return words.get(by, safe_line(by))


def refusal(by: str, comment: str) -> str:
    """Why the gate said no: the reason that came with the answer, or who gave it."""
    comment = refused_once(comment)
    if by in ("rule", "mode") and comment:
        return safe_line(_said(comment))
    why = {
        "user": _("you said no"),
        "nobody": _("nobody was there to approve it"),
        "time-out": _("no answer in time"),
        "rule": _("a rule forbids it"),
        "mode": _("the mode does not allow it"),
    }.get(by, _("stopped"))
    return f"{why}: {safe_line(comment)}" if comment else why


def why_not(error: str) -> str:
    """An action's error for a line that already says that it failed."""
    state, _colon, why = error.partition(": ")
    if state == "refused":
        return _("refused: {reason}", reason=refused_because(why))
    if state == "not run":
        return _("not run: {why}", why=safe_line(_said(why)))
    return safe_line(_said(why if state == "failed" else error))


def refused_because(why: str) -> str:
    """Why the gate said no, from what the model was told."""
    why = refused_once(why)
    if why == _NOBODY:
        return refusal("nobody", "")
    person = _PERSON.fullmatch(why)
    return refusal("user", person[1] or "") if person else safe_line(_said(why))


def refused_once(reason: str) -> str:
    """A reason for a line that already says that it was refused."""
    return re.sub(r"^(?:refused: *)+", "", reason)


def _said(text: str) -> str:
    for pattern, message in _KNOWN:
        found = re.fullmatch(pattern, text)
        if found:
            return _(message, **found.groupdict())
    return _(text)
