"""Events as lines: one per action, the verdict as a small table, replies once, figures at the end."""

from __future__ import annotations

from typing import Any

import pytest
from inline_snapshot import snapshot

from duckflow import events as ev
from duckflow.i18n import set_language
from duckflow.ui.out import Out
from duckflow.ui.render import Printer


class Page:
    """A printer whose paper can be read."""

    def __init__(self, *, verbose: bool = False, echo: bool = True, width: int = 80) -> None:
        self.pieces: list[str] = []
        out = Out(self.pieces.append, colour=False, width=lambda: width)
        self.printer = Printer(out, verbose=verbose, echo=echo)
        self.seq = 0

    def event(self, *bodies: ev.Body) -> Page:
        for body in bodies:
            self.seq += 1
            self.printer.event(ev.Event(self.seq, "2026-11-16T01:02:03.004Z", "s", "run1", body))
        return self

    def live(self, *pieces: str, kind: str = "reply") -> Page:
        for piece in pieces:
            self.printer.live(ev.Live(kind, piece, "run1"))
        return self

    @property
    def text(self) -> str:
        return "".join(self.pieces)


def finished(**facts: Any) -> ev.ActionFinished:
    return ev.ActionFinished(**{"action": "A1", "operation": "file_ops.read_file", "ok": True, **facts})


def called(cost: float | None = 0.004, **facts: Any) -> ev.ModelCalled:
    given: dict[str, Any] = {
        "tier": "fast", "provider": "openai", "model": "gpt-x", "node": "understand", "pattern": "base_main",
        "prompt_tokens": 1200, "cached_tokens": 400, "completion_tokens": 200, "cost_usd": cost, "ms": 1500,
    }  # fmt: skip
    return ev.ModelCalled(**{**given, **facts})


def test_a_turn_as_people_see_it() -> None:
    page = Page()
    page.event(
        ev.Message(role="user", text="テストが失敗します。直してください。"),
        called(),
        finished(summary="read src/x.py · 60 lines"),
        ev.ObjectiveChanged(
            objective="O1", request="x", attempt=1, satisfaction=0.0,
            requirements=({"id": "R1", "text": "all tests pass"}, {"id": "R2", "text": "説明が日本語で書かれている"}),
        ),
        ev.GateAnswered(action="A2", actions=("A2",), answer="no", by="user", comment="use pytest"),
        finished(action="A2", operation="shell.run", ok=False, error="refused: refused by the person."),
        finished(action="A3", summary="edit src/x.py (+3 −1)", effect=True, evidence=({"id": "E1", "kind": "change"},)),
        finished(
            action="A4", operation="shell.run", summary="run pytest -q", exit_code=1, ms=2200,
            output="a\nb\x1b[2J\n\nc", evidence=({"id": "E2", "kind": "command"},),
        ),
        called(),
        ev.VerdictGiven(
            overall=0.45, failed_checks=("C1 pytest",), missing=("the second test",), next="retry",
            requirements={"R1": {"score": 0.9, "evidence": ["E1", "E2"]}, "R2": {"score": 0.0, "evidence": []}},
        ),
        ev.Message(role="assistant", text="**Done** in `src/x.py`.", kind="reply"),
        ev.RunEnded(status="satisfied"),
    )  # fmt: skip
    page.printer.turn_ended()
    assert page.text == snapshot("""\

> テストが失敗します。直してください。
  read src/x.py · 60 lines
  not run: you said no: use pytest
  edit src/x.py (+3 −1) ✓
  run pytest -q · exit 1 · 2.2 s
  │ a
  │ b‹U+001B›[2J
  │ c

  R1 all tests pass             0.90  E1 edit src/x.py (+3 −1); E2 run pytest
                                      -q
  R2 説明が日本語で書かれている 0.00  no evidence
  overall 0.45 → another attempt
  missing: the second test

Done in src/x.py.
  done, with evidence · openai/gpt-x · 2 calls · 2.8k tokens (800 cached) ·
  $0.0080
""")


