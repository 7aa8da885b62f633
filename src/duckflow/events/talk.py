"""Events of the session, its runs, what was said, and where the work stands."""

from __future__ import annotations

from duckflow.events.base import Body, Facts
from duckflow.record import NOTHING


class SessionStarted(Body, type="session.started"):
    workspace: str
    version: str
    mode: str
    models: Facts  # tier → list of "provider/model"
    lang: str = "en"
    parent: str | None = None  # the session this one was forked from


class SessionEnded(Body, type="session.ended"):
    result: Facts


class PromptFrozen(Body, type="prompt.frozen", long=("text",)):
    """The first message of every request of this session, byte for byte."""

    text: str


class ModeChanged(Body, type="mode.changed"):
    mode: str


class RunStarted(Body, type="run.started"):
    kind: str  # turn | side | command | step (of a plan) | tasks (a loose list)
    thread: str = "chat"
    parent: str | None = None
    plan_step: str | None = None


class RunEnded(Body, type="run.ended"):
    status: str  # answered | satisfied | partial | escalated | refused | failed | cancelled | deferred | asked
    exit_code: int = 0
    reason: str = ""


class Message(Body, type="message"):
    role: str
    text: str
    kind: str = "message"  # message | reply | announcement | outcome | report | steering | moved | answer | data


class HistoryAdded(Body, type="history.added", long=("text",)):
    """One entry of what the model sees again in every later call."""

    thread: str
    role: str
    kind: str  # message | procedure | decision | results | note
    text: str
    name: str = ""  # of a procedure: which one


class HistoryCompacted(Body, type="history.compacted", long=("text",)):
    """Everything in the thread before this event is replaced by `text`."""

    thread: str
    text: str
    kept: int  # how many of the newest entries stay verbatim after it


class ModelCalled(Body, type="model.called"):
    tier: str
    provider: str
    model: str
    node: str
    pattern: str
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    cost_usd: float | None
    ms: int
    cuts: tuple[str, ...] = ()
    finish: str = "stop"
    retry: bool = False
    estimated: bool = False
    tries: int = 1
    reason: str = ""
    sections: Facts = NOTHING


class DecisionMade(Body, type="decision", long=("blocks",)):
    decision: Facts
    node: str
    blocks: Facts = NOTHING  # name → text
    notes: tuple[str, ...] = ()


class Noted(Body, type="note"):
    """Something the model must be told with its next call."""

    text: str


class AgentChanged(Body, type="agent.changed"):
    """New values for fields of the working memory."""

    changes: Facts


class StateChanged(Body, type="state.changed"):
    objective: str | None
    step: str
    status: str
    from_: str | None
    trigger: str
    refused: bool = False
    reason: str = ""


class ObjectiveChanged(Body, type="objective.changed"):
    objective: str
    request: str
    requirements: tuple[Facts, ...]  # id, text, priority, check
    attempt: int
    satisfaction: float
    status: str = "open"  # open | satisfied | answered | partial | escalated | refused | failed | cancelled | deferred
    profile: str = "unknown"
    proposed: str = ""
    strategy: str = ""
    lessons: tuple[str, ...] = ()
    repeated: int = 0  # the attempt in which the repetition of a failed approach was refused


class VerdictGiven(Body, type="verdict"):
    overall: float
    requirements: Facts  # id → {score, evidence}
    failed_checks: tuple[str, ...]
    missing: tuple[str, ...]
    next: str  # complete | retry | escalate
    checks: tuple[Facts, ...] = ()
    assessment: str = ""
    problem: str = ""


class QuestionAsked(Body, type="question"):
    text: str
    options: tuple[str, ...] = ()
    default: str | None = None
    answered: str | None = None  # "default" when nobody was there to answer
    by: str = "model"  # model | engine
    known: str = ""  # digest of what was known when it was asked: goal, plan, requirements, targets


class Escalation(Body, type="escalation"):
    report: str
    options: tuple[str, ...]
