"""The three outputs of `run`, from events on a real session: stdout for the answer, stderr for the progress."""

from __future__ import annotations

import errno
import io
import json
from pathlib import Path
from typing import Any

import pytest

from duckflow import events as ev
from duckflow.errors import N_, CredentialsError
from duckflow.state.journal import Store
from duckflow.state.session import Session
from duckflow.ui.headless import Headless, print_failure
from duckflow.ui.out import OutputError

REPLY = "できました。\x1b]0;evil\x07 Done.\n"
RESULT: dict[str, Any] = {
    "type": "result", "status": "satisfied", "exit_code": 0, "reply": REPLY, "objective": None, "verdict": None,
    "files_changed": ["a.py"], "usage": {}, "session": "s",
}  # fmt: skip


def work(tmp_path: Path, fmt: str, *, verbose: bool = False, **result: Any) -> tuple[str, str, Session]:
    """A short run: one message, one call, one command with a long output, one reply."""
    started = ev.SessionStarted(workspace=str(tmp_path), version="0", mode="ask", models={})
    session = Session.start(Store(tmp_path / "state.db"), started)
    out, err = io.StringIO(), io.StringIO()
    screen = Headless(fmt, out, err, session, verbose)
    screen.attach()
    run = session.start_run()
    session.append(ev.Message(role="user", text="直して", kind="message"), run=run)
    session.show(ev.Live("reply", "できました。\n\n", run))
    session.append(
        ev.ActionFinished(
            action="A1", operation="shell.run", ok=True, exit_code=0, ms=40, summary="run make", output="line\n" * 100
        ),
        ev.Message(role="assistant", text=REPLY, kind="reply"),
        run=run,
    )
    session.end_run(run, "satisfied")
    screen.finish({**RESULT, **result})
    return out.getvalue(), err.getvalue(), session


def test_text_is_the_answer_alone_and_harmless(tmp_path: Path) -> None:
    out, err, _session = work(tmp_path, "text")
    assert out == "できました。‹U+001B›]0;evil‹U+0007› Done.\n"
    assert "> 直して" in err and "run make · exit 0" in err and "できました" not in err


def test_text_says_on_stderr_how_it_ended_when_not_well(tmp_path: Path) -> None:
    out, err, _session = work(tmp_path, "text", status="refused", exit_code=4, reply="")
    assert out == "" and "nobody could give it" in err


def test_how_it_ended_is_said_once_and_the_report_only_on_stdout(tmp_path: Path) -> None:
    started = ev.SessionStarted(workspace=str(tmp_path), version="0", mode="ask", models={})
    store = Store(tmp_path / "state.db")
    for fmt, reports in (("text", 0), ("json", 1)):
        session, out, err = Session.start(store, started), io.StringIO(), io.StringIO()
        screen = Headless(fmt, out, err, session)
        screen.attach()
        run = session.start_run()
        session.append(
            ev.Escalation(report="Not finished.", options=("leave it",)),
            ev.Message(role="assistant", text="Not finished.", kind="outcome"),
            run=run,
        )
        session.end_run(run, "failed")
        screen.finish({**RESULT, "status": "failed", "exit_code": 1, "reply": "Not finished."})
        assert out.getvalue().count("Not finished.") == 1 and err.getvalue().count("Not finished.") == reports
        assert err.getvalue().lower().count("ended with an error") == 1


def test_a_full_disk_does_not_stop_the_work_and_is_told_at_the_end(tmp_path: Path) -> None:
    class Full(io.StringIO):
        def write(self, _text: str) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    started = ev.SessionStarted(workspace=str(tmp_path), version="0", mode="ask", models={})
    session = Session.start(Store(tmp_path / "state.db"), started)
    screen = Headless("stream-json", Full(), Full(), session)
    screen.attach()
    session.append(ev.Warned(code="x", message="still here"))
    with pytest.raises(OutputError, match="No space left"):
        screen.finish(RESULT)
    assert session.state.last_seq == 2


def test_json_is_one_line(tmp_path: Path) -> None:
    out, err, _session = work(tmp_path, "json")
    assert out.count("\n") == 1 and json.loads(out) == RESULT
    assert "\x1b" not in out and "できました" in out
    assert "run make" in err


