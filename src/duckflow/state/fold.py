"""From events to state: `fold` is pure, so that resume, fork, screens and tests all see the same."""

from __future__ import annotations

from typing import Any

from duckflow import events as ev
from duckflow.config import Mode
from duckflow.record import replace
from duckflow.state.agent import AgentState
from duckflow.state.fold_acts import ACT_HANDLERS
from duckflow.state.fold_work import WORK_HANDLERS
from duckflow.state.machine import Status, Step
from duckflow.state.objective import Objective, Requirement
from duckflow.state.runs import Entry, RunState, SessionState, Totals, counted, with_run


def fold(state: SessionState, event: ev.Event) -> SessionState:
    """The state after an event. Pure: resume, fork, screens and tests all come through here."""
    state = replace(state, last_seq=event.seq)
    handler = _HANDLERS.get(event.body.type)
    return handler(state, event, event.body) if handler else state


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
    before = state.runs.get((body.parent if body.kind in ("step", "tasks") else state.focus) or "")
    agent = replace(before.agent, goal="", why_now="", plan_brief=(), open_questions=()) if before else AgentState()
    parent = state.runs.get(body.parent or "")
    beside = body.kind in ("step", "tasks")
    run = RunState(
        event.run or "",
        body.kind,
        body.thread,
        body.parent,
        body.plan_step,
        background=beside,
        objective=parent.objective if parent and beside else None,
        agent=agent,
    )
    state = counted(replace(state, runs={**state.runs, run.id: run}), run.id)
    in_front = body.kind == "turn" and body.thread == "chat"
    return replace(state, focus=run.id, ended=False) if in_front else state


def _run_ended(state: SessionState, event: ev.Event, body: ev.RunEnded) -> SessionState:
    return with_run(state, event.run, outcome=body.status, question=None)


def _message(state: SessionState, event: ev.Event, body: ev.Message) -> SessionState:
    if body.role != "user":
        return state
    title = state.title or " ".join(body.text.split())[:100]
    run = state.runs.get(event.run or "")
    if run is None:
        return replace(state, title=title)
    if body.kind == "steering":
        return with_run(replace(state, title=title), run.id, steered=(*run.steered, body.text))
    answers = {**run.answers, run.question.text: body.text} if run.question else run.answers
    request = run.request or ("" if body.kind == "answer" else body.text)
    return with_run(
        replace(state, title=title), run.id, question=None, request=request, answers=answers, escalated=False
    )


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
    return with_run(state, run.id, decisions=run.decisions + 1, loops=run.loops + 1)


def _decision(state: SessionState, event: ev.Event, body: ev.DecisionMade) -> SessionState:
    wish = body.decision.get("prompt_pattern") == "base_main_specialized"
    run = state.runs.get(event.run or "")
    sure = body.decision.get("confidence", run.confidence if run else 0.0)
    return with_run(state, event.run, node=body.node, specialized=wish, notes=body.notes, confidence=sure)


def _noted(state: SessionState, event: ev.Event, body: ev.Noted) -> SessionState:
    run = state.runs.get(event.run or "")
    return with_run(state, run.id, notes=(*run.notes, body.text)) if run else state


def _agent_changed(state: SessionState, event: ev.Event, body: ev.AgentChanged) -> SessionState:
    run = state.runs.get(event.run or "")
    if run is None:
        return state
    known = {k: tuple(v) if isinstance(v, list) else v for k, v in body.changes.items() if k in AgentState.FIELDS}
    return with_run(state, run.id, agent=replace(run.agent, **known))


def _state_changed(state: SessionState, event: ev.Event, body: ev.StateChanged) -> SessionState:
    if body.refused:
        return state
    run = state.runs.get(event.run or "")
    back = run is not None and body.trigger == "error" and body.step == Step.PLANNING
    state = with_run(state, event.run, step=Step(body.step), status=Status(body.status))
    return with_run(state, event.run, recent=(), recoveries=run.recoveries + 1) if run and back else state


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
        repeated=body.repeated,
    )
    if old is not None:
        again = body.attempt != old.attempt
        same = {r.id for r in requirements if r in old.requirements}
        new = replace(
            new,
            originals=old.originals,
            scores={k: v for k, v in old.scores.items() if k in same},
            verdicts=old.verdicts,
            missing=old.missing,
            did=() if again else old.did,
            approaches=(*old.approaches, old.did) if again and old.did else old.approaches,
        )
    state = counted(replace(state, objectives={**state.objectives, new.id: new}), new.id)
    waiting = state.evidence.get(f"?{event.run}", ())
    if waiting:
        merged = {**state.evidence, new.id: (*waiting, *state.evidence.get(new.id, ())), f"?{event.run}": ()}
        state = replace(state, evidence=merged)
    return with_run(state, event.run, objective=new.id)


def _question(state: SessionState, event: ev.Event, body: ev.QuestionAsked) -> SessionState:
    run = state.runs.get(event.run or "")
    asked = tuple(dict.fromkeys((*(run.asked if run else ()), body.text)))
    known = (*(run.known if run else ()), body.known)
    return with_run(state, event.run, question=None if body.answered else body, asked=asked, known=known)


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
    **ACT_HANDLERS,
    **WORK_HANDLERS,
}
