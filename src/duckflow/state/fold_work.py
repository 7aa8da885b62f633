"""From events of lasting work to state: verdicts, plans, tasks, background runs, vitals. Pure, like fold.py."""

from __future__ import annotations

import json
from typing import Any

from duckflow import events as ev
from duckflow.record import replace
from duckflow.state.objective import Score
from duckflow.state.plan import ENDED, LIVE, Plan, PlanStep, Task
from duckflow.state.runs import RunState, SessionState, counted, with_run
from duckflow.state.vitals import Vitals


def _verdict(state: SessionState, event: ev.Event, body: ev.VerdictGiven) -> SessionState:
    run = state.runs.get(event.run or "")
    objective = state.objectives.get(run.objective or "") if run else None
    if run is None or objective is None:
        return state
    scores = {k: Score(v["score"], tuple(v.get("evidence", ()))) for k, v in body.requirements.items()}
    judged = replace(objective, scores=scores, verdicts=(*objective.verdicts, body.overall), missing=body.missing)
    state = replace(state, objectives={**state.objectives, judged.id: judged})
    plans = {k: replace(p, judged=True) if p.run == run.id and p.status in ENDED else p for k, p in state.plans.items()}
    return with_run(replace(state, plans=plans), run.id, loops=0)


def _escalation(state: SessionState, event: ev.Event, body: ev.Escalation) -> SessionState:
    return with_run(state, event.run, escalated=True)


def _plan_changed(state: SessionState, event: ev.Event, body: ev.PlanChanged) -> SessionState:
    old = state.plans.get(body.plan)
    steps = tuple(_step(item) for item in body.steps)
    over = old is not None and body.status not in LIVE  # what was said about its end still holds
    new = Plan(
        id=body.plan, name=body.name, goal=body.goal, steps=steps, risks=body.risks, criteria=body.criteria,
        status=body.status, approved=body.approved, objective=body.objective, reason=body.reason,
        run=event.run if old is None or body.status == "approved" else old.run,
        reported=bool(over and old and old.reported), judged=bool(over and old and old.judged),
    )  # fmt: skip
    state = counted(replace(state, plans={**state.plans, new.id: new}), new.id)
    if old is not None and old.status in ("paused", *ENDED) and body.status in LIVE:
        state = replace(state, effects=state.effects + 1)  # meanwhile somebody may have changed anything
    for step in steps:
        state = counted(state, step.id)
    return state


def _step(item: ev.Facts) -> PlanStep:
    """A step as a value: what was stored as a list is a tuple again."""
    known: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in item.items() if k in PlanStep.FIELDS}
    return PlanStep(**known)


def _reported(state: SessionState, event: ev.Event, body: ev.Reported) -> SessionState:
    plan = state.plans.get(body.plan or "")
    if plan is None or body.status == "paused":
        return state
    return replace(state, plans={**state.plans, plan.id: replace(plan, reported=True)})


def _task_changed(state: SessionState, event: ev.Event, body: ev.TaskChanged) -> SessionState:
    key = body.step or event.run or ""
    tasks = state.tasks.get(key, ())
    old = next((task for task in tasks if task.id == body.task), None)
    if old is None:
        args = json.loads(body.args) if body.args else {}
        new = Task(body.task, body.operation, args, body.reasoning, body.status, intact=body.intact)
        kept = (*tasks, new)
    else:
        new = replace(old, status=body.status, action=body.action or old.action, error=body.error)
        kept = tuple(new if task.id == new.id else task for task in tasks)
    return counted(replace(state, tasks={**state.tasks, key: kept}), body.task)


def task_carried_out(state: SessionState, run: RunState, body: ev.ActionFinished) -> SessionState:
    """The action of a task is finished, so the task is: also when a kill came before the task's own event."""
    key = run.plan_step or run.id
    tasks = state.tasks.get(key, ())
    if not any(task.action == body.action for task in tasks):
        return state
    status = "completed" if body.ok else "failed"
    kept = tuple(
        replace(task, status=status, error=body.error or "") if task.action == body.action else task for task in tasks
    )
    return replace(state, tasks={**state.tasks, key: kept})


def _run_detached(state: SessionState, event: ev.Event, body: ev.RunDetached) -> SessionState:
    return with_run(state, event.run, background=True, thread=body.thread)


def _run_paused(state: SessionState, event: ev.Event, body: ev.RunPaused) -> SessionState:
    """What goes on no longer waits for a choice between the ways on."""
    run = state.runs.get(event.run or "")
    return with_run(state, run.id, paused=body.paused, escalated=run.escalated and body.paused) if run else state


def _vitals(state: SessionState, event: ev.Event, body: ev.VitalsChanged) -> SessionState:
    run = state.runs.get(event.run or "")
    if run is None:
        return state
    consulted = (*run.consulted, body.reason) if body.reason else run.consulted
    return with_run(state, run.id, vitals=Vitals(body.mood, body.focus, body.stamina), consulted=consulted)


def _checks_offered(state: SessionState, event: ev.Event, body: ev.ChecksOffered) -> SessionState:
    return replace(state, offered={**state.offered, body.command: body.accepted})


WORK_HANDLERS: dict[str, Any] = {
    "verdict": _verdict,
    "escalation": _escalation,
    "plan.changed": _plan_changed,
    "task.changed": _task_changed,
    "report": _reported,
    "run.detached": _run_detached,
    "run.paused": _run_paused,
    "vitals": _vitals,
    "checks.offered": _checks_offered,
}
