"""The result of a run as scripts see it."""

from __future__ import annotations

from typing import Any

from duckflow.engine.evidence import changed_files
from duckflow.engine.kit import Ending, Kit
from duckflow.engine.objectives import requirement_json
from duckflow.events import QuestionAsked, VerdictGiven
from duckflow.state.objective import Score


def _judged(score: Score | None) -> dict[str, Any]:
    """How a requirement was last judged: the table requirement → score → evidence."""
    return {"score": score.score if score else None, "evidence": list(score.evidence) if score else []}


def result(kit: Kit, run: str | None, ending: Ending, last: dict[str, Any]) -> dict[str, Any]:
    """The last line of `run`. `last` holds the newest verdict and question events."""
    session, totals = kit.session, kit.session.state.totals
    objective = session.objective(run) if run else None
    verdict: VerdictGiven | None = last.get("verdict")
    question: QuestionAsked | None = last.get("question")
    status = "escalated" if ending.status in ("asked", "deferred") else ending.status
    return {
        "type": "result",
        "status": status,
        "exit_code": ending.exit_code,
        "reply": ending.reply,
        "objective": None
        if objective is None
        else {
            "id": objective.id,
            "request": objective.request,
            "requirements": [
                {**requirement_json(r), **_judged(objective.scores.get(r.id))} for r in objective.requirements
            ],
            "attempt": objective.attempt,
            "satisfaction": objective.satisfaction,
            "status": objective.status,
        },
        "verdict": None if verdict is None else verdict.to_json(),
        "question": None
        if question is None or question.answered
        else {"text": question.text, "options": list(question.options), "default": question.default},
        "error": None if ending.error is None else {"code": ending.error.code, "message": str(ending.error)},
        "files_changed": changed_files(kit, run) if run else [],
        "usage": {
            "calls": totals.calls,
            "prompt_tokens": totals.prompt,
            "cached_tokens": totals.cached,
            "completion_tokens": totals.completion,
            "cost_usd": None if totals.unpriced else round(totals.cost_usd, 6),
        },
        "session": session.id,
    }
