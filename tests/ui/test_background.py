"""Background work on paper: short lines that name the step, accounts of their own, and when they may be shown."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from duckflow import events as ev
from duckflow.state.fold import fold
from duckflow.state.runs import SessionState
from duckflow.ui.beside import Beside
from duckflow.ui.holding import LATEST_SECONDS, LINE_SECONDS, TALK_SECONDS, Holding, Moment
from duckflow.ui.out import Out
from duckflow.ui.render import Printer
from duckflow.ui.wrap import cells


class Page:
    """A printer whose paper can be read. Events name their run; the state follows them."""

    def __init__(self, *, verbose: bool = False, echo: bool = False, beside: Beside | None = None, width: int = 80):
        self.pieces: list[str] = []
        out = Out(self.pieces.append, colour=False, width=lambda: width)
        self.printer = Printer(out, verbose=verbose, echo=echo, beside=beside)
        self.seq = 0

    def event(self, run: str, *bodies: ev.Body) -> Page:
        for body in bodies:
            self.seq += 1
            self.printer.event(ev.Event(self.seq, "2026-11-16T01:02:03.004Z", "s", run, body))
        return self

    def said(self) -> str:
        """What was printed since the last look."""
        text = "".join(self.pieces)
        self.pieces.clear()
        return text


def steps(*statuses: str, reason: str = "") -> tuple[dict[str, Any], ...]:
    """Four steps: storage, then cache and report, then docs after report."""
    named = (("S1", "storage", ()), ("S2", "cache", ("S1",)), ("S3", "report", ("S1",)), ("S4", "docs", ("S3",)))
    return tuple(
        {"id": id_, "name": name, "depends_on": needs, "status": status, "reason": reason if status == "failed" else ""}
        for (id_, name, needs), status in zip(named, statuses, strict=True)
    )


def plan(status: str, *statuses: str, **facts: Any) -> ev.PlanChanged:
    given = statuses or ("pending",) * 4
    return ev.PlanChanged(
        plan="P1", name="Ledger", goal="g", status=status, steps=steps(*given, reason=facts.pop("step_reason", "")),
        **facts,
    )  # fmt: skip


def called(tokens: int = 100) -> ev.ModelCalled:
    return ev.ModelCalled(
        tier="fast", provider="p", model="m", node="execute", pattern="base_main", prompt_tokens=tokens,
        cached_tokens=0, completion_tokens=0, cost_usd=0.0, ms=1,
    )  # fmt: skip


def done(action: str = "A1", **facts: Any) -> ev.ActionFinished:
    return ev.ActionFinished(**{"action": action, "operation": "shell.run", "ok": True, **facts})


def detached(page: Page) -> Page:
    """A plan of run1 that goes on in the background; run2 carries out its first step."""
    page.event("run1", ev.RunStarted(kind="turn"), plan("draft"), plan("approved"), ev.RunDetached(thread="run1"))
    return page.event("run2", ev.RunStarted(kind="step", thread="run2", parent="run1", plan_step="S1"))


# --- plans ----------------------------------------------------------------------------------------------------------


def test_a_plan_is_told_in_one_line_for_each_thing_that_happened() -> None:
    page = Page().event(
        "run1",
        plan("draft"),
        plan("approved"),
        plan("in_progress"),
        plan("in_progress", "in_progress", "pending", "pending", "pending"),
        plan("in_progress", "completed", "in_progress", "in_progress", "pending"),
        plan("in_progress", "completed", "completed", "failed", "blocked", step_reason="failed: exit code 1"),
        plan("failed", "completed", "completed", "failed", "blocked"),
    )
    assert page.said() == snapshot("""\
  plan “Ledger” drafted: 4 steps
  plan “Ledger” approved
  ✓ storage · 1 of 4 steps done
  ✓ cache · 2 of 4 steps done
  ✗ report · failed: exit code 1
  – blocked: docs (needs report)
  plan “Ledger” failed: 2 of 4 steps done