def test_stream_json_is_every_event_and_then_the_result(tmp_path: Path) -> None:
    out, err, session = work(tmp_path, "stream-json")
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["seq"] for line in lines[:-1]] == list(range(1, len(lines)))
    assert lines[0]["type"] == "session.started" and lines[-1] == RESULT
    stored = [{k: v for k, v in line.items() if k != "chain"} for line in session.store.stored_lines(session.id)]
    assert lines[:-1] == stored
    said = next(line for line in lines if line["type"] == "message" and line["role"] == "assistant")
    assert said["text"] == REPLY
    finished = next(line for line in lines if line["type"] == "action.finished")
    assert finished["output"]["chars"] == 500
    assert err == ""


def test_details_on_demand(tmp_path: Path) -> None:
    assert "run make" in work(tmp_path, "stream-json", verbose=True)[1]


def test_a_reader_that_goes_away_does_not_stop_the_work(tmp_path: Path) -> None:
    class Gone(io.StringIO):
        def write(self, _text: str) -> int:
            raise BrokenPipeError(errno.EPIPE, "gone")

    started = ev.SessionStarted(workspace=str(tmp_path), version="0", mode="ask", models={})
    session = Session.start(Store(tmp_path / "state.db"), started)
    screen = Headless("stream-json", Gone(), Gone(), session)
    screen.attach()
    session.append(ev.Warned(code="x", message="still here"))
    screen.finish(RESULT)
    assert session.state.last_seq == 2


@pytest.mark.parametrize("fmt", ["json", "stream-json"])
def test_a_run_that_could_not_begin_has_a_result_too(fmt: str) -> None:
    out = io.StringIO()
    print_failure(CredentialsError(N_("No model is configured.")), out)
    result = json.loads(out.getvalue())
    assert result["type"] == "result" and result["status"] == "failed" and result["exit_code"] == 41
    assert set(RESULT) <= set(result)


def test_a_plan_is_carried_out_inside_the_run_and_told_as_progress(tmp_path: Path) -> None:
    started = ev.SessionStarted(workspace=str(tmp_path), version="0", mode="auto", models={})
    session = Session.start(Store(tmp_path / "state.db"), started)
    out, err = io.StringIO(), io.StringIO()
    screen = Headless("text", out, err, session)
    screen.attach()
    run = session.start_run()

    def plan(status: str, step: str) -> ev.PlanChanged:
        steps = ({"id": "S1", "name": "storage", "status": step},)
        return ev.PlanChanged(plan="P1", name="Ledger", goal="g", status=status, steps=steps)

    call = ev.ModelCalled(
        tier="fast", provider="p", model="m", node="execute", pattern="", prompt_tokens=10, cached_tokens=0,
        completion_tokens=0, cost_usd=None, ms=1,
    )  # fmt: skip
    session.append(call, plan("draft", "pending"), plan("approved", "pending"), run=run)
    step = session.start_run("step", "", run, "S1")
    session.show(ev.Live("output", "not shown\n", step))
    done = ev.ActionFinished(action="A1", operation="shell.run", ok=True, exit_code=0, ms=40, summary="run make")
    session.append(call, done, ev.Message(role="assistant", text="step reply", kind="reply"), run=step)
    session.end_run(step, "satisfied")
    report = ev.Reported(
        status="success", succeeded=1, failed=0, causes=(), recommended_next="", summary="Fine.", plan="P1", total=1
    )
    session.append(plan("completed", "completed"), report, run=run)
    session.append(ev.Message(role="assistant", text="all done", kind="reply"), run=run)
    session.end_run(run, "satisfied")
    screen.finish({**RESULT, "reply": "all done"})
    assert out.getvalue() == "all done\n"
    assert err.getvalue().splitlines() == [
        "  plan “Ledger” drafted: 1 step",
        "  plan “Ledger” approved",
        "  storage · run make · exit 0 · 0.0 s",
        "",
        "  storage:",
        "step reply",
        "  ✓ storage · 1 of 1 step done",
        "  plan “Ledger” completed: 1 of 1 step done",
        "",
        "── plan “Ledger”: 1 of 1 step done",
        "  Fine.",
        "  done, with evidence · p/m · 2 calls · 20 tokens · cost unknown",
    ]
