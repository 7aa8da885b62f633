"""Keeping the objective of a run true to what was said and done: created, extended, retried, concluded."""

from __future__ import annotations

from collections.abc import Sequence

from duckflow import events as ev
from duckflow.engine.evidence import changed_files
from duckflow.engine.kit import Kit
from duckflow.engine.route import claims_change, effective_profile
from duckflow.i18n import _
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
    if not old.requirements:
        old = replace(old, request=_with_detail(kit, run, old.request))
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


def detail_question() -> str:
    return _("What exactly do you need? What is there already, and what is missing?")


def _with_detail(kit: Kit, run: str, request: str) -> str:
    """The request with what the person answered when they were asked to say it more precisely."""
    detail = kit.session.run(run).answers.get(detail_question(), "")
    return request if not detail or detail in request else f"{request}\n{detail}"


def more_detail(kit: Kit, run: str, text: str = "") -> None:
    """What is wanted is understood anew, and the attempts are counted anew. What was learned stays."""
    objective = kit.session.objective(run)
    if objective is not None:
        request = "\n".join(filter(None, (objective.request, text)))
        put(kit, run, replace(objective, request=request, requirements=(), attempt=1, repeated=0, status="open"))


def answered_offer(kit: Kit, run: str, decision: Decision) -> bool:
    """Words of the person's own after an escalation: more detail. False: something else, and the ways on stay open."""
    mine = [e.body for e in kit.session.store.events(kit.session.id) if e.run == run]
    if decision.objective == "same":
        said = [body.text for body in mine if isinstance(body, ev.Message) and body.role == "user"]
        more_detail(kit, run, said[-1] if said else "")
        return True
    offers = [body for body in mine if isinstance(body, ev.Escalation)]
    if decision.objective == "side" and offers:
        kit.session.append(offers[-1], run=run)
    return False


def their_words(kit: Kit, run: str) -> str:
    """The request with everything the person said about it since: nobody can judge by half of it."""
    objective = kit.session.objective(run)
    assert objective is not None
    more: list[str] = []
    for line in (r for r in kit.session.state.runs.values() if r.objective == objective.id):
        more += [line.request, *line.steered]
        more += [f"asked “{question}” they said: {answer}" for question, answer in line.answers.items()]
    new = [text for text in dict.fromkeys(more) if text.strip() and text not in objective.request]
    return "\n".join((objective.request, *new))


def has_acted(kit: Kit, run: str) -> bool:
    """Was the workspace changed for the objective of this run, by actions or by commands?"""
    objective = kit.session.objective(run)
    found = kit.session.state.evidence.get(objective.id, ()) if objective else ()
    return bool(objective and objective.originals) or any(e.facts.get("changed") for e in found)


def claims_falsely(kit: Kit, run: str, reply: str) -> bool:
    """Does a reply speak of a change that was not made for this request?"""
    return claims_change(reply) and not has_acted(kit, run)


def honest_reply(kit: Kit, run: str, decision: Decision) -> str:
    """The reply, unless it claims what was not done."""
    return "" if claims_falsely(kit, run, decision.reply) else decision.reply


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
            repeated=objective.repeated,
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
    how = objective.strategy or f"changed {', '.join(changed_files(kit, run)) or 'nothing'}"
    lessons = [*objective.lessons, *verdict.lessons]
    lessons.append(f"attempt {objective.attempt} ({how}) reached {verdict.overall:.2f}")
    put(kit, run, replace(objective, attempt=objective.attempt + 1, strategy="", lessons=_newest(lessons)))


def _newest(lessons: Sequence[str], most: int = 12) -> tuple[str, ...]:
    return tuple(dict.fromkeys(lessons))[-most:]
