"""From events to state: `fold` is pure, so that resume, fork, screens and tests all see the same."""

from __future__ import annotations

import re
from typing import Any

from duckflow import events as ev
from duckflow.config import Mode
from duckflow.record import replace
from duckflow.state.agent import AgentState
from duckflow.state.machine import Status, Step
from duckflow.state.objective import Evidence, Objective, Requirement
from duckflow.state.runs import Entry, RunState, SessionState, Totals


def fold(state: SessionState, event: ev.Event) -> SessionState:
    """The state after an event. Pure: resume, fork, screens and tests all come through here."""
    state = replace(state, last_seq=event.seq)
    handler = _HANDLERS.get(event.body.type)
    return handler(state, event, event.body) if handler else state


def _with_run(state: SessionState, run_id: str | None, **changes: Any) -> SessionState:
    run = state.runs.get(run_id or "")
    if run is None:
        return state
    return replace(state, runs={**state.runs, run.id: replace(run, **changes)})


def _counted(state: SessionState, name: str) -> SessionState:
    match = re.fullmatch(r"([A-Za-z]+)(\d+)", name)
    if match is None or int(match[2]) <= state.highest.get(match[1], 0):
        return state
    return replace(state, highest={**state.highest, match[1]: int(match[2])})


def _mode(name: str) -> Mode:
    """An unknown mode is the one that asks."""
    modes: tuple[Mode, ...] = ("plan", "auto-edit", "auto")
    return next((mode for mode in modes if mode == name), "ask")


def _session_started(state: SessionState, event: ev.Event, body: ev.SessionStarted) -> SessionState:
    return replace(
        state, id=event.session, workspace=body.workspace, mode=_mode(body.mode), lang=body.lang, models=body.models
    )


def _session_ended(state: SessionState, event: ev.Event, body: ev.SessionEnded) -> SessionState:
    return replace(state, ended=True)


def _mode_changed(state: SessionState, event: ev.Event, body: ev.ModeChanged) -> SessionState:
    return replace(state, mode=_mode(body.mode))


def _prompt_frozen(state: SessionState, event: ev.Event, body: ev.PromptFrozen) -> SessionState:
    return replace(state, system=body.text)


def _run_started(state: SessionState, event: ev.Event, body: ev.RunStarted) -> SessionState:
    before = state.runs.get(state.focus or "")
    agent = replace(before.agent, goal="", why_now="", plan_brief=(), open_questions=()) if before else AgentState()
    run = RunState(event.run or "", body.kind, body.thread, body.parent, agent=agent)
    state = _counted(replace(state, runs={**state.runs, run.id: run}), run.id)
    return replace(state, focus=run.id, ended=False) if body.kind == "turn" else state


def _run_ended(state: SessionState, event: ev.Event, body: ev.RunEnded) -> SessionState:
    return _with_run(state, event.run, outcome=body.status, question=None)


def _message(state: SessionState, event: ev.Event, body: ev.Message) -> SessionState:
    if body.role != "user":
        return state
    title = state.title or " ".join(body.text.split())[:100]
    run = state.runs.get(event.run or "")
    request = (run.request if run else "") or body.text
    return _with_run(replace(state, title=title), event.run, question=None, request=request)


def _history_added(state: SessionState, event: ev.Event, body: ev.HistoryAdded) -> SessionState:
    entry = Entry(body.role, body.kind, body.text, body.name)
    thread = (*state.threads.get(body.thread, ()), entry)
    return replace(state, threads={**state.threads, body.thread: thread})


def _history_compacted(state: SessionState, event: ev.Event, body: ev.HistoryCompacted) -> SessionState:
    thread = state.threads.get(body.thread, ())
    kept = thread[len(thread) - body.kept :] if body.kept else ()
    summary = Entry("user", "summary", body.text)
    return replace(state, threads={**state.threads, body.thread: (summary, *kept)})


def _model_called(state: SessionState, event: ev.Event, body: ev.ModelCalled) -> SessionState:
    t = state.totals
    totals = Totals(
        t.calls + 1,
        t.prompt + body.prompt_tokens,
        t.cached + body.cached_tokens,
        t.completion + body.completion_tokens,
        t.cost_usd + (body.cost_usd or 0.0),
        t.unpriced + (body.cost_usd is None),
    )
    state = replace(state, totals=totals)
    run = state.runs.get(event.run or "")
    if run is None or body.retry or body.node not in ("understand", "gather", "execute"):
        return state
    return _with_run(state, run.id, decisions=run.decisions + 1)


def _decision(state: SessionState, event: ev.Event, body: ev.DecisionMade) -> SessionState:
    wish = body.decision.get("prompt_pattern") == "base_main_specialized"
    run = state.runs.get(event.run or "")
    sure = body.decision.get("confidence", run.confidence if run else 0.0)
    return _with_run(state, event.run, node=body.node, specialized=wish, notes=body.notes, confidence=sure)


def _noted(state: SessionState, event: ev.Event, body: ev.Noted) -> SessionState:
    run = state.runs.get(event.run or "")
    return _with_run(state, run.id, notes=(*run.notes, body.text)) if run else state


def _agent_changed(state: SessionState, event: ev.Event, body: ev.AgentChanged) -> SessionState:
    run = state.runs.get(event.run or "")
    if run is None:
        return state
    known = {k: v for k, v in body.changes.items() if k in AgentState.FIELDS}
    return _with_run(state, run.id, agent=replace(run.agent, **known))


def _state_changed(state: SessionState, event: ev.Event, body: ev.StateChanged) -> SessionState:
    if body.refused:
        return state
    run = state.runs.get(event.run or "")
    back = run is not None and body.trigger == "error" and body.step == Step.PLANNING
    state = _with_run(state, event.run, step=Step(body.step), status=Status(body.status))
    return _with_run(state, event.run, failures=0, recoveries=run.recoveries + 1) if run and back else state