""")


def test_the_end_of_a_plan_comes_after_its_last_step() -> None:
    page = Page().event("run1", plan("in_progress", "completed", "completed", "completed", "in_progress"))
    page.said()
    page.event("run1", plan("completed", *["completed"] * 4))
    assert page.said() == "  ✓ docs · 4 of 4 steps done\n  plan “Ledger” completed: 4 of 4 steps done\n"


def test_a_plan_that_stopped_goes_on() -> None:
    page = Page().event("run1", plan("in_progress"), plan("paused", reason="the program was left"), plan("in_progress"))
    assert page.said() == (
        "  plan “Ledger” paused: 0 of 4 steps done · the program was left\n"
        "  plan “Ledger” goes on: 0 of 4 steps done\n"
    )  # fmt: skip


def test_what_a_session_knew_before_is_not_told_again() -> None:
    state = SessionState()
    for seq, body in enumerate((ev.RunStarted(kind="turn"), plan("in_progress", "completed", *["pending"] * 3)), 1):
        state = fold(state, ev.Event(seq, "", "s", "run1", body))
    pieces: list[str] = []
    printer = Printer(Out(pieces.append, colour=False, width=lambda: 80), state=state)
    after = plan("in_progress", "completed", "completed", "pending", "pending")
    printer.event(ev.Event(3, "", "s", "run1", after))
    assert "".join(pieces) == "  ✓ cache · 2 of 4 steps done\n"


# --- what background runs do ----------------------------------------------------------------------------------------


def test_the_background_is_single_lines_that_name_their_step() -> None:
    page = detached(Page(width=60))
    assert page.said().endswith("  goes on in the background; /tasks shows it\n")
    page.event(
        "run2",
        ev.Message(role="assistant", text="I will write it.\nThen test it.", kind="announcement"),
        done("A1", summary="run pytest -q", exit_code=1, ms=2200, output="a\nb\nc"),
        done("A2", operation="x", summary="edit " + "very/" * 20 + "long.py", effect=True),
        ev.GateAnswered(action="A3", actions=("A3",), answer="no", by="user", comment="not there"),
        done("A3", ok=False, error="refused: refused by the person."),
        done("A4", ok=False, summary="edit x.py", error="failed: no such file"),
    )
    said = page.said()
    assert said == snapshot("""\
  storage · about to do: I will write it. Then test it.
  storage · run pytest -q · exit 1 · 2.2 s
  storage · edit very/very/very/very/very/very/very/very/ve…
  storage · not run: you said no: not there
  storage · edit x.py ✗ no such file
