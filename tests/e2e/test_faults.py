"""What a bad service, a bad reply or a bad moment may not do: an effect, a traceback, a loss."""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from duckflow.llm.base import Limits
from duckflow.llm.http import HttpModel
from duckflow.llm.providers import build
from tests.e2e.duck import Duck
from tests.e2e.server import ModelServer, Reply, cuts
from tests.engine.workbench import Bench, act, decision, verdict, yes

SMALL = (
    '{"rationale":"r","goal_consistency":"yes","constraint_check":"yes","next_step":"done","actions":'
    '[{"operation":"file_ops.write_file","args":{"path":"x","content":{"block":"B"}},"reasoning":"r"}]}\n<<<B\ny\nB>>>\n'
)
NOW = {"Retry-After": "0"}


@pytest.mark.parametrize("status", [429, 500, 503, 529])
def test_a_service_that_stays_down_ends_with_75(tmp_path: Path, status: int) -> None:
    with ModelServer(Reply(status=status, headers=NOW)) as server:
        ran = Duck(tmp_path, server.url).run("go")
    assert (ran.code, ran.result["status"]) == (75, "failed") and len(server.requests) == 4
    assert ran.of("error")[0]["hint"]


@pytest.mark.parametrize("status", [429, 500, 529])
def test_a_service_that_comes_back_is_waited_for(tmp_path: Path, status: int) -> None:
    good = decision(profile="guidance", reply="Here.")
    with ModelServer([Reply(status=status, headers=NOW), Reply(status=status, headers=NOW), good]) as server:
        ran = Duck(tmp_path, server.url).run("go")
    assert (ran.code, ran.of("model.called")[0]["tries"]) == (0, 3)


@pytest.mark.parametrize("status", [401, 403])
def test_refused_credentials_end_with_41(tmp_path: Path, status: int) -> None:
    with ModelServer(Reply(status=status)) as server:
        ran = Duck(tmp_path, server.url).run("go")
    assert (ran.code, ran.result["error"]["code"]) == (41, "credentials") and len(server.requests) == 1


def test_no_service_at_all_ends_with_75_and_says_where_it_looked(tmp_path: Path) -> None:
    with ModelServer("") as server:
        url = server.url
    duck = Duck(tmp_path, url, extra="")
    ran = duck("run", "go")
    assert ran.code == 75 and "127.0.0.1" in ran.err


@pytest.mark.parametrize(
    "reply",
    [
        Reply("", finish="stop"),
        Reply("no JSON at all"),
        Reply(SMALL, finish="length"),
        Reply(SMALL, finish=None),
        Reply(SMALL, malformed_after=40),
        Reply(SMALL, error_after=40),
        Reply(SMALL.replace("file_ops.write_file", "file_ops.write_file", 1).replace('"r"}]', '"r",}]')),
        Reply(SMALL.replace("B>>>", "C>>>")),
        Reply(SMALL.replace('"rationale":"r",', "")),
        Reply("{" * 10_000),
        Reply(content_type="text/html", raw=b"<html>login</html>"),
        Reply(raw=b"data: {broken\n\n", content_type="text/event-stream"),
    ],
)
def test_a_bad_reply_ends_clearly_and_has_no_effect(tmp_path: Path, reply: Reply) -> None:
    with ModelServer(reply) as server:
        duck = Duck(tmp_path, server.url)
        ran = duck.run("--mode", "auto", "go")
    assert ran.code in (3, 52, 75) and ran.result["status"] == "failed" and duck.files() == {}
    assert ran.of("error")[0]["message"] and not ran.of("action.started")
    if ran.code == 3:
        assert [r.headers.get("x-duckflow-retry") for r in server.requests] == [None, "1"]


def test_an_unknown_model_is_a_matter_of_the_settings(tmp_path: Path) -> None:
    with ModelServer(Reply(status=404)) as server:
        ran = Duck(tmp_path, server.url).run("go")
    assert (ran.code, ran.result["error"]["code"]) == (52, "service-settings")


