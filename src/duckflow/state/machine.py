"""Where a run stands and where it may go: steps, statuses, triggers and the transition table. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from functools import cache
from pathlib import Path

from duckflow.errors import N_, ConfigError
from duckflow.record import Record


class Step(StrEnum):
    PLANNING = "PLANNING"
    EXECUTION = "EXECUTION"
    REVIEW = "REVIEW"
    AWAITING_APPROVAL = "AWAITING_APPROVAL"
    DONE = "DONE"


class Status(StrEnum):
    IN_PROGRESS = "IN_PROGRESS"
    SUCCESS = "SUCCESS"
    ERROR = "ERROR"
    REQUIRES_USER_INPUT = "REQUIRES_USER_INPUT"


class Trigger(StrEnum):
    """What may move a run. Each occurrence moves it at most once, because each is one call of `after`."""

    MESSAGE = "message"
    DECISION = "decision"
    GATE_ASKED = "gate_asked"
    GATE_ANSWERED = "gate_answered"
    BATCH_FINISHED = "batch_finished"
    VERDICT = "verdict"
    ERROR = "error"
    CANCEL = "cancel"


STATUS_ONLY = frozenset({Trigger.CANCEL})
"""Triggers that never change the step."""


class Table(Record):
    rows: frozenset[tuple[Step, Step]]

    def tightened(self, removed: Iterable[tuple[Step, Step]]) -> Table:
        """Without the removed rows. There is no way to add one."""
        return Table(self.rows - frozenset(removed))


class Moved(Record):
    to: Step


class Refused(Record):
    reason: str


def after(table: Table, step: Step | None, trigger: Trigger, wish: Step | None) -> Moved | Refused | None:
    """What one trigger does to a run at `step` (None: not started). None: the step stays as it is."""
    if step is None:
        if wish is Step.PLANNING:
            return Moved(Step.PLANNING)
        return Refused("a run starts at PLANNING")
    if wish is None or wish is step:
        return None
    if trigger in STATUS_ONLY:
        return Refused(f"{trigger} changes the status only")
    if (step, wish) in table.rows:
        return Moved(wish)
    return Refused(f"the table has no row {step} → {wish}")


@cache
def default_table() -> Table:
    """The table shipped with Duckflow."""
    return read_table((Path(__file__).parent / "transitions.toml").read_text(encoding="utf-8"))


def read_table(source: str) -> Table:
    import tomllib

    rows = tomllib.loads(source)["transition"]
    return Table(frozenset((Step(row["from"]), Step(row["to"])) for row in rows))


def project_table(path: Path) -> Table:
    """The table of a project: the shipped one without the rows the project's file leaves out."""
    shipped = default_table()
    try:
        own = read_table(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return shipped
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            N_("The transition table {path} cannot be used: {error}."),
            hint=N_("It holds [[transition]] tables with from and to, each a step; it can only leave rows out."),
            path=path,
            error=error,
        ) from error
    return shipped.tightened(shipped.rows - own.rows)
