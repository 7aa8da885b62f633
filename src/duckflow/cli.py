"""The command line: what was typed becomes one call of `app`. Loads nothing before it knows what is wanted."""

from __future__ import annotations

import gc
import sys

from duckflow import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    import click

    from duckflow import app

    Job = Callable[[], int]

COMMANDS = ("run", "resume", "sessions", "audit", "config", "doctor", "demo")
LATER = ("undo", "redo", "search", "index", "memory", "trust", "init")
FORMATS = ("text", "json", "stream-json")


def main(argv: list[str] | None = None) -> int:
    args = sys.argv[1:] if argv is None else argv
    if args == ["--version"]:
        from duckflow.ui.process import print_version

        return print_version(f"duckflow {__version__}")
    gc.disable()  # until the event loop runs: loading makes no garbage, looking for it takes a tenth of the time
    from duckflow.ui.process import close_streams

    try:
        return _guarded(args)
    finally:
        close_streams()
        gc.freeze()  # the end of the process does not look through everything once more


def _guarded(args: list[str]) -> int:
    """Every way a command can end, as an exit code. No traceback reaches the person unless they ask for it."""
    from duckflow.errors import DuckflowError
    from duckflow.ui.process import catch_signals, hold_descriptors

    hold_descriptors()
    catch_signals()
    _set_language(args)
    try:
        return (_plainly(args) or _parse(args))()
    except DuckflowError as error:
        from duckflow.ui.trouble import explain_error

        explain_error(error)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # `duckflow audit | head`: nobody reads on
        return 0
    except SystemExit as wanted:
        return wanted.code if isinstance(wanted.code, int) else 1
    except Exception as error:
        from duckflow.ui.trouble import explain_bug

        explain_bug(error, verbose="-v" in args or "--verbose" in args)
        return 1


def _set_language(args: list[str]) -> None:
    """For messages about the command line itself; the settings may choose again later."""
    import os

    from duckflow.i18n import detect, set_language

    wanted = os.environ.get("DUCKFLOW_LANG", "auto")
    for i, arg in enumerate(args):
        if arg.startswith("--lang"):
            wanted = arg[7:] if arg.startswith("--lang=") else "".join(args[i + 1 : i + 2])
    set_language(detect(wanted))


def _plainly(args: list[str]) -> Job | None:
    """The two most frequent starts, a chat and one request, need no parser."""
    if not args:
        return _chat()
    if len(args) == 2 and args[0] == "run" and args[1].strip() and not args[1].startswith("-"):
        from duckflow.app import Options

        return _work(Options(), args[1])
    return None


# --- from words to a job ------------------------------------------------------------------------------------------


def _parse(args: list[str]) -> Job:
    """What to do, or a UsageError that says what was meant. click parses; it runs and prints nothing."""
    import click

    from duckflow.ui.usage import wrong_usage

    try:
        job: Job | None = _program().main(args, prog_name="duckflow", standalone_mode=False)
    except click.ClickException as error:
        raise wrong_usage(error, args) from None
    return job or (lambda: 0)


def _program() -> click.Group:
    import click

    from duckflow.ui.usage import no_such_command

    class Program(click.Group):
        def get_command(self, ctx: click.Context, name: str) -> click.Command:
            found = super().get_command(ctx, name)
            if found is None:
                raise no_such_command(name, COMMANDS, LATER)
            return found

    own = [click.Option(["-p", "request"]), click.Option(["--version"], is_flag=True)]
    program = Program(callback=_start, params=[*_common(), *own], invoke_without_command=True, add_help_option=False)
    for name, callback, options in _table():
        params = [*(click.Option([flag], is_flag=kind is bool) for flag, kind in options), *_common()]
        command = click.Command(name, callback=_or_help(name, callback), params=params, add_help_option=False)
        command.allow_extra_args = True
        program.add_command(command)
    return program


def _common() -> list[click.Parameter]:
    """Accepted before and after the name of the command; what stands after it wins."""
    import click

    plain = (
        ("-C", "--cd", "cd"),
        ("-m", "--model", "model"),
        ("--mode",),
        ("--lang",),
        ("--config", "config_file"),
        ("--max-attempts",),
        ("--max-turns",),
        ("--max-cost-usd",),
        ("--output-format",),
    )
    options = [click.Option(list(names)) for names in plain]
    options += [click.Option([name], multiple=True) for name in ("--allow", "--deny")]
    options += [click.Option(["-v", "--verbose"], is_flag=True), click.Option(["-h", "--help", "help_"], is_flag=True)]
    return list(options)


