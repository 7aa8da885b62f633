"""The first screen of a chat, and the end of the conversation it goes on with. Plain lines: nothing slow is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from duckflow import events as ev
from duckflow.i18n import _
from duckflow.ui import figures
from duckflow.ui.out import Out
from duckflow.ui.render import Printer
from duckflow.ui.safe import safe_line
from duckflow.ui.status import chains

if TYPE_CHECKING:
    from duckflow.engine.kit import Kit
    from duckflow.state.journal import SessionRow
    from duckflow.state.session import Session
    from duckflow.ui.report import Known


def welcome(out: Out, kit: Kit, *, version: str, resumed: bool, offer: SessionRow | None) -> None:
    """The first screen: what this is, where, with which model and mode, and how to get help."""
    state = kit.session.state
    out.line(out.paint(f"Duckflow {version}", "bold") + " · " + _("a coding companion that asks before it acts"))
    home, root = str(Path.home()), state.workspace
    place = "~" + root[len(home) :] if root == home or root.startswith(home + "/") else root
    out.line(safe_line(place, exact=True))
    mode = _("mode: {mode}", mode=state.mode)
    out.line(figures.joined((figures.badge(chains(kit.models)), mode, _("/help shows what you can type"))))
    if resumed:
        out.block(_("Going on with: {title}", title=safe_line(state.title) or state.id), "dim")
    elif offer is not None:
        title = safe_line(offer.title) or offer.id
        text = _(
            "Left unfinished {ago}: {title}. /resume goes on with it.", ago=figures.ago(offer.updated), title=title
        )
        out.block(text, "yellow")


def recall(session: Session, out: Out, *, resumed: bool, known: Known | None = None) -> None:
    """The last words of both sides, what is unfinished, the question that is still open, and warnings of this start."""
    state = session.state
    run = state.runs.get(state.focus or "")
    offered = {run.id for run in state.runs.values() if run.escalated}
    last: dict[str, ev.Event] = {}
    warnings: list[ev.Event] = []
    for event in session.store.events(session.id):
        is_warning = isinstance(event.body, ev.Warned)
        warnings = [*warnings, event] if is_warning else []  # what comes after the last word of before
        if known is not None:
            known.remember(event.body)
        if isinstance(event.body, ev.Message) and event.body.kind != "data":
            last[event.body.role] = event
        elif isinstance(event.body, ev.Escalation) and event.run in offered:
            last["escalation"] = event
    printer = Printer(out, echo=True)
    for event in sorted(last.values(), key=lambda event: event.seq) if resumed else ():
        printer.event(event)
    if resumed and (state.plans or state.objectives):
        from duckflow.ui.standing import show_unfinished

        show_unfinished(state, out)
    if run is not None and run.question is not None and not run.background:
        printer.event(ev.Event(0, "", session.id, run.id, run.question))
    for event in warnings:
        printer.event(event)


def goodbye(session: Session, out: Out) -> None:
    """How to come back, when there is something to come back to."""
    if session.state.plans or session.state.runs:
        from duckflow.ui.standing import kept

        if told := kept(session.state):
            out.block(told, "yellow")
    if session.state.title:
        out.line(_("The session is kept: duckflow resume {session}", session=session.id), "dim")
