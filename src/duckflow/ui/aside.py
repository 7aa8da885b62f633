"""What background runs do, as single dim lines that name their step: seen in passing, never taken for the turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from duckflow import events as ev
from duckflow.i18n import _
from duckflow.ui import figures, planwords
from duckflow.ui.answers import refusal
from duckflow.ui.beside import Beside
from duckflow.ui.out import Out
from duckflow.ui.report import PLAN_GATE, Known, action_line, is_told
from duckflow.ui.safe import safe_line
from duckflow.ui.tally import Usage, ended
from duckflow.ui.wrap import fit

if TYPE_CHECKING:
    from duckflow.state.runs import SessionState

INDENT = "  "


class Aside:
    """Prints the events of background runs that the turn in front prints otherwise."""

    def __init__(
        self, out: Out, beside: Beside, known: Known, state: SessionState | None = None, *, asks: bool = False
    ) -> None:
        self._out = out
        self._asks = asks  # there is no card that would tell
        self._beside = beside
        self._known = known
        self._usage: dict[str, Usage] = {}  # by the run whose end they are told with
        self._failed: set[str] = set()  # actions whose failure was told
        self._tasks: dict[str, list[str]] = {}  # by step or run, in their order
        self._paused: dict[str, bool] = {}
        self._ended: set[str] = set()
        for run in state.runs.values() if state else ():
            self._paused[run.id] = run.paused
        for key, tasks in state.tasks.items() if state else ():
            self._tasks[key] = [task.id for task in tasks]
        self._handlers: dict[str, Callable[[str, Any], None]] = {
            "action.finished": self._action_finished,
            "gate.asked": self._gate_asked,
            "gate.answered": self._gate_answered,
            "task.changed": self._task_changed,
            "objective.changed": self._objective_changed,
            "question": self._question,
            "run.detached": self._run_detached,
            "run.paused": self._run_paused,
            "run.ended": self._run_ended,
        }

    def event(self, event: ev.Event) -> bool:
        """False: such an event looks the same wherever it comes from."""
        handler = self._handlers.get(event.body.type)
        if handler is not None:
            handler(event.run or "", event.body)
        return handler is not None

    def usage(self, run: str) -> Usage:
        return self._usage.setdefault(run, Usage())

    def line(self, run: str, text: str, style: str = "dim") -> None:
        """One line, whatever there is to say."""
        said = f"{self._beside.name(run)} · {text}"
        self._out.line(fit(INDENT + said, self._out.width), style)

    # --- what they do --------------------------------------------------------------------------------------------

    def _action_finished(self, run: str, body: ev.ActionFinished) -> None:
        self._known.learn(body)
        if not body.ok:
            self._failed.add(body.action)
        if not is_told(body):
            self.line(run, action_line(body))

    def _gate_asked(self, run: str, body: ev.GateAsked) -> None:
        if self._asks:
            what = safe_line(body.preview, exact=True)
            told = _("asks for {operation} ({risk}): {what}", operation=body.operation, risk=body.risk, what=what)
            self.line(run, safe_line(told), "yellow")

    def _gate_answered(self, run: str, body: ev.GateAnswered) -> None:
        if body.answer == "no" and body.operation != PLAN_GATE:
            self.line(run, _("not run: {why}", why=refusal(body.by, body.comment)), "yellow")

    def _task_changed(self, run: str, body: ev.TaskChanged) -> None:
        known = self._tasks.setdefault(body.step or run, [])
        if body.task not in known:
            known.append(body.task)
        if body.status != "failed" or body.action in self._failed:
            return
        place = _("task {n} of {total}", n=known.index(body.task) + 1, total=len(known))
        why = planwords.reason(body.error) or safe_line(body.operation)
        self.line(run, _("{task} failed: {why}", task=place, why=why), "yellow")

    def _objective_changed(self, run: str, body: ev.ObjectiveChanged) -> None:
        told = self._known.objective(run, body)
        if told:
            self.line(run, told)

    def _question(self, run: str, body: ev.QuestionAsked) -> None:
        """It is asked with a card; only what was taken for an answer is told."""
        if body.answered:
            said, taken = safe_line(body.text), safe_line(body.default or "")
            told = _("assumed, because nobody could answer: {question} → {answer}", question=said, answer=taken)
            self.line(run, told)

    def announced(self, run: str, text: str) -> None:
        self.line(run, _("about to do:") + " " + safe_line(text))

    # --- where they stand ----------------------------------------------------------------------------------------

    def _run_detached(self, run: str, body: ev.RunDetached) -> None:
        if self._beside.has_begun(run):
            self._out.block(_("goes on in the background; /tasks shows it"), "dim", indent=INDENT)

    def _run_paused(self, run: str, body: ev.RunPaused) -> None:
        """Once for a plan, not again for each of its steps."""
        above = self._beside.account(run)
        told = self._paused.get(run) == body.paused or (above != run and self._paused.get(above or "") == body.paused)
        self._paused[run] = body.paused
        if not told:
            self.line(run, figures.joined((_("paused") if body.paused else _("goes on"), _why(body.reason))))

    def plan_stands(self, run: str | None, status: str) -> bool:
        """A plan that stops or goes on says that of its run, too. False: that was told."""
        told = self._paused.get(run or "")
        if status in ("paused", "in_progress"):
            self._paused[run or ""] = status == "paused"
        return status != "in_progress" or told is not False

    def _run_ended(self, run: str, body: ev.RunEnded) -> None:
        """The end of a step is told by its plan."""
        if self._beside.is_root(run):
            self.close(run, body)

    def close(self, run: str, body: ev.RunEnded) -> None:
        """How it ended, and what it took while it was in the background."""
        self._ended.add(run)
        usage = self._usage.pop(run, Usage())
        told = figures.joined((self._beside.name(run), ended(body.status) or _("ended"), usage.line()))
        self._out.block(told, "dim", indent=INDENT * 2, first=INDENT)

    def reported(self, run: str | None) -> None:
        """The words of a report may come, and cost, after the end."""
        if run in self._ended and run in self._usage:
            usage = self._usage.pop(run)
            self._out.block(figures.joined((self._beside.name(run), usage.line())), "dim", indent=INDENT)


def _why(reason: str) -> str:
    """Words for people; a code was explained by the error before it."""
    return planwords.reason(reason) if " " in reason or reason == "stopped" else ""
