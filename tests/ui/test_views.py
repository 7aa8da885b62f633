"""The commands that only look: audit, sessions, config, doctor, export, diff."""

from __future__ import annotations

import json
import re
import sqlite3
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from duckflow import config
from duckflow import events as ev
from duckflow.engine.kit import Kit
from duckflow.errors import ConfigError, UsageError
from duckflow.i18n import set_language
from duckflow.llm.tiers import Models
from duckflow.safety.paths import Workspace
from duckflow.state.journal import Store
from duckflow.state.machine import Status, Step, Trigger
from duckflow.state.session import Session
from duckflow.ui import audit, doctor, sessions, settings
from duckflow.ui.audit import Query
from duckflow.ui.changes import diff_since, originals
from duckflow.ui.chat import Chat
from duckflow.ui.commands import Desk, run_command
from duckflow.ui.export import to_markdown
from duckflow.ui.out import Out
from duckflow.ui.standing import show_status
from duckflow.ui.status import Status as StatusLine
from duckflow.ui.wrap import cells

NOBODY = cast(Chat, None)  # for commands that only look


class Paper:
    def __init__(self, width: int = 80) -> None:
        self.pieces: list[str] = []
        self.out = Out(self.pieces.append, colour=False, width=lambda: width)

    @property
    def text(self) -> str:
        return "".join(self.pieces)


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """Two actions: a command somebody allowed, a write a rule forbade."""
    started = ev.SessionStarted(workspace=str(tmp_path), version="0", mode="ask", models={})
    session = Session.start(Store(tmp_path / "state.db"), started)
    run = session.start_run()
    proof = {"id": "E1", "kind": "command", "facts": {"command": "pytest -q", "exit": 0}}
    session.append(
        ev.Message(role="user", text="テストを直して"),
        ev.ModelCalled(
            tier="fast", provider="p", model="m", node="understand", pattern="base_main", prompt_tokens=1,
            cached_tokens=0, completion_tokens=1, cost_usd=None, ms=1,
        ),
        ev.GateAsked(
            action="A1", actions=("A1",), operation="shell.run", risk="HIGH", intent="", rationale="", impact="",
            alternatives=(), preview="pytest -q", hash="h",
        ),
        ev.GateAnswered(action="A1", actions=("A1",), answer="yes", by="user", hash="h"),
        ev.ActionStarted(action="A1", operation="shell.run", args_digest="d", reasoning="prove it", risk="HIGH"),
        ev.ActionFinished(action="A1", operation="shell.run", ok=True, evidence=(proof,), exit_code=0, output="x" * 9),
        ev.GateAnswered(action="A2", actions=("A2",), answer="no", by="rule", operation="file_ops.write_file"),
        ev.ActionFinished(action="A2", operation="file_ops.write_file", ok=False, error="refused: a rule"),
        ev.Message(role="assistant", text="直しました。", kind="reply"),
        run=run,
    )  # fmt: skip
    session.end_run(run, "satisfied")
    return session


def test_audit_shows_who_decided_what_and_the_evidence(session: Session) -> None:
    paper = Paper()
    assert audit.show(session.store, Query(), paper.out) == 0
    lines = paper.text.splitlines()
    assert len(lines) == 3 and all(cells(line) <= 80 for line in lines)
    assert re.search(r"shell\.run +HIGH +yes/you +✓ +E1 ran", lines[1])
    assert re.search(r"file_ops\.write_file +— +no/rule +✗ +refused", lines[2])


def test_audit_in_japanese_has_no_english_left_and_its_json_stays_as_it_is(session: Session) -> None:
    try:
        set_language("ja")
        paper, as_json = Paper(width=120), Paper()
        audit.show(session.store, Query(), paper.out)
        audit.show(session.store, Query(), as_json.out, as_json=True)
    finally:
        set_language("en")
    assert "はい/あなた" in paper.text and "いいえ/ルール" in paper.text
    assert "E1 実行 pytest -q · 終了コード 0" in paper.text and "exit" not in paper.text
    entry = json.loads(as_json.text.splitlines()[0])
    assert entry["evidence"] == "E1 command pytest -q exit 0" and (entry["answer"], entry["by"]) == ("yes", "user")
    assert "proof" not in entry


def test_audit_says_whether_nothing_was_done_or_nothing_matches(session: Session, tmp_path: Path) -> None:
    paper = Paper()
    audit.show(session.store, Query(operation="search.text"), paper.out)
    audit.show(Store(tmp_path / "empty.db"), Query(), paper.out)
    assert paper.text == "No recorded action matches.\nNothing was done yet.\n"