""")
    assert all(cells(line) <= 60 for line in said.splitlines())


def test_a_failed_task_is_told_once() -> None:
    page = detached(Page())
    page.said()

    def task(name: str, status: str, **facts: Any) -> ev.TaskChanged:
        return ev.TaskChanged(task=name, status=status, operation="file_ops.write_file", plan="P1", step="S1", **facts)

    page.event("run2", task("T1", "pending"), task("T2", "pending"))
    page.event("run2", done("A1", ok=False, summary="write x", error="failed: no room"))
    page.event("run2", task("T1", "failed", action="A1", error="failed: no room"))
    assert page.said() == "  storage · write x ✗ no room\n"
    page.event("run2", task("T2", "failed", error="the arguments were changed by redaction"), task("T1", "completed"))
    assert page.said() == "  storage · task 2 of 2 failed: the arguments were changed by redaction\n"


def test_what_the_background_streams_does_not_mix_into_the_answer_in_front() -> None:
    page = detached(Page())
    page.said()
    page.event("run3", ev.RunStarted(kind="turn"))
    page.printer.live(ev.Live("reply", "First.\n\nSec", "run3"))
    page.printer.live(ev.Live("reply", "hidden.\n\nhid", "run2"))
    page.printer.live(ev.Live("output", "hidden\n", "run2"))
    page.printer.live(ev.Live("calling", "", "run1"))
    assert (page.printer.streaming(), page.printer.is_streaming) == ("Sec", True)
    page.printer.live(ev.Live("reply", "ond.", "run3"))
    page.event("run3", ev.Message(role="assistant", text="First.\n\nSecond.", kind="reply"))
    assert (page.said(), page.printer.is_streaming) == ("\nFirst.\n\nSecond.\n", False)
    page.event("run2", ev.Message(role="assistant", text="hidden.\n\nNo longer.", kind="reply"))
    assert page.said() == "\n  storage:\nhidden.\n\nNo longer.\n"


def test_the_calls_of_the_background_are_on_its_own_account() -> None:
    page = Page()
    page.event("run1", ev.RunStarted(kind="turn"), called(1))
    detached(page)
    page.printer.turn_ended()
    assert page.said().endswith("  p/m · 1 call · 1 tokens · $0.00\n")
    page.event("run2", called(10), called(10))
    page.event("run3", ev.RunStarted(kind="turn"), called(500))
    page.event("run1", called(20))
    page.event("run2", ev.RunEnded(status="satisfied"))
    page.event("run3", ev.RunEnded(status="answered"))
    page.printer.turn_ended()
    assert page.said() == "  p/m · 1 call · 500 tokens · $0.00\n"
    page.event("run1", ev.RunEnded(status="satisfied"))
    assert page.said() == "  Ledger · done, with evidence · p/m · 3 calls · 40 tokens · $0.00\n"
    page.printer.turn_ended()
    assert page.said() == ""


def test_loose_tasks_have_an_account_of_their_own() -> None:
    page = Page().event("run1", ev.RunStarted(kind="turn"))
    page.event("run2", ev.RunStarted(kind="tasks", parent="run1"), called(7), done(summary="run make", exit_code=0))
    page.event("run1", ev.RunEnded(status="answered"))
    page.printer.turn_ended()
    page.event("run2", ev.RunEnded(status="failed"))
    assert page.said() == (
        "  tasks · run make · exit 0 · 0.0 s\n  tasks · ended with an error · p/m · 1 call · 7 tokens · $0.00\n"
    )


def test_without_a_person_everything_is_on_one_account() -> None:
    page = Page(beside=Beside(together=True), echo=True)
    page.event("run1", ev.RunStarted(kind="turn"), called(1), plan("approved"))
    page.event("run2", ev.RunStarted(kind="step", parent="run1", plan_step="S1"), called(2))
    page.event("run3", ev.RunStarted(kind="tasks", parent="run1"), called(4), ev.RunEnded(status="satisfied"))
    page.event("run2", ev.RunEnded(status="satisfied"))
    page.event("run1", ev.RunEnded(status="satisfied"))
    page.printer.turn_ended()
    assert page.said().splitlines()[1:] == ["  done, with evidence · p/m · 3 calls · 7 tokens · $0.00"]


def test_the_answer_to_background_work_does_not_bring_it_to_the_front() -> None:
    page = detached(Page())
    page.event("run1", called(3), ev.Message(role="user", text="2", kind="message"))
    page.said()
    page.printer.live(ev.Live("reply", "Unseen.\n\nEnd", "run1"))
    page.event("run1", called(5), ev.RunEnded(status="partial"))
    page.printer.turn_ended()
    assert page.said() == "  Ledger · ended with a partial result · p/m · 2 calls · 8 tokens · $0.00\n"


def test_work_that_waits_for_its_turn_is_called_by_what_was_asked_for() -> None:
    page = Page().event("run5", ev.RunStarted(kind="turn"), ev.RunDetached(thread="run5"))
    page.event("run5", ev.Message(role="user", text="then write the docs, all of them, please", kind="moved"))
    assert page.said() == ""  # it is not going on yet
    page.event("run5", ev.RunPaused(paused=True, reason="stopped"))
    assert page.said() == "  then write the docs, al… · paused · stopped\n"


def test_verdicts_of_runs_side_by_side_name_their_own_requirements() -> None:
    page = detached(Page())

    def objective(name: str, text: str) -> ev.ObjectiveChanged:
        found = ({"id": "R1", "text": text},)
        return ev.ObjectiveChanged(objective=name, request="x", requirements=found, attempt=1, satisfaction=0.0)

    verdict = ev.VerdictGiven(
        overall=1.0, requirements={"R1": {"score": 1.0, "evidence": []}}, failed_checks=(), missing=(), next="complete"
    )
    page.event("run1", objective("O1", "the ledger is kept"))
    page.event("run3", objective("O2", "the question is answered"))
    page.said()
    page.event("run1", verdict)
    assert "R1 the ledger is kept" in page.said()
    page.event("run3", verdict)
    assert "R1 the question is answered" in page.said()


def test_pausing_is_told_once_for_a_plan_and_for_a_step_alone() -> None:
    page = detached(Page())
    page.said()
    page.event("run1", ev.RunPaused(paused=True, reason="you asked for it"))
    page.event("run2", ev.RunPaused(paused=True))
    assert page.said() == "  Ledger · paused · you asked for it\n"
    page.event("run2", ev.RunPaused(paused=False))
    assert page.said() == "  storage · goes on\n"


def test_a_plan_that_was_stopped_or_goes_on_says_so_once() -> None:
    page = detached(Page())
    page.event("run1", plan("in_progress"))
    page.said()
    page.event("run1", plan("paused"), ev.RunPaused(paused=True, reason="stopped"))
    assert page.said() == "  plan “Ledger” paused: 0 of 4 steps done\n"
    page.event("run1", ev.RunPaused(paused=False), plan("in_progress"))
    assert page.said() == "  Ledger · goes on\n"


def test_a_refused_plan_is_told_once_with_the_reason() -> None:
    why = "refused by the person. They said: smaller The refusal holds for the effect, not for the wording."
    page = Page().event(
        "run1",
        plan("draft"),
        ev.GateAnswered(
            action="A1", actions=("A1",), answer="no", by="user", operation="plan_tool.approve", comment="smaller"
        ),
        plan("refused", reason=why),
        done("A1", operation="plan_tool.propose", ok=False, error=f"failed: plan P1 was not approved: {why}"),
    )
    assert page.said() == "  plan “Ledger” drafted: 4 steps\n  plan “Ledger” refused · you said no: smaller\n"


def test_a_question_of_the_background_is_asked_by_its_card_alone() -> None:
    page = detached(Page())
    page.said()
    page.event("run2", ev.QuestionAsked(text="Which?", options=("a", "b"), default="a"))
    assert page.said() == ""
    page.event("run2", ev.QuestionAsked(text="Which?", default="a", answered="default"))
    assert page.said() == "  storage · assumed, because nobody could answer: Which? → a\n"


def test_who_asks_without_a_card_is_told() -> None:
    ask = ev.GateAsked(
        action="A1", actions=("A1",), operation="shell.run", risk="HIGH", intent="", rationale="", impact="",
        alternatives=(), preview="make\ninstall", hash="",
    )  # fmt: skip
    page = detached(Page(echo=True))
    page.said()
    page.event("run2", ask)
    assert page.said() == "  storage · asks for shell.run (HIGH): make⏎install\n"
    quiet = detached(Page())
    quiet.said()
    assert quiet.event("run2", ask).said() == ""


# --- reports --------------------------------------------------------------------------------------------------------


def report(**facts: Any) -> ev.Reported:
    given: dict[str, Any] = {
        "status": "success", "succeeded": 4, "failed": 0, "causes": (), "recommended_next": "", "summary": "All there.",
        "plan": "P1", "total": 4,
    }  # fmt: skip
    return ev.Reported(**{**given, **facts})


def test_a_report_begins_with_the_counts_of_the_engine() -> None:
    page = detached(Page())
    page.said()
    page.event("run1", report(), ev.Message(role="assistant", text="Plan “Ledger”: all there.", kind="report"))
    assert page.said() == "\n── plan “Ledger”: 4 of 4 steps done\n  All there.\n"  # and not a second time
    page.event("run1", ev.Message(role="assistant", text="Plan “Ledger”: all there.", kind="report"))
    assert "all there." in page.said()  # alone, as when a session is gone on with
    page.event(
        "run1",
        report(status="failed", succeeded=2, failed=1, causes=("no room", "no time"), recommended_next="free some"),
    )
    assert page.said() == snapshot("""\

