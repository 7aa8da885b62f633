"""The only owner of mutable state: every change is an event, appended, stored, folded and told to whoever listens."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from duckflow.errors import N_, UsageError
from duckflow.events import Body, Event, Live, RunEnded, RunStarted, SessionStarted, StateChanged
from duckflow.record import replace
from duckflow.state.fold import fold
from duckflow.state.journal import Store, now
from duckflow.state.machine import Moved, Status, Step, Table, Trigger, after, default_table
from duckflow.state.objective import Objective
from duckflow.state.runs import RunState, SessionState, working

Redact = Callable[[str], str]


class Session:
    """One conversation in a workspace. Loops, nodes and screens hold a reference to it, never a copy of its state."""

    def __init__(
        self,
        store: Store,
        state: SessionState,
        redact: Redact = str,
        table: Table | None = None,
        parent: str | None = None,
    ) -> None:
        self.store = store
        self.state = state
        self.table = table or default_table()
        self.redact = redact
        self._parent = parent
        self._unwritten: list[Event] = []
        self._given: dict[str, int] = {}  # numbers of ids that no event names yet
        self._listeners: list[Callable[[Event], None]] = []
        self._watchers: list[Callable[[Live], None]] = []

    # --- opening -------------------------------------------------------------------------------------------------

    @classmethod
    def start(cls, store: Store, started: SessionStarted, redact: Redact = str, table: Table | None = None) -> Session:
        """A new session. It is written together with its first event: looking in leaves no trace."""
        session = cls(store, SessionState(id=new_session_id()), redact, table, started.parent)
        session.hold(started)
        return session

    @classmethod
    def resume(cls, store: Store, session_id: str | None, redact: Redact = str, table: Table | None = None) -> Session:
        """An earlier session, the newest by default, exactly as its events left it."""
        row = find_session(store, session_id)
        state = SessionState(id=row)
        for event in store.events(row):
            state = fold(state, event)
        return cls(store, state, redact, table)

    @classmethod
    def fork(cls, store: Store, session_id: str | None, redact: Redact = str, table: Table | None = None) -> Session:
        """A new session that begins with everything the other one has; the other one stays as it is."""
        origin = find_session(store, session_id)
        session = cls(store, SessionState(id=new_session_id()), redact, table, origin)
        for event in store.events(origin):
            body = event.body
            session.hold(replace(body, parent=origin) if isinstance(body, SessionStarted) else body, run=event.run)
        session.append()
        return session

    # --- changing ------------------------------------------------------------------------------------------------

    def append(self, *bodies: Body, run: str | None = None) -> tuple[Event, ...]:
        """Record what happened: one transaction, on disk when this returns, then everybody is told."""
        self.hold(*bodies, run=run)
        events = tuple(self._unwritten)
        if not events:
            return ()
        self.store.append(events, self.state.title, _status(self.state), self._parent)
        self._unwritten.clear()
        for event in events:
            for listener in tuple(self._listeners):
                listener(event)
        return events

    def hold(self, *bodies: Body, run: str | None = None) -> None:
        """Something without an effect: it counts at once and is written, and told, together with what comes next."""
        at = now()
        for body in bodies:
            event = Event(self.state.last_seq + 1, at, self.state.id, run, self._clean(body))
            self.state = fold(self.state, event)
            self._unwritten.append(event)

    def _clean(self, body: Body) -> Body:
        changes = {}
        for name in body.FIELDS:
            value = getattr(body, name)
            cleaned = _redacted(value, self.redact)
            if cleaned is not value:
                changes[name] = cleaned
        return replace(body, **changes) if changes else body

    def move(
        self,
        run: str,
        trigger: Trigger,
        to: Step | None = None,
        status: Status | None = None,
        reason: str = "",
    ) -> bool:
        """One trigger, at most one transition. False: the table refused it; that is recorded and explained."""
        state = self.run(run)
        moved = after(self.table, state.step, trigger, to)
        new_status = status or state.status
        if moved is None and new_status is state.status:
            return True
        refused = not isinstance(moved, Moved) and moved is not None
        where = state.objective
        step = moved.to if isinstance(moved, Moved) else (to if refused and to else state.step) or Step.PLANNING
        why = reason if not refused else getattr(moved, "reason", "")
        self.append(
            StateChanged(
                objective=where,
                step=step,
                status=new_status,
                from_=state.step,
                trigger=trigger,
                refused=refused,
                reason=why,
            ),
            run=run,
        )
        return not refused

    def start_run(
        self, kind: str = "turn", thread: str = "chat", parent: str | None = None, plan_step: str | None = None
    ) -> str:
        """A new line of work. Without a thread it has a history of its own."""
        run = self.new_id("run")
        self.append(RunStarted(kind=kind, thread=thread or run, parent=parent, plan_step=plan_step), run=run)
        return run

    def end_run(self, run: str, status: str, exit_code: int = 0, reason: str = "") -> None:
        self.append(RunEnded(status=status, exit_code=exit_code, reason=reason), run=run)

    def put(self, data: bytes) -> str:
        """Keep a content under its hash. One that holds a secret gets its name and is not kept."""
        text = data.decode("utf-8", "ignore")
        return self.store.put(data) if self.redact(text) == text else hashlib.sha256(data).hexdigest()

    # --- looking -------------------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        return self.state.id

    def run(self, run: str) -> RunState:
        return self.state.runs[run]

    def objective(self, run: str) -> Objective | None:
        return self.state.objectives.get(self.run(run).objective or "")

    def new_id(self, prefix: str) -> str:
        """The next free id of a kind (A, E, K, O, P, S, T, run), given out once: runs work side by side."""
        number = max(self.state.highest.get(prefix, 0), self._given.get(prefix, 0)) + 1
        self._given[prefix] = number
        return f"{prefix}{number}"

    # --- telling -------------------------------------------------------------------------------------------------

    def subscribe(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def watch(self, watcher: Callable[[Live], None]) -> Callable[[], None]:
        """For screens: what is worth seeing while it happens and not worth keeping."""
        self._watchers.append(watcher)
        return lambda: self._watchers.remove(watcher)

    def show(self, live: Live) -> None:
        for watcher in tuple(self._watchers):
            watcher(live)


def new_session_id() -> str:
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


def find_session(store: Store, session_id: str | None) -> str:
    """The id of a session from its id or an unambiguous beginning of it; the newest when none is given."""
    rows = store.sessions()
    if not rows:
        raise UsageError(N_("There is no session in this workspace yet."), hint=N_("Start one with `duckflow`."))
    if session_id is None:
        return rows[0].id
    found = [row.id for row in rows if row.id == session_id] or [r.id for r in rows if r.id.startswith(session_id)]
    if len(found) == 1:
        return found[0]
    raise UsageError(
        N_("No session is called {session}.") if not found else N_("Several sessions begin with {session}."),
        hint=N_("`duckflow sessions` lists them."),
        session=session_id,
    )


def _status(state: SessionState) -> str:
    """How the session looks in a list: unfinished work in the background counts more than an answer given beside it."""
    run = state.runs.get(state.focus or "")
    if run is None:
        return "empty"
    beside = working(state)
    if run.outcome is not None and beside:
        return str(beside[0].status)
    return run.outcome or str(run.status)


def _redacted(value: Any, redact: Redact) -> Any:
    """The value with every text in it redacted; the same object when nothing had to change."""
    if isinstance(value, str):
        cleaned = redact(value)
        return value if cleaned == value else cleaned
    if isinstance(value, Mapping):
        new = {k: _redacted(v, redact) for k, v in value.items()}
        return new if any(new[k] is not value[k] for k in value) else value
    if isinstance(value, list | tuple):
        items = [_redacted(v, redact) for v in value]
        return tuple(items) if any(a is not b for a, b in zip(items, value, strict=True)) else value
    return value
