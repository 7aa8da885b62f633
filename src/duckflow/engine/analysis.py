"""Technical help: why the work failed and concrete steps, from the evaluator tier and from what the journal holds."""

from __future__ import annotations

from duckflow import events as ev
from duckflow.engine.ask import ask_analysis
from duckflow.engine.evidence import changed_files, shown_evidence
from duckflow.engine.kit import Kit
from duckflow.engine.outcome import outcome_text
from duckflow.errors import DuckflowError
from duckflow.i18n import _, explain
from duckflow.llm.tokens import cut_to, estimate
from duckflow.prompts.budget import shorten_largest
from duckflow.prompts.replies import VerdictReply

MOST_FAILURES = 12


async def failure_analysis(kit: Kit, run: str) -> str:
    """Cause and remedies in words. What no model says, the recorded facts do."""
    failures = failed_actions(kit, run)
    try:
        said = await ask_analysis(kit, run, _prompt(kit, run, failures))
    except DuckflowError as error:
        return "\n".join((explain(error)[0], *_facts(kit, run, failures)))
    lines = _advice(said) if said is not None else []
    return "\n".join((_("Why it failed, and what would help"), *(lines or _facts(kit, run, failures))))


def failed_actions(kit: Kit, run: str) -> list[str]:
    """What went wrong in the runs of this objective, newest last."""
    session = kit.session
    objective = session.run(run).objective
    family = {r.id for r in session.state.runs.values() if r.id == run or (objective and r.objective == objective)}
    lines = [
        f"{event.body.summary or event.body.operation}: {event.body.error or f'exit {event.body.exit_code}'}"
        for event in session.store.events(session.id)
        if event.run in family and isinstance(event.body, ev.ActionFinished) and _went_wrong(event.body)
    ]
    return list(dict.fromkeys(lines))[-MOST_FAILURES:]


def _went_wrong(body: ev.ActionFinished) -> bool:
    skipped = (body.error or "").startswith("not run")
    return not skipped and (not body.ok or body.exit_code not in (None, 0))


def _prompt(kit: Kit, run: str, failures: list[str]) -> str:
    objective = kit.session.objective(run)
    evidence = shown_evidence(kit, run) if objective else []
    shown, _cut = shorten_largest(
        evidence, kit.prompts.profile.history // 2, estimate, lambda text, cap: cut_to(text, cap)[0]
    )
    scores = objective.scores if objective else {}
    rows = [
        f"{r.id} {scores[r.id].score:.2f} {r.text}" if r.id in scores else f"{r.id} {r.text}"
        for r in (objective.requirements if objective else ())
    ]
    return kit.prompts.library.render(
        "analyse",
        request=objective.request if objective else kit.session.run(run).request,
        requirements=rows,
        missing=list(objective.missing) if objective else [],
        lessons=list(objective.lessons) if objective else [],
        failures=failures,
        files=", ".join(changed_files(kit, run)) or "none",
        evidence=shown,
    )


def _advice(said: VerdictReply) -> list[str]:
    found = said.failure_analysis or {}
    lines = [_("Cause: {cause}", cause=found["cause"])] if found.get("cause") else []
    steps = [str(found["fix"])] if found.get("fix") else []
    steps += [*said.improvements, *said.alternatives, *said.missing_aspects]
    lines += [f"{number}. {step}" for number, step in enumerate(dict.fromkeys(steps), 1)]
    return lines


def _facts(kit: Kit, run: str, failures: list[str]) -> list[str]:
    objective = kit.session.objective(run)
    missing = list(objective.missing) if objective else []
    lines = [_("What failed: {what}", what=failure) for failure in failures]
    lines += [_("What is missing: {what}", what=item) for item in missing]
    return lines or [outcome_text(kit, run)]
