"""The state of a session as frozen values. How events make it is in fold.py."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from duckflow import events as ev
from duckflow.config import Mode
from duckflow.record import NOTHING, Record, replace
from duckflow.state.agent import AgentState
from duckflow.state.machine import Status, Step
from duckflow.state.objective import Evidence, Objective
from duckflow.state.plan import ENDED, LIVE, Plan, Task
from duckflow.state.vitals import Trace, Vitals


class Entry(Record):
    """One piece of the conversation as the model sees it."""

    role: str  # user | assistant
    kind: str  # message | procedure | decision | results | note | summary
    text: str
    name: str = ""


class RunState(Record):
    """One line of work: its place in the machine, its working memory, its counters."""

    id: str
    kind: str = "turn"
    thread: str = "chat"
    parent: str | None = None
    plan_step: str | None = None  # the plan step it carries out
    background: bool = False  # it works beside the conversation; its requests wait to be opened
    paused: bool = False
    objective: str | None = None
    step: Step | None = None
    status: Status = Status.IN_PROGRESS
    agent: AgentState = AgentState()
    request: str = ""  # the person's words that began it
    confidence: float = 0.0  # as the model last gave it
    decisions: int = 0  # understand, gather and execute calls
    loops: int = 0  # of them, since the attempt began
    node: str = "understand"  # of the last Decision: where an answer returns to
    specialized: bool = False  # the last Decision asked for the procedure with the next call
    question: ev.QuestionAsked | None = None
    asked: tuple[str, ...] = ()  # the questions of this run, each once
    answers: Mapping[str, str] = NOTHING  # question → what the person said
    known: tuple[str, ...] = ()  # what was known at each question, as digests
    escalated: bool = False  # the five ways on are open: the next message chooses one
    steered: tuple[str, ...] = ()  # what the person said while it worked
    grants: tuple[tuple[str, str], ...] = ()  # (operation, pattern) the person allowed until this run ends
    notes: tuple[str, ...] = ()  # what the model must be told with its next call
    recent: tuple[Trace, ...] = ()  # the last actions since the work was thought over
    failing: Mapping[str, tuple[str, int]] = NOTHING  # call → (why it failed, how often)
    refusals: int = 0  # times the person said no
    vitals: Vitals = Vitals()
    consulted: tuple[str, ...] = ()  # what the vitals have already led to
    changed: tuple[str, ...] = ()  # workspace paths it changed
    acted: int = 0  # its actions in EXECUTION that did what they were asked
    recoveries: int = 0  # times it went back to planning since the last successful effect
    unattended: tuple[str, ...] = ()  # actions refused because nobody could approve or the mode forbids them
    open_actions: Mapping[str, ev.ActionStarted] = NOTHING  # started, no outcome yet
    outcome: str | None = None  # how it ended; None while it lives


class Totals(Record):
    calls: int = 0
    prompt: int = 0
    cached: int = 0
    completion: int = 0
    cost_usd: float = 0.0
    unpriced: int = 0  # calls whose price is unknown


class SessionState(Record):
    id: str = ""
    workspace: str = ""
    mode: Mode = "ask"
    lang: str = "en"
    models: Mapping[str, Any] = NOTHING
    system: str = ""  # the frozen first message
    title: str = ""
    runs: Mapping[str, RunState] = NOTHING
    objectives: Mapping[str, Objective] = NOTHING
    evidence: Mapping[str, tuple[Evidence, ...]] = NOTHING  # by objective
    effects: int = 0  # changes the workspace has seen in this session
    threads: Mapping[str, tuple[Entry, ...]] = NOTHING
    outputs: Mapping[str, str] = NOTHING  # action id → its whole output
    plans: Mapping[str, Plan] = NOTHING
    tasks: Mapping[str, tuple[Task, ...]] = NOTHING  # by plan step, or by run for a loose list
    offered: Mapping[str, bool] = NOTHING  # test command → may it run as a proof
    seen: Mapping[str, str] = NOTHING  # path → content hash when it was last read or written
    highest: Mapping[str, int] = NOTHING  # the last number given out, by kind of id
    focus: str | None = None
    totals: Totals = Totals()
    last_seq: int = 0
    ended: bool = False


def with_run(state: SessionState, run_id: str | None, **changes: Any) -> SessionState:
    """The state with changed fields of one run; the same state when there is no such run."""
    run = state.runs.get(run_id or "")
    if run is None:
        return state
    return replace(state, runs={**state.runs, run.id: replace(run, **changes)})


def counted(state: SessionState, name: str) -> SessionState:
    """The state that knows this id is taken."""
    match = re.fullmatch(r"([A-Za-z]+)(\d+)", name)
    if match is None or int(match[2]) <= state.highest.get(match[1], 0):
        return state
    return replace(state, highest={**state.highest, match[1]: int(match[2])})


def active_plan(state: SessionState) -> Plan | None:
    """The newest plan that is being carried out, or could be."""
    return next((p for p in reversed(tuple(state.plans.values())) if p.status in LIVE), None)


def plan_of(state: SessionState, run: RunState) -> Plan | None:
    """The plan a run carries out or works for."""
    own = run.parent if run.plan_step else run.id
    return next((p for p in reversed(tuple(state.plans.values())) if p.run == own and p.status in LIVE), None)


def ended_plan(state: SessionState, run: str) -> Plan | None:
    """The plan this run carried out to its end, while nobody has judged it."""
    plans = reversed(tuple(state.plans.values()))
    return next((p for p in plans if p.run == run and p.status in ENDED and not p.judged), None)


def working(state: SessionState) -> tuple[RunState, ...]:
    """The runs that work in the background right now."""
    return tuple(run for run in state.runs.values() if run.background and run.outcome is None)
