"""What is recorded of an action: intent with its checkpoint, then exactly one outcome with its evidence."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal

from duckflow import events as ev
from duckflow.prompts.replies import Action
from duckflow.record import Record
from duckflow.safety.change import Change, Effect, content_hash
from duckflow.safety.checkpoint import keep
from duckflow.safety.gate import Ruling
from duckflow.safety.risk import Risk
from duckflow.state.session import Session
from duckflow.tools.base import Operation, ToolResult

State = Literal["ok", "failed", "refused", "not run"]


class Outcome(Record):
    """What came of one action."""

    action: str
    operation: str
    state: State
    effect: Effect
    result: ToolResult
    target: str = ""
    evidence: str = ""

    @property
    def acts(self) -> bool:
        return self.effect in (Effect.FILES, Effect.COMMAND)


class Prepared(Record):
    """An action whose effect is known exactly and has been ruled on."""

    id: str
    action: Action
    operation: Operation[Any]
    args: Any
    change: Change
    risk: Risk
    ruling: Ruling


class Stopped(Record):
    """An action that goes no further: invalid, already so, or refused. It is recorded in its turn."""

    id: str
    action: Action
    state: State
    why: ToolResult


class Ledger:
    """Writes the events of actions; decides nothing."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def _record(self, effect: Effect) -> Callable[..., object]:
        """Effects are on disk before and after they happen; what only reads is written with its results."""
        return self._session.append if effect in (Effect.FILES, Effect.COMMAND) else self._session.hold

    def begin(self, run: str, item: Prepared, change: Change) -> None:
        bodies: list[ev.Body] = []
        if change.effect in (Effect.FILES, Effect.COMMAND):
            kept = keep([change], self._session.put)
            bodies.append(
                ev.Checkpoint(id=self._session.new_id("K"), files=kept.files, action=item.id, uncovered=kept.uncovered)
            )
        targets = tuple(
            {"path": f.path, "before": content_hash(f.before), "after": content_hash(f.after)} for f in change.files
        )
        bodies.append(
            ev.ActionStarted(
                action=item.id, operation=item.operation.name, args_digest=args_digest(item.action),
                reasoning=item.action.reasoning, risk=item.risk.level.name, targets=targets, summary=change.summary,
            )
        )  # fmt: skip
        self._record(change.effect)(*bodies, run=run)

    def finish(self, run: str, item: Prepared, result: ToolResult, at: float, maybe: bool = False) -> Outcome:
        evidence, proof = self._proof(result)
        self._record(item.change.effect)(
            ev.ActionFinished(
                action=item.id, operation=item.operation.name, ok=result.ok, evidence=proof,
                error=result.error or None, ms=round((time.monotonic() - at) * 1000), exit_code=result.exit_code,
                effect=bool(result.changed) or maybe, changed=result.changed, output=_whole(result),
                summary=item.change.summary, call=call_digest(item.action), result=_result_digest(result),
            ),
            run=run,
        )  # fmt: skip
        state: State = "ok" if result.ok else "failed"
        return Outcome(
            item.id, item.operation.name, state, item.operation.effect, result, _target(item.action), evidence
        )

    def _proof(self, result: ToolResult) -> tuple[str, tuple[ev.Facts, ...]]:
        if not result.kind:
            return "", ()
        name = self._session.new_id("E")
        return name, ({"id": name, "kind": result.kind, "facts": dict(result.facts)},)

    def without_effect(
        self, run: str, name: str, action: Action, effect: Effect, state: State, why: ToolResult
    ) -> Outcome:
        """An action that was already so, failed before it began, was refused, or was not run."""
        evidence, proof = self._proof(why)
        error = None if state == "ok" else f"{state}: {why.error}"
        self._session.append(
            ev.ActionFinished(
                action=name, operation=action.operation, ok=state == "ok", evidence=proof, error=error,
                call=call_digest(action), result=_result_digest(why),
            ),
            run=run,
        )  # fmt: skip
        return Outcome(name, action.operation, state, effect, why, _target(action), evidence)


def args_digest(action: Action) -> str:
    return hashlib.sha256(json.dumps(action.args, sort_keys=True, default=str).encode()).hexdigest()


def call_digest(action: Action) -> str:
    """The same operation on the same target with the same content has the same digest."""
    return hashlib.sha256(f"{action.operation}\0{args_digest(action)}".encode()).hexdigest()[:16]


def _result_digest(result: ToolResult) -> str:
    said = f"{result.ok}\0{result.exit_code}\0{result.error}\0{result.text}"
    return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _whole(result: ToolResult) -> str:
    """What `out:ACTION` gives again. A command's output is always kept: it is evidence."""
    return result.output or (result.text if result.kind == "command" else "")


def _target(action: Action) -> str:
    for key in ("path", "command", "from", "pattern", "query"):
        value = action.args.get(key)
        if isinstance(value, str):
            return " ".join(value.split())[:120]
    return ""


def some(paths: Sequence[str], most: int = 12) -> str:
    """The first of many paths, and how many there are."""
    more = f" and {len(paths) - most} more" if len(paths) > most else ""
    return ", ".join(paths[:most]) + more
