"""Output of `run` for people and scripts: stdout carries the answer, stderr the progress. Nobody is there to ask."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any, Literal, TextIO

from duckflow.errors import DuckflowError
from duckflow.events import Event, Live
from duckflow.i18n import _, explain
from duckflow.state.session import Session
from duckflow.ui import crash
from duckflow.ui.out import out_for
from duckflow.ui.render import Printer
from duckflow.ui.safe import safe, safe_json

Format = Literal["text", "json", "stream-json"]


class Headless:
    """Attach it before the work begins; `finish` prints what is left to say."""

    def __init__(self, fmt: str, stdout: TextIO, stderr: TextIO, session: Session, verbose: bool = False) -> None:
        self._format = fmt
        self._answer = out_for(stdout)
        self._progress = Printer(out_for(stderr), verbose=verbose)
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
        """The last words: the result for scripts, the answer for people."""
        for end in self._ends:
            end()
        if self._talks:
            self._progress.turn_ended()
        if self._format != "text":
            self._answer.line(safe_json(json.dumps(result, ensure_ascii=False)))
            return
        reply = safe(str(result.get("reply") or "")).strip("\n")
        if reply:
            self._answer.line(reply)
        if result.get("exit_code"):
            self._progress.out.line(_ended(str(result.get("status", ""))), "yellow")

    def _event(self, event: Event) -> None:
        if self._format == "stream-json":
            self._line(event)
        if self._talks and not _is_answer(event):
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
        self._answer.line(safe_json(json.dumps(as_streamed(event), ensure_ascii=False)))


def print_failure(error: DuckflowError, stdout: TextIO) -> None:
    """The result of a request that could not even begin."""
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


def _is_answer(event: Event) -> bool:
    body = event.to_json()
    return body["type"] == "message" and body["role"] == "assistant" and body["kind"] in ("reply", "outcome")


def _ended(status: str) -> str:
    words = {
        "partial": _("Ended with a partial result."),
        "escalated": _("Ended without satisfying the request; it needs a decision."),
        "refused": _("Ended: an approval was needed and nobody could give it (see --allow and --mode)."),
        "failed": _("Ended with an error."),
        "cancelled": _("Stopped."),
    }
    return words.get(status, _("Ended: {status}.", status=status))
