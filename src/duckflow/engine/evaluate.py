"""Node four: checks a machine can make, then one verdict call over evidence, then what follows from it."""

from __future__ import annotations

from typing import Literal

from duckflow import events as ev
from duckflow.engine.ask import ask_verdict
from duckflow.engine.checks import run_checks
from duckflow.engine.evidence import changed_files, holding, mine, shown_evidence, supporting
from duckflow.engine.kit import Ending, Kit
from duckflow.engine.objectives import conclude, ensure_objective, learn, put, their_words
from duckflow.engine.outcome import outcome_text, refused_alone
from duckflow.engine.planning import put as put_plan
from duckflow.engine.pulse import beat, consult
from duckflow.engine.reporting import finished_plan, report
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
        replace(objective, request=their_words(kit, run)),
        checks,
        changed_files(kit, run),
        shown_evidence(kit, run),
        _notes(kit, run),
        kit.prompts.profile.history,
    )
    said = await ask_verdict(kit, run, kit.prompts.specialized(session.state, session.redact(text), cuts))
    verdict = judge(opinion(said), objective.requirements, _support(kit, run, attempt.reply), checks)
    verdict = replace(verdict, blocked=verdict.blocked or unproven(kit, run, attempt.reply))
    limits = kit.prompts.limits
    move = next_move(objective, verdict, limits.satisfaction, limits.max_attempts)
    if move == "retry" and refused_alone(kit, run) and not kit.attended:
        move = "escalate"  # nobody can allow what is missing: more attempts would only cost
    _record(kit, run, verdict, checks, move)
    beat(kit, run)
    return verdict, move


def _support(kit: Kit, run: str, reply: str) -> dict[str, frozenset[str]]:
    """The evidence that may support each requirement. An answer of an earlier attempt was never shown to anybody."""
    words = frozenset() if reply.strip() else frozenset(e.id for e in mine(kit, run) if e.kind == "reply")
    return {name: held - words for name, held in supporting(kit, run).items()}


def unproven(kit: Kit, run: str, reply: str) -> str:
    """What no evaluator can wave through: words without a fact, or a claim of a change that never happened."""
    objective = kit.session.objective(run)
    assert objective is not None
    talks = objective.profile in ("guidance", "analysis")
    facts = [e for e in holding(kit, run) if e.kind != "reply" and (talks or not (e.given or e.is_check))]
    if objective.profile == "analysis" and not reply.strip():
        return "an answer was asked for and none was given"
    if not facts:
        return "nothing was read or done: there is no evidence"
    if changed_files(kit, run):
        return ""
    earlier = talks and kit.session.state.effects > 0
    if claims_change(reply) and not earlier:
        return "the reply claims a change, but nothing was changed"
    if not talks and not reply.strip() and all(e.kind == "read" for e in facts):
        return "nothing was done, and nobody said that it was so already"
    return ""


def _notes(kit: Kit, run: str) -> list[str]:
    refused = refused_alone(kit, run)
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


async def close(kit: Kit, run: str, verdict: Verdict, reply: str) -> Ending:
    """It is there, and evidence shows it: now the closing word may be said, or the report of the plan."""
    kit.advance(run, Trigger.VERDICT, Step.DONE, Status.SUCCESS)
    conclude(kit, run, "satisfied")
    plan = finished_plan(kit, run)
    told = await report(kit, run, plan) if plan is not None and not plan.reported else ""
    text = reply.strip() or ("" if told else outcome_text(kit, run, verdict))
    say(kit, run, text)
    return Ending("satisfied", "\n\n".join(filter(None, (text, told))))


async def try_again(kit: Kit, run: str, verdict: Verdict) -> Ending | None:
    """Not yet: back to understanding, with what was learned. An ending: the person is asked first."""
    learn(kit, run, verdict)
    plan = finished_plan(kit, run)
    if plan is not None and plan.status == "failed":
        put_plan(kit, run, replace(plan, status="replaced", reason="another attempt"))
    kit.advance(run, Trigger.VERDICT, Step.PLANNING)
    prepare_retry(kit, run, verdict)
    return await consult(kit, run)


def prepare_retry(kit: Kit, run: str, verdict: Verdict, said: str = "") -> None:
    """The procedure of another attempt, with what was judged and what not to repeat."""
    session = kit.session
    objective = session.objective(run)
    assert objective is not None
    text = kit.prompts.procedure(retry_text(kit.prompts.library, objective, verdict, kit.prompts.limits, said))
    thread = session.run(run).thread
    session.append(
        ev.HistoryAdded(thread=thread, role="user", kind="procedure", text=text, name="understand_retry"),
        run=run,
    )
