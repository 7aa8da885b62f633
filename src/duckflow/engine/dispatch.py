"""The one way to act: look up → validate → risk → gate → checkpoint → run → verify → record. There is no second one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from itertools import takewhile
from typing import TypeVar

from duckflow import events as ev
from duckflow.engine.approval import Approval, Approver
from duckflow.engine.ledger import Ledger, Outcome, Prepared, State, Stopped, call_digest, some
from duckflow.errors import DuckflowError
from duckflow.prompts.replies import Action
from duckflow.record import replace
from duckflow.safety.change import Change, Effect
from duckflow.safety.gate import hidden_by
from duckflow.safety.manifest import changed_between, snapshot
from duckflow.safety.paths import Workspace
from duckflow.safety.risk import combined, measure
from duckflow.state.session import Session
from duckflow.state.vitals import SAME_FAILURES
from duckflow.tools.base import Args, Context, Registry, ToolResult, failed, read_args

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
        work: Callable[[str, Args, str], Awaitable[ToolResult]] | None = None,
    ) -> None:
        self._session = session
        self._registry = registry
        self._workspace = workspace
        self._approval = approval
        self._env = env
        self._work = work
        self._ledger = Ledger(session)
        self._lock = asyncio.Lock()
        self._commands: dict[str, asyncio.Task[ToolResult]] = {}  # by action
        self._begun: set[str] = set()  # actions whose effect can no longer be called off
        self._called_off: set[str] = set()

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
        ids: Sequence[str] = (),
    ) -> list[Outcome]:
        """Run actions in order. A refusal or two errors in a row stop the rest, which is reported as not run.

        `approved` names who allowed them beforehand ("user" typed the command, "rule" configured the check);
        `review`: they are checks, so asking for them changes the status only;
        `before`: what already came of the same answer, so that limits and stops count over all of it;
        `ids`: names for the actions, when somebody else has to know them before they run.
        """
        outcomes = list(before)
        names = ids or [self._session.new_id("A") for _ in actions]
        waiting = list(zip(names, actions, strict=True))
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

    def _context(self, run: str, overlay: Mapping[str, bytes | None] | None = None) -> Context:
        state, work = self._session.state, self._work
        return Context(
            workspace=self._workspace,
            overlay=overlay or {},
            seen=state.seen,
            output=lambda name: state.outputs.get(name),
            on_output=lambda text: self._session.show(ev.Live("output", text, run)),
            env=self._env,
            hidden=hidden_by(self._approval.policy()),
            work=(lambda args, name: work(run, args, name)) if work else None,
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
        again = self._failing(run, action)
        if again:
            return Stopped(name, action, "failed", failed(again))
        change = await _safely(lambda: operation.prepare(args, self._context(run, overlay)))
        if isinstance(change, ToolResult):
            return Stopped(name, action, "ok" if change.ok else "failed", change)
        risk = measure(change)
        ruling = self._approval.rule(run, change, risk, approved)
        if ruling.outcome == "deny":
            self._approval.record(run, name, change, "no", ruling.by, ruling.reason)
            return Stopped(name, action, "refused", failed(ruling.reason))
        return Prepared(name, action, operation, args, change, risk, ruling)

    def _failing(self, run: str, action: Action) -> str:
        """The same call has failed often enough for the same reason: it is not tried again."""
        _why, times = self._session.run(run).failing.get(call_digest(action), ("", 0))
        if times < SAME_FAILURES:
            return ""
        return (
            f"refused: this very call failed {times} times for the same reason and will fail again. Read what is "
            "there, use other arguments or another operation, or ask"
        )

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
                await self._call_off(item.id, span)
                raise
            if isinstance(outcome, Outcome):
                return outcome
            item = replace(item, change=outcome, risk=measure(outcome))
            refused = await self._ask(run, [item])
            if refused:
                return self._ended(run, item.id, item.action, "refused", failed(refused))
        return self._ended(run, item.id, item.action, "failed", failed("the file kept changing; read it again"))

    async def _call_off(self, action: str, span: asyncio.Future[Outcome | Change]) -> None:
        """What has not begun does not begin; a command is killed; a file effect is finished and recorded."""
        self._called_off.add(action)
        if action in self._commands:
            self._commands[action].cancel()
        elif action not in self._begun:
            span.cancel()
        with suppress(asyncio.CancelledError):
            await span

    async def _locked(self, run: str, item: Prepared) -> Outcome | Change:
        """The span that nothing may split: last look, checkpoint, intent, effect, outcome. A Change: ask again."""
        if item.change.effect not in (Effect.FILES, Effect.COMMAND):
            return await self._without_lock(run, item)
        async with self._lock:
            change = await _safely(lambda: item.operation.prepare(item.args, self._context(run)))
            if isinstance(change, ToolResult):
                return self._ended(run, item.id, item.action, "ok" if change.ok else "failed", change)
            if change.hash != item.change.hash:
                return change
            ruling = self._approval.rule(run, change, item.risk)
            if ruling.outcome == "deny":  # forbidden while it waited: rules and mode of this moment count
                self._approval.record(run, item.id, change, "no", ruling.by, ruling.reason)
                return self._ended(run, item.id, item.action, "refused", failed(ruling.reason))
            self._begun.add(item.id)
            if item.ruling.outcome == "allow":
                self._approval.record(run, item.id, change, "yes", item.ruling.by, item.ruling.reason)
            self._ledger.begin(run, item, change)
            at = time.monotonic()
            if change.effect is Effect.FILES:
                result = await _safely(lambda: item.operation.run(item.args, change, self._context(run)))
                return self._ledger.finish(run, item, result, at)
            return await self._run_command(run, item, change, at)

    async def _without_lock(self, run: str, item: Prepared) -> Outcome:
        """What leaves no trace in the workspace, and may have to wait for a person."""
        self._ledger.begin(run, item, item.change)
        at = time.monotonic()
        try:
            result = await _safely(lambda: item.operation.run(item.args, item.change, self._context(run)))
        except (asyncio.CancelledError, DuckflowError) as end:
            self._ledger.finish(run, item, failed(str(end) or "stopped"), at)
            raise
        return self._ledger.finish(run, item, result, at)

    async def _run_command(self, run: str, item: Prepared, change: Change, at: float) -> Outcome:
        before = await asyncio.to_thread(snapshot, self._workspace.root)
        if item.id in self._called_off:
            return self._ledger.finish(run, item, failed("stopped before it began"), at)
        command = asyncio.ensure_future(_safely(lambda: item.operation.run(item.args, change, self._context(run))))
        self._commands[item.id] = command
        try:
            result = await command
        except asyncio.CancelledError:
            result = failed("interrupted; what it did until then stays")
        finally:
            del self._commands[item.id]
        changed = changed_between(before, await asyncio.to_thread(snapshot, self._workspace.root))
        if changed:
            facts, head = {**result.facts, "changed": list(changed[:200])}, f"changed: {some(changed)}"
            result = replace(result, changed=changed, head=(*result.head, head), facts=facts)
        return self._ledger.finish(run, item, result, at, maybe=changed is None)

    def _ended(self, run: str, name: str, action: Action, state: State, why: ToolResult) -> Outcome:
        return self._ledger.without_effect(run, name, action, self.effect_of(action), state, why)


async def _safely(work: Callable[[], Awaitable[T]]) -> T | ToolResult:
    """An operation that crashes failed: the model learns of it. What is for a person (a service, a budget) goes on."""
    try:
        return await work()
    except DuckflowError:
        raise
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