def test_the_text_of_a_broken_reply_without_actions_is_rescued_for_reading(tmp_path: Path) -> None:
    broken = decision(profile="guidance", reply="Use a set.", actions=[])[:-1] + ",}"
    with ModelServer(broken) as server:
        ran = Duck(tmp_path, server.url).run("list or set?")
    assert (ran.code, ran.result["status"], ran.result["reply"]) == (3, "failed", "Use a set.")


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_a_reply_cut_at_any_position_runs_nothing(tmp_path: Path, kind: str) -> None:
    """Every position, with the real engine over real HTTP; the process itself is tried at some of them below."""
    for position, reply in enumerate(cuts(SMALL)):
        with ModelServer(reply) as server:
            address = server.url if kind == "openai" else server.url.removesuffix("/v1")
            model = build(_Spec(kind, address), Limits(), {})
            assert isinstance(model, HttpModel)
            bench = Bench(tmp_path / str(position), model, yes)
            bench.kit.models.sleep = _at_once
            ending = await bench.chat.turn("go")
            await model.close()
        assert ending.status == "failed" and list(bench.root.iterdir()) == [], position


@pytest.mark.parametrize("position", range(1, len(SMALL), 24))
def test_the_command_survives_a_cut_reply(tmp_path: Path, position: int) -> None:
    with ModelServer(Reply(SMALL, cut_after=position)) as server:
        duck = Duck(tmp_path, server.url)
        ran = duck.run("--mode", "auto", "go")
    assert ran.code == 3 and duck.files() == {} and ran.of("error")[0]["code"] == "unreadable"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_end_a_run_with_their_own_code_and_leave_nothing_behind(tmp_path: Path, number: int, code: int) -> None:
    command = decision(act("shell.run", command="echo $$ > pid; exec sleep 300"), profile="modification")
    with ModelServer(command) as server:
        duck = Duck(tmp_path, server.url)
        process = duck.start("run", "--output-format", "stream-json", "--allow", "shell.run", "go")
        assert process.stdout is not None
        for line in process.stdout:
            if '"action.started"' in line:
                break
        _wait_for(duck.project / "pid")
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    assert process.returncode == code and "Traceback" not in err
    assert f'"exit_code": {code}' in out.splitlines()[-1] and '"status": "cancelled"' in out.splitlines()[-1]
    pid = int((duck.project / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_killed_while_a_command_runs_it_leaves_no_process_no_half_file_and_an_audit_that_holds(tmp_path: Path) -> None:
    both = decision(
        act("file_ops.write_file", path="a.txt", content="a"),
        act("shell.run", command="echo once >> count; echo $$ > pid; exec sleep 300"),
        profile="modification",
    )
    with ModelServer(both) as server:
        duck = Duck(tmp_path, server.url)
        process = duck.start("run", "--mode", "auto-edit", "--allow", "shell.run", "go")
        _wait_for(duck.project / "pid")
        process.kill()
        process.communicate()
    _wait_until_gone(int((duck.project / "pid").read_text()))
    assert duck("audit", "--verify").code == 0
    assert "go" in duck("sessions").out
    assert duck.files()["a.txt"] == b"a" and duck.files()["count"] == b"once\n"


class _Spec:
    """What the factory must know about a model."""

    provider, api_key_env, model, window, price, max_output = "local", None, "tester", 64_000, None, None

    def __init__(self, kind: str, base_url: str) -> None:
        self.kind, self.base_url = kind, base_url


async def _at_once(_seconds: float) -> None:
    return None


def _wait_for(path: Path) -> None:
    _wait(lambda: path.exists() and bool(path.read_text().strip()), f"{path} never came")


def _wait_until_gone(pid: int) -> None:
    def gone() -> bool:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        return False

    _wait(gone, f"process {pid} is still there")


def _wait(ready: Callable[[], bool], problem: str) -> None:
    end = time.monotonic() + 30
    while not ready():
        assert time.monotonic() < end, problem
        time.sleep(0.02)


def test_the_store_is_verified_and_a_changed_row_is_noticed(tmp_path: Path) -> None:
    with ModelServer({"understand": SMALL, "evaluate": verdict()}) as server:
        duck = Duck(tmp_path, server.url)
        assert duck.run("--mode", "auto-edit", "go").code == 0
    assert duck("audit", "--verify").code == 0
    (store,) = (tmp_path / "data").rglob("duckflow.db")
    with sqlite3.connect(store) as db:
        db.execute("update events set body=replace(body, '\"ok\": true', '\"ok\": false') where type='action.finished'")
    assert duck("audit", "--verify").code == 1
