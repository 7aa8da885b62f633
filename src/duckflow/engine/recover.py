"""After a crash or a kill: settle what had begun, by content hashes, and tell the model. Continues nothing."""

from __future__ import annotations

from collections.abc import Callable

from duckflow import events as ev
from duckflow.safety.change import content_hash
from duckflow.safety.paths import PathMissing, PathRefused, Workspace
from duckflow.state.machine import Status, Trigger
from duckflow.state.runs import RunState
from duckflow.state.session import Session

MOST_BYTES = 50_000_000


def settle_interrupted(session: Session, workspace: Workspace) -> tuple[str, ...]:
    """Give every action that had started an outcome. Returns what to tell the person, one line each."""
    told: list[str] = []
    for run in list(session.state.runs.values()):
        if run.outcome is None and run.status is Status.IN_PROGRESS:
            told += _settle(session, workspace, run)
    return tuple(told)


def _settle(session: Session, workspace: Workspace, run: RunState) -> list[str]:
    lines = []
    for action in run.open_actions.values():
        finished, line = _outcome(action, lambda path: _hash(workspace, path))
        lines.append(line)
        session.append(finished, run=run.id)
        workspace.sweep([str(target["path"]) for target in action.targets], older_than=0.0)
    note = "The program was interrupted here. Settled by looking at the files:\n" + (
        "\n".join(lines) or "nothing had begun"
    )
    note += "\nActions of the last answer that are not named here or above were not run. Nothing was repeated."
    session.append(
        ev.HistoryAdded(thread=run.thread, role="user", kind="note", text=note),
        run=run.id,
    )
    session.move(run.id, Trigger.ERROR, status=Status.REQUIRES_USER_INPUT, reason="interrupted")
    return lines


def _outcome(action: ev.ActionStarted, now: Callable[[str], str | None]) -> tuple[ev.ActionFinished, str]:
    """A file effect is settled by its hashes; a command's outcome is unknown."""
    name, targets = f"{action.action} {action.summary or action.operation}", action.targets
    if not targets:
        error = "interrupted, outcome unknown"
        return ev.ActionFinished(
            action=action.action, operation=action.operation, ok=False, error=error, effect=True
        ), (f"{name}: {error}")
    done = all(now(str(t["path"])) == t["after"] for t in targets)
    untouched = all(now(str(t["path"])) == t["before"] for t in targets)
    state = "done" if done else "not done" if untouched else "the files are in neither state: look at them"
    paths = tuple(str(t["path"]) for t in targets) if done else ()
    finished = ev.ActionFinished(
        action=action.action,
        operation=action.operation,
        ok=done,
        error=None if done else f"interrupted: {state}",
        effect=not untouched,
        changed=paths,
        summary=action.summary,
    )
    return finished, f"{name}: {state}"


def _hash(workspace: Workspace, path: str) -> str | None:
    try:
        return content_hash(workspace.read_bytes(path, MOST_BYTES))
    except (PathMissing, PathRefused, OSError):
        return None
