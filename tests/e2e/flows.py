"""Driving the flows of the documents: a conversation in either language, and what must hold after every one."""

from __future__ import annotations

import gettext
import json
import re
import subprocess
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import duckflow
from duckflow.errors import fill
from duckflow.state.journal import Store
from duckflow.state.machine import Step, default_table
from tests.e2e.duck import COMMAND, Duck
from tests.e2e.server import Function, Json, ModelServer, Reply
from tests.engine.workbench import verdict
from tests.ui.screens import Screen

Event = dict[str, Any]

in_both = pytest.mark.parametrize("lang", ["ja", "en"])
LOCALE = Path(duckflow.__file__).parent / "locale"
SECONDS = 20.0


# --- words --------------------------------------------------------------------------------------------------------


def ui(lang: str, message: str, **values: object) -> str:
    """A message of the screen in this language, as the program itself looks it up."""
    found = gettext.NullTranslations()
    if lang != "en":
        found = gettext.translation("duckflow", LOCALE, [lang], fallback=True)
    return fill(found.gettext(message), values)


def ui_n(lang: str, one: str, many: str, n: int, **values: object) -> str:
    """The same for a message with a number in it."""
    found = gettext.NullTranslations()
    if lang != "en":
        found = gettext.translation("duckflow", LOCALE, [lang], fallback=True)
    return fill(found.ngettext(one, many, n), {"n": n, **values})


def steps_done(lang: str, done: int, total: int) -> str:
    return ui_n(lang, "{done} of {n} step done", "{done} of {n} steps done", total, done=done)


def flat(text: str) -> str:
    """Without spaces, line ends and bars: where a line was broken does not matter."""
    return re.sub(r"[\s│]+", "", text)


# --- what a model says --------------------------------------------------------------------------------------------


def said(body: Json) -> str:
    """All text of a request."""
    parts = [message.get("content") for message in body["messages"]]
    return "\n".join(part if isinstance(part, str) else json.dumps(part, ensure_ascii=False) for part in parts)


def judged(score: float = 1.0, **fields: Any) -> Function:
    """An evaluator that scores every requirement it is shown and names every piece of evidence it is shown."""

    def answer(body: Json, _headers: Mapping[str, str]) -> str:
        text = said(body)
        evidence = list(dict.fromkeys(re.findall(r"<<<(E\d+)", text)))
        wanted = re.findall(r"(?m)^(R\d+) ", text)
        return verdict(score, dict.fromkeys(wanted or ["R1"], evidence), **fields)

    return answer


def in_turn(*answers: str | Function) -> Function:
    """One after another; the last one for ever."""
    left = list(answers)

    def answer(body: Json, headers: Mapping[str, str]) -> Any:
        now = left.pop(0) if len(left) > 1 else left[0]
        return now(body, headers) if callable(now) else now

    return answer


class Held:
    """An answer that does not come before it is released."""

    def __init__(self, answer: str | Function) -> None:
        self._answer = answer
        self.release = threading.Event()

    def __call__(self, body: Json, headers: Mapping[str, str]) -> Reply:
        given = self._answer(body, headers) if callable(self._answer) else self._answer
        assert isinstance(given, str)
        return Reply(given, hold_after=-1, release=self.release)


# --- a conversation -----------------------------------------------------------------------------------------------


