"""Node four: checks a machine can make, then one verdict call over evidence, then what follows from it."""

from __future__ import annotations

from typing import Literal

from duckflow import events as ev
from duckflow.engine.ask import ask_verdict
from duckflow.engine.checks import run_checks
from duckflow.engine.evidence import changed_files, holding, shown_evidence, supporting
from duckflow.engine.kit import Ending, Kit
from duckflow.engine.objectives import conclude, ensure_objective, learn, put
from duckflow.engine.outcome import outcome_text
from duckflow.engine.route import claims_change
from duckflow.engine.settle import Judge, say
from duckflow.prompts.replies import VerdictReply
from duckflow.prompts.sections import evaluate_text, retry_text
from duckflow.record import replace
from duckflow.state.machine import Status, Step, Trigger
from duckflow.state.objective import Check, Opinion, Verdict, judge, next_move

Move = Literal["complete", "retry", "escalate"]


async def evaluate(kit: Kit, run: str, attempt: Judge) -> tuple[Verdict, Move]:
    """Judge the attempt. Facts come from the harness; the model's reply counts only where an answer was asked for."""
    session = kit.session
    ensure_objective(kit, run)
    kit.advance(run, attempt.trigger, Step.REVIEW)
    if attempt.reply.strip():
        session.append(ev.EvidenceAdded(id=session.new_id("E"), kind="reply", text=attempt.reply), run=run)
    checks = await run_checks(kit, run)
    objective = session.objective(run)
    assert objective is not None
    text, cuts = evaluate_text(
        kit.prompts.library,
        objective,
        checks,
        changed_files(kit, run),
        shown_evidence(kit, run),
        _notes(kit, run),
        kit.prompts.profile.history,
    )
    said = await ask_verdict(kit, run, kit.prompts.specialized(session.state, session.redact(text), cuts))
    verdict = judge(opinion(said), objective.requirements, supporting(kit, run), checks)
    verdict = replace(verdict, blocked=verdict.blocked or unproven(kit, run, attempt.reply))
    limits = kit.prompts.limits
    move = next_move(objective, verdict, limits.satisfaction, limits.max_attempts)
    if move == "retry" and session.run(run).unattended and not kit.attended:
        move = "escalate"  # nobody can allow what is missing: more attempts would only cost
    _record(kit, run, verdict, checks, move)
    return verdict, move


def unproven(kit: Kit, run: str, reply: str) -> str:
    """What no evaluator can wave through: words without a fact, or a claim of a change that never happened."""
    objective = kit.session.objective(run)
    facts = [e for e in holding(kit, run) if e.kind != "reply"]
    if objective and objective.profile == "analysis" and not reply.strip():
        return "an answer was asked for and none was given"
    if not facts:
        return "nothing was read or done: there is no evidence"
    changed = any(e.kind == "change" or e.facts.get("changed") for e in facts) or (objective and objective.originals)
    if claims_change(reply) and not changed and not kit.session.state.effects:
        return "the reply claims a change, but nothing was changed"
    return ""


def _notes(kit: Kit, run: str) -> list[str]:
    refused = kit.session.run(run).unattended
    return [f"refused and not done: {', '.join(refused)}"] if refused else []


def opinion(said: VerdictReply | None) -> Opinion | None:
    if said is None:
        return None
    missing = (*said.missing_aspects, *said.problems)
    analysis = said.failure_analysis or {}
    lessons = (*said.lessons, *(f"{key}: {analysis[key]}" for key in ("cause", "fix") if analysis.get(key)))
    return Opinion(
        said.overall_score,
        said.requirement_scores,
        said.evidence,
        missing,
        said.quality_assessment,
        said.completion_recommendation,
        lessons,
    )


def _record(kit: Kit, run: str, verdict: Verdict, checks: list[Check], move: Move) -> None:
    objective = kit.session.objective(run)
    assert objective is not None
    kit.session.append(
        ev.VerdictGiven(
            overall=verdict.overall,
            requirements={k: {"score": s.score, "evidence": list(s.evidence)} for k, s in verdict.scores.items()},
            failed_checks=verdict.failed_checks,
            missing=verdict.missing,
            next=move,
            checks=tuple({"id": c.id, "text": c.text, "passed": c.passed, "detail": c.detail} for c in checks),
            assessment=verdict.assessment,
            problem=verdict.blocked,
        ),
        run=run,
    )
    put(kit, run, replace(objective, satisfaction=verdict.overall))


def close(kit: Kit, run: str, verdict: Verdict, reply: str) -> Ending:
    """It is there, and evidence shows it: now the closing word may be said."""
    kit.advance(run, Trigger.VERDICT, Step.DONE, Status.SUCCESS)
    conclude(kit, run, "satisfied")
    text = reply.strip() or outcome_text(kit, run, verdict)
    say(kit, run, text)
    return Ending("satisfied", text)


def try_again(kit: Kit, run: str, verdict: Verdict) -> None:
    """Not yet: back to understanding, with what was learned."""
    session = kit.session
    learn(kit, run, verdict)
    kit.advance(run, Trigger.VERDICT, Step.PLANNING)
    objective = session.objective(run)
    assert objective is not None
    text = kit.prompts.procedure(retry_text(kit.prompts.library, objective, verdict, kit.prompts.limits))
    thread = session.run(run).thread
    session.append(
        ev.HistoryAdded(thread=thread, role="user", kind="procedure", text=text, name="understand_retry"),
        run=run,
    )