@pytest.mark.parametrize(
    ("query", "count"),
    [
        (Query(operation="shell.run"), 1),
        (Query(operation="file_ops"), 1),
        (Query(operation="file_ops.*"), 1),
        (Query(operation="file"), 0),
        (Query(risk="high"), 1),
        (Query(risk="LOW"), 0),
    ],
)
def test_audit_filters(session: Session, query: Query, count: int) -> None:
    paper = Paper()
    audit.show(session.store, query, paper.out, as_json=True)
    assert len(paper.text.splitlines()) == count


def test_audit_refuses_what_it_does_not_know(session: Session) -> None:
    for query in (Query(risk="huge"), Query(session="nope")):
        with pytest.raises(UsageError):
            audit.show(session.store, query, Paper().out)


def test_audit_verifies_and_finds_what_was_changed(session: Session) -> None:
    paper = Paper()
    assert audit.show(session.store, Query(verify=True), paper.out) == 0
    assert "checked: 1 session, 12 events" in paper.text and "whole" in paper.text
    with sqlite3.connect(session.store.path) as db:
        db.execute("update events set body = replace(body, 'pytest -q', 'true') where type = 'gate.asked'")
    broken = Paper()
    assert audit.show(session.store, Query(verify=True, session=session.id), broken.out) == 1
    assert f"{session.id} event 5: the event was changed" in broken.text
    assert "The record does not hold in 1 place." in broken.text


