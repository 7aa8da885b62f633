"""Keeping the objective of a run true to what was said and done: created, extended, retried, concluded."""

from __future__ import annotations

from collections.abc import Sequence

from duckflow import events as ev
from duckflow.engine.kit import Kit
from duckflow.engine.route import effective_profile
from duckflow.prompts.replies import Decision
from duckflow.record import replace
from duckflow.safety.change import Effect
from duckflow.state.objective import Objective, Requirement, Verdict, extended

UNFINISHED = ("open", "partial", "escalated", "refused", "failed", "cancelled", "deferred")


def absorb_objective(kit: Kit, run: str, decision: Decision) -> None:
    """Create the objective with the first Decision that is more than guidance; extend it with later ones."""
    session = kit.session
    known = session.objective(run) or _continued(kit, decision)
    effects = {kit.dispatcher.effect_of(action) for action in decision.actions}
    now = "files" if Effect.FILES in effects else "command" if Effect.COMMAND in effects else ""
    proposed = max(now, known.proposed if known else "", key=("", "command", "files").index)
    profile = effective_profile(decision.profile, known.profile if known else "unknown", proposed)
    if known is None and profile == "guidance" and not decision.actions:
        return
    if known is None and not decision.actions and not decision.requirements and decision.question is not None:
        return  # nothing is understood yet: the question comes first
    wishes = [(w.text, w.priority, w.check) for w in decision.requirements]
    old = known or Objective(session.new_id("O"), session.run(run).request)
    requirements = extended(old.requirements, wishes)
    if not requirements and decision.actions:  # words alone may still be followed by real requirements
        requirements = (Requirement("R1", old.request),)
    new = replace(
        old,
        requirements=requirements,
        profile=profile,
        proposed=proposed,
        strategy=decision.strategy or old.strategy,
        status="open",
    )
    if new != session.objective(run):
        put(kit, run, new)


def ensure_objective(kit: Kit, run: str) -> None:
    """Something is about to be judged: the message itself is what must be true when nothing else was said."""
    objective = kit.session.objective(run)
    if objective is None:
        objective = Objective(kit.session.new_id("O"), kit.session.run(run).request)
    if not objective.requirements:
        put(kit, run, replace(objective, requirements=(Requirement("R1", objective.request),)))


def _continued(kit: Kit, decision: Decision) -> Objective | None:
    """The last objective, when the model says in so many words that this message belongs to it."""
    if decision.objective != "same" or "objective" not in decision.model_fields_set:
        return None
    last = next(reversed(list(kit.session.state.objectives.values())), None)
    return replace(last, attempt=1) if last is not None and last.status in UNFINISHED else None


def put(kit: Kit, run: str, objective: Objective) -> None:
    kit.session.append(
        ev.ObjectiveChanged(
            objective=objective.id,
            request=objective.request,
            requirements=tuple(requirement_json(r) for r in objective.requirements),
            attempt=objective.attempt,
            satisfaction=objective.satisfaction,
            status=objective.status,
            profile=objective.profile,
            proposed=objective.proposed,
            strategy=objective.strategy,
            lessons=objective.lessons,
        ),
        run=run,
    )


def requirement_json(requirement: Requirement) -> dict[str, object]:
    return {
        "id": requirement.id,
        "text": requirement.text,
        "priority": requirement.priority,
        "check": requirement.check,
    }


def conclude(kit: Kit, run: str, status: str) -> None:
    """The objective ends with this status; a guidance run has none."""
    objective = kit.session.objective(run)
    if objective is not None and objective.status != status:
        put(kit, run, replace(objective, status=status))


def learn(kit: Kit, run: str, verdict: Verdict) -> None:
    """Another attempt: count it and keep what this one taught."""
    objective = kit.session.objective(run)
    assert objective is not None
    lessons = [*objective.lessons, *verdict.lessons]
    if objective.strategy:
        lessons.append(f"attempt {objective.attempt} ({objective.strategy}) reached {verdict.overall:.2f}")
    put(kit, run, replace(objective, attempt=objective.attempt + 1, lessons=_newest(lessons)))


def _newest(lessons: Sequence[str], most: int = 12) -> tuple[str, ...]:
    return tuple(dict.fromkeys(lessons))[-most:]