def _objective_changed(state: SessionState, event: ev.Event, body: ev.ObjectiveChanged) -> SessionState:
    old = state.objectives.get(body.objective)
    requirements = tuple(
        Requirement(r["id"], r["text"], r.get("priority", 2), r.get("check")) for r in body.requirements
    )
    new = Objective(
        id=body.objective,
        request=body.request,
        requirements=requirements,
        attempt=body.attempt,
        satisfaction=body.satisfaction,
        status=body.status,
        profile=body.profile,
        proposed=body.proposed,
        strategy=body.strategy,
        lessons=body.lessons,
        originals=old.originals if old else {},
    )
    state = _counted(replace(state, objectives={**state.objectives, new.id: new}), new.id)
    waiting = state.evidence.get(f"?{event.run}", ())
    if waiting:
        merged = {**state.evidence, new.id: (*waiting, *state.evidence.get(new.id, ())), f"?{event.run}": ()}
        state = replace(state, evidence=merged)
    return _with_run(state, event.run, objective=new.id)


def _question(state: SessionState, event: ev.Event, body: ev.QuestionAsked) -> SessionState:
    run = state.runs.get(event.run or "")
    asked = tuple(dict.fromkeys((*(run.asked if run else ()), body.text)))
    return _with_run(state, event.run, question=None if body.answered else body, asked=asked)


def _gate_asked(state: SessionState, event: ev.Event, body: ev.GateAsked) -> SessionState:
    run = state.runs.get(event.run or "")
    return _with_run(state, event.run, agent=replace(run.agent, pending_gate=True)) if run else state


def _gate_answered(state: SessionState, event: ev.Event, body: ev.GateAnswered) -> SessionState:
    run = state.runs.get(event.run or "")
    if run is None:
        return state
    refused = body.answer == "no" and body.by in ("nobody", "mode", "rule")
    alone = tuple(f"{action} {body.operation}" for action in body.actions) if refused else ()
    granted = ((body.operation, body.pattern),) if body.answer == "step" else ()
    return _with_run(
        state,
        run.id,
        agent=replace(run.agent, pending_gate=False),
        unattended=(*run.unattended, *alone),
        grants=(*run.grants, *granted),
    )


def _action_started(state: SessionState, event: ev.Event, body: ev.ActionStarted) -> SessionState:
    run = state.runs.get(event.run or "")
    state = _counted(state, body.action)
    if run is None:
        return state
    return _with_run(state, run.id, open_actions={**run.open_actions, body.action: body})


def _action_finished(state: SessionState, event: ev.Event, body: ev.ActionFinished) -> SessionState:
    run = state.runs.get(event.run or "")
    state = _counted(state, body.action)
    if body.output:
        state = replace(state, outputs={**state.outputs, body.action: body.output})
    if body.effect:
        state = replace(state, effects=state.effects + 1)
    if run is None:
        return state
    still = {k: v for k, v in run.open_actions.items() if k != body.action}
    skipped = (body.error or "").startswith("not run")
    failures = 0 if body.ok else run.failures + (not skipped)
    recoveries = 0 if body.ok and body.effect else run.recoveries
    state = _with_run(state, run.id, open_actions=still, failures=failures, recoveries=recoveries)
    for item in body.evidence:
        new = Evidence(item["id"], item["kind"], body.action, item.get("facts", {}), state.effects, body.ok)
        state = _with_evidence(state, run, new)
    return state


def _evidence_added(state: SessionState, event: ev.Event, body: ev.EvidenceAdded) -> SessionState:
    run = state.runs.get(event.run or "")
    new = Evidence(body.id, "reply", "", {"text": body.text}, state.effects)
    return _with_evidence(state, run, new)


def _with_evidence(state: SessionState, run: RunState | None, new: Evidence) -> SessionState:
    """Evidence belongs to the objective of its run; what comes with a message waits for one."""
    state = _counted(state, new.id)
    path, digest = new.facts.get("path"), new.facts.get("hash")
    if path and digest:
        state = replace(state, seen={**state.seen, path: digest})
    if run is None:
        return state
    key = run.objective or f"?{run.id}"
    kept = new if run.objective else replace(new, given=True)
    return replace(state, evidence={**state.evidence, key: (*state.evidence.get(key, ()), kept)})


def _checkpoint(state: SessionState, event: ev.Event, body: ev.Checkpoint) -> SessionState:
    state = _counted(state, body.id)
    run = state.runs.get(event.run or "")
    objective = state.objectives.get(run.objective or "") if run else None
    if objective is None:
        return state
    first = {f["path"]: f.get("before") for f in body.files if f["path"] not in objective.originals}
    changed = replace(objective, originals={**objective.originals, **first})
    return replace(state, objectives={**state.objectives, objective.id: changed})


_HANDLERS: dict[str, Any] = {
    "session.started": _session_started,
    "session.ended": _session_ended,
    "mode.changed": _mode_changed,
    "prompt.frozen": _prompt_frozen,
    "run.started": _run_started,
    "run.ended": _run_ended,
    "message": _message,
    "history.added": _history_added,
    "history.compacted": _history_compacted,
    "model.called": _model_called,
    "decision": _decision,
    "note": _noted,
    "agent.changed": _agent_changed,
    "state.changed": _state_changed,
    "objective.changed": _objective_changed,
    "question": _question,
    "gate.asked": _gate_asked,
    "gate.answered": _gate_answered,
    "action.started": _action_started,
    "action.finished": _action_finished,
    "evidence": _evidence_added,
    "checkpoint": _checkpoint,
}
