"""Plans: steps that depend on each other, the tasks of a step, what is ready and what is blocked. Pure."""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from duckflow.events import PlanChanged
from duckflow.record import NOTHING, Record, replace

LIVE = ("approved", "in_progress", "paused")
"""A plan in one of these states is being carried out, or can be."""
ENDED = ("completed", "failed")
"""It was carried out, well or not."""
MOST_STEPS = 20
STOPPED = "stopped"
"""Why a step is pending that was under way: somebody stopped it. It goes on when its plan does."""


class Task(Record):
    """One concrete operation."""

    id: str
    operation: str
    args: Mapping[str, Any] = NOTHING
    reasoning: str = ""
    status: str = "pending"  # pending | in_progress | completed | failed
    action: str = ""
    error: str = ""
    intact: bool = True  # its arguments are as the model gave them


class PlanStep(Record):
    id: str
    name: str
    description: str = ""
    depends_on: tuple[str, ...] = ()  # ids
    files: tuple[str, ...] = ()  # globs it will touch
    commands: tuple[str, ...] = ()  # globs of commands it will run
    done_when: tuple[str, ...] = ()  # commands that prove it
    status: str = "pending"  # pending | in_progress | completed | failed | blocked
    reason: str = ""

    def content(self) -> dict[str, Any]:
        """What an approval covers."""
        names = ("id", "name", "description", "depends_on", "files", "commands", "done_when")
        return {name: getattr(self, name) for name in names}


class Plan(Record):
    id: str
    name: str
    goal: str
    steps: tuple[PlanStep, ...]
    risks: tuple[Mapping[str, Any], ...] = ()
    criteria: tuple[str, ...] = ()
    status: str = "draft"
    approved: str = ""  # the hash that was approved
    objective: str | None = None
    run: str | None = None  # the run that carries it out
    reported: bool = False
    judged: bool = False  # a verdict came after it had ended
    reason: str = ""

    @property
    def hash(self) -> str:
        """What an approval is bound to: goal and steps, not how far they are."""
        said = [self.goal, [step.content() for step in self.steps]]
        return hashlib.sha256(json.dumps(said, ensure_ascii=False, sort_keys=True).encode()).hexdigest()

    @property
    def is_approved(self) -> bool:
        return self.status in LIVE and self.approved == self.hash

    @property
    def done(self) -> int:
        return sum(step.status == "completed" for step in self.steps)

    def step(self, step_id: str) -> PlanStep | None:
        return next((step for step in self.steps if step.id == step_id), None)


def plan_changed(plan: Plan) -> PlanChanged:
    """The plan as it is from now on, as an event."""
    return PlanChanged(
        plan=plan.id,
        name=plan.name,
        goal=plan.goal,
        status=plan.status,
        steps=tuple({**step.content(), "status": step.status, "reason": step.reason} for step in plan.steps),
        risks=plan.risks,
        criteria=plan.criteria,
        approved=plan.approved,
        objective=plan.objective,
        reason=plan.reason,
    )


def drafted(plan_id: str, name: str, goal: str, raw: Sequence[Mapping[str, Any]], new_id: Callable[[], str]) -> Plan:
    """A draft from the steps a model gave. ValueError says what does not fit; nothing is guessed."""
    if not raw:
        raise ValueError("a plan needs at least one step")
    if len(raw) > MOST_STEPS:
        raise ValueError(f"a plan has at most {MOST_STEPS} steps; this one has {len(raw)}")
    names = [str(item["name"]).strip() for item in raw]
    if "" in names:
        raise ValueError(f"step {names.index('') + 1} has no name")
    twice = sorted({n for n in names if names.count(n) > 1})
    if twice:
        raise ValueError(f"two steps are called {twice[0]!r}; depends_on needs different names")
    ids = {n: new_id() for n in names}
    steps = []
    for item, own in zip(raw, names, strict=True):
        unknown = [d for d in item.get("depends_on", ()) if str(d).strip() not in ids]
        if unknown:
            raise ValueError(f"step {own!r} depends on {unknown[0]!r}, which is no step; there are: {', '.join(names)}")
        needs = tuple(dict.fromkeys(ids[str(d).strip()] for d in item.get("depends_on", ())))
        files, commands, proofs = (
            tuple(str(v) for v in item.get(key, ())) for key in ("files", "commands", "done_when")
        )
        steps.append(PlanStep(ids[own], own, str(item.get("description", "")), needs, files, commands, proofs))
    circle = cycle(steps)
    if circle:
        raise ValueError(f"the steps depend on each other in a circle: {' → '.join(circle)}")
    return Plan(plan_id, name, goal, tuple(steps))


