"""On the way to the screen: the background waits for a card to be answered and for an answer to be written."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from duckflow import events as ev
from duckflow.human import Answer, Card, Door, Request
from duckflow.llm.tiers import Models
from duckflow.state.journal import Store
from duckflow.state.session import Session
from duckflow.ui.asking import Asking
from duckflow.ui.beside import Beside
from duckflow.ui.holding import LATEST_SECONDS
from duckflow.ui.line import Draft, Line
from duckflow.ui.out import Out
from duckflow.ui.render import Printer
from duckflow.ui.status import Status
from duckflow.ui.telling import Telling

MODELS = cast(Models, SimpleNamespace(chain=lambda _tier: []))


class PaperLine:
    """An input line on which a test types; what is printed above it is kept."""

    def __init__(self) -> None:
        self.draft = Draft()
        self.changed_at = float("-inf")
        self.height = 24
        self.text = ""
        self._moved = asyncio.Event()

    def redraw(self) -> None:
        self._moved.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not holds():
                self._moved.clear()
                await self._moved.wait()

    async def drained(self) -> None:
        """It is on the paper."""

    def write(self, text: str) -> None:
        self.text += text
        self.redraw()


class Stage:
    def __init__(self, tmp_path: Path) -> None:
        started = ev.SessionStarted(workspace=str(tmp_path), version="0", mode="ask", models={})
        self.session = Session.start(Store(tmp_path / "state.db"), started)
        self.door, self.line, self.now = Door(), PaperLine(), 0.0
        line = cast(Line, self.line)
        out, beside = Out(self.line.write, colour=False, width=lambda: 80), Beside()
        self.printer = Printer(out, echo=False, beside=beside)
        self.asking = self.door.listener = Asking(self.door, line, out)
        status = Status(self.session, MODELS, beside)
        self.telling = Telling(line, self.printer, status, self.asking, tmp_path, lambda: self.now)
        self.session.subscribe(self.telling.event)
        self.session.watch(self.telling.live)
        self.front = self.session.start_run()
        self.behind = self.session.start_run("tasks", "")

    def works(self) -> None:
        done = ev.ActionFinished(action="A1", operation="x", ok=True, summary="read x.py")
        self.session.append(done, run=self.behind)

    def reports(self) -> None:
        report = ev.Reported(status="success", succeeded=1, failed=0, causes=(), recommended_next="", summary="Fine.")
        self.session.append(report, run=self.behind)

    async def card(self) -> asyncio.Task[Answer]:
        """A card that can be answered."""
        request = Request("q1", self.front, "gate", Card(title="May I?"), "h")
        asked = asyncio.ensure_future(self.door.ask(request))
        await self.line.until(lambda: self.asking.open is not None)
        return asked


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


async def test_nothing_comes_between_the_parts_of_an_answer(stage: Stage) -> None:
    stage.session.show(ev.Live("reply", "First.\n\nSec", stage.front))
    stage.works()
    stage.reports()
    stage.session.show(ev.Live("reply", "ond.", stage.front))
    stage.session.append(ev.Message(role="assistant", text="First.\n\nSecond.", kind="reply"), run=stage.front)
    told = "\nFirst.\n\nSecond.\n  tasks · read x.py\n\n── background work: 1 of 1 step done\n  Fine.\n"
    assert stage.line.text == told


async def test_a_card_stays_in_sight_until_it_is_answered(stage: Stage) -> None:
    asked = await stage.card()
    stage.works()
    assert "read x.py" not in stage.line.text
    stage.asking.submit("y")
    assert (await asked).choice == "yes"
    await stage.line.until(lambda: stage.asking.open is None)
    stage.telling.flush()
    assert stage.line.text.endswith("> y\n  tasks · read x.py\n")


async def test_a_report_that_cannot_wait_is_followed_by_the_card(stage: Stage) -> None:
    asked = await stage.card()
    stage.works()
    stage.reports()
    stage.now += LATEST_SECONDS
    stage.telling.flush()
    report, card = stage.line.text.index("  tasks · read x.py\n\n── background"), stage.line.text.rindex("── May I?")
    assert report < card and stage.line.text.count("── May I?") == 2
    asked.cancel()


async def test_what_waits_is_looked_at_again_by_itself(stage: Stage) -> None:
    stage.line.draft = Draft("half a th", 9)
    stage.line.changed_at = stage.now
    stage.works()
    assert stage.line.text == ""
    stage.line.draft = Draft()
    await stage.line.until(lambda: bool(stage.line.text))
    assert stage.line.text == "  tasks · read x.py\n"


async def test_a_screen_that_breaks_does_not_break_the_work(stage: Stage, tmp_path: Path) -> None:
    broken = ev.GateAnswered(action="A1", actions=("A1",), answer="no", by="user", comment=cast(str, 7))
    stage.session.append(broken, run=stage.behind)
    stage.works()
    assert "! Something went wrong inside Duckflow (TypeError)" in stage.line.text
    assert stage.line.text.endswith("  tasks · read x.py\n") and [*(tmp_path / "logs").iterdir()]