@pytest.mark.parametrize(
    ("by", "comment", "told"),
    [
        ("user", "", "you said no"),
        ("user", "use pytest", "you said no: use pytest"),
        ("nobody", "", "nobody was there to approve it"),
        ("rule", "denied by the rule shell.run", "denied by the rule shell.run"),
        ("rule", "/etc/x is outside the workspace", "/etc/x is outside the workspace"),  # the boundary
        ("mode", "the mode plan only reads", "the mode plan only reads"),
        ("rule", "", "a rule forbids it"),
    ],
)
def test_a_refusal_is_told_with_the_reason_that_came_with_it(by: str, comment: str, told: str) -> None:
    page = Page().event(ev.GateAnswered(action="A1", actions=("A1",), answer="no", by=by, comment=comment))
    assert page.text == f"  not run: {told}\n"


@pytest.mark.parametrize(
    ("error", "english", "japanese"),
    [
        (
            "refused: refused: it needs an approval and nobody is here to give it",
            "refused: nobody was there to approve it",
            "却下: 承認できる人がいませんでした",
        ),
        (
            "refused: refused by the person. They said: use pytest"
            " The refusal holds for the effect, not for the wording.",
            "refused: you said no: use pytest",
            "却下: 「いいえ」と答えました: use pytest",
        ),
        (
            "refused: refused by the person. The refusal holds for the effect, not for the wording.",
            "refused: you said no",
            "却下: 「いいえ」と答えました",
        ),
        (
            "refused: refused: refused: the mode plan only reads",
            "refused: the mode plan only reads",
            "却下: plan モードでは読むだけです",
        ),
        (
            "not run: the action before it was refused",
            "not run: an earlier action was refused",
            "実行していません: 前の操作が許可されませんでした",
        ),
        ("not run: 2 errors in a row", "not run: 2 errors in a row", "実行していません: エラーが 2 回続きました"),
        ("failed: no such file", "no such file", "no such file"),
        ("no such file: a", "no such file: a", "no such file: a"),
    ],
)
def test_what_an_action_did_not_do_is_said_once_and_in_the_language_of_the_screen(
    error: str, english: str, japanese: str
) -> None:
    body = finished(summary="edit a.py", ok=False, error=error)
    told = Page(verbose=True).event(body).text
    try:
        set_language("ja")
        in_japanese = Page(verbose=True).event(body).text
    finally:
        set_language("en")
    assert " ".join(told.split()) == f"edit a.py ✗ {english}"
    assert in_japanese == f"  edit a.py ✗ {japanese}\n"


def test_a_reply_that_is_evidence_has_a_name() -> None:
    page = Page().event(
        ev.EvidenceAdded(id="E6", kind="reply", text="Because of this."),
        ev.VerdictGiven(
            overall=1.0, requirements={"R1": {"score": 1.0, "evidence": ["E6"]}}, failed_checks=(), missing=(),
            next="complete",
        ),
    )  # fmt: skip
    assert "E6 the reply" in page.text


def test_state_changes_and_calls_are_for_those_who_ask() -> None:
    bodies = (
        ev.StateChanged(objective=None, step="EXECUTION", status="IN_PROGRESS", from_="PLANNING", trigger="decision"),
        called(),
        ev.DecisionMade(decision={"rationale": "read first"}, node="understand"),
    )
    assert Page().event(*bodies).text == ""
    assert Page(verbose=True).event(*bodies).text == snapshot("""\
  PLANNING → EXECUTION · IN_PROGRESS (decision)
  understand · fast · openai/gpt-x · 1.2k tokens (400 cached) · 200 out · 1.5 s
  understand · read first
""")


def test_a_streamed_reply_is_completed_not_repeated() -> None:
    page = (
        Page().live("First.\n\nSec", "ond.").event(ev.Message(role="assistant", text="First.\n\nSecond.", kind="reply"))
    )
    assert page.text == "\nFirst.\n\nSecond.\n"


def test_a_reply_that_became_another_is_printed_whole() -> None:
    page = Page().live("First.\n\nSec").event(ev.Message(role="assistant", text="Other.", kind="reply"))
    assert page.text == "\nFirst.\n\nOther.\n"


def test_a_repeated_call_starts_again() -> None:
    page = Page().live("First.\n\nSec").live("", kind="restart").live("New.\n\nEnd.")
    page.event(ev.Message(role="assistant", text="New.\n\nEnd.", kind="reply"))
    assert page.text == "\nFirst.\n  the answer starts again\n\nNew.\n\nEnd.\n"


