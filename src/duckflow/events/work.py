"""Events of work that lasts: plans, tasks, background runs, their reports, and how the work is doing."""

from __future__ import annotations

from duckflow.events.base import Body, Facts


class PlanChanged(Body, type="plan.changed"):
    """The plan as it is from now on, whole."""

    plan: str
    name: str
    goal: str
    status: str  # draft | approved | in_progress | paused | completed | failed | refused | replaced | deleted
    steps: tuple[Facts, ...]  # id, name, description, depends_on (ids), files, commands, done_when, status, reason
    risks: tuple[Facts, ...] = ()  # risk, level: the model's words
    criteria: tuple[str, ...] = ()
    approved: str = ""  # the hash that was approved
    objective: str | None = None
    reason: str = ""


class TaskChanged(Body, type="task.changed", long=("args",)):
    """One concrete operation of a plan step, or of a loose list (no plan and no step)."""

    task: str
    status: str  # pending | in_progress | completed | failed
    operation: str
    plan: str | None = None
    step: str | None = None
    args: str = ""  # JSON, with the first event of a task
    intact: bool = True  # False: redaction changed the arguments, they must not be used again
    reasoning: str = ""
    action: str = ""  # the action that carried it out
    error: str = ""


class RunDetached(Body, type="run.detached"):
    """The run goes on in the background, with a history of its own."""

    thread: str


class RunPaused(Body, type="run.paused"):
    paused: bool
    reason: str = ""


class ChecksOffered(Body, type="checks.offered"):
    """The recognised test command was offered as a proof; the answer holds for the session."""

    command: str
    accepted: bool


class VitalsChanged(Body, type="vitals"):
    mood: float
    focus: float
    stamina: float
    loop_limit: int
    reason: str = ""


class Reported(Body, type="report"):
    """What came of background work. The counts are the engine's."""

    status: str  # success | partial | failed | paused
    succeeded: int
    failed: int
    causes: tuple[str, ...]
    recommended_next: str
    summary: str
    plan: str | None = None
    unit: str = "steps"  # what is counted: steps | tasks
    total: int = 0
