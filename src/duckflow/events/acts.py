"""Events of acting: approvals, actions, checkpoints, warnings and errors."""

from __future__ import annotations

from duckflow.events.base import Body, Facts


class GateAsked(Body, type="gate.asked"):
    action: str  # the first action id of the card
    actions: tuple[str, ...]
    operation: str
    risk: str
    intent: str
    rationale: str
    impact: str
    alternatives: tuple[str, ...]
    preview: str
    hash: str


class GateAnswered(Body, type="gate.answered"):
    action: str
    actions: tuple[str, ...]
    answer: str  # yes | step | always | no
    by: str  # user | rule | mode | grant | time-out | stop | nobody
    operation: str = ""
    pattern: str = ""  # what a "yes for this step" covers
    comment: str = ""
    hash: str = ""
    ms: int = 0


class ActionStarted(Body, type="action.started"):
    action: str
    operation: str
    args_digest: str
    reasoning: str
    risk: str
    targets: tuple[Facts, ...] = ()  # path, before, after (content hashes): what a resume settles by
    summary: str = ""


class ActionFinished(Body, type="action.finished", long=("output",)):
    action: str
    operation: str
    ok: bool
    evidence: tuple[Facts, ...] = ()  # id, kind, facts
    error: str | None = None
    ms: int = 0
    exit_code: int | None = None
    effect: bool = False  # the workspace changed, or may have
    changed: tuple[str, ...] = ()  # workspace paths
    output: str = ""  # the whole of it, served again as out:ACTION
    summary: str = ""
    call: str = ""  # digest of operation and arguments: the same call has the same
    result: str = ""  # digest of what came of it


class EvidenceAdded(Body, type="evidence", long=("text",)):
    """A fact that no action made: the reply that is itself the deliverable."""

    id: str
    kind: str
    text: str


class Checkpoint(Body, type="checkpoint"):
    id: str
    files: tuple[Facts, ...]  # path, before (blob name or null: did not exist)
    action: str = ""
    uncovered: str = ""  # what an undo would not bring back


class Warned(Body, type="warning"):
    code: str
    message: str
    hint: str = ""


class Failed(Body, type="error"):
    code: str
    message: str
    hint: str = ""
