"""The slash commands: a table of names, meanings and what each shows. For the person at the keyboard only."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from difflib import get_close_matches
from typing import TYPE_CHECKING, Literal, NamedTuple

from duckflow.errors import N_, DuckflowError
from duckflow.events import ModeChanged
from duckflow.i18n import _, explain
from duckflow.ui.out import Out
from duckflow.ui.safe import safe, safe_line
from duckflow.ui.status import chains, is_paused, show_cost, show_rows

if TYPE_CHECKING:
    from duckflow.engine.kit import Kit
    from duckflow.state.journal import SessionRow
    from duckflow.state.session import Session
    from duckflow.ui.chat import Chat

MODES = ("plan", "ask", "auto-edit", "auto")
LATER = ("/memory", "/undo", "/redo", "/compact")


class Switch(NamedTuple):
    """The chat ended because the person wants to go on with another session."""

    session: str


class Desk(NamedTuple):
    """What a command may look at and do."""

    kit: Kit
    chat: Chat
    out: Out
    busy: Callable[[], bool]
    clear: Callable[[], None]
    offer: SessionRow | None = None
    open_waiting: Callable[[], bool] = lambda: False  # the next request of background work


After = Switch | Literal["leave"] | None
Handler = Callable[[Desk, str], Awaitable[After]]


class Command(NamedTuple):
    name: str
    arguments: str
    meaning: str  # a message id
    run: Handler


def is_command(text: str) -> bool:
    """`/etc/hosts is wrong` is a message, `/hlep` is a command with a slip."""
    word = text.split(maxsplit=1)[0] if text.startswith("/") else ""
    return len(word) > 1 and word[1:].isascii() and word[1:].isalpha()


async def run_command(desk: Desk, text: str) -> After:
    word, _space, argument = text.strip().partition(" ")
    command = _find(word.lower())
    if command is None:
        _unknown(desk, word.lower())
        return None
    try:
        return await command.run(desk, argument.strip())
    except DuckflowError as error:
        message, hint = explain(error)
        desk.out.block(safe(message), "red", first="! ", indent="  ")
        desk.out.block(safe(hint), first="  → ", indent="    ")
        return None


def _find(word: str) -> Command | None:
    """By its name or a beginning that only it has."""
    fits = [c for c in COMMANDS if c.name == word] or [c for c in COMMANDS if c.name.startswith(word)]
    return fits[0] if len(fits) == 1 and word not in LATER else None


def _unknown(desk: Desk, word: str) -> None:
    if word in LATER:
        desk.out.block(_("{command} is not in this version yet.", command=word), "yellow", indent="  ")
        return
    near = get_close_matches(word, [c.name for c in COMMANDS], 1)
    hint = _("Did you mean {nearest}?", nearest=near[0]) if near else _("/help lists the commands.")
    desk.out.block(_("There is no command {command}.", command=safe_line(word)) + " " + hint, "yellow", indent="  ")


# --- the commands ---------------------------------------------------------------------------------------------------


async def _help(desk: Desk, _argument: str) -> None:
    rows = [(f"{c.name} {c.arguments}".strip(), _(c.meaning)) for c in COMMANDS]
    show_rows(rows, desk.out)
    desk.out.line()
    show_rows(
        [
            ("@path", _("names a file; it is completed while you type")),
            ("!command", _("runs a command of yours through the same gate")),
            (_("Enter while it works"), _("tells the running work what you typed")),
            ("Alt-Enter, \\ Enter", _("a new line")),
            ("Esc", _("stops what runs")),
            ("Ctrl-G", _("opens what background work asks")),
            ("Shift-Tab", _("the next mode: plan, ask, auto-edit, auto")),
            ("Ctrl-C Ctrl-C, Ctrl-D", _("leave; the session is kept")),
        ],
        desk.out,
    )


async def _plan(desk: Desk, argument: str) -> None:
    from duckflow.ui.plans import show_plan

    show_plan(desk.kit.session.state, argument, desk.out)


async def _tasks(desk: Desk, argument: str) -> None:
    from duckflow.ui.plans import act_on_tasks, show_tasks

    session = desk.kit.session
    if argument == "open":
        if not desk.open_waiting():
            desk.out.block(_("Nothing waits for your answer."), "yellow", indent="  ")
    elif argument:
        act_on_tasks(session.state, desk.chat, argument, desk.out)
    else:
        show_tasks(session.state, session.store.events(session.id), desk.kit.door.pending(), desk.out)


async def _status(desk: Desk, _argument: str) -> None:
    from duckflow.ui.standing import show_status

    show_status(desk.kit.session, desk.kit.models, desk.out)


async def _model(desk: Desk, argument: str) -> None:
    show_rows([(tier, " → ".join(chain)) for tier, chain in chains(desk.kit.models).items()], desk.out)
    if argument:
        told = _("To change it: leave, then `duckflow resume -m {model}`.", model=safe_line(argument))
        desk.out.block(told, "yellow", indent="  ")


async def _mode(desk: Desk, argument: str) -> None:
    session = desk.kit.session
    if argument in MODES:
        set_mode(desk.kit, argument)
        return
    if argument:
        desk.out.block(_("There is no mode {mode}.", mode=safe_line(argument)), "yellow", indent="  ")
    meanings = {
        "plan": _("reads only, changes nothing"),
        "ask": _("asks before every effect"),
        "auto-edit": _("changes files without asking, up to MEDIUM risk"),
        "auto": _("like auto-edit, and approves plans; commands still ask: there is no sandbox yet"),
    }
    rows = [(f"{'*' if name == session.state.mode else ' '} {name}", text) for name, text in meanings.items()]
    show_rows(rows, desk.out)


def set_mode(kit: Kit, mode: str) -> None:
    if mode != kit.session.state.mode:
        kit.session.append(ModeChanged(mode=mode))


async def _diff(desk: Desk, _argument: str) -> None:
    from duckflow.ui.cards import diff_lines
    from duckflow.ui.changes import diff_since, originals

    text = await asyncio.to_thread(diff_since, originals(desk.kit.session), desk.kit.workspace)
    if not text:
        desk.out.block(_("This session has changed no file."), "dim", indent="  ")
        return
    for line in diff_lines(text, desk.out):
        desk.out.line(line)


async def _audit(desk: Desk, argument: str) -> None:
    from duckflow.ui.audit import NOTHING_YET, Query, show

    session = desk.kit.session
    if all(row.id != session.id for row in session.store.sessions()):  # it is written with its first event
        desk.out.block(_(NOTHING_YET), "dim", indent="  ")
        return
    show(session.store, Query(session=session.id, operation=argument or None), desk.out)


async def _cost(desk: Desk, _argument: str) -> None:
    show_cost(desk.kit.session, desk.kit.settings.limits.max_cost_usd, desk.out)


async def _sessions(desk: Desk, _argument: str) -> None:
    from duckflow.ui.sessions import show

    show(desk.kit.session.store, desk.out)


async def _resume(desk: Desk, argument: str) -> After:
    from duckflow.state.runs import working
    from duckflow.state.session import find_session

    if desk.busy():
        desk.out.block(_("Work is running: Esc stops it first."), "yellow", indent="  ")
        return None
    state = desk.kit.session.state
    if any(not is_paused(state, run) for run in working(state)):
        told = _("Work is running in the background: /tasks stop stops it, /tasks pause keeps it for later.")
        desk.out.block(told, "yellow", indent="  ")
        return None
    store, own = desk.kit.session.store, desk.kit.session.id
    if argument:
        wanted = find_session(store, argument)
    else:
        others = [row.id for row in store.sessions() if row.id != own]
        wanted = desk.offer.id if desk.offer else next(iter(others), own)
    if wanted == own:
        desk.out.block(_("That is this session."), "dim", indent="  ")
        return None
    return Switch(wanted)


async def _clear(desk: Desk, _argument: str) -> None:
    desk.clear()


async def _export(desk: Desk, argument: str) -> None:
    session = desk.kit.session
    path = _place(session, argument)
    shown = safe_line(path, exact=True)
    try:
        _write_conversation(session, path)
    except FileExistsError:
        desk.out.block(_("{path} exists already; nothing was written.", path=shown), "yellow", indent="  ")
    except OSError as error:
        why = safe_line(error.strerror or str(error))
        desk.out.block(_("Cannot write {path}: {why}.", path=shown, why=why), "red", indent="  ")
    else:
        desk.out.block(_("The conversation is in {path}", path=shown), indent="  ")


def _place(session: Session, name: str) -> str:
    """Where it was asked for; without a name nothing is put into the project."""
    if not name:
        return str(session.store.path.parent / f"duckflow-{session.id}.md")
    return os.path.join(session.state.workspace, os.path.expanduser(name))


def _write_conversation(session: Session, path: str) -> None:
    from duckflow.ui.export import to_markdown

    text = to_markdown(session.id, session.state.title, session.store.events(session.id))
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(text)


async def _quit(_desk: Desk, _argument: str) -> After:
    return "leave"


COMMANDS: tuple[Command, ...] = (
    Command("/help", "", N_("what you can type"), _help),
    Command("/plan", "[PLAN]", N_("the plan, step by step"), _plan),
    Command("/tasks", "[open|pause|resume|stop] [RUN]", N_("what works in the background"), _tasks),
    Command("/status", "", N_("where the work stands"), _status),
    Command("/model", "", N_("which models answer"), _model),
    Command("/mode", "[plan|ask|auto-edit|auto]", N_("what may be done without asking"), _mode),
    Command("/diff", "", N_("what this session changed in files"), _diff),
    Command("/audit", "[OPERATION]", N_("what was decided and done"), _audit),
    Command("/cost", "", N_("tokens and money so far"), _cost),
    Command("/sessions", "", N_("earlier sessions here"), _sessions),
    Command("/resume", "[SESSION]", N_("go on with an earlier session"), _resume),
    Command("/clear", "", N_("clear the screen"), _clear),
    Command("/export", "[FILE]", N_("write the conversation as Markdown"), _export),
    Command("/quit", "", N_("leave; the session is kept"), _quit),
)


def completions() -> list[tuple[str, str]]:
    return [(command.name, _(command.meaning)) for command in COMMANDS]
