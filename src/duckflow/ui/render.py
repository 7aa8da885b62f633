"""Events as short lines for people: the chat, the progress of `run` and the demo print through here."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from duckflow import events as ev
from duckflow.i18n import _, ngettext
from duckflow.ui import figures
from duckflow.ui.answers import answer_word, refusal, refused_once, who
from duckflow.ui.out import Out
from duckflow.ui.report import Known, action_line, as_drawn, output_tail, verdict_lines
from duckflow.ui.safe import safe, safe_line
from duckflow.ui.stream import Stream
from duckflow.ui.wrap import fit

INDENT = "  "
MOST_LINES = 1000  # of a command's output on the screen while it runs
MOST_LINE = 4000  # characters of one of them


class Usage:
    """What the calls since the turn began came to."""

    def __init__(self) -> None:
        self.calls = self.tokens = self.cached = self.unpriced = 0
        self.cost = 0.0
        self.estimated = False
        self.models: list[str] = []

    def add(self, body: ev.ModelCalled) -> None:
        self.calls += 1
        self.tokens += body.prompt_tokens + body.completion_tokens
        self.cached += body.cached_tokens
        self.cost += body.cost_usd or 0.0
        self.unpriced += body.cost_usd is None
        self.estimated |= body.estimated
        name = safe_line(f"{body.provider}/{body.model}")
        if name not in self.models:
            self.models.append(name)

    def line(self) -> str:
        return figures.joined(
            (
                " + ".join(self.models),
                figures.calls(self.calls),
                figures.tokens(self.tokens, self.cached, estimated=self.estimated),
                figures.cost(self.cost, self.unpriced, self.calls),
            )
        )


class Printer:
    """Prints events in the order they come. `echo`: also what the person said; the chat shows that by itself."""

    def __init__(self, out: Out, *, verbose: bool = False, echo: bool = True) -> None:
        self.out = out
        self.verbose = verbose
        self.echo = echo
        self.show_output = False  # print a command's output while it runs
        self.known = Known()
        self._usage = Usage()
        self._status = ""
        self._reported = ""  # the report of an escalation, which is also its message
        self._streams: dict[str | None, Stream] = {}
        self._output = ""
        self._seen: deque[str] = deque(maxlen=50)  # the last lines of the running command
        self._lines = 0  # how many it has written
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
        }

    # --- what comes in -------------------------------------------------------------------------------------------

    def event(self, event: ev.Event) -> None:
        self._run = event.run
        handler = self._handlers.get(event.body.type)
        if handler is not None:
            handler(event.body)

    def live(self, live: ev.Live) -> None:
        if live.kind == "reply":
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
            self._command_output(live.text)

    def turn_ended(self, *, with_status: bool = True) -> None:
        """The last line of a turn: how it ended, who answered, how much it took."""
        self.flush()
        words = figures.joined((self._status if with_status else "", self._usage.line() if self._usage.calls else ""))
        if words:
            self.out.block(words, "dim", indent=INDENT)
        self._usage, self._status = Usage(), ""
        self._streams.clear()

    def flush(self) -> None:
        """The last, unfinished line of a command's output."""
        if self._output:
            self._command_output("\n")

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
        if not rest.strip() or body.text == self._reported:
            return
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
        self._reported = body.report
        self._reply(body.report)
        for number, option in enumerate(body.options, 1):
            self.out.block(safe_line(option), first=f"{number:>4} ", indent="     ")

    # --- the work ------------------------------------------------------------------------------------------------

    def _action_finished(self, body: ev.ActionFinished) -> None:
        self.flush()
        self.known.learn(body)
        if (body.error or "").startswith("refused:") and not self.verbose:
            return  # the answer at the gate has said so
        style = "" if body.ok else "red"
        self.out.block(action_line(body), style, indent=INDENT * 2, first=INDENT)
        if body.exit_code is not None and (not self.show_output or self._lines > MOST_LINES):
            for line in output_tail(body, self._seen):
                self.out.line(fit(f"{INDENT}│ {line}", self.out.width), "dim")
        self._seen.clear()
        self._lines = 0

    def _command_output(self, text: str) -> None:
        *whole, rest = (self._output + text).split("\n")
        self._output = rest[-MOST_LINE:]
        for line in whole:
            self._seen.append(line[-MOST_LINE:])
            if self.show_output and self._lines < MOST_LINES:
                self.out.block(as_drawn(line[:MOST_LINE]), "dim", indent=f"{INDENT}│ ")
            self._lines += 1

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
        self.out.block(_("not run: {why}", why=refusal(body.by, body.comment)), "yellow", indent=INDENT)

    def _verdict(self, body: ev.VerdictGiven) -> None:
        for line in verdict_lines(body, self.known, self.out):
            self.out.line(line)

    def _objective_changed(self, body: ev.ObjectiveChanged) -> None:
        again = self.known.objective(body)
        if again:
            text = _("attempt {n}", n=body.attempt)
            self.out.block(figures.joined((text, safe_line(body.strategy))), "cyan", indent=INDENT)
        if self.verbose:
            for item in body.requirements:
                self._note(f"{item['id']} {safe_line(str(item['text']))}")

    # --- what it took --------------------------------------------------------------------------------------------

    def _model_called(self, body: ev.ModelCalled) -> None:
        self._usage.add(body)
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
        words = {
            "satisfied": _("done, with evidence"),
            "partial": _("ended with a partial result"),
            "escalated": _("needs your decision"),
            "refused": _("ended: it was not allowed"),
            "failed": _("ended with an error"),
            "cancelled": _("stopped"),
            "deferred": _("put off"),
        }
        self._status = words.get(body.status, "")

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