── plan “Ledger”: 2 of 4 steps done · 1 failed
  All there.
  cause: no room
  cause: no time
  next: free some
""")


def test_a_report_of_loose_tasks_counts_tasks() -> None:
    page = Page().event("run2", ev.RunStarted(kind="tasks"))
    page.event("run2", report(plan=None, unit="tasks", succeeded=2, failed=1, total=0, status="paused", summary=""))
    assert page.said() == "\n── background work: 2 of 3 tasks done · 1 failed · paused\n"


def test_what_a_report_cost_is_told_also_when_it_comes_after_the_end() -> None:
    page = Page().event("run2", ev.RunStarted(kind="tasks"), called(5), ev.RunEnded(status="satisfied"))
    assert page.said() == "  tasks · done, with evidence · p/m · 1 call · 5 tokens · $0.00\n"
    page.event("run2", called(9), report(plan=None, unit="tasks"))
    assert page.said().endswith("  All there.\n  tasks · p/m · 1 call · 9 tokens · $0.00\n")


def test_vitals_are_for_those_who_ask() -> None:
    body = ev.VitalsChanged(mood=0.8, focus=0.25, stamina=1.0, loop_limit=8, reason="focus")
    assert Page().event("run1", body).said() == ""
    told = Page(verbose=True).event("run1", body).said()
    assert told == "  mood 0.80 · focus 0.25 · stamina 1.00 · loop limit 8 · focus\n"


def test_nothing_of_a_plan_or_report_is_obeyed() -> None:
    evil = "\x1b]0;x\x07\u202e"
    page = Page(verbose=True)
    step = {"id": "S1", "name": evil, "status": "failed", "reason": evil}
    blocked = {"id": "S2", "name": evil, "status": "blocked", "reason": evil, "depends_on": ("S1",)}
    body = ev.PlanChanged(plan="P1", name=evil, goal=evil, status="approved", steps=(), reason=evil)
    page.event("run1", body, ev.RunDetached(thread="x"))
    page.event("run1", ev.PlanChanged(plan="P1", name=evil, goal=evil, status="failed", steps=(step, blocked)))
    page.event("run2", ev.RunStarted(kind="step", parent="run1", plan_step="S1"))
    page.event("run2", done(summary=evil, ok=False, error=evil), ev.RunPaused(paused=True, reason=evil))
    page.event("run2", ev.TaskChanged(task="T1", status="failed", operation=evil, error=evil, step="S1"))
    page.event("run2", ev.Message(role="assistant", text=evil, kind="announcement"))
    page.event("run1", report(causes=(evil,), recommended_next=evil, summary=evil), ev.RunEnded(status="failed"))
    page.event("run1", ev.VitalsChanged(mood=1, focus=1, stamina=1, loop_limit=1, reason=evil))
    assert not {"\x1b", "\x07", "\u202e"} & set(page.said())


# --- when it may be shown -------------------------------------------------------------------------------------------

LINE, TALK = done(summary="edit x"), report()


class Desk:
    """A person at a keyboard, and a clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 100.0
        self.moment = Moment()
        self.holding = Holding(lambda: self.moment, lambda: self.now)
        self.seq = 0

    def add(self, *bodies: ev.Body) -> None:
        for body in bodies:
            self.seq += 1
            self.holding.add(ev.Event(self.seq, "", "s", "run1", body))

    def shown(self) -> list[int]:
        return [event.seq for event in self.holding.ready()]