class Talk:
    """A chat in a real terminal, in one language."""

    def __init__(self, duck: Duck, lang: str, *args: str) -> None:
        self.lang = lang
        self.screen = Screen(
            ["-I", str(COMMAND), *args, "--lang", lang], duck.env, duck.project, columns=110, rows=50
        )  # fmt: skip
        self.screen.child.delaybeforesend = None
        self.screen.child.ptyproc.delayafterclose = 0
        self.screen.wait(r"(?m)^>")

    def ui(self, message: str, **values: object) -> str:
        return ui(self.lang, message, **values)

    @property
    def text(self) -> str:
        return flat(self.screen.text)

    def sees(self, *texts: str, times: int = 1) -> None:
        """Until all of this was printed, however the lines were broken."""
        for text in texts:
            wanted = flat(text)
            self.until(lambda wanted=wanted: self.text.count(wanted) >= times, text)  # type: ignore[misc]

    def until(self, holds: Callable[[], bool], what: str) -> None:
        self.screen.wait(holds, what=what)

    def asked(self, server: ModelServer, node: str, times: int = 1) -> None:
        """Until the model was asked this often by this node."""
        self.until(lambda: server.nodes().count(node) >= times, f"{times} × {node}, only {server.nodes()}")

    def types(self, line: str) -> None:
        self.screen.send(f"{line}\r")

    def says(self, line: str) -> None:
        """A message or a command, when nothing in front works and no card is open."""
        self.rests()
        self.types(line)

    def escapes(self) -> None:
        self.screen.send("\x1b")

    def rests(self) -> None:
        """Until the turn in front is over."""
        busy = flat(self.ui("{what} · Esc stops", what=""))
        self.until(lambda: busy not in flat(self.screen.visible), "the end of the turn")

    def card(self) -> None:
        """Until a card can be answered."""
        wanted = flat(self.ui("other text: no, and why"))
        self.until(lambda: wanted in flat(self.screen.visible), "a card that can be answered")

    def leaves(self) -> None:
        self.says("/quit")
        assert self.screen.ended() == 0
        self.quiet()

    def quiet(self) -> None:
        """No trace of the program's inside ever reached the person."""
        for bug in ("Traceback", self.ui("Something went wrong inside Duckflow ({error}). The session is kept.")[:20]):
            assert flat(bug) not in self.text, self.screen.text

    def killed(self) -> None:
        """As by kill -9: no time to tidy up."""
        import signal

        self.screen.child.kill(signal.SIGKILL)
        self.screen.ended()
        self.quiet()


# --- what must hold afterwards --------------------------------------------------------------------------------------


def journal(duck: Duck) -> list[Event]:
    """Every event of every session, oldest first; the record holds and the steps are allowed."""
    verified = duck("audit", "--verify")
    assert verified.code == 0, verified.out
    (path,) = (duck.home / "data").rglob("duckflow.db")
    store = Store(path)
    events = [dict(line) for row in store.sessions()[::-1] for line in store.stored_lines(row.id)]
    store.close()
    check_steps(events)
    check_actions(events)
    return events


def check_steps(events: list[Event]) -> None:
    """Every state change is a row of the table and begins where the run stood."""
    rows, stood = default_table().rows, dict[str, str]()
    for event in events:
        if event["type"] != "state.changed":
            continue
        run, before, step = event["run"], event["from"], event["step"]
        assert not event["refused"], event
        assert stood.get(run) == before, event
        if before is None:
            assert step == "PLANNING", event
        elif before != step:
            assert (Step(before), Step(step)) in rows, event
        stood[run] = step


def check_actions(events: list[Event]) -> None:
    """Nothing that began is left without an outcome, and nothing has two."""
    began = [e["action"] for e in events if e["type"] == "action.started"]
    ended = [e["action"] for e in events if e["type"] == "action.finished"]
    assert set(began) <= set(ended) and len(set(ended)) == len(ended)


def of(events: list[Event], *types: str) -> list[Event]:
    return [event for event in events if event["type"] in types]


def steps_of(events: list[Event], run: str) -> list[str]:
    """Where a run stood, one after another."""
    found: list[str] = []
    for event in of(events, "state.changed"):
        if event["run"] == run and found[-1:] != [event["step"]]:
            found.append(event["step"])
    return found


def stopped_by(process: subprocess.Popen[str], number: int) -> tuple[int, list[Event]]:
    """Send a signal to a running `run --output-format stream-json`; its exit code and what it printed since."""
    process.send_signal(number)
    try:
        out, err = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    assert "Traceback" not in out + err, err
    return process.returncode, [json.loads(line) for line in out.splitlines()]
