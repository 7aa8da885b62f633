"""What the user wants and whether it is there: requirements, evidence, the verdict and what follows from it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from duckflow.record import NOTHING, Record

NO_EVIDENCE_CAP = 0.5
CHECKS = "V"
"""Actions of checks are called V1, V2, …: what they find is a proof, not the work itself."""
WEIGHTS = {1: 3, 2: 2, 3: 1}
"""Weight of a requirement by its priority (1 is highest)."""


class Requirement(Record):
    id: str
    text: str
    priority: int = 2
    check: str | None = None  # a command that proves it


class Evidence(Record):
    """A machine-made fact. `effects`: how many changes the workspace had seen when it was made."""

    id: str
    kind: Literal["read", "change", "command", "check", "reply"]
    action: str
    facts: Mapping[str, Any]
    effects: int = 0
    ok: bool = True
    given: bool = False  # it came with the message: nothing was done for it yet

    @property
    def is_check(self) -> bool:
        return self.action.startswith(CHECKS)

    def fresh(self, effects: int, hashes: Mapping[str, str | None]) -> bool:
        """Does it still hold? A command's until the next change; a file's while the file has that content."""
        if self.kind in ("command", "check"):
            return self.effects == effects
        if self.kind in ("read", "change"):
            path = self.facts.get("path")
            return path is None or path not in hashes or hashes[path] == self.facts.get("hash")
        return True


class Check(Record):
    """Something a machine can decide. `passed` None: it could not be run."""

    id: str
    text: str
    passed: bool | None
    evidence: str | None = None
    requirements: tuple[str, ...] = ()
    detail: str = ""


class Objective(Record):
    id: str
    request: str
    requirements: tuple[Requirement, ...] = ()
    attempt: int = 1
    satisfaction: float = 0.0
    status: str = "open"
    profile: str = "unknown"
    proposed: str = ""  # the strongest effect proposed so far: "", "command" or "files"
    strategy: str = ""
    lessons: tuple[str, ...] = ()
    originals: Mapping[str, str | None] = NOTHING  # path → blob before its first change
    scores: Mapping[str, Score] = NOTHING  # by requirement, as last judged
    verdicts: tuple[float, ...] = ()  # overall, one per judged attempt
    missing: tuple[str, ...] = ()  # as last judged
    did: tuple[str, ...] = ()  # the effects of this attempt, as digests of their calls
    approaches: tuple[tuple[str, ...], ...] = ()  # what earlier attempts did, and was not enough
    repeated: int = 0  # the attempt in which a repetition was refused


class Score(Record):
    score: float
    evidence: tuple[str, ...] = ()


class Opinion(Record):
    """What the evaluator said, as far as it could be read."""

    overall: float
    scores: Mapping[str, float]
    evidence: Mapping[str, Sequence[str]]
    missing: tuple[str, ...] = ()
    assessment: str = ""
    recommends: bool = True
    lessons: tuple[str, ...] = ()


class Verdict(Record):
    overall: float
    scores: Mapping[str, Score]
    failed_checks: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    assessment: str = ""
    blocked: str = ""  # why it cannot be complete whatever the score
    lessons: tuple[str, ...] = ()


def judge(
    opinion: Opinion | None,
    requirements: Sequence[Requirement],
    holding: Mapping[str, frozenset[str]],
    checks: Sequence[Check],
) -> Verdict:
    """The verdict: the evaluator's figures after caps. `holding`: by requirement, the evidence that may support it.

    No opinion (unreadable) is 0. A requirement without evidence that holds cannot exceed 0.5. A failed check
    overrules any score; one that could not run blocks unless evidence covers its requirements.
    """
    failed = tuple(f"{c.id} {c.text}: {c.detail}".rstrip(": ") for c in checks if c.passed is False)
    if opinion is None:
        zero = {r.id: Score(0.0) for r in requirements}
        return Verdict(0.0, zero, failed, blocked="the verdict could not be read")
    scores = {r.id: _score(r, opinion, holding.get(r.id, frozenset())) for r in requirements}
    weights = [WEIGHTS.get(r.priority, 2) for r in requirements]
    mean = sum(w * scores[r.id].score for w, r in zip(weights, requirements, strict=True)) / max(sum(weights), 1)
    missing = opinion.missing
    blocked = "" if opinion.recommends else "the evaluator does not recommend completion"
    not_run = [c for c in checks if c.passed is None and not _covered(c, scores)]
    if failed:
        blocked = f"a check failed: {failed[0]}"
        missing = (*failed, *missing)
    elif not_run:
        blocked = f"a check did not run: {not_run[0].text} ({not_run[0].detail})"
        missing = (*(f"not proven, {c.text} did not run: {c.detail}" for c in not_run), *missing)
    overall = min(_unit(opinion.overall), mean)
    return Verdict(round(overall, 3), scores, failed, missing, opinion.assessment, blocked, opinion.lessons)


def _covered(check: Check, scores: Mapping[str, Score]) -> bool:
    """Is everything this check was to prove supported by other evidence?"""
    wanted = check.requirements or tuple(scores)
    return bool(wanted) and all(r in scores and scores[r].evidence for r in wanted)


def _score(requirement: Requirement, opinion: Opinion, holding: frozenset[str]) -> Score:
    said = _unit(opinion.scores.get(requirement.id, 0.0))
    evidence = tuple(e for e in dict.fromkeys(opinion.evidence.get(requirement.id, ())) if e in holding)
    return Score(said if evidence else min(said, NO_EVIDENCE_CAP), evidence)


def _unit(value: float) -> float:
    return min(max(value, 0.0), 1.0) if value == value else 0.0


def next_move(
    objective: Objective, verdict: Verdict, satisfaction: float, max_attempts: int
) -> Literal["complete", "retry", "escalate"]:
    """Complete at the threshold with nothing against it; otherwise another attempt while there are any."""
    if verdict.overall >= satisfaction and not verdict.blocked:
        return "complete"
    return "retry" if objective.attempt < max_attempts else "escalate"


def extended(known: tuple[Requirement, ...], more: Sequence[tuple[str, int, str | None]]) -> tuple[Requirement, ...]:
    """The requirements with new ones added. The model may add and sharpen, never drop."""
    result = list(known)
    by_text = {r.text.strip(): i for i, r in enumerate(result)}
    for text, priority, check in more:
        index = by_text.get(text.strip())
        if index is None:
            by_text[text.strip()] = len(result)
            result.append(Requirement(f"R{len(result) + 1}", text.strip(), priority, check))
        elif check and not result[index].check:
            old = result[index]
            result[index] = Requirement(old.id, old.text, old.priority, check)
    return tuple(result)
