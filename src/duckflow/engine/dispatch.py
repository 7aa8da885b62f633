"""The one way to act: look up → validate → risk → gate → checkpoint → run → verify → record. There is no second one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Mapping, Sequence
from itertools import takewhile
from typing import TypeVar

from duckflow import events as ev
from duckflow.engine.approval import Approval, Approver
from duckflow.engine.ledger import Ledger, Outcome, Prepared, State, Stopped
from duckflow.prompts.replies import Action
from duckflow.record import replace
from duckflow.safety.change import Change, Effect
from duckflow.safety.gate import hidden_by
from duckflow.safety.manifest import changed_between, snapshot
from duckflow.safety.paths import Workspace
from duckflow.safety.risk import combined, measure
from duckflow.state.session import Session
from duckflow.tools.base import Context, Registry, ToolResult, failed, read_args

T = TypeVar("T")

MOST_EFFECTS = 6
MOST_READS = 16
ERRORS_IN_A_ROW = 2
OVER_THE_LIMIT = f"over the limit of {MOST_EFFECTS} effects or {MOST_READS} reads in one answer; give it again"


class Dispatcher:
    """Runs batches of actions for any run. Effects hold one workspace lock, never while a person is asked."""

    def __init__(
        self,
        session: Session,
        registry: Registry,
        workspace: Workspace,
        approval: Approval,
        env: Mapping[str, str],
    ) -> None:
        self._session = session
        self._registry = registry
        self._workspace = workspace
        self._approval = approval
        self._env = env
        self._ledger = Ledger(session)
        self._lock = asyncio.Lock()
        self._command: asyncio.Task[ToolResult] | None = None

    def effect_of(self, action: Action) -> Effect:
        operation = self._registry.get(action.operation)
        return operation.effect if operation else Effect.NONE

    def acts(self, action: Action) -> bool:
        return self.effect_of(action) in (Effect.FILES, Effect.COMMAND)

    async def batch(
        self,
        run: str,
        actions: Sequence[Action],
        approved: Approver = "",
        review: bool = False,
        before: Sequence[Outcome] = (),
    ) -> list[Outcome]:
        """Run actions in order. A refusal or two errors in a row stop the rest, which is reported as not run.

        `approved` names who allowed them beforehand ("user" typed the command, "rule" configured the check);
        `review`: they are checks, so asking for them changes the status only;
        `before`: what already came of the same answer, so that limits and stops count over all of it.
        """
        outcomes = list(before)
        waiting = [(self._session.new_id("A", i + 1), action) for i, action in enumerate(actions)]
        while waiting:
            group = self._group(waiting)
            waiting = waiting[len(group) :]
            outcomes += await self._run_group(run, group, outcomes, approved, review)
        return outcomes[len(before) :]

    # --- grouping ------------------------------------------------------------------------------------------------

    def _group(self, waiting: list[tuple[str, Action]]) -> list[tuple[str, Action]]:
        """Neighbouring file effects share one card; everything else stands alone."""
        if self.effect_of(waiting[0][1]) is not Effect.FILES:
            return waiting[:1]
        return list(takewhile(lambda item: self.effect_of(item[1]) is Effect.FILES, waiting[:MOST_EFFECTS]))

    async def _run_group(
        self, run: str, group: list[tuple[str, Action]], before: list[Outcome], approved: Approver, review: bool
    ) -> list[Outcome]:
        overlay: dict[str, bytes | None] = {}
        ready: list[Prepared | Stopped] = []
        for name, action in group:
            if _why_stop([*before, *ready]) or not self._has_room([*before, *ready], action):
                break
            item = await self._prepare(run, name, action, overlay, approved)
            ready.append(item)
            if isinstance(item, Prepared):
                overlay.update({file.path: file.after for file in item.change.files})
        asked = [item for item in ready if isinstance(item, Prepared) and item.ruling.outcome == "ask"]
        refused = await self._ask(run, asked, review) if asked else ""
        outcomes: list[Outcome] = []
        for item in ready:
            outcomes.append(await self._settle(run, item, refused, _why_stop([*before, *outcomes])))
        for name, action in group[len(ready) :]:
            why = _why_stop([*before, *outcomes]) or OVER_THE_LIMIT
            outcomes.append(self._ended(run, name, action, "not run", failed(why)))
        return outcomes

    async def _settle(self, run: str, item: Prepared | Stopped, refused: str, stop: str) -> Outcome:
        if stop:
            return self._ended(run, item.id, item.action, "not run", failed(stop))
        if isinstance(item, Stopped):
            return self._ended(run, item.id, item.action, item.state, item.why)
        if item.ruling.outcome == "ask" and refused:
            return self._ended(run, item.id, item.action, "refused", failed(refused))
        return await self._perform(run, item)

    def _has_room(self, done: Sequence[Outcome | Prepared | Stopped], action: Action) -> bool:
        """At most so many effects and so many reads in one answer."""
        ran = [item for item in done if not isinstance(item, Outcome) or item.state != "not run"]
        effects = sum(self.acts(item.action) if not isinstance(item, Outcome) else item.acts for item in ran)
        return effects < MOST_EFFECTS if self.acts(action) else len(ran) - effects < MOST_READS

    # --- before --------------------------------------------------------------------------------------------------

    def _context(self, overlay: Mapping[str, bytes | None] | None = None) -> Context:
        state = self._session.state
        return Context(
            workspace=self._workspace,
            overlay=overlay or {},
            seen=state.seen,
            output=lambda name: state.outputs.get(name),
            on_output=lambda text: self._session.show(ev.Live("output", text)),
            env=self._env,
            hidden=hidden_by(self._approval.policy()),
        )

    async def _prepare(
        self, run: str, name: str, action: Action, overlay: Mapping[str, bytes | None], approved: Approver
    ) -> Prepared | Stopped:
        operation = self._registry.get(action.operation)
        if operation is None:
            known = ", ".join(self._registry.names())
            why = failed(f"there is no operation {action.operation}; there are: {known}")
            return Stopped(name, action, "failed", why)
        args = read_args(operation, action.args)
        if isinstance(args, ToolResult):
            return Stopped(name, action, "failed", args)
        change = await _safely(operation.prepare(args, self._context(overlay)))
        if isinstance(change, ToolResult):
            return Stopped(name, action, "ok" if change.ok else "failed", change)
        risk = measure(change)
        ruling = self._approval.rule(run, change, risk, approved)
        if ruling.outcome == "deny":
            self._approval.record(run, name, change, "no", ruling.by, ruling.reason)
            return Stopped(name, action, "refused", failed(ruling.reason))
        return Prepared(name, action, operation, args, change, risk, ruling)

    async def _ask(self, run: str, asked: list[Prepared], review: bool = False) -> str:
        """Empty when the person said yes; otherwise why not."""
        claims = [item.action.reasoning for item in asked]
        changes = [item.change for item in asked]
        return await self._approval.ask(run, [i.id for i in asked], changes, combined(changes), claims, review)

    # --- the effect ----------------------------------------------------------------------------------------------

    async def _perform(self, run: str, item: Prepared) -> Outcome:
        """Do what was ruled on, or ask again when it is no longer the same. A stop cannot split effect and record."""
        for _ in range(3):
            span = asyncio.ensure_future(self._locked(run, item))
            try:
                outcome = await asyncio.shield(span)
            except asyncio.CancelledError:
                if self._command is not None:
                    self._command.cancel()
                await span
                raise
            if isinstance(outcome, Outcome):
                return outcome
            item = replace(item, change=outcome, risk=measure(outcome))
            refused = await self._ask(run, [item])
            if refused:
                return self._ended(run, item.id, item.action, "refused", failed(refused))
        return self._ended(run, item.id, item.action, "failed", failed("the file kept changing; read it again"))

    async def _locked(self, run: str, item: Prepared) -> Outcome | Change:
        """The span that nothing may split: last look, checkpoint, intent, effect, outcome. A Change: ask again."""
        if item.change.effect not in (Effect.FILES, Effect.COMMAND):
            self._ledger.begin(run, item, item.change)
            at = time.monotonic()
            result = await _safely(item.operation.run(item.args, item.change, self._context()))
            return self._ledger.finish(run, item, result, at)
        async with self._lock:
            change = await _safely(item.operation.prepare(item.args, self._context()))
            if isinstance(change, ToolResult):
                return self._ended(run, item.id, item.action, "ok" if change.ok else "failed", change)
            if change.hash != item.change.hash:
                return change
            if item.ruling.outcome == "allow":
                self._approval.record(run, item.id, change, "yes", item.ruling.by, item.ruling.reason)
            self._ledger.begin(run, item, change)
            at = time.monotonic()
            if change.effect is Effect.FILES:
                result = await _safely(item.operation.run(item.args, change, self._context()))
                return self._ledger.finish(run, item, result, at)
            return await self._run_command(run, item, change, at)

    async def _run_command(self, run: str, item: Prepared, change: Change, at: float) -> Outcome:
        before = await asyncio.to_thread(snapshot, self._workspace.root)
        self._command = asyncio.ensure_future(_safely(item.operation.run(item.args, change, self._context())))
        try:
            result = await self._command
        except asyncio.CancelledError:
            result = failed("interrupted; what it did until then stays")
        finally:
            self._command = None
        changed = changed_between(before, await asyncio.to_thread(snapshot, self._workspace.root))
        if changed:
            facts = {**result.facts, "changed": list(changed[:200])}
            head = (*result.head, f"changed: {_some(changed)}")
            result = replace(result, changed=changed, head=head, facts=facts)
        return self._ledger.finish(run, item, result, at, maybe=changed is None)

    def _ended(self, run: str, name: str, action: Action, state: State, why: ToolResult) -> Outcome:
        return self._ledger.without_effect(run, name, action, self.effect_of(action), state, why)


async def _safely(work: Awaitable[T]) -> T | ToolResult:
    """An operation that crashes failed: the model learns of it, the session goes on."""
    try:
        return await work
    except Exception as error:
        return failed(f"the operation crashed: {type(error).__name__}: {error}")


def _why_stop(done: Sequence[Outcome | Prepared | Stopped]) -> str:
    """Why nothing more of this batch may run; empty while it may."""
    states = [item.state for item in done if not isinstance(item, Prepared)]
    if "refused" in states:
        return "an earlier action was refused"
    last = done[-ERRORS_IN_A_ROW:]
    if len(last) == ERRORS_IN_A_ROW and all(not isinstance(i, Prepared) and i.state == "failed" for i in last):
        return f"{ERRORS_IN_A_ROW} errors in a row"
    return ""


def _some(paths: Sequence[str], most: int = 12) -> str:
    more = f" and {len(paths) - most} more" if len(paths) > most else ""
    return ", ".join(paths[:most]) + more
