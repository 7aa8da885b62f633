"""The questions the engine asks by itself, in words: a shaky understanding, no place to work, an objection. Pure."""

from __future__ import annotations

from duckflow.engine.route import Route
from duckflow.i18n import _
from duckflow.prompts.replies import Decision, Question, says


def question_for(decision: Decision, where: Route) -> Question:
    """The model's own question, or the one its Decision gives reason to."""
    if where is Route.ASK and decision.question is not None:
        return decision.question
    if where is Route.OBJECT:
        return _objection(decision)
    if where is Route.TARGET:
        return _target(decision)
    what = ", ".join(dict.fromkeys(a.operation for a in decision.actions))
    text = _(
        "I am not sure that I understood ({confidence}). I would do this: {why} ({what}). Go on?",
        confidence=f"{decision.confidence or 0:.2f}",
        why=decision.rationale,
        what=what,
    )
    return Question(text=text, options=[_("go on"), _("stop")], default=_("go on"))


def _target(decision: Decision) -> Question:
    """Work without a place to do it: what would be the start, and the one thing that is missing."""
    delta = decision.state_delta if isinstance(decision.state_delta, dict) else {}
    plan = delta.get("plan_brief") or [decision.rationale]
    start = "; ".join(str(item) for item in (plan if isinstance(plan, list) else [plan]))
    return Question(text=_("I would begin like this: {start}. Which file or part do you mean?", start=start))


def _objection(decision: Decision) -> Question:
    """The model says itself that its actions do not fit. They do not run; the person decides."""
    field = "goal_consistency" if says(decision.goal_consistency) == "no" else "constraint_check"
    why = getattr(decision, field)
    what = ", ".join(dict.fromkeys(a.operation for a in decision.actions))
    text = (
        _(
            "The next actions ({what}) do not serve the goal, says the model: {why} Go on all the same?",
            what=what,
            why=why,
        )
        if field == "goal_consistency"
        else _(
            "The next actions ({what}) break a constraint, says the model: {why} Go on all the same?",
            what=what,
            why=why,
        )
    )
    return Question(text=text, options=[_("go on"), _("stop")])