def _table() -> tuple[tuple[str, Callable[..., Job], tuple[tuple[str, type], ...]], ...]:
    audit = [(name, str) for name in ("--session", "--operation", "--risk", "--export")]
    return (
        ("run", _run, (("-p", str),)),
        ("resume", _resume, (("--fork", bool),)),
        ("sessions", _plain("sessions"), ()),
        ("audit", _audit, (*audit, ("--verify", bool), ("--stats", bool))),
        ("config", _config, ()),
        ("doctor", _plain("doctor"), ()),
        ("demo", _plain("demo"), ()),
    )


def _start(request: str | None, version: bool, **common: Any) -> Job | None:
    """Options before the command, or no command at all."""
    import click

    from duckflow.ui.usage import exclude_each_other, one_request

    context = click.get_current_context()
    context.obj = common
    if version:
        return lambda: main(["--version"])
    if context.invoked_subcommand is not None:
        if request is not None:
            raise exclude_each_other()
        return None
    if common["help_"]:
        return _help("")
    options, _words = _options({}, 0)
    return _chat(options) if request is None else _work(options, one_request([request]))


def _or_help(name: str, callback: Callable[..., Job]) -> Callable[..., Job]:
    import click

    def call(**params: Any) -> Job:
        before = click.get_current_context().find_root().obj
        return _help(name) if params["help_"] or before["help_"] else callback(**params)

    return call


def _help(name: str) -> Job:
    def job() -> int:
        from duckflow.ui.usage import show_help

        return show_help(name)

    return job


# --- the commands -------------------------------------------------------------------------------------------------


def _chat(options: app.Options | None = None) -> Job:
    """Without any options not even click is needed: the most frequent start is the fastest."""
    return _with_person(lambda: _app().chat(options or _app().Options()))


def _with_person(job: Job) -> Job:
    """Without a terminal nothing is even opened."""

    def guarded() -> int:
        from duckflow.ui.stdin import need_terminal

        need_terminal()
        return job()

    return guarded


def _work(options: app.Options, request: str) -> Job:
    def job() -> int:
        from duckflow import app
        from duckflow.ui.stdin import piped
        from duckflow.ui.trouble import note

        return app.run(options, request, piped(note) if sys.stdin is not None else None)

    return job


def _run(p: str | None, **common: Any) -> Job:
    from duckflow.ui.usage import one_request

    options, words = _options(common, 10**6)
    return _work(options, one_request(words if p is None else [p, *words]))


def _resume(fork: bool, **common: Any) -> Job:
    options, words = _options(common, 1)
    return _with_person(lambda: _app().resume(options, words[0] if words else None, fork))


def _audit(**common: Any) -> Job:
    from duckflow.ui.audit import Query

    query = Query(**{name: common.pop(name) for name in Query.FIELDS})
    options, _words = _options(common, 0)
    return lambda: _app().audit(options, query)


def _config(**common: Any) -> Job:
    from duckflow.ui.usage import one_of

    options, words = _options(common, 1)
    action = one_of("duckflow config", words[0] if words else "show", ("show", "path", "check"))
    return lambda: _app().settings(options, action)


def _plain(name: str) -> Callable[..., Job]:
    """A command without options or words of its own."""

    def command(**common: Any) -> Job:
        options, _words = _options(common, 0)
        return lambda: getattr(_app(), name)(options)

    return command


def _app() -> Any:
    from duckflow import app

    return app


def _options(own: dict[str, Any], most: int) -> tuple[app.Options, list[str]]:
    """The common options of both places, and the words that are no options (at most so many)."""
    from pathlib import Path

    import click

    from duckflow.app import Options
    from duckflow.ui.usage import one_of, overrides, too_many

    context = click.get_current_context()
    before: dict[str, Any] = context.find_root().obj
    words = list(context.args) if own else []
    if len(words) > most:
        raise too_many(words[most:])
    chosen = {name: own.get(name) or before[name] for name in before}
    for name in ("allow", "deny"):
        chosen[name] = (*before[name], *own.get(name, ()))
    output = one_of("--output-format", chosen["output_format"] or "text", FORMATS)
    folder = Path(chosen["cd"]) if chosen["cd"] else None
    return Options(folder, overrides(chosen), output, chosen["verbose"]), words
