"""Stopping at every point: nothing half-written, the record whole, the session resumable, the next message works."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.e2e.duck import Duck
from tests.e2e.flows import (
    SECONDS,
    Held,
    Talk,
    check_actions,
    check_steps,
    in_both,
    in_turn,
    journal,
    judged,
    of,
    steps_done,
    stopped_by,
)
from tests.e2e.server import ModelServer
from tests.e2e.test_flows_plan import CODE, CORE, GAMES, PACKAGE, SETUP, planned, propose, script, tasks
from tests.engine.workbench import act, decision

WISH = {"ja": "挨拶を書いて", "en": "write a greeting"}
GREET = {"ja": "何でもどうぞ。", "en": "Ask me anything."}
SLEEP = act("shell.run", command="echo $$ > pid; exec sleep 300")
CREATE: dict[str, Any] = {
    "profile": "creation",
    "confidence": 0.9,
    "next_step": "done",
    "requirements": ["it is there"],
}
MADE = decision(act("file_ops.write_file", path="hello.txt", content="hello\n"), reply="too late", **CREATE)
NEEDS = decision(profile="analysis", confidence=0.9, information_needs=["what the person likes"], requirements=["told"])


def greeting(lang: str) -> str:
    return decision(profile="guidance", reply=GREET[lang], actions=[], state_delta=None)


def pid_of(duck: Duck) -> int | None:
    """Of the command that was started, once it has said so."""
    path = duck.project / "pid"
    text = path.read_text().strip() if path.exists() else ""
    return int(text) if text else None


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


# --- Esc in the chat -----------------------------------------------------------------------------------------------


class Point(NamedTuple):
    """A moment to stop at: how it is reached, and where the run stands then."""

    reach: Callable[[Talk, ModelServer, Duck], object]
    script: Callable[[str], dict[str, Any]]
    step: str
    files: dict[str, bytes] = {}  # noqa: RUF012 - a NamedTuple, never changed


def to_evaluate(talk: Talk, server: ModelServer, duck: Duck) -> None:
    talk.card()
    talk.types("y")
    talk.asked(server, "evaluate")


POINTS = {
    "understand": Point(
        lambda talk, server, duck: talk.asked(server, "understand"),
        lambda lang: {"understand": Held(MADE)},
        "PLANNING",
    ),
    "gather": Point(
        lambda talk, server, duck: talk.asked(server, "gather"),
        lambda lang: {"understand": NEEDS, "gather": Held(MADE)},
        "PLANNING",
    ),
    "card": Point(
        lambda talk, server, duck: talk.card(),
        lambda lang: {"understand": MADE},
        "AWAITING_APPROVAL",
    ),
    "command": Point(
        lambda talk, server, duck: talk.until(lambda: pid_of(duck) is not None, "the command runs"),
        lambda lang: {"understand": decision(SLEEP, **CREATE)},
        "EXECUTION",
    ),
    "evaluate": Point(
        to_evaluate,
        lambda lang: {"understand": MADE, "evaluate": Held(judged())},
        "REVIEW",
        {"hello.txt": b"hello\n"},
    ),
    "plan": Point(
        lambda talk, server, duck: talk.asked(server, "plan"),
        lambda lang: {"understand": propose(GAMES[lang]), "plan": Held(planned(GAMES[lang]))},
        "PLANNING",
    ),
    "plan card": Point(
        lambda talk, server, duck: talk.card(),
        lambda lang: {"understand": propose(GAMES[lang]), "plan": planned(GAMES[lang])},
        "AWAITING_APPROVAL",
    ),
}
STOPS = [
    ("understand", "ja"), ("gather", "en"), ("card", "ja"), ("card", "en"), ("command", "ja"), ("evaluate", "en"),
    ("plan", "ja"), ("plan card", "en"),
]  # fmt: skip


@pytest.mark.parametrize(("where", "lang"), STOPS)
def test_escape_stops_the_work_and_the_conversation_goes_on(tmp_path: Path, where: str, lang: str) -> None:
    point = POINTS[where]
    given = point.script(lang)
    with ModelServer({**given, "understand": in_turn(given["understand"], greeting(lang))}) as server:
        duck = Duck(tmp_path, server.url)
        talk = Talk(duck, lang, "--allow", "shell.run")
        talk.says(WISH[lang])
        point.reach(talk, server, duck)
        talk.escapes()
        talk.sees(talk.ui("stopped"))
        talk.rests()
        assert {path: data for path, data in duck.files().items() if path != "pid"} == point.files
        assert (pid := pid_of(duck)) is None or is_gone(pid)
        talk.says("?")
        talk.sees(GREET[lang])
        talk.leaves()
        assert "toolate" not in talk.text
        talk = Talk(duck, lang, "resume")
        talk.says("??")
        talk.sees(GREET[lang], times=2)  # the one of before, and this one
        talk.leaves()
    assert not server.unexpected and {path for path in duck.files() if path != "pid"} == set(point.files)
    check_cancelled(duck, point.step)


def check_cancelled(duck: Duck, step: str) -> None:
    """The run stayed where it was and ended as cancelled; what was understood of it is not called done."""
    events = journal(duck)
    assert [e["status"] for e in of(events, "run.ended")] == ["cancelled", "answered", "answered"]
    last = [e for e in of(events, "state.changed") if e["run"] == "run1"][-1]
    assert (last["trigger"], last["from"]) == ("cancel", last["step"]), "a cancel moves nothing"
    withdrawn = ("PLANNING",) if step == "AWAITING_APPROVAL" else ()  # a card that is taken back may count as a no
    assert last["step"] in (step, *withdrawn)
    assert {e["status"] for e in of(events, "objective.changed")[-1:]} <= {"cancelled"}


@in_both
def test_escape_at_an_open_question_leaves_it_open_and_it_can_still_be_answered(tmp_path: Path, lang: str) -> None:
    text = {"ja": "どんな挨拶ですか？", "en": "Which greeting?"}[lang]
    asks = decision(profile="creation", question={"text": text, "options": ["hi", "hello"], "default": "hello"})
    with ModelServer({"understand": [asks, MADE], "evaluate": judged()}) as server:
        duck = Duck(tmp_path, server.url)
        talk = Talk(duck, lang)
        talk.says(WISH[lang])
        talk.sees(text, talk.ui("number or your own words"))
        talk.escapes()
        talk.screen.send("\x03")  # its answer shows that Esc came through
        talk.sees(talk.ui("Ctrl-C again leaves"))
        talk.leaves()
        talk = Talk(duck, lang, "resume")
        talk.sees(text, talk.ui("number or your own words"))
        talk.says("1")
        talk.card()
        talk.types("y")
        talk.sees("too late", talk.ui("done, with evidence"))
        talk.leaves()
    assert "the answer to your question: hi" in server.requests[1].text
    assert duck.files() == {"hello.txt": b"hello\n"}
    assert [e["status"] for e in of(journal(duck), "run.ended")] == ["satisfied"]


# --- work in the background ----------------------------------------------------------------------------------------


@in_both
def test_work_in_the_background_is_stopped_by_name_kept_and_taken_up_again(tmp_path: Path, lang: str) -> None:
    """Stopped while the first step is thought out: Esc alone does not, `/tasks stop` does."""
    game, slow = GAMES[lang], Held(SETUP)
    given = script(game, [propose(game), greeting(lang)], [planned(game)], [])
    with ModelServer({**given, "tasks": in_turn(slow, SETUP, CORE)}) as server:
        duck = Duck(tmp_path, server.url)
        talk = Talk(duck, lang)
        talk.says(game.wish)
        talk.card()
        talk.types(game.yes)
        talk.asked(server, "tasks")
        talk.rests()
        talk.escapes()
        talk.sees(talk.ui("/tasks stop stops the background work"))
        talk.says("/tasks stop")
        plan = talk.ui("plan “{name}”", name=game.goal)
        talk.sees(talk.ui("{plan} paused: {progress}", plan=plan, progress=steps_done(lang, 0, 2)))
        assert duck.files() == {}
        talk.says("?")
        talk.sees(GREET[lang])
        talk.leaves()
        talk = Talk(duck, lang, "resume")
        talk.sees(steps_done(lang, 0, 2))
        talk.says("/tasks resume")
        talk.sees(game.summary, talk.ui("done, with evidence"))
        talk.leaves()
    assert duck.files() == {"package.json": PACKAGE.encode(), "src/game.js": CODE.encode()}
    assert server.nodes().count("evaluate") == 1, "a plan that was stopped is not judged"
    events = journal(duck)
    assert [e["status"] for e in of(events, "report")][-1] == "success"
    assert [e["operation"] for e in of(events, "gate.asked")] == ["plan_tool.approve"]


def test_stopping_the_background_ends_the_command_of_a_step(tmp_path: Path) -> None:
    game = GAMES["ja"]
    setup = tasks(act("file_ops.write_file", path="package.json", content=PACKAGE), SLEEP)
    with ModelServer(script(game, [propose(game), greeting("ja")], [planned(game)], [setup])) as server:
        duck = Duck(tmp_path, server.url)
        talk = Talk(duck, "ja", "--allow", "shell.run")
        talk.says(game.wish)
        talk.card()
        talk.types(game.yes)
        talk.until(lambda: pid_of(duck) is not None, "the command runs")
        talk.says("/tasks stop")
        talk.sees(talk.ui("paused"))
        pid = pid_of(duck)
        assert pid is not None
        talk.until(lambda: is_gone(pid), "the end of the command")
        talk.says("?")
        talk.sees(GREET["ja"])
        talk.leaves()
    assert duck.files()["package.json"] == PACKAGE.encode()
    plan = of(journal(duck), "plan.changed")[-1]
    assert (plan["status"], [step["status"] for step in plan["steps"]]) == ("paused", ["pending", "pending"])


# --- SIGINT for `run` ----------------------------------------------------------------------------------------------


def arrives(holds: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < end, f"never reached: {what}"
        time.sleep(0.01)


def interrupted(lang: str) -> dict[str, tuple[dict[str, Any], str]]:
    """Scripts by the point they hang at, and the node whose call shows that it is reached."""
    game = GAMES[lang]
    plan = script(game, [propose(game)], [planned(game)], [])
    return {
        "understand": ({"understand": Held(MADE)}, "understand"),
        "gather": ({"understand": NEEDS, "gather": Held(MADE)}, "gather"),
        "command": ({"understand": decision(SLEEP, **CREATE)}, ""),
        "evaluate": ({"understand": MADE, "evaluate": Held(judged())}, "evaluate"),
        "plan": ({**plan, "plan": Held(planned(game))}, "plan"),
        "step": ({**plan, "tasks": Held(SETUP)}, "tasks"),
        "command of a step": ({**plan, "tasks": tasks(SLEEP)}, ""),
    }


RUN_STOPS = [
    ("understand", "en"), ("gather", "ja"), ("command", "en"), ("evaluate", "ja"), ("plan", "en"), ("step", "ja"),
    ("step", "en"), ("command of a step", "en"),
]  # fmt: skip


@pytest.mark.parametrize(("where", "lang"), RUN_STOPS)
def test_sigint_ends_a_run_with_130_and_the_session_can_be_gone_on_with(tmp_path: Path, where: str, lang: str) -> None:
    given, node = interrupted(lang)[where]
    with ModelServer(given) as server:
        duck = Duck(tmp_path, server.url)
        args = ("run", "--output-format", "stream-json", "--mode", "auto", "--allow", "shell.run", "--lang", lang)
        process = duck.start(*args, WISH[lang])
        arrives(lambda: node in server.nodes() if node else pid_of(duck) is not None, where)
        code, events = stopped_by(process, signal.SIGINT)
    result = events[-1]
    assert (code, result["exit_code"], result["status"]) == (130, 130, "cancelled")
    assert {path for path in duck.files() if path != "pid"} == ({"hello.txt"} if where == "evaluate" else set())
    assert "too late" not in result["reply"]
    assert (pid := pid_of(duck)) is None or is_gone(pid)
    check_steps(events[:-1])
    check_actions(events[:-1])
    with ModelServer(greeting(lang)) as server:
        talk = Talk(Duck(tmp_path, server.url), lang, "resume")
        talk.says("?")
        talk.sees(GREET[lang])
        talk.leaves()
    assert of(journal(duck), "run.ended")[-1]["status"] == "answered"


@pytest.mark.parametrize(("lang", "number"), [("ja", signal.SIGINT), ("en", signal.SIGINT), ("ja", signal.SIGKILL)])
def test_a_plan_of_an_interrupted_run_is_finished_in_the_chat(tmp_path: Path, lang: str, number: int) -> None:
    """Nobody was there when it began; whoever resumes the session can go on with it."""
    game = GAMES[lang]
    given = {**script(game, [propose(game)], [planned(game)], []), "tasks": in_turn(SETUP, Held(CORE), CORE)}
    with ModelServer(given) as server:
        duck = Duck(tmp_path, server.url)
        process = duck.start("run", "--mode", "auto", "--lang", lang, game.wish)
        arrives(lambda: server.nodes().count("tasks") == 2, "the second step")
        process.send_signal(number)
        process.communicate(timeout=SECONDS)
        written = (duck.project / "package.json").stat().st_ino
        talk = Talk(duck, lang, "resume")
        talk.sees(steps_done(lang, 1, 2))
        talk.says("/tasks resume")
        talk.sees(game.summary, talk.ui("done, with evidence"))
        talk.leaves()
    assert duck.files() == {"package.json": PACKAGE.encode(), "src/game.js": CODE.encode()}
    assert (duck.project / "package.json").stat().st_ino == written, "a finished task was done again"
    assert server.nodes() == ["understand", "plan", "tasks", "tasks", "tasks", "evaluate", "report"]
    events = journal(duck)
    assert of(events, "plan.changed")[-1]["status"] == "completed"
    assert of(events, "objective.changed")[-1]["status"] == "satisfied"
