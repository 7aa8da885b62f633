"""After a crash or a kill: settle what had begun, by content hashes, and tell the model. Continues nothing.

Work in the background is put down where it stood: it shows as paused and can be taken up again.
"""

from __future__ import annotations

from collections.abc import Callable

from duckflow import events as ev
from duckflow.i18n import ngettext
from duckflow.safety.change import content_hash
from duckflow.safety.paths import PathMissing, PathRefused, Workspace
from duckflow.state.machine import Status, Step, Trigger
from duckflow.state.objective import Objective
from duckflow.state.plan import plan_changed, put_down
from duckflow.state.runs import RunState
from duckflow.state.session import Session

MOST_BYTES = 50_000_000
NOT_DONE = "interrupted: not done"


def settle_interrupted(session: Session, workspace: Workspace) -> tuple[str, ...]:
    """Give every action that had started an outcome. Returns what to tell the person, one line each."""
    told: list[str] = []
    for run in list(session.state.runs.values()):
        if run.outcome is not None:
            continue
        if run.step is Step.DONE:
            _end(session, run)
        elif run.status is Status.IN_PROGRESS or run.open_actions or run.agent.pending_gate:
            told += _settle(session, workspace, run)
        _hold(session, run.id)
    _put_back_tasks(session)
    return (*told, *_put_down_plans(session))


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
    if run.agent.pending_gate:
        _withdraw(session, run)
    starts = {None: Trigger.MESSAGE, Step.AWAITING_APPROVAL: Trigger.GATE_ANSWERED}  # an unanswered card is a no
    back = Step.PLANNING if run.step in starts else None
    session.move(run.id, starts.get(run.step, Trigger.ERROR), back, Status.REQUIRES_USER_INPUT, reason="interrupted")
    return lines


def _withdraw(session: Session, run: RunState) -> None:
    """The card that was open is gone, unanswered."""
    asked = [e.body for e in session.store.events(session.id) if e.run == run.id and isinstance(e.body, ev.GateAsked)]
    for gate in asked[-1:]:
        answered = ev.GateAnswered(
            action=gate.action, actions=gate.actions, answer="no", by="time-out", operation=gate.operation,
            comment="interrupted", hash=gate.hash,
        )  # fmt: skip
        session.append(answered, run=run.id)


def _end(session: Session, run: RunState) -> None:
    """It was done; only that was not written any more. What its plan came to is told by the counts alone."""
    if run.kind in ("step", "tasks"):
        return  # their plan, or their list, says so when it is taken up again
    objective = session.state.objectives.get(run.objective or "")
    status = "satisfied" if objective is None or objective.status in ("open", "satisfied") else "partial"
    if objective is not None and objective.status != status:
        session.append(_concluded(objective, status), run=run.id)
    plan = next((p for p in session.state.plans.values() if p.run == run.id and p.status == "completed"), None)
    if plan is not None and not plan.reported:
        from duckflow.engine.reporting import plain_report

        plain_report(session, run.id, plan)
    session.end_run(run.id, status, 0 if status == "satisfied" else 3)


def _concluded(objective: Objective, status: str) -> ev.ObjectiveChanged:
    from duckflow.engine.objectives import requirement_json

    given = {name: getattr(objective, name) for name in ev.ObjectiveChanged.FIELDS if name in Objective.FIELDS}
    requirements = tuple(requirement_json(r) for r in objective.requirements)
    return ev.ObjectiveChanged(**{**given, "objective": objective.id, "requirements": requirements, "status": status})


def _hold(session: Session, name: str) -> None:
    """Background work that stands for itself waits to be taken up again; the ways on that it offered stay open."""
    run = session.run(name)
    if run.background and run.outcome is None and run.kind != "step" and not (run.paused or run.escalated):
        session.append(ev.RunPaused(paused=True, reason="interrupted"), run=name)


def _put_back_tasks(session: Session) -> None:
    """A task that was about to begin, or whose effect certainly did not happen, is still to be done."""
    for key, tasks in session.state.tasks.items():
        plan = next((p for p in session.state.plans.values() if p.step(key)), None)
        where = (plan.id, key) if plan else (None, None)
        for task in tasks:
            if task.status == "in_progress" or (task.status == "failed" and task.error == NOT_DONE):
                session.append(
                    ev.TaskChanged(task.id, "pending", task.operation, *where), run=plan.run if plan else key
                )


def _put_down_plans(session: Session) -> list[str]:
    told = []
    for plan in list(session.state.plans.values()):
        if plan.status == "in_progress":
            session.append(plan_changed(put_down(plan)), run=plan.run)
            n = len(plan.steps)
            told.append(
                ngettext("the plan “{plan}” is paused, {done} of {n} step done",
                         "the plan “{plan}” is paused, {done} of {n} steps done", n, plan=plan.name, done=plan.done)
            )  # fmt: skip
    return told


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
        error=None if done else NOT_DONE if untouched else f"interrupted: {state}",
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