def test_an_announcement_is_labelled() -> None:
    page = Page().event(ev.Message(role="assistant", text="I will fix it.", kind="announcement"))
    assert page.text == "\n  about to do:\nI will fix it.\n"


def test_a_question_numbers_its_options_and_marks_the_default() -> None:
    page = Page().event(ev.QuestionAsked(text="Which one?", options=("red", "blue"), default="blue"))
    assert page.text == "\n? Which one?\n   1 red\n   2 blue (default)\n"
    assumed = Page().event(ev.QuestionAsked(text="Which one?", default="blue", answered="default"))
    assert "assumed" in assumed.text and "blue" in assumed.text


def test_an_escalation_is_told_once() -> None:
    report = "Not finished after 3 attempts."
    page = Page().event(ev.Escalation(report=report, options=("more detail", "stop")))
    page.event(ev.Message(role="assistant", text=report, kind="outcome"))
    assert page.text.count(report) == 1 and "   1 more detail\n   2 stop\n" in page.text


def test_unknown_prices_are_said() -> None:
    page = Page().event(called(None))
    page.printer.turn_ended()
    assert "cost unknown" in page.text
    mixed = Page().event(called(None), called(0.5, estimated=True))
    mixed.printer.turn_ended()
    assert "$0.5000 + unknown" in mixed.text and "≈2.8k tokens" in mixed.text


def test_a_warning_says_what_to_do() -> None:
    page = Page().event(ev.Warned(code="x", message="The disk is nearly full.", hint="Free some space."))
    assert page.text == "! The disk is nearly full.\n  → Free some space.\n"


def test_nothing_from_outside_is_obeyed() -> None:
    evil = "\x1b]0;x\x07\u202e"
    page = Page(verbose=True).event(
        ev.Message(role="user", text=evil),
        ev.Message(role="assistant", text=evil, kind="reply"),
        finished(summary=evil, exit_code=1, output=evil, ok=False, error=evil),
        ev.QuestionAsked(text=evil, options=(evil,), default=evil),
        ev.Escalation(report=evil, options=(evil,)),
        ev.GateAsked(
            action="A1", actions=("A1",), operation=evil, risk="LOW", intent=evil, rationale=evil, impact=evil,
            alternatives=(evil,), preview=evil, hash="",
        ),
        ev.GateAnswered(action="A1", actions=("A1",), answer="no", by="user", comment=evil),
        ev.ObjectiveChanged(
            objective="O1", request=evil, requirements=({"id": "R1", "text": evil},), attempt=1, satisfaction=0
        ),
        ev.VerdictGiven(
            overall=0, requirements={"R1": {"score": 0, "evidence": [evil]}}, failed_checks=(evil,), missing=(evil,),
            next=evil,
        ),
        ev.StateChanged(objective=None, step=evil, status="x", from_=None, trigger="x", refused=True, reason=evil),
        ev.DecisionMade(decision={"rationale": evil}, node="understand"),
        ev.Warned(code="x", message=evil, hint=evil),
        called(provider=evil, model=evil, reason=evil, cuts=(evil,)),
    )  # fmt: skip
    page.live(evil, kind="output")
    page.printer.turn_ended()
    assert not {"\x1b", "\x07", "\u202e"} & set(page.text)


def test_a_flood_of_output_is_bounded_and_its_end_is_shown() -> None:
    page = Page()
    page.printer.output.show = True
    page.live(*(f"line {n}\n" for n in range(5000)), "x" * 1_000_000, kind="output")
    page.event(finished(operation="shell.run", summary="run yes", exit_code=1, ms=10))
    assert 1000 < page.text.count("\n") < 1200
    assert "line 999\n" in page.text and "line 2000\n" not in page.text and "line 4999" in page.text


def test_a_progress_bar_is_shown_as_it_ended() -> None:
    page = Page()
    page.live("10 %\r50 %\r100 %\ndone\n", kind="output")
    page.event(finished(operation="shell.run", summary="run get", exit_code=0, ms=10))
    assert page.text == "  run get · exit 0 · 0.0 s\n  │ 100 %\n  │ done\n"
