"""Output of `run` for people and scripts: stdout carries the answer, stderr the progress. Nobody is there to ask."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any, Literal, TextIO

from duckflow.errors import DuckflowError
from duckflow.events import Escalation, Event, Live, Message
from duckflow.i18n import _, explain
from duckflow.state.session import Session
from duckflow.ui import crash
from duckflow.ui.beside import Beside
from duckflow.ui.out import OutputError, out_for
from duckflow.ui.render import Printer
from duckflow.ui.safe import safe, safe_json

Format = Literal["text", "json", "stream-json"]


class Headless:
    """Attach it before the work begins; `finish` prints what is left to say."""

    def __init__(
        self, fmt: str, stdout: TextIO | None, stderr: TextIO | None, session: Session, verbose: bool = False
    ) -> None:
        self._format = fmt
        self._answer = out_for(stdout)
        self._full: OutputError | None = None
        beside = Beside(together=True)
        self._progress = Printer(out_for(stderr, needed=False), verbose=verbose, beside=beside)
        self._talks = fmt != "stream-json" or verbose
        self._session = session
        self._ends: list[Callable[[], None]] = []

    def attach(self) -> None:
        """From now on; a stream begins with what the session already holds."""
        if self._format == "stream-json":
            for event in self._session.store.events(self._session.id):
                self._line(event)
        self._ends = [self._session.subscribe(self._event), self._session.watch(self._live)]

    def finish(self, result: dict[str, Any]) -> None:
        """The last words: the result for scripts, the answer for people. OutputError: they could not be written."""
        for end in self._ends:
            end()
        says_how = self._format == "text" and bool(result.get("exit_code"))
        if self._talks:
            self._progress.turn_ended(with_status=not says_how)
        reply = safe(str(result.get("reply") or "")).strip("\n")
        if self._format != "text":
            self._put(safe_json(json.dumps(result, ensure_ascii=False)))
        elif reply:
            self._put(reply)
        if says_how:
            self._progress.out.line(_ended(str(result.get("status", ""))), "yellow")
        if self._full is not None:
            raise self._full

    def _event(self, event: Event) -> None:
        if self._format == "stream-json":
            self._line(event)
        if self._talks and not self._is_answer(event):
            self._show(lambda: self._progress.event(event))

    def _live(self, live: Live) -> None:
        """A reply is no progress: it is the answer, and stdout has it at the end."""
        if self._talks and live.kind != "reply":
            self._show(lambda: self._progress.live(live))

    def _show(self, print_it: Callable[[], None]) -> None:
        """Progress must never break the work it tells about."""
        try:
            print_it()
        except Exception as error:
            crash.record(error, self._session.store.path.parent)

    def _line(self, event: Event) -> None:
        self._put(safe_json(json.dumps(as_streamed(event), ensure_ascii=False)))

    def _put(self, line: str) -> None:
        """A full disk must not break the work either; it is told at the end."""
        try:
            self._answer.line(line)
        except OutputError as error:
            self._full = error

    def _is_answer(self, event: Event) -> bool:
        """What stdout has at the end. A report of an escalation is its message too; a step has no answer."""
        body = event.body
        if event.run in self._progress.beside:
            return False
        if isinstance(body, Escalation):
            return self._format == "text"
        return isinstance(body, Message) and body.role == "assistant" and body.kind in ("reply", "outcome")


def print_failure(error: DuckflowError, stdout: TextIO | None) -> None:
    """The result of a request that could not even begin."""
    if isinstance(error, OutputError):
        return
    message, _hint = explain(error)
    result: dict[str, Any] = {
        "type": "result",
        "status": "failed",
        "exit_code": error.exit_code,
        "reply": "",
        "objective": None,
        "verdict": None,
        "error": {"code": error.code, "message": message},
        "files_changed": [],
        "usage": {},
        "session": None,
    }
    out_for(stdout).line(safe_json(json.dumps(result, ensure_ascii=False)))


def as_streamed(event: Event) -> dict[str, Any]:
    """An event as it is stored: long texts by the hash that names them; messages are always whole."""
    return {**event.to_json(), **event.body.brief(_name)}


def _name(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _ended(status: str) -> str:
    words = {
        "partial": _("Ended with a partial result."),
        "escalated": _("Ended without satisfying the request; it needs a decision."),
        "refused": _("Ended: an approval was needed and nobody could give it (see --allow and --mode)."),
        "failed": _("Ended with an error."),
        "cancelled": _("Stopped."),
    }
    return words.get(status, _("Ended: {status}.", status=status))
