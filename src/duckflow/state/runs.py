"""The state of a session as frozen values. How events make it is in fold.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from duckflow import events as ev
from duckflow.config import Mode
from duckflow.record import NOTHING, Record
from duckflow.state.agent import AgentState
from duckflow.state.machine import Status, Step
from duckflow.state.objective import Evidence, Objective


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
    objective: str | None = None
    step: Step | None = None
    status: Status = Status.IN_PROGRESS
    agent: AgentState = AgentState()
    request: str = ""  # the person's words that began it
    confidence: float = 0.0  # as the model last gave it
    decisions: int = 0  # understand, gather and execute calls
    node: str = "understand"  # of the last Decision: where an answer returns to
    specialized: bool = False  # the last Decision asked for the procedure with the next call
    question: ev.QuestionAsked | None = None
    asked: tuple[str, ...] = ()  # the questions of this run, each once
    grants: tuple[tuple[str, str], ...] = ()  # (operation, pattern) the person allowed until this run ends
    notes: tuple[str, ...] = ()  # what the model must be told with its next call
    failures: int = 0  # operations that failed in a row
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
    seen: Mapping[str, str] = NOTHING  # path → content hash when it was last read or written
    highest: Mapping[str, int] = NOTHING  # the last number given out, by kind of id
    focus: str | None = None
    totals: Totals = Totals()
    last_seq: int = 0
    ended: bool = False