def test_audit_exports_lines_that_carry_their_hash(session: Session, tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    assert audit.show(session.store, Query(export=str(path)), Paper().out) == 0
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert lines == list(session.store.stored_lines(session.id)) and all(line["chain"] for line in lines)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    paper = Paper()
    audit.show(session.store, Query(export="-", operation="shell.run"), paper.out)
    assert {json.loads(line)["action"] for line in paper.text.splitlines()} == {"A1"}
    with pytest.raises(UsageError):
        audit.show(session.store, Query(export=str(tmp_path / "no" / "where")), Paper().out)


def test_sessions_are_listed_with_what_they_were_about(session: Session) -> None:
    paper = Paper()
    assert sessions.show(session.store, paper.out) == 0
    assert re.search(rf"{session.id}  \d{{4}}-\d\d-\d\d \d\d:\d\d  done +1 +テストを直して", paper.text)
    as_json = Paper()
    sessions.show(session.store, as_json.out, as_json=True)
    assert json.loads(as_json.text)["calls"] == 1


def test_the_status_is_told_in_words_of_the_language(session: Session) -> None:
    models = cast(Models, SimpleNamespace(chain=lambda _tier: [SimpleNamespace(provider="p", name="m")]))
    run = session.start_run()
    session.move(run, Trigger.MESSAGE, Step.PLANNING, Status.IN_PROGRESS)
    status, paper = StatusLine(session, models), Paper()
    session.subscribe(status.event)
    session.append(ev.ActionStarted(action="A9", operation="x", args_digest="", reasoning="", risk="LOW"), run=run)
    try:
        set_language("ja")
        show_status(session, models, paper.out)
        running = status.running()
        session.end_run(run, "failed", 1)
        show_status(session, models, paper.out)
    finally:
        set_language("en")
    assert re.search(r"ステップ +計画 · 進行中\n", paper.text) and re.search(r"ステップ +計画 · 失敗\n", paper.text)
    assert running == "x 0 秒"


def test_an_empty_workspace_says_so(tmp_path: Path) -> None:
    paper = Paper()
    assert sessions.show(Store(tmp_path / "state.db"), paper.out) == 0
    assert "no session" in paper.text


def load(tmp_path: Path, text: str, env: dict[str, str] | None = None) -> config.Settings:
    path = tmp_path / "config.toml"
    path.write_text(text, encoding="utf-8")
    return config.load(tmp_path, config.Overrides(config_file=path), {"HOME": str(tmp_path), **(env or {})})


LOCAL = '[providers.local]\nkind = "openai"\nbase_url = "http://127.0.0.1:9/v1"\n{key}\n'
MODEL = '[models.main]\nprovider = "local"\nmodel = "m"\n'


def test_config_shows_each_value_with_its_origin(tmp_path: Path) -> None:
    loaded = load(tmp_path, 'mode = "plan"\n')
    paper = Paper()
    assert settings.show(loaded, paper.out) == 0
    assert f'mode = "plan"  # {tmp_path / "config.toml"}:1' in paper.text
    assert 'lang = "auto"  # built-in' in paper.text
    try:
        set_language("ja")
        settings.show(loaded, paper.out)
    finally:
        set_language("en")
    assert 'lang = "auto"  # 組み込み' in paper.text


def test_config_path_and_check(tmp_path: Path) -> None:
    loaded = load(tmp_path, 'mode = "plan"\n')
    paper = Paper()
    settings.paths(tmp_path, {"HOME": str(tmp_path)}, tmp_path / "config.toml", paper.out)
    assert re.search(rf"{tmp_path}/config\.toml +yours, there", paper.text)
    assert re.search(r"\.duckflow/config\.local\.toml +project, not there", paper.text)
    checked = Paper()
    assert settings.check(loaded, checked.out) == 0
    assert "valid" in checked.text and "No model" in checked.text


def test_doctor_names_what_is_missing_and_never_the_key(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "DUCKFLOW_HOME": str(tmp_path / "data"), "TERM": "xterm"}
    without, paper = load(tmp_path, ""), Paper()
    assert doctor.show(tmp_path, env, without, None, paper.out) == 41
    assert "none is configured" in paper.text and "OPENAI_API_KEY" in paper.text
    unset = load(tmp_path, LOCAL.format(key='api_key_env = "LOCAL_KEY"') + MODEL)
    paper = Paper()
    assert doctor.show(tmp_path, env, unset, None, paper.out) == 41
    assert "LOCAL_KEY is not set" in paper.text
    silent, paper = load(tmp_path, LOCAL.format(key='api_key_env = "LOCAL_KEY"') + MODEL), Paper()
    assert doctor.show(tmp_path, {**env, "LOCAL_KEY": "sk-secret"}, silent, None, paper.out) == 75
    assert "LOCAL_KEY is set" in paper.text and "sk-secret" not in paper.text
    assert "http://127.0.0.1:9/v1 does not answer" in paper.text


def test_doctor_reports_settings_that_do_not_hold(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, "mood = 1\n")
    paper = Paper()
    assert doctor.show(tmp_path, {"HOME": str(tmp_path)}, None, caught.value, paper.out) == 52
    assert "mood" in paper.text and "mode" in paper.text


def test_doctor_tries_the_data_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    paper = Paper()
    env = {"HOME": str(tmp_path), "DUCKFLOW_HOME": str(tmp_path / "file" / "data")}
    assert doctor.show(tmp_path, env, None, None, paper.out) == 1
    assert "DUCKFLOW_HOME" in paper.text


def test_the_conversation_as_markdown(session: Session) -> None:
    text = to_markdown(session.id, session.state.title, session.store.events(session.id))
    assert text.startswith("# テストを直して\n")
    assert "## You" in text and "## Duckflow" in text and "直しました。" in text and "- `shell.run · exit 0" in text


async def test_an_export_without_a_name_stays_out_of_the_project(tmp_path: Path) -> None:
    project, data = tmp_path / "project", tmp_path / "data"
    project.mkdir()
    started = ev.SessionStarted(workspace=str(project), version="0", mode="ask", models={})
    session, paper = Session.start(Store(data / "state.db"), started), Paper(width=300)
    session.append(ev.Message(role="user", text="hello"))
    desk = Desk(cast(Kit, SimpleNamespace(session=session)), NOBODY, paper.out, lambda: False, lambda: None)
    await run_command(desk, "/export")
    path = data / f"duckflow-{session.id}.md"
    assert "hello" in path.read_text(encoding="utf-8") and str(path) in paper.text
    assert not [*project.iterdir()]
    await run_command(desk, "/export talk.md")
    assert (project / "talk.md").exists() and str(project / "talk.md") in paper.text


async def test_help_on_a_narrow_screen_stands_below_the_command() -> None:
    narrow, wide = Paper(width=40), Paper()
    for paper in (narrow, wide):
        await run_command(Desk(cast(Kit, None), NOBODY, paper.out, lambda: False, lambda: None), "/help")
    assert "  /mode [plan|ask|auto-edit|auto]\n      what may be done without asking\n" in narrow.text
    assert all(cells(line) <= 40 for line in narrow.text.splitlines())
    assert re.search(r"/mode \[plan\|ask\|auto-edit\|auto\] +what may be done without asking\n", wide.text)


def test_the_diff_of_a_session_is_against_the_files_before_it(session: Session, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("new\n", encoding="utf-8")
    (tmp_path / "b.py").write_text("fresh\n", encoding="utf-8")
    run = session.start_run()
    objective = ev.ObjectiveChanged(objective="O1", request="x", requirements=(), attempt=1, satisfaction=0.0)
    before = session.put(b"old\n")
    files = ({"path": "a.py", "before": before}, {"path": "b.py", "before": None})
    session.append(objective, ev.Checkpoint(id="K1", files=files), run=run)
    later = ({"path": "a.py", "before": session.put(b"between\n")},)
    session.append(ev.Checkpoint(id="K2", files=later), run=run)
    text = diff_since(originals(session), Workspace(tmp_path))
    assert "-old" in text and "+new" in text and "+fresh" in text and "between" not in text
