"""Whether background work is done: its proof, its tasks, what it changed. Words prove nothing."""

from __future__ import annotations

from duckflow import events as ev
from duckflow.engine.checks import prove
from duckflow.engine.kit import Kit
from duckflow.engine.planning import target
from duckflow.prompts.replies import Action
from duckflow.safety import globs
from duckflow.safety.change import Effect
from duckflow.safety.paths import PathRefused
from duckflow.state.machine import Status, Step, Trigger
from duckflow.state.objective import Evidence
from duckflow.state.plan import PlanStep, Task


class GaveUp(Exception):
    """The work ended by itself: it needs a person, or an answer nobody could give."""


async def proof(kit: Kit, run: str, step: PlanStep | None) -> str:
    """Its done_when commands; without any, that its tasks are done and what it declared has changed. Empty: proved."""
    kit.advance(run, Trigger.BATCH_FINISHED, Step.REVIEW)
    refused = _refused(kit, run)
    missing = ""
    for command in step.done_when if step else ():
        missing = await prove(kit, run, command)
        if missing:
            break
    if step is None or not step.done_when:
        missing = _undone(kit, run) or (_unchanged(kit, step) if step else "")
    if missing and _refused(kit, run) > refused:
        raise GaveUp(missing)  # no Decision brings a proof that may not run
    if missing or kit.steering.get(run):
        kit.advance(run, Trigger.VERDICT, Step.EXECUTION)
    else:
        kit.advance(run, Trigger.VERDICT, Step.DONE, Status.SUCCESS)
    return missing


def _refused(kit: Kit, run: str) -> int:
    mine = kit.session.run(run)
    return mine.refusals + len(mine.unattended)


def _unchanged(kit: Kit, step: PlanStep) -> str:
    """Does something real show for a step that has no proof of its own?"""
    runs = [r for r in kit.session.state.runs.values() if r.plan_step == step.id]
    if not step.files:
        return "" if any(r.acted for r in runs) else "nothing was read or done for it"
    patterns = [globs.path_glob(glob) for glob in step.files]
    done = [task for task in kit.session.state.tasks.get(step.id, ()) if task.status == "completed"]
    written = {path for r in runs for path in r.changed} | {_place(kit, t.args["path"]) for t in done if _writes(t)}
    if any(pattern.fullmatch(path) for pattern in patterns for path in written):
        return ""
    return f"none of its files changed: {', '.join(step.files)}"


def _writes(task: Task) -> bool:
    """It left the file with the content the step wants, be it that it had it already."""
    return task.operation in ("file_ops.write_file", "file_ops.edit_file") and "path" in task.args


# --- tasks ----------------------------------------------------------------------------------------------------------


def recorded(kit: Kit, run: str) -> tuple[Task, ...]:
    return kit.session.state.tasks.get(kit.session.run(run).plan_step or run, ())


def tell(kit: Kit, run: str, task: Task, status: str, action: str, error: str = "") -> None:
    mine = kit.session.run(run)
    plan = next((p.id for p in kit.session.state.plans.values() if p.step(mine.plan_step or "")), None)
    kit.session.append(
        ev.TaskChanged(
            task=task.id, status=status, operation=task.operation, plan=plan, step=mine.plan_step, action=action,
            error=error,
        ),
        run=run,
    )  # fmt: skip


def _undone(kit: Kit, run: str) -> str:
    """The first task that neither succeeded nor was made good by a later action."""
    tasks = recorded(kit, run)
    last = max((_number(task.action) for task in tasks), default=0)
    own = frozenset(task.action for task in tasks)
    for task in tasks:
        if task.status == "completed":
            continue
        action = _made_good(kit, run, task, _number(task.action) or last, own)
        if not action:
            return f"{task.id} {task.operation} {target(task.args)} is not done: {task.error or 'it was not run'}"
        tell(kit, run, task, "completed", action)
    return ""


def _made_good(kit: Kit, run: str, task: Task, since: int, own: frozenset[str]) -> str:
    """The later action of a Decision that did what the task was to do; empty: none did. Tasks do their own part."""
    known = kit.session.state.evidence.get(kit.session.run(run).objective or "", ())
    later = [e for e in known if e.ok and _number(e.action) > since and e.action not in own]
    return next((e.action for e in later if _does(kit, task, e)), "")


def _does(kit: Kit, task: Task, evidence: Evidence) -> bool:
    """The same command, or the same kind of change of the same file. A read counts when the work went on after it."""
    args, facts = task.args, evidence.facts
    effect = kit.dispatcher.effect_of(Action(operation=task.operation, args=dict(args), reasoning="asked"))
    if effect is Effect.COMMAND or "command" in args:
        return evidence.kind == "command" and facts.get("command") == args.get("command", facts.get("command"))
    if effect is not Effect.FILES and kit.registry.get(task.operation) is not None:
        return True
    wanted = _place(kit, args.get("to", args.get("path")))
    gone = task.operation == "file_ops.delete_file"
    return evidence.kind == "change" and facts.get("path") == wanted and (facts.get("hash") is None) is gone


def _place(kit: Kit, path: object) -> str:
    try:
        return kit.workspace.locate(str(path)).path
    except (PathRefused, OSError, ValueError):
        return str(path)


def _number(action: str) -> int:
    digits = action.lstrip("A")
    return int(digits) if digits.isdigit() else 0
