"""The parts of a call as text: project facts, Main, the evaluator's view. Pure functions over state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from duckflow.llm.tokens import cut_to, estimate
from duckflow.prompts.budget import Cut, Section, fit, shorten_largest
from duckflow.prompts.library import Library
from duckflow.record import Record
from duckflow.state.objective import Check, Objective, Requirement, Verdict
from duckflow.state.plan import progress
from duckflow.state.runs import Entry, RunState, SessionState, active_plan, working


class ProjectFacts(Record):
    """What the workspace looked like when the session began."""

    workspace: str
    system: str
    date: str
    branch: str = ""
    dirty: int | None = None  # tracked files that changed; None: not known
    languages: str = ""
    test_command: str = ""
    sandbox: str = "none, every command asks"
    tree: str = ""
    rules: str = ""
    rules_from: str = ""


class Limits(Record):
    max_attempts: int
    max_turns: int
    max_cost_usd: float
    satisfaction: float


def base_text(library: Library, session: str, memory: Sequence[str] = (), conversations: Sequence[str] = ()) -> str:
    return library.render("base", session=session, memory=list(memory), conversations=list(conversations))


def contract_text(library: Library, operations: str, facts: ProjectFacts) -> str:
    return library.render("contract", operations=operations, rules=facts.rules, rules_from=facts.rules_from)


def project_text(library: Library, facts: ProjectFacts, most: int = 150) -> str:
    """Within its budget: the tree gives way first."""
    values = {name: getattr(facts, name) for name in facts.FIELDS if not name.startswith("rules")}
    text = library.render("project", **values)
    lines = facts.tree.splitlines()
    while lines and estimate(text) > most:
        lines.pop()
        text = library.render("project", **{**values, "tree": "\n".join(lines)})
    return text


def main_text(
    library: Library,
    state: SessionState,
    run: RunState,
    node: str,
    limits: Limits,
    budget: int,
    compact: bool,
) -> tuple[str, tuple[str, ...]]:
    """The tail of a call, and what had to be cut from it."""
    agent = run.agent
    exchanges = last_exchanges(state.threads.get(run.thread, ())) if compact else []
    values = _main_values(state, run, node, limits, compact)
    fitted = fit(
        [
            Section("fixed", library.render("main", **values)),
            Section("exchanges", "\n".join(exchanges), Cut.CONVERSATION),
            Section("open_questions", "; ".join(agent.open_questions), Cut.OPEN_QUESTIONS),
            Section("plan_brief", " → ".join(agent.plan_brief), Cut.PLAN_BRIEF),
        ],
        budget,
        estimate,
    )
    values.update(
        exchanges=fitted.get("exchanges").splitlines(),
        open_questions=fitted.get("open_questions"),
        plan_brief=fitted.get("plan_brief"),
    )
    if fitted.cuts:
        values["notes"] = [*run.notes, f"left out for lack of room: {', '.join(fitted.cuts)}"]
    return library.render("main", **values), fitted.cuts


def _main_values(state: SessionState, run: RunState, node: str, limits: Limits, compact: bool) -> dict[str, Any]:
    """Everything in Main that is never cut; the parts that may be cut are empty."""
    objective = state.objectives.get(run.objective or "")
    totals = state.totals
    spent = f"${totals.cost_usd:.4f} of ${limits.max_cost_usd:g}"
    return {
        "node": node,
        "step": run.step or "PLANNING",
        "status": run.status,
        "mode": state.mode,
        "off": "only reading is possible" if state.mode == "plan" else "",
        "attempt": objective.attempt if objective else 1,
        "max_attempts": limits.max_attempts,
        "decision": run.decisions + 1,
        "max_turns": limits.max_turns,
        "cost": spent if not totals.unpriced else f"{spent} (some prices unknown)",
        "goal": run.agent.goal,
        "why_now": run.agent.why_now,
        "constraints": "; ".join(run.agent.constraints),
        "plan_brief": "",
        "open_questions": "",
        "requirements": " ".join(f"{r.id} {r.text}" for r in objective.requirements) if objective else "",
        "progress": progress(plan) if (plan := active_plan(state)) else "",
        "running": [] if run.background else [run_line(state, r) for r in working(state)],
        "vitals": _vitals(run),
        "exchanges": [],
        "notes": list(run.notes),
        "reminder": compact,
    }


def run_line(state: SessionState, run: RunState) -> str:
    """A background run for the model: the truth of this moment, one line."""
    tasks = state.tasks.get(run.plan_step or run.id, ())
    done = sum(task.status == "completed" for task in tasks)
    now = ", ".join(action.summary or action.operation for action in run.open_actions.values())
    parts = [f"{run.id} {run.plan_step or run.kind}", "paused" if run.paused else f"{run.step} {run.status}"]
    if tasks:
        parts.append(f"{done} of {len(tasks)} tasks done")
    if now:
        parts.append(f"now {now}")
    return ", ".join(parts)


def _vitals(run: RunState) -> str:
    """Said when one of them is low; otherwise it is nobody's concern."""
    now = run.vitals
    if min(now.mood, now.focus, now.stamina) >= 0.5:
        return ""
    return f"mood {now.mood:.2f}, focus {now.focus:.2f}, stamina {now.stamina:.2f}"


def last_exchanges(thread: Sequence[Entry], most: int = 3) -> list[str]:
    """The last messages of the person, one line each."""
    said = [entry for entry in thread if entry.kind == "message"]
    return [" ".join(entry.text.split())[:100] for entry in said[-most:]]


def retry_text(library: Library, objective: Objective, verdict: Verdict, limits: Limits, said: str = "") -> str:
    """The procedure of another attempt: what was judged, what is missing, what not to repeat."""
    scores = [
        f"{r.id} {verdict.scores[r.id].score:.2f} {r.text}" for r in objective.requirements if r.id in verdict.scores
    ]
    return library.render(
        "understand_retry",
        attempt=objective.attempt,
        max_attempts=limits.max_attempts,
        overall=f"{verdict.overall:.2f}",
        threshold=f"{limits.satisfaction:.2f}",
        blocked=verdict.blocked,
        missing=list(verdict.missing),
        scores=scores,
        lessons=list(objective.lessons),
        said=said,
    )


def evaluate_text(
    library: Library,
    objective: Objective,
    checks: Sequence[Check],
    files: Sequence[str],
    evidence: Sequence[str],
    notes: Sequence[str],
    budget: int,
) -> tuple[str, tuple[str, ...]]:
    """What the evaluator sees. Evidence is shortened, largest first, never removed."""
    shown, touched = shorten_largest(evidence, budget, estimate, lambda text, cap: cut_to(text, cap)[0])
    notes = [*notes, *(["some evidence was shortened for lack of room"] if touched else [])]
    text = library.render(
        "evaluate",
        request=objective.request,
        requirements=[requirement_line(r) for r in objective.requirements],
        checks=[check_line(c) for c in checks],
        files=", ".join(files) or "none",
        evidence=shown,
        notes=notes,
    )
    return text, tuple(f"evidence {i + 1}" for i in touched)


def requirement_line(requirement: Requirement) -> str:
    return f"{requirement.id} {requirement.text}"


def check_line(check: Check) -> str:
    verdict = {True: "passed", False: "FAILED", None: "not run"}[check.passed]
    return f"{check.id} {check.text}: {verdict}" + (f" ({check.detail})" if check.detail else "")
