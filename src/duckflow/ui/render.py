"""Events as short lines for people: the chat, the progress of `run` and the demo print through here."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from duckflow import events as ev
from duckflow.i18n import _, ngettext
from duckflow.ui import figures
from duckflow.ui.answers import answer_word, refusal, refused_once, who
from duckflow.ui.aside import Aside
from duckflow.ui.beside import Beside
from duckflow.ui.out import Out
from duckflow.ui.output import CommandOutput
from duckflow.ui.progress import Progress
from duckflow.ui.report import PLAN_GATE, Known, action_line, is_told, verdict_lines
from duckflow.ui.safe import safe, safe_line
from duckflow.ui.stream import Stream
from duckflow.ui.tally import Usage, ended
from duckflow.ui.wrap import fit

if TYPE_CHECKING:
    from duckflow.state.runs import SessionState

INDENT = "  "
STALL_SECONDS = 3.0  # an answer that has not grown for so long is interrupted


class Printer:
    """Prints events in the order they come. `echo`: also what the person said; the chat shows that by itself.

    `state`: what a session that is gone on with knows already; `beside`: which of its runs are in the background.
    """

    def __init__(
        self,
        out: Out,
        *,
        verbose: bool = False,
        echo: bool = True,
        state: SessionState | None = None,
        beside: Beside | None = None,
    ) -> None:
        self.out = out
        self.verbose = verbose
        self.echo = echo
        self.output = CommandOutput(out)
        self.beside = beside or Beside(state)
        self.known = Known(state)
        self._progress = Progress(out, state, verbose=verbose)
        self._aside = Aside(out, self.beside, self.known, state, asks=verbose or echo)
        self._run: str | None = None
        self._usage = Usage()
        self._status = ""
        self._reported: set[tuple[str | None, str]] = set()  # by run: reports that come as a message too
        self._streams: dict[str | None, Stream] = {}
        self._streamed = float("-inf")  # when the last piece of an answer came
        self._handlers: dict[str, Callable[[Any], None]] = {
            "message": self._message,
            "model.called": self._model_called,
            "decision": self._decision,
            "state.changed": self._state_changed,
            "objective.changed": self._objective_changed,
            "action.finished": self._action_finished,
            "evidence": self.known.told,
            "gate.asked": self._gate_asked,
            "gate.answered": self._gate_answered,
            "verdict": self._verdict,
            "question": self._question,
            "escalation": self._escalation,
            "run.ended": self._run_ended,
            "mode.changed": self._mode_changed,
            "checkpoint": self._checkpoint,
            "warning": self._warning,
            "error": self._error,
            "plan.changed": self._plan_changed,
            "report": self._report,
            "vitals": self._progress.vitals,
        }

    # --- what comes in -------------------------------------------------------------------------------------------

    def event(self, event: ev.Event) -> None:
        self.beside.see(event)
        self._run = event.run
        if event.run in self.beside and self._aside.event(event):
            return
        handler = self._handlers.get(event.body.type)
        if handler is not None:
            handler(event.body)

    def live(self, live: ev.Live) -> None:
        if live.run in self.beside:
            return  # only what is finished is told of the background
        if live.kind == "reply":
            self._streamed = time.monotonic()
            block = self._streams.setdefault(live.run, Stream()).feed(live.text)
            if block.strip():
                self._reply(block)
        elif live.kind == "restart":
            stream = self._streams.pop(live.run, None)
            if stream is not None and stream.printed.strip():
                self._note(_("the answer starts again"))
        elif live.kind == "calling":
            self._streams.pop(live.run, None)
        elif live.kind == "output":
            self.output.feed(live.text)

    def turn_ended(self, *, with_status: bool = True) -> None:
        """The last line of a turn: how it ended, who answered, how much it took."""
        self.flush()
        words = figures.joined((self._status if with_status else "", self._usage.line()))
        if words:
            self.out.block(words, "dim", indent=INDENT)
        self._usage, self._status = Usage(), ""
        self._streams.clear()

    def flush(self) -> None:
        """The last, unfinished line of a command's output."""
        self.output.flush()

    @property
    def is_streaming(self) -> bool:
        """An answer is being written right now: nothing else belongs between its parts."""
        is_fresh = time.monotonic() - self._streamed < STALL_SECONDS
        return is_fresh and any(stream.started for stream in self._streams.values())

    def streaming(self) -> str:
        """The unfinished end of what is being written."""
        return next((s.tail for s in self._streams.values() if s.tail.strip()), "")

    # --- the conversation ----------------------------------------------------------------------------------------

    def user(self, text: str) -> None:
        self.out.line()
        self.out.block(safe(text), "bold", first="> ", indent="  ")

    def _message(self, body: ev.Message) -> None:
        if body.role == "user":
            if self.echo and body.kind != "data":
                self.user(body.text)
            return
        stream = self._streams.pop(self._run, None)
        rest = stream.rest(body.text) if stream else body.text
        if not rest.strip():
            return
        told = (self._run, "" if body.kind == "report" else body.text)
        if told in self._reported:
            self._reported.discard(told)
            return
        is_beside = self._run in self.beside
        if is_beside and body.kind == "announcement":
            self._aside.announced(self._run or "", rest)
        elif is_beside:
            self._reply(rest, self.beside.name(self._run) + ":")
        else:
            self._reply(rest, _("about to do:") if body.kind == "announcement" else "")

    def _reply(self, text: str, label: str = "") -> None:
        self.out.line()
        if label:
            self._note(label)
        self.out.markdown(text)

    def _question(self, body: ev.QuestionAsked) -> None:
        if body.answered:
            said, taken = safe_line(body.text), safe_line(body.default or "")
            self._note(_("assumed, because nobody could answer: {question} → {answer}", question=said, answer=taken))
            return
        self.out.line()
        self.out.block(safe(body.text), "bold", first="? ", indent="  ")
        for number, option in enumerate(body.options, 1):
            mark = " " + _("(default)") if option == body.default else ""
            self.out.block(safe_line(option) + mark, first=f"{number:>4} ", indent="     ")
        if body.default is not None and body.default not in body.options:
            self.out.block(_("default: {answer}", answer=safe_line(body.default)), "dim", indent="     ")

    def _escalation(self, body: ev.Escalation) -> None:
        self._reported.add((self._run, body.report))
        self._reply(body.report)
        for number, option in enumerate(body.options, 1):
            self.out.block(safe_line(option), first=f"{number:>4} ", indent="     ")

    def _report(self, body: ev.Reported) -> None:
        self._reported.add((self._run, ""))
        self._progress.report(body)
        self._aside.reported(self._run)

    def _plan_changed(self, body: ev.PlanChanged) -> None:
        self._progress.plan(body, is_news=self._aside.plan_stands(self._run, body.status))

    # --- the work ------------------------------------------------------------------------------------------------

    def _action_finished(self, body: ev.ActionFinished) -> None:
        self.flush()
        self.known.learn(body)
        told = self.verbose or not is_told(body)
        if told:
            self.out.block(action_line(body), "" if body.ok else "red", indent=INDENT * 2, first=INDENT)
        self.output.ended(body, told=told)

    def _gate_asked(self, body: ev.GateAsked) -> None:
        if self.verbose or self.echo:
            first = safe_line(body.preview, exact=True)
            text = _("asks for {operation} ({risk}): {what}", operation=body.operation, risk=body.risk, what=first)
            self.out.line(fit(INDENT + safe_line(text), self.out.width), "yellow")

    def _gate_answered(self, body: ev.GateAnswered) -> None:
        if body.answer != "no":
            if self.verbose:
                self._note(_("allowed ({answer}, by {by})", answer=answer_word(body.answer), by=who(body.by)))
            return
        if body.operation != PLAN_GATE:  # the plan itself says so
            self.out.block(_("not run: {why}", why=refusal(body.by, body.comment)), "yellow", indent=INDENT)

    def _verdict(self, body: ev.VerdictGiven) -> None:
        for line in verdict_lines(body, self._run, self.known, self.out):
            self.out.line(line)

    def _objective_changed(self, body: ev.ObjectiveChanged) -> None:
        told = self.known.objective(self._run, body)
        if told:
            self.out.block(told, "cyan", indent=INDENT)
        if self.verbose:
            for item in body.requirements:
                self._note(f"{item['id']} {safe_line(str(item['text']))}")

    # --- what it took --------------------------------------------------------------------------------------------

    def _model_called(self, body: ev.ModelCalled) -> None:
        account = self.beside.account(self._run)
        (self._usage if account is None else self._aside.usage(account)).add(body)
        if not self.verbose:
            return
        parts = (
            f"{body.node} · {body.tier} · {safe_line(body.provider)}/{safe_line(body.model)}",
            figures.tokens(body.prompt_tokens, body.cached_tokens),
            _("{n} out", n=figures.count(body.completion_tokens)),
            figures.seconds(body.ms),
            safe_line(body.reason),
            *(safe_line(cut) for cut in body.cuts),
        )
        self._note(figures.joined(parts))

    def _run_ended(self, body: ev.RunEnded) -> None:
        self._status = ended(body.status)

    # --- details and trouble -------------------------------------------------------------------------------------

    def _decision(self, body: ev.DecisionMade) -> None:
        if self.verbose:
            self._note(figures.joined((body.node, safe_line(str(body.decision.get("rationale", ""))))))

    def _state_changed(self, body: ev.StateChanged) -> None:
        if not self.verbose:
            return
        text = f"{body.from_ or '·'} → {body.step} · {body.status} ({body.trigger})"
        refused = _("refused: {reason}", reason=safe_line(refused_once(body.reason))) if body.refused else ""
        self._note(figures.joined((text, refused)))

    def _mode_changed(self, body: ev.ModeChanged) -> None:
        self._note(_("mode: {mode}", mode=body.mode))

    def _checkpoint(self, body: ev.Checkpoint) -> None:
        if self.verbose:
            self._note(ngettext("checkpoint {id}: {n} file", "checkpoint {id}: {n} files", len(body.files), id=body.id))

    def _warning(self, body: ev.Warned) -> None:
        self.trouble(_(body.message), _(body.hint), "yellow")

    def _error(self, body: ev.Failed) -> None:
        self.trouble(_(body.message), _(body.hint), "red")

    def trouble(self, message: str, hint: str = "", style: str = "red") -> None:
        self.out.block(safe(message), style, first="! ", indent="  ")
        if hint:
            self.out.block(safe(hint), first="  → ", indent="    ")

    def _note(self, text: str) -> None:
        self.out.block(text, "dim", indent=INDENT)
