"""The session: one owner, events on disk before anybody hears of them, resume and fork, the hash chain."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from duckflow import events as ev
from duckflow.errors import StoreError, UsageError
from duckflow.state.journal import Store
from duckflow.state.machine import Status, Step, Trigger
from duckflow.state.session import Session

STARTED = ev.SessionStarted(workspace="/w", version="0", mode="ask", models={"creative": ["a/b"]})


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "data" / "duckflow.db")


def worked(store: Store) -> Session:
    """A session with a bit of everything."""
    session = Session.start(store, STARTED)
    run = session.start_run()
    session.move(run, Trigger.MESSAGE, Step.PLANNING, Status.IN_PROGRESS)
    session.append(
        ev.Message(role="user", text="直して"),
        ev.HistoryAdded(thread="chat", role="user", kind="message", text="直して " * 400),
        ev.DecisionMade(decision={"confidence": 0.9}, node="understand", blocks={"B": "x" * 500}),
        ev.ObjectiveChanged(
            objective="O1", request="直して", requirements=({"id": "R1", "text": "t"},), attempt=1, satisfaction=0.0
        ),
        ev.ActionStarted(action="A1", operation="shell.run", args_digest="d", reasoning="r", risk="HIGH"),
        ev.ActionFinished(
            action="A1", operation="shell.run", ok=True, exit_code=0, effect=True, output="out " * 300,
            evidence=({"id": "E1", "kind": "command", "facts": {"command": "true", "exit": 0}},),
        ),
        run=run,
    )  # fmt: skip
    return session


def test_looking_in_writes_nothing_and_the_first_event_is_the_start(store: Store) -> None:
    session = Session.start(store, STARTED)
    assert store.sessions() == []
    session.start_run()
    assert [e.body.type for e in store.events(session.id)] == ["session.started", "run.started"]


def test_resume_is_exactly_what_the_events_left(store: Store) -> None:
    session = worked(store)
    again = Session.resume(Store(store.path), None)
    assert again.state == session.state
    assert again.state.outputs["A1"] == "out " * 300
    assert again.new_id("A") == "A2" and again.new_id("E") == "E2" and again.new_id("O") == "O2"


def test_a_fork_has_everything_and_leaves_the_origin_alone(store: Store) -> None:
    session = worked(store)
    before = list(store.events(session.id))
    fork = Session.fork(store, session.id[:15])
    fork.append(ev.Message(role="user", text="other"))
    assert list(store.events(session.id)) == before
    assert fork.state.threads == session.state.threads and fork.id != session.id
    assert {row.id: row.parent for row in store.sessions()}[fork.id] == session.id
    assert store.verify() == []


def test_seq_rises_by_one_and_listeners_hear_what_is_already_stored(store: Store) -> None:
    session = worked(store)
    heard: list[int] = []
    session.subscribe(lambda event: heard.append(len(list(Store(store.path).events(session.id))) - event.seq))
    session.append(ev.Message(role="user", text="a"), ev.Message(role="user", text="b"))
    assert heard == [1, 0]
    assert [e.seq for e in store.events(session.id)] == list(range(1, session.state.last_seq + 1))


def test_a_refused_transition_is_recorded_and_changes_nothing(store: Store) -> None:
    session = worked(store)
    run = session.state.focus or ""
    assert session.move(run, Trigger.VERDICT, Step.DONE) is False
    last = list(store.events(session.id))[-1].body
    assert isinstance(last, ev.StateChanged) and last.refused and "PLANNING → DONE" in last.reason
    assert session.run(run).step is Step.PLANNING


@pytest.mark.parametrize(
    "sql",
    [
        "update events set body=replace(body, '直して', '壊して') where seq=4",
        "update events set at='2020-01-01T00:00:00.000Z' where seq=2",
        "update events set run='run9' where seq=3",
        "delete from events where seq=3",
        "delete from events where seq=(select max(seq) from events)",
        "update blobs set data='changed'",
        "delete from blobs",
        "delete from sessions",
    ],
)
def test_verify_notices_any_changed_row(store: Store, sql: str) -> None:
    worked(store)
    assert store.verify() == []
    with sqlite3.connect(store.path) as db:
        db.execute(sql)
    assert Store(store.path).verify()


def test_two_writers_of_one_session_lose_nothing(store: Store) -> None:
    session = worked(store)
    other = Session.resume(Store(store.path), session.id)
    session.append(ev.Message(role="user", text="first"))
    with pytest.raises(StoreError):
        other.append(ev.Message(role="user", text="second"))
    assert store.verify() == []


def test_secrets_reach_neither_state_nor_store(store: Store) -> None:
    session = Session.start(store, STARTED, redact=lambda text: text.replace("hunter22", "[redacted]"))
    session.append(
        ev.Message(role="user", text="my key is hunter22"),
        ev.DecisionMade(decision={"reply": ["hunter22"]}, node="understand", blocks={"B": "hunter22 " * 100}),
    )
    for file in store.path.parent.iterdir():
        assert b"hunter22" not in file.read_bytes()


@pytest.mark.parametrize("content", [b"not a database at all, but long enough to be looked at " * 50, b""])
def test_a_damaged_store_is_set_aside_and_nothing_is_deleted(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "duckflow.db"
    path.write_bytes(content)
    store = Store(path)
    worked(store)
    if content:
        assert store.set_aside is not None and store.set_aside.read_bytes() == content
    else:
        assert store.set_aside is None


def test_a_store_of_a_newer_version_is_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "duckflow.db"
    with sqlite3.connect(path) as db:
        db.execute("pragma user_version=99")
        db.execute("create table future(x)")
    store = Store(path)
    assert store.set_aside is not None and store.set_aside.exists()
    assert store.sessions() == []


def test_unknown_and_ambiguous_sessions_are_named(store: Store) -> None:
    with pytest.raises(UsageError):
        Session.resume(store, None)
    worked(store)
    worked(store)
    with pytest.raises(UsageError, match="Several"):
        Session.resume(store, "2")
    with pytest.raises(UsageError, match="No session"):
        Session.resume(store, "zzz")


def test_an_event_of_a_newer_version_is_kept_and_skipped(store: Store) -> None:
    session = worked(store)
    with sqlite3.connect(store.path) as db:
        db.execute("update events set type='future.thing' where seq=4")
    again = Session.resume(Store(store.path), session.id)
    assert again.state.last_seq == session.state.last_seq
    assert Store(store.path).verify()


_OPEN = """
import sys, time
from pathlib import Path
from duckflow import events as ev
from duckflow.state.journal import Store
from duckflow.state.session import Session
sys.stdout.write("ready"); sys.stdout.flush(); sys.stdin.read(1)
store = Store(Path(sys.argv[1]))
Session.start(store, ev.SessionStarted(workspace="/w", version="0", mode="ask", models={})).start_run()
assert store.set_aside is None
"""


def test_many_may_open_a_new_store_at_once(tmp_path: Path) -> None:
    for turn in range(5):
        path = tmp_path / str(turn) / "data" / "duckflow.db"
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", _OPEN, str(path)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )
            for _ in range(8)
        ]  # fmt: skip
        for process in processes:
            assert process.stdout is not None and process.stdout.read(5) == b"ready"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write(b"x")
            process.stdin.flush()
        errors = [process.communicate()[1].decode() for process in processes]
        assert errors == [""] * 8
        store = Store(path)
        assert len(store.sessions()) == 8 and store.verify() == []
        assert path.stat().st_mode & 0o777 == 0o600


def test_a_store_that_stays_locked_is_an_error_after_the_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duckflow.state.journal._BUSY", 0.2)
    path = tmp_path / "duckflow.db"
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("begin exclusive")
    began = time.monotonic()
    with pytest.raises(StoreError, match="locked"):
        Store(path)
    assert time.monotonic() - began < 3
    holder.execute("rollback")
    assert Store(path).sessions() == []
