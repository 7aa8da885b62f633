"""The working memory of a run: the fixed five and their limits, enforced where values enter. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from duckflow.record import Record, replace

LINE = 200
ITEM = 100
MOST = {"constraints": 2, "plan_brief": 3, "open_questions": 2, "context_refs": 20, "decision_log": 20}
"""How many items each list holds; the logs keep the newest, the others the first."""


class AgentState(Record):
    goal: str = ""
    why_now: str = ""
    constraints: tuple[str, ...] = ()
    plan_brief: tuple[str, ...] = ()
    open_questions: tuple[str, ...] = ()
    context_refs: tuple[str, ...] = ()
    decision_log: tuple[str, ...] = ()
    last_delta: str = ""
    pending_gate: bool = False


def changed(agent: AgentState, delta: Mapping[str, Any] | str) -> tuple[AgentState, dict[str, Any], tuple[str, ...]]:
    """The state after a `state_delta`, the fields that changed, and what had to be cut, in words for the model."""
    if isinstance(delta, str):
        delta = {"last_delta": delta}
    cuts: list[str] = []
    changes: dict[str, Any] = {}
    for key, value in delta.items():
        if value is None:
            continue
        if key in ("goal", "why_now", "last_delta"):
            changes[key] = _line(key, value, LINE, cuts)
        elif key in ("constraints", "plan_brief", "open_questions"):
            changes[key] = _items(key, value, cuts)
        elif key == "decision":
            log = (*agent.decision_log, _line("decision", value, ITEM, cuts))
            changes["decision_log"] = log[-MOST["decision_log"] :]
        else:
            cuts.append(
                f"state_delta.{key} is not a field; known: goal, why_now, constraints, plan_brief, "
                "open_questions, decision"
            )
    changes = {k: v for k, v in changes.items() if getattr(agent, k) != v}
    return replace(agent, **changes), changes, tuple(cuts)


def with_refs(agent: AgentState, refs: tuple[str, ...]) -> AgentState:
    """The files and messages the work refers to, newest last, each once."""
    merged = tuple(dict.fromkeys((*(r for r in agent.context_refs if r not in refs), *refs)))
    return replace(agent, context_refs=merged[-MOST["context_refs"] :])


def misfits(agent: AgentState, answered: Iterable[str] = (), steps: Sequence[str] = ()) -> tuple[str, ...]:
    """What in the fixed five does not fit together, in words for the model.

    `answered`: questions the person has answered; `steps`: names of the plan that is carried out.
    """
    found = []
    if not agent.goal:
        found.append("no goal is set: give state_delta.goal")
    overlap = set(agent.open_questions) & set(agent.decision_log)
    if overlap:
        found.append(f"decided but still open: {'; '.join(sorted(overlap))}")
    closed = set(agent.open_questions) & set(answered)
    if closed:
        found.append(f"answered but still open: {'; '.join(sorted(closed))}")
    strange = [item for item in agent.plan_brief if steps and item not in (name[:ITEM] for name in steps)]
    if strange:
        found.append(f"plan_brief does not match the plan: {'; '.join(strange)}")
    return tuple(found)


def _line(key: str, value: object, most: int, cuts: list[str]) -> str:
    text = " ".join(str(value).split())
    if len(text) > most:
        cuts.append(f"state_delta.{key} was cut to {most} characters")
    return text[:most]


def _items(key: str, value: object, cuts: list[str]) -> tuple[str, ...]:
    items = [value] if isinstance(value, str) else list(value) if isinstance(value, list | tuple) else []
    if len(items) > MOST[key]:
        cuts.append(
            f"state_delta.{key} keeps {MOST[key]} items; dropped: {'; '.join(map(str, items[MOST[key] :]))[:200]}"
        )
    return tuple(_line(key, item, ITEM, cuts) for item in items[: MOST[key]])
