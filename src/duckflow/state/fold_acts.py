"""From events of acting to state: approvals, actions, evidence, checkpoints. Pure, like fold.py."""

from __future__ import annotations

from typing import Any

from duckflow import events as ev
from duckflow.record import replace
from duckflow.state.fold_work import task_carried_out
from duckflow.state.machine import Step
from duckflow.state.objective import Evidence
from duckflow.state.runs import RunState, SessionState, counted, with_run
from duckflow.state.vitals import SAME_FAILURES, WINDOW, Trace


def _gate_asked(state: SessionState, event: ev.Event, body: ev.GateAsked) -> SessionState:
    run = state.runs.get(event.run or "")
    return with_run(state, event.run, agent=replace(run.agent, pending_gate=True)) if run else state


def _gate_answered(state: SessionState, event: ev.Event, body: ev.GateAnswered) -> SessionState:
    run = state.runs.get(event.run or "")
    if run is None:
        return state
    refused = body.answer == "no" and body.by in ("nobody", "mode", "rule")
    alone = tuple(f"{action} {body.operation}" for action in body.actions) if refused else ()
    granted = ((body.operation, body.pattern),) if body.answer == "step" else ()
    said_no = body.answer == "no" and body.by == "user"
    return with_run(
        state,
        run.id,
        agent=replace(run.agent, pending_gate=False),
        unattended=(*run.unattended, *alone),
        grants=(*run.grants, *granted),
        refusals=run.refusals + said_no,
    )


def _action_started(state: SessionState, event: ev.Event, body: ev.ActionStarted) -> SessionState:
    run = state.runs.get(event.run or "")
    state = counted(state, body.action)
    if run is None:
        return state
    return with_run(state, run.id, open_actions={**run.open_actions, body.action: body})


def _action_finished(state: SessionState, event: ev.Event, body: ev.ActionFinished) -> SessionState:
    run = state.runs.get(event.run or "")
    state = counted(state, body.action)
    if body.output:
        state = replace(state, outputs={**state.outputs, body.action: body.output})
    if body.effect:
        state = replace(state, effects=state.effects + 1)
    if run is None:
        return state
    still = {k: v for k, v in run.open_actions.items() if k != body.action}
    recoveries = 0 if body.ok and body.effect else run.recoveries
    changed = tuple(dict.fromkeys((*run.changed, *body.changed)))
    acted = run.acted + (body.ok and run.step is Step.EXECUTION)
    state = with_run(state, run.id, open_actions=still, recoveries=recoveries, changed=changed, acted=acted)
    state = _traced(state, state.runs[run.id], body)
    state = task_carried_out(state, state.runs[run.id], body)
    for item in body.evidence:
        new = Evidence(item["id"], item["kind"], body.action, item.get("facts", {}), state.effects, body.ok)
        state = _with_evidence(state, run, new)
    return state


def _traced(state: SessionState, run: RunState, body: ev.ActionFinished) -> SessionState:
    """What the stall guards and the next attempt look at."""
    if not body.call or (body.error or "").startswith("not run"):
        return state
    recent = (*run.recent, Trace(body.call, body.result, body.ok, body.effect))[-WINDOW:]
    failing = _failing(run, body)
    state = with_run(state, run.id, recent=recent, failing=failing)
    objective = state.objectives.get(run.objective or "")
    if objective is None or not (body.ok and body.effect):
        return state
    did = replace(objective, did=(*objective.did, body.call))
    return replace(state, objectives={**state.objectives, did.id: did})


def _failing(run: RunState, body: ev.ActionFinished) -> dict[str, tuple[str, int]]:
    """How often each call failed for the same reason. An effect may change the reason: then all is open again."""
    if body.ok and body.effect:
        return {}
    others = {k: v for k, v in run.failing.items() if k != body.call}
    if body.ok:
        return others
    why, times = run.failing.get(body.call, ("", 0))
    if times >= SAME_FAILURES:  # it was not even tried
        return {**others, body.call: (why, times)}
    return {**others, body.call: (body.result, times + 1 if why == body.result else 1)}


def _evidence_added(state: SessionState, event: ev.Event, body: ev.EvidenceAdded) -> SessionState:
    run = state.runs.get(event.run or "")
    new = Evidence(body.id, "reply", "", {"text": body.text}, state.effects)
    return _with_evidence(state, run, new)


def _with_evidence(state: SessionState, run: RunState | None, new: Evidence) -> SessionState:
    """Evidence belongs to the objective of its run; what comes with a message waits for one."""
    state = counted(state, new.id)
    path, digest = new.facts.get("path"), new.facts.get("hash")
    if path and digest:
        state = replace(state, seen={**state.seen, path: digest})
    if run is None:
        return state
    key = run.objective or f"?{run.id}"
    kept = new if run.objective else replace(new, given=True)
    return replace(state, evidence={**state.evidence, key: (*state.evidence.get(key, ()), kept)})


def _checkpoint(state: SessionState, event: ev.Event, body: ev.Checkpoint) -> SessionState:
    state = counted(state, body.id)
    run = state.runs.get(event.run or "")
    objective = state.objectives.get(run.objective or "") if run else None
    if objective is None:
        return state
    first = {f["path"]: f.get("before") for f in body.files if f["path"] not in objective.originals}
    changed = replace(objective, originals={**objective.originals, **first})
    return replace(state, objectives={**state.objectives, objective.id: changed})


ACT_HANDLERS: dict[str, Any] = {
    "gate.asked": _gate_asked,
    "gate.answered": _gate_answered,
    "action.started": _action_started,
    "action.finished": _action_finished,
    "evidence": _evidence_added,
    "checkpoint": _checkpoint,
}
