"""How the command line is used: the help, and what to say when something else was typed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from duckflow.config import Overrides
from duckflow.errors import N_, UsageError
from duckflow.i18n import _, listed
from duckflow.ui.out import stdout
from duckflow.ui.safe import safe_line
from duckflow.ui.wrap import cells, is_narrow, pad

if TYPE_CHECKING:
    from click import ClickException

Number = TypeVar("Number", int, float)

COMMANDS = (
    ("", "", N_("chat in the current directory")),
    ("run", '"REQUEST"', N_("work on one request without a person; piped input is added as data (also: -p)")),
    ("resume", "[SESSION] [--fork]", N_("go on with a session (the newest), or branch from it")),
    ("sessions", "", N_("list the sessions of this workspace")),
    ("audit", "[--verify] …", N_("decisions, approvals and effects")),
    ("config", "show|path|check", N_("the settings and where they come from")),
    ("doctor", "", N_("is everything there that is needed?")),
    ("demo", "", N_("the whole flow on a small project with a scripted model; needs no key")),
)
OWN = {
    "resume": (("--fork", N_("begin a new session with everything that one has")),),
    "audit": (
        ("--session SESSION", N_("only this session (the beginning of its name is enough)")),
        ("--operation OPERATION", N_("only this operation: shell.run, or file_ops.*")),
        ("--risk RISK", N_("only this risk: LOW, MEDIUM, HIGH or CRITICAL")),
        ("--verify", N_("check that nothing was changed in the record; exit code 1 if something was")),
        ("--export FILE", N_("write the events as JSON lines (- is standard output)")),
        ("--stats", N_("figures of the objectives: attempts, satisfaction, calls, cost (also as JSON)")),
    ),
    "run": (("-p REQUEST", N_("the request, when it is easier to give it as an option")),),
}
COMMON = (
    ("-C, --cd DIR", N_("work in this directory")),
    ("-m, --model [PROVIDER/]MODEL", N_("the model for everything")),
    ("--mode plan|ask|auto-edit|auto", N_("what may be done without asking")),
    ("--lang ja|en", N_("the language of the screen")),
    ("--config FILE", N_("instead of your own settings file")),
    ("--max-attempts N", N_("attempts at a request before you are asked")),
    ("--max-turns N", N_("decisions of the model per request")),
    ("--max-cost-usd X", N_("stop before more is spent")),
    ("--allow PATTERN, --deny PATTERN", N_("operation or operation:glob; may be repeated")),
    ("--output-format text|json|stream-json", N_("what `run` writes to standard output")),
    ("-v, --verbose", N_("more details; tracebacks of bugs")),
    ("--version", N_("the version")),
    ("-h, --help", N_("this help; also after a command")),
)


def show_help(command: str) -> int:
    """Of one command, or of everything."""
    out = stdout()
    line = next((entry for entry in COMMANDS if entry[0] == command), COMMANDS[0])
    usage = " ".join(part for part in ("duckflow", line[0], line[1]) if part)
    out.line(_("Usage: {usage}", usage=usage + (" [OPTIONS]" if command else " [OPTIONS] [COMMAND]")))
    out.line()
    if command:
        out.block(_(line[2]), indent="  ")
    else:
        _rows([(f"duckflow {name} {arguments}".strip(), meaning) for name, arguments, meaning in COMMANDS])
    if command in OWN:
        out.line()
        _rows(OWN[command])
    out.line()
    out.line(_("Common options"), "bold")
    _rows(COMMON)
    return 0


def _rows(rows: Sequence[tuple[str, str]]) -> None:
    out = stdout()
    room = min(max(cells(left) for left, _right in rows) + 4, 36)
    stacked = is_narrow(out.width - room, [_(right) for _left, right in rows])
    room = 6 if stacked else room
    for left, right in rows:
        head = f"  {left}"
        if stacked or cells(head) + 2 > room:
            out.line(head)
            head = ""
        out.block(_(right), first=pad(head, room), indent=" " * room)


def wrong_usage(error: ClickException, args: Sequence[str]) -> UsageError:
    """click's complaint in our words and the person's language."""
    import click

    if isinstance(error, click.NoSuchOption):
        near = get_close_matches(error.option_name, error.possibilities or (), 1, 0.75)
        hint = N_("Did you mean {nearest}?") if near else N_("`duckflow --help` lists the options.")
        option, nearest = safe_line(error.option_name), near[0] if near else ""
        return UsageError(N_("There is no option {option}."), hint=hint, option=option, nearest=nearest)
    if isinstance(error, click.BadOptionUsage):
        option = safe_line(error.option_name)
        return UsageError(N_("Option {option} needs a value."), option=option)
    return UsageError(N_("{problem}"), problem=safe_line(error.format_message()))


def no_such_command(name: str, known: Sequence[str], later: Sequence[str]) -> UsageError:
    shown = safe_line(name)
    if name in later:
        return UsageError(N_("{command} is not in this version yet."), command=f"`duckflow {shown}`")
    message = N_("There is no command {command}.")
    near = get_close_matches(name, known, 1)
    if near:
        return UsageError(message, hint=N_("Did you mean {nearest}?"), command=shown, nearest=f"`duckflow {near[0]}`")
    if " " in name or not name.isascii():
        hint = N_('To have something done without a chat: duckflow run "{command}"')
        return UsageError(message, hint=hint, command=shown)
    return UsageError(message, hint=N_("`duckflow --help` lists the commands."), command=shown)


def too_many(words: Sequence[str]) -> UsageError:
    return UsageError(N_("Too many arguments: {words}"), words=safe_line(" ".join(words)))


def exclude_each_other() -> UsageError:
    return UsageError(N_("-p and a command exclude each other."))


def one_request(words: Sequence[str]) -> str:
    if len(words) == 1 and words[0].strip():
        return words[0]
    if len(words) > 1:
        hint = N_('Put it in quotes: duckflow run "{words}"')
        raise UsageError(N_("The request must be one argument."), hint=hint, words=safe_line(" ".join(words)))
    hint = N_('duckflow run "what you want"')
    raise UsageError(N_("What should be done? The request is missing."), hint=hint)


def overrides(chosen: Mapping[str, Any]) -> Overrides:
    """The settings that were given as options."""
    return Overrides(
        model=chosen["model"],
        mode=chosen["mode"],
        lang=chosen["lang"],
        config_file=Path(chosen["config_file"]) if chosen["config_file"] else None,
        max_attempts=number("--max-attempts", chosen["max_attempts"], int),
        max_turns=number("--max-turns", chosen["max_turns"], int),
        max_cost_usd=number("--max-cost-usd", chosen["max_cost_usd"], float),
        allow=chosen["allow"],
        deny=chosen["deny"],
    )


def number(option: str, given: str | None, kind: type[Number]) -> Number | None:
    if given is None:
        return None
    try:
        return kind(given)
    except ValueError:
        raise UsageError(N_("{option} needs a number, not “{given}”."), option=option, given=safe_line(given)) from None


def one_of(option: str, given: str, known: Sequence[str]) -> str:
    if given in known:
        return given
    message = N_("“{value}” is not a value of {option}; it is one of: {known}.")
    raise UsageError(message, option=option, value=safe_line(given), known=listed(known))