def test_with_an_empty_line_everything_is_shown_at_once() -> None:
    desk = Desk()
    desk.add(LINE, TALK)
    assert desk.shown() == [1, 2] and desk.shown() == []


def test_lines_wait_for_a_pause_and_words_for_a_longer_one() -> None:
    desk = Desk()
    desk.moment = Moment(typed_at=desk.now)
    desk.add(LINE, TALK, LINE)
    assert desk.shown() == []
    desk.now += LINE_SECONDS
    assert desk.shown() == [1]  # the line after the report stays behind it
    desk.now = 100.0 + TALK_SECONDS
    assert desk.shown() == [2, 3]


def test_a_report_does_not_wait_longer_than_it_must() -> None:
    desk = Desk()
    desk.add(LINE)
    desk.now += 1
    desk.add(TALK, LINE)
    for _key in range(1, int(LATEST_SECONDS)):
        desk.now += 1
        desk.moment = Moment(typed_at=desk.now)
        assert desk.shown() == []
    desk.now += 1
    desk.moment = Moment(typed_at=desk.now)
    assert desk.shown() == [1, 2] and len(desk.holding) == 1


@pytest.mark.parametrize("moment", [Moment(decides=True), Moment(reads=True)])
def test_a_card_and_an_answer_being_written_are_not_torn_apart(moment: Moment) -> None:
    desk = Desk()
    desk.moment = moment
    desk.add(LINE)
    desk.now += 60
    assert desk.shown() == []
    desk.moment = Moment()
    assert desk.shown() == [1]


@given(st.lists(st.tuples(st.sampled_from(["line", "talk", "look"]), st.integers(0, 12), st.booleans())))
def test_whatever_is_typed_nothing_is_lost_and_the_order_stays(story: list[tuple[str, int, bool]]) -> None:
    desk, shown = Desk(), []
    for what, seconds, types in story:
        desk.now += seconds
        desk.moment = Moment(typed_at=desk.now if types else None)
        if what != "look":
            desk.add(LINE if what == "line" else TALK)
        shown += desk.shown()
    shown += [event.seq for event in desk.holding.rest()]
    assert shown == list(range(1, desk.seq + 1)) and len(desk.holding) == 0
