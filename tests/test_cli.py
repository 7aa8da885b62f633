"""The command line as scripts and people meet it: what is accepted, what is refused and how, exit codes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from duckflow import __version__, cli

ROOT = Path(__file__).resolve().parents[1]
COMMAND = [sys.executable, "-P", "-c", "import sys; from duckflow.cli import main; sys.exit(main())"]


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "project").mkdir()
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT / "src"),
        "HOME": str(tmp_path),
        "DUCKFLOW_HOME": str(tmp_path / "data"),
        "LANG": "C.UTF-8",
    }


def duckflow(env: dict[str, str], *args: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *args],
        env={**env, **more},
        cwd=Path(env["HOME"], "project"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
    )


def test_the_version_comes_at_once(env: dict[str, str]) -> None:
    done = duckflow(env, "--version")
    assert (done.returncode, done.stdout) == (0, f"duckflow {__version__}\n")
    assert duckflow(env, "-v", "--version").stdout == done.stdout
    code = "from duckflow.cli import main; import sys; main(['--version']); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-P", "-c", code], env=env, capture_output=True, text=True).stdout.split()
    assert not {"click", "rich", "prompt_toolkit", "pydantic", "asyncio", "typing", "duckflow.errors"} & set(loaded)


@pytest.mark.parametrize("args", [["--help"], ["-h"], ["run", "--help"], ["--help", "run"], ["audit", "-h"]])
@pytest.mark.parametrize("lang", ["en", "ja"])
def test_help_in_both_languages_for_everything(env: dict[str, str], args: list[str], lang: str) -> None:
    done = duckflow(env, *args, "--lang", lang)
    assert done.returncode == 0 and "--output-format" in done.stdout
    for later in cli.LATER:
        assert f"duckflow {later}" not in done.stdout


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["rnu", "x"], "Did you mean `duckflow run`?"),
        (["fix the tests"], 'duckflow run "fix the tests"'),
        (["undo"], "not in this version yet"),
        (["memory", "list"], "not in this version yet"),
        (["--bogus"], "There is no option --bogus"),
        (["--verbos"], "Did you mean --verbose?"),
        (["run"], "request is missing"),
        (["run", "  "], "request is missing"),
        (["run", "fix", "the", "tests"], 'duckflow run "fix the tests"'),
        (["-p", "x", "sessions"], "exclude each other"),
        (["run", "-C"], "Option -C needs a value."),
        (["sessions", "extra"], "Too many arguments: extra"),
        (["config", "edit"], "show, path, check"),
        (["run", "x", "--output-format", "xml"], "“xml” is not a value of --output-format; it is one of: text, json,"),
        (["run", "x", "--max-turns", "many"], "duckflow: --max-turns needs a number"),
        (["run", "x", "--max-turns", "0"], "duckflow: --max-turns must be a whole number"),
        (["run", "x", "--mode", "yolo"], "duckflow: --mode must be one of: plan, ask"),
        (["-C", "/does/not/exist", "sessions"], "/does/not/exist as the workspace: it does not exist."),
        (["-C", "/dev/null", "sessions"], "/dev/null as the workspace: it is not a directory."),
        (["resume"], "The chat needs a terminal"),
        (["resume", "nope"], "The chat needs a terminal"),
        (["resume", "--fork"], "The chat needs a terminal"),
        (["audit", "--risk", "huge"], "huge is not a risk level. → It is LOW, MEDIUM, HIGH or CRITICAL."),
        ([], "needs a terminal"),
    ],
)
def test_wrong_usage_is_exit_code_2_with_the_way_out(env: dict[str, str], args: list[str], told: str) -> None:
    done = duckflow(env, *args)
    assert done.returncode == 2 and told in " ".join(done.stderr.split()), done.stderr
    assert done.stdout == "" and "Traceback" not in done.stderr
    assert "terminal" not in told or not Path(env["DUCKFLOW_HOME"]).exists()


def test_arguments_cannot_command_the_terminal(env: dict[str, str]) -> None:
    for args in (["\x1b[2J"], ["--\x1b[2J"], ["config", "\x1b]0;x\x07"], ["-C", "/\x1b[2J", "sessions"]):
        assert "\x1b" not in duckflow(env, *args).stderr


def test_common_options_stand_before_or_after_the_command(env: dict[str, str], tmp_path: Path) -> None:
    other = tmp_path / "other" / ".duckflow"
    other.mkdir(parents=True)
    (other / "config.toml").write_text('mode = "plan"\n', encoding="utf-8")
    for args in (["-C", "../other", "config", "show"], ["config", "show", "-C", "../other"], ["config", "-C../other"]):
        assert 'mode = "plan"' in duckflow(env, *args).stdout
    wins = duckflow(
        env, "--mode", "auto", "--allow", "shell.run:ls*", "config", "--mode", "plan", "--allow", "search.*"
    )
    assert 'mode = "plan"  # --mode' in wins.stdout
    assert 'rules.allow = ["shell.run:ls*"]' in wins.stdout and 'rules.allow = ["search.*"]' in wins.stdout


def test_bad_settings_are_exit_code_52_and_name_the_key(env: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text("mood = 1\n", encoding="utf-8")
    done = duckflow(env, "--config", str(path), "config", "check")
    assert done.returncode == 52 and "mode" in done.stderr and "bad.toml:1" in "".join(done.stderr.split())
    assert duckflow(env, "--config", str(path), "doctor").returncode == 52
    assert duckflow(env, "--config", str(path), "config", "path").returncode == 0


def test_without_a_model_the_shortest_ways_to_one(env: dict[str, str]) -> None:
    done = duckflow(env, "run", "hello")
    assert done.returncode == 41 and "ANTHROPIC_API_KEY" in done.stderr
    assert duckflow(env, "-p", "hello").returncode == 41
    assert duckflow(env, "run", "-p", "hello").returncode == 41
    as_json = duckflow(env, "run", "hello", "--output-format", "json")
    assert as_json.returncode == 41 and as_json.stdout.count("\n") == 1 and '"exit_code": 41' in as_json.stdout


def test_messages_follow_the_language_of_the_locale(env: dict[str, str]) -> None:
    english, japanese = duckflow(env, "undo").stderr, duckflow(env, "undo", LANG="ja_JP.UTF-8").stderr
    assert english.isascii()
    assert duckflow(env, "--lang", "ja", "undo").stderr == japanese
    assert duckflow(env, "undo", DUCKFLOW_LANG="ja").stderr == japanese


def test_a_reader_that_leaves_is_no_error(env: dict[str, str]) -> None:
    command = " ".join(f"'{part}'" for part in [*COMMAND, "config", "show"])
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", f"{command} | true"], env=env, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0 and done.stderr == ""


SCRIPT = """
[[reply]]
node = "understand"
text = '''{"rationale": "r", "goal_consistency": "yes: x", "constraint_check": "yes: x", "next_step": "done",
"profile": "guidance", "confidence": 0.9, "reply": "the answer", "actions": []}'''
"""


def shell(env: dict[str, str], tmp_path: Path, line: str) -> subprocess.CompletedProcess[str]:
    """`duckflow …` with redirections, a scripted model behind it."""
    script, settings, program = tmp_path / "s.toml", tmp_path / "c.toml", tmp_path / "duckflow"
    script.write_text(SCRIPT, encoding="utf-8")
    settings.write_text(
        f'[providers.x]\nkind = "scripted"\n[models.main]\nprovider = "x"\nmodel = "{script}"\n', encoding="utf-8"
    )
    program.write_text("#!/bin/sh\nexec " + " ".join(f"'{part}'" for part in COMMAND) + ' "$@"\n', encoding="utf-8")
    program.chmod(0o700)
    given = {**env, "PATH": f"{tmp_path}:{env['PATH']}"}
    return subprocess.run(
        ["sh", "-c", line.replace("CONFIG", f"--config '{settings}'")],
        env=given,
        cwd=tmp_path / "project",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
    )


@pytest.mark.parametrize(
    ("line", "out"),
    [
        ("duckflow run hi CONFIG", "the answer\n"),
        ("duckflow run hi CONFIG 2>&-", "the answer\n"),
        ("duckflow run hi CONFIG <&- 2>&-", "the answer\n"),
        ("duckflow run hi CONFIG 2>/dev/full", "the answer\n"),
        ("duckflow run hi CONFIG >&-", ""),
        ("duckflow run hi CONFIG --output-format stream-json >&-", ""),
        ("duckflow sessions >&-", ""),
        ("duckflow --version >&-", ""),
        ("duckflow --help >&- 2>&-", ""),
    ],
)
def test_a_closed_stream_is_not_written_and_the_rest_stands(
    env: dict[str, str], tmp_path: Path, line: str, out: str
) -> None:
    done = shell(env, tmp_path, line)
    assert (done.returncode, done.stdout) == (0, out), done.stderr
    assert "wrong" not in done.stderr and not [*tmp_path.glob("data/**/*.log")]


@pytest.mark.parametrize(
    "line", ["run hi CONFIG", "run hi CONFIG --output-format stream-json", "--version", "sessions", "--help", "demo"]
)
def test_a_full_disk_is_told_in_one_message(env: dict[str, str], tmp_path: Path, line: str) -> None:
    done = shell(env, tmp_path, f"duckflow {line} >/dev/full")
    assert done.returncode == 1 and done.stderr.count("Cannot write to standard output: No space left") == 1
    assert not {"wrong", "Traceback", "ignored"} & set(done.stderr.split()) and not [*tmp_path.glob("data/**/*.log")]


@pytest.mark.parametrize("args", ["", "resume", "resume --fork"])
def test_a_chat_without_any_input_is_refused(env: dict[str, str], tmp_path: Path, args: str) -> None:
    done = shell(env, tmp_path, f"duckflow {args} <&-")
    assert done.returncode == 2 and "The chat needs a terminal" in done.stderr


def test_work_that_was_stopped_is_offered_by_the_next_chat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from duckflow.app import Options, working
    from duckflow.app.opening import open_session, open_workspace
    from duckflow.events import Message
    from duckflow.state.journal import SessionRow

    monkeypatch.setenv("DUCKFLOW_HOME", str(tmp_path / "data"))
    options = Options(tmp_path)
    offered: list[SessionRow] = []

    def converse(*_given: object, offer: SessionRow) -> int:
        offered.append(offer)
        return 0

    session = open_session(open_workspace(options))
    run = session.start_run()
    session.append(Message(role="user", text="slow work"), run=run)
    session.end_run(run, "cancelled", 3)
    monkeypatch.setattr(working, "_converse", converse)
    assert working.chat(options) == 0
    assert [row.title for row in offered] == ["slow work"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_signals_end_it_with_their_own_code(env: dict[str, str], number: int, code: int) -> None:
    """While it still waits for its input."""
    read_end, write_end = os.pipe()
    holder = subprocess.Popen(["sleep", "60"], stdout=write_end)  # a neighbour in the pipeline
    os.close(write_end)
    process = subprocess.Popen(
        [*COMMAND, "run", "x"], env=env, stdin=read_end, stderr=subprocess.PIPE, text=True, encoding="utf-8"
    )
    try:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("duckflow: waiting")
        process.send_signal(number)
        assert process.wait(timeout=20) == code
        with process.stderr:
            assert "Traceback" not in process.stderr.read()
    finally:
        holder.kill()
        holder.wait()
        os.close(read_end)


def test_a_bug_is_two_lines_and_a_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from duckflow import app

    def broken(_options: object) -> int:
        raise RuntimeError("boom with ghp_0123456789abcdefghijklmnopqrstuvwxyz")

    monkeypatch.setattr(app, "sessions", broken)
    monkeypatch.setenv("DUCKFLOW_HOME", str(tmp_path))
    assert cli.main(["sessions"]) == 1
    told = capfd.readouterr().err
    (log,) = (tmp_path / "logs").iterdir()
    assert "RuntimeError" in told and "Traceback" not in told and str(log.parent) in "".join(told.split())
    text = log.read_text(encoding="utf-8")
    assert "boom" in text and "ghp_0123" not in text
    assert cli.main(["-v", "sessions"]) == 1
    told = capfd.readouterr().err
    assert "Traceback" in told and "ghp_0123" not in told
