"""What was done and whether it is enough, as lines: actions, the end of an output, the verdict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from duckflow import events as ev
from duckflow.i18n import _, clauses, listed
from duckflow.ui import figures
from duckflow.ui.answers import why_not
from duckflow.ui.out import Out
from duckflow.ui.safe import safe, safe_line
from duckflow.ui.wrap import cells, pad, wrapped

if TYPE_CHECKING:
    from duckflow.state.objective import Objective
    from duckflow.state.runs import SessionState

TAIL_OK = 2
TAIL_FAILED = 8
UNJUDGED = "—"
PLAN_GATE = "plan_tool.approve"


class Known:
    """What earlier events said about the ids a verdict names. Runs work side by side, each on its own objective."""

    def __init__(self, state: SessionState | None = None) -> None:
        self.requirements: dict[str | None, dict[str, str]] = {}  # by run: id → text
        self.evidence: dict[str, str] = {}
        self.attempts: dict[str, int] = {}
        self.strategies: dict[str, str] = {}
        for run in state.runs.values() if state else ():
            objective = state.objectives.get(run.objective or "") if state else None
            if objective is not None:
                self.requirements[run.id] = {r.id: r.text for r in objective.requirements}
                self.attempts[objective.id] = objective.attempt
                self.strategies[objective.id] = objective.strategy

    def objective(self, run: str | None, body: ev.ObjectiveChanged) -> str:
        """What is worth a line: that a new attempt has begun, and then how it goes about it."""
        self.requirements[run] = {str(item["id"]): str(item["text"]) for item in body.requirements}
        again = body.attempt > self.attempts.get(body.objective, body.attempt)
        differs = body.strategy != self.strategies.get(body.objective, "")
        self.attempts[body.objective], self.strategies[body.objective] = body.attempt, body.strategy
        return figures.joined(
            (
                _("attempt {n}", n=body.attempt) if again else "",
                safe_line(body.strategy) if differs and body.attempt > 1 else "",
            )
        )

    def learn(self, body: ev.ActionFinished) -> None:
        for item in body.evidence:
            self.evidence[str(item["id"])] = safe_line(body.summary or body.operation)

    def remember(self, body: ev.Body) -> None:
        """An event of before: evidence keeps its name."""
        if isinstance(body, ev.ActionFinished):
            self.learn(body)
        elif isinstance(body, ev.EvidenceAdded):
            self.told(body)

    def told(self, body: ev.EvidenceAdded) -> None:
        """A fact that no action made: the reply itself."""
        self.evidence[body.id] = _("the reply") if body.kind == "reply" else safe_line(body.kind)


def action_line(body: ev.ActionFinished) -> str:
    """ "run pytest -q · exit 1 · 2.2 s", "edit src/x.py (+3 −1) ✓", "read x.py ✗ no such file"."""
    parts = [safe_line(body.summary, exact=True) or _operation(body)]
    if body.exit_code is not None:
        parts.append(_("exit {code}", code=body.exit_code))
        parts.append(figures.seconds(body.ms))
    line = figures.joined(parts)
    if not body.ok:
        return f"{line} ✗ {why_not(body.error or '')}".rstrip()
    return f"{line} ✓" if body.effect and body.exit_code in (None, 0) else line


def is_told(body: ev.ActionFinished) -> bool:
    """What was refused: the answer at the gate, or the plan, has said so."""
    error = body.error or ""
    return error.startswith("refused:") or (body.operation.startswith("plan_tool.") and "was not approved" in error)


def _operation(body: ev.ActionFinished) -> str:
    if body.operation != "stdin":
        return safe_line(body.operation)
    return figures.joined((_("standard input"), figures.lines(len(body.output.splitlines()))))


def output_tail(body: ev.ActionFinished, seen: Iterable[str] = ()) -> list[str]:
    """The last lines of a command's output; more of them when it did not succeed. `seen`: as it came in."""
    text = body.output or "\n".join(seen)
    lines = [as_drawn(line).expandtabs(4) for line in text.split("\n") if line.strip()]
    most = TAIL_OK if body.ok and body.exit_code == 0 else TAIL_FAILED
    return lines[-most:]


def as_drawn(line: str) -> str:
    """A line of output without what a progress bar has overwritten."""
    return safe(line.rstrip("\r").rpartition("\r")[2])


def verdict_lines(body: ev.VerdictGiven, run: str | None, known: Known, out: Out) -> list[str]:
    """A small table, requirement → score → evidence, then what is missing and what follows."""
    texts = known.requirements.get(run, {})
    rows = [
        (f"{name} {safe_line(texts.get(name, ''))}".rstrip(), _score(facts), _evidence(facts, known))
        for name, facts in body.requirements.items()
    ]
    lines = ["", *score_table(rows, out)]
    follows = {"complete": _("complete"), "retry": _("another attempt"), "escalate": _("your decision")}
    total = _("overall {score} → {next}", score=f"{body.overall:.2f}", next=follows.get(body.next, body.next))
    lines += out.lines(total, "green" if body.next == "complete" else "yellow", indent="  ")
    told = "\n".join(body.missing)
    for text in (*body.missing, body.problem):
        if text and (text in body.missing or text.removeprefix("a check failed: ") not in told):
            lines += out.lines(_("missing: {what}", what=safe_line(text)), "yellow", indent="    ", first="  ")
    return lines


def objective_lines(objective: Objective, out: Out) -> list[str]:
    """The same table as it stands now: what was judged so far, and by which evidence."""
    rows = []
    for requirement in objective.requirements:
        text = f"{requirement.id} {safe_line(requirement.text)}"
        judged = objective.scores.get(requirement.id)
        if judged is None:
            rows.append((text, UNJUDGED, _("not judged yet")))
        else:
            named = listed(safe_line(name) for name in judged.evidence)
            rows.append((text, f"{judged.score:.2f}", named or _("no evidence")))
    return score_table(rows, out)


def score_table(rows: Sequence[tuple[str, str, str]], out: Out) -> list[str]:
    """Text, score and evidence in three columns that fit the screen."""
    room = out.width - 4
    score_room = 6
    left = max(min(max((cells(row[0]) for row in rows), default=0), room * 3 // 5), 12)
    right = room - left - score_room
    lines: list[str] = []
    for text, score, evidence in rows:
        style = "green" if score != UNJUDGED and float(score) >= 0.8 else "yellow"
        lines += _row(text, score, evidence, (left, score_room, right), style, out)
    return lines


def _score(facts: Mapping[str, Any]) -> str:
    try:
        return f"{float(facts.get('score', 0.0)):.2f}"
    except (TypeError, ValueError):
        return "0.00"


def _evidence(facts: Mapping[str, Any], known: Known) -> str:
    names = [str(name) for name in facts.get("evidence", ())]
    if not names:
        return _("no evidence")
    return clauses(f"{safe_line(name)} {known.evidence.get(name, '')}".rstrip() for name in names)


def _row(text: str, score: str, evidence: str, rooms: tuple[int, int, int], style: str, out: Out) -> list[str]:
    left, middle, right = wrapped(text, rooms[0]), [score], wrapped(evidence, rooms[2])
    found = []
    for i in range(max(len(left), len(right))):
        cell = middle[i] if i < len(middle) else ""
        line = (
            "  "
            + pad(left[i] if i < len(left) else "", rooms[0] + 1)
            + out.paint(pad(cell, rooms[1]), style)
            + (right[i] if i < len(right) else "")
        )
        found.append(line.rstrip())
    return found
