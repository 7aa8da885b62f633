"""The conversation as a Markdown file: what was said, what was done, what it came to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from duckflow import events as ev
from duckflow.i18n import _
from duckflow.ui.figures import when
from duckflow.ui.report import action_line
from duckflow.ui.safe import safe, safe_line


def to_markdown(session: str, title: str, events: Iterable[ev.Event]) -> str:
    parts = [f"# {safe_line(title) or session}", f"`{session}`", *_parts(events)]
    return "\n\n".join(parts) + "\n"


def _parts(events: Iterable[ev.Event]) -> Iterator[str]:
    for event in events:
        body = event.body
        if isinstance(body, ev.Message):
            who = _("You") if body.role == "user" else "Duckflow"
            yield f"## {who} · {when(event.at)}\n\n{safe(body.text).strip()}"
        elif isinstance(body, ev.ActionFinished):
            yield f"- `{action_line(body).replace('`', 'ʼ')}`"
        elif isinstance(body, ev.QuestionAsked):
            options = "".join(f"\n{n}. {safe_line(o)}" for n, o in enumerate(body.options, 1))
            yield f"**{safe_line(body.text)}**\n{options}".rstrip()
        elif isinstance(body, ev.VerdictGiven):
            yield "*" + _("judged {score} of 1.0", score=f"{body.overall:.2f}") + "*"
        elif isinstance(body, ev.Failed):
            yield f"> {safe_line(body.message)}"