def cycle(steps: Sequence[PlanStep]) -> tuple[str, ...]:
    """The names of steps that wait for each other; empty when there is an order."""
    by_id = {step.id: step for step in steps}
    settled: set[str] = set()

    def walk(step: PlanStep, path: tuple[str, ...]) -> tuple[str, ...]:
        if step.id in path:
            return (*path[path.index(step.id) :], step.id)
        if step.id in settled:
            return ()
        for need in step.depends_on:
            found = walk(by_id[need], (*path, step.id)) if need in by_id else ()
            if found:
                return found
        settled.add(step.id)
        return ()

    found = next((circle for step in steps if (circle := walk(step, ()))), ())
    return tuple(by_id[i].name for i in found)


def ready(plan: Plan) -> tuple[PlanStep, ...]:
    """Steps that may begin now: everything they depend on is completed."""
    completed = {step.id for step in plan.steps if step.status == "completed"}
    return tuple(s for s in plan.steps if s.status == "pending" and completed.issuperset(s.depends_on))


def with_step(plan: Plan, step_id: str, status: str, reason: str = "") -> Plan:
    """The plan with one step in another state; what can no longer begin is blocked, and says why."""
    steps = tuple(replace(s, status=status, reason=reason) if s.id == step_id else s for s in plan.steps)
    return replace(plan, steps=_blocked(steps))


def _blocked(steps: tuple[PlanStep, ...]) -> tuple[PlanStep, ...]:
    """Steps behind a failed one are blocked; when it is mended they are pending again."""
    by_id = {step.id: step for step in steps}

    def cause(step: PlanStep, seen: frozenset[str] = frozenset()) -> str:
        for need in step.depends_on:
            before = by_id.get(need)
            if before is None or need in seen:
                continue
            if before.status == "failed":
                return before.name
            if found := cause(before, seen | {need}):
                return found
        return ""

    result = []
    for step in steps:
        why = cause(step) if step.status in ("pending", "blocked") else ""
        if why:
            step = replace(step, status="blocked", reason=f"waits for {why!r}, which failed")
        elif step.status == "blocked":
            step = replace(step, status="pending", reason="")
        result.append(step)
    return tuple(result)


def is_over(plan: Plan) -> bool:
    """Nothing of it runs and nothing of it can begin."""
    return not ready(plan) and not any(step.status == "in_progress" for step in plan.steps)


def begun(plan: Plan) -> Plan:
    """The plan when somebody takes it up: nothing runs yet, and what was stopped may begin again."""
    waiting = ("pending", "in_progress")
    steps = tuple(replace(s, status="pending", reason="") if s.status in waiting else s for s in plan.steps)
    return replace(plan, status="in_progress", reason="", steps=_blocked(steps))


def put_down(plan: Plan) -> Plan:
    """The plan when nobody works on it any more: it is paused, and its running steps can go on later."""
    steps = tuple(replace(s, status="pending", reason=STOPPED) if s.status == "in_progress" else s for s in plan.steps)
    return replace(plan, status="paused", steps=steps)


def disjoint(one: PlanStep, other: PlanStep) -> bool:
    """May two steps be worked on at the same time? Only when what they will touch is said and differs."""
    if not one.files or not other.files:
        return False
    return not any(_overlap(a, b) for a in one.files for b in other.files)


def _overlap(one: str, other: str) -> bool:
    """Could two globs mean the same file? Unsure counts as yes."""
    a, b = _plain(one), _plain(other)
    if ".." in (a[:2], b[:2]) or "/" in (a[:1], b[:1]):
        return True  # outside the workspace, or spelt so that it cannot be compared
    start, begin = (re.split(r"[*?\[]", glob, maxsplit=1)[0] for glob in (a, b))
    if start == a and begin == b:
        return a == b
    return start.startswith(begin) or begin.startswith(start)


def _plain(glob: str) -> str:
    """One spelling for one path: `./a`, `a//b` and `A` are `a`, `a/b` and `a`; `a/` is everything below `a`."""
    spelt = glob.strip().casefold()
    return posixpath.normpath(spelt) + ("/**" if spelt.endswith("/") else "")


def progress(plan: Plan) -> str:
    """For the model: how far it is, one line."""
    parts = [f"Plan {plan.id} “{plan.name}” ({plan.status}): {plan.done} of {len(plan.steps)} steps done"]
    for status, word in (("in_progress", "running"), ("failed", "failed"), ("blocked", "blocked")):
        named = [f"{s.id} {s.name}" for s in plan.steps if s.status == status]
        if named:
            parts.append(f"{word}: {', '.join(named)}")
    waiting = ready(plan)
    if waiting and plan.status != "in_progress":
        parts.append(f"next: {waiting[0].id} {waiting[0].name}")
    return "; ".join(parts)
