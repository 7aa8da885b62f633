"""The figures of the flow comparison: what a call costs, totals against their targets, as a table and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from scripts.bench_tokens import CACHED_PRICE

from duckflow.llm.base import Usage

FEWER_CALLS, LESS_TIME = 0.43, 0.30
ENDED = ("answered", "satisfied", "complete")


@dataclass(frozen=True)
class Pace:
    """Seconds of a call: a middling hosted model."""

    base_s: float = 0.8  # network, queue
    prompt_s: float = 0.00015  # per token
    completion_s: float = 0.016  # per token
    scale: float = 10.0  # so many times faster here

    def seconds(self, usage: Usage) -> float:
        return self.base_s + usage.prompt * self.prompt_s + usage.completion * self.completion_s


@dataclass(frozen=True)
class Ran:
    """One job in one flow."""

    status: str
    nodes: tuple[str, ...]  # of the calls, in order
    usages: tuple[Usage, ...]  # `cached`: what an earlier call of the job began with
    seconds: float
    files: dict[str, bytes]

    @property
    def prompt(self) -> int:
        return sum(usage.prompt for usage in self.usages)

    @property
    def completion(self) -> int:
        return sum(usage.completion for usage in self.usages)

    def cached_seconds(self, pace: Pace) -> float:
        """What the model's part would take with a prompt cache: a cached token counts as a tenth of one."""
        spared = (1 - CACHED_PRICE) * pace.prompt_s
        return sum(pace.seconds(usage) - usage.cached * spared for usage in self.usages)


@dataclass(frozen=True)
class Row:
    job: str
    old: Ran
    ours: Ran

    @property
    def problem(self) -> str:
        ended = [ran.status for ran in (self.old, self.ours) if ran.status not in ENDED]
        return f"ended {ended[0]}" if ended else "" if self.old.files == self.ours.files else "the files differ"


@dataclass(frozen=True)
class Total:
    """One figure over all jobs."""

    what: str
    old: float
    ours: float
    target: float | None = None  # share that is to be saved; None: information

    @property
    def saved(self) -> float:
        return 1 - self.ours / self.old

    @property
    def is_missed(self) -> bool:
        return self.target is not None and self.saved < self.target


def totals(rows: Sequence[Row], pace: Pace | None) -> list[Total]:
    def both(what: str, figure: Callable[[Ran], float], target: float | None = None) -> Total:
        return Total(what, sum(figure(row.old) for row in rows), sum(figure(row.ours) for row in rows), target)

    found = [
        both("model calls", lambda ran: len(ran.nodes), FEWER_CALLS),
        both("model calls, had code worded the approval", lambda ran: len(ran.nodes) - ran.nodes.count("approval")),
        both("prompt tokens", lambda ran: ran.prompt),
        both("completion tokens", lambda ran: ran.completion),
    ]
    if pace:
        found.append(both("seconds", lambda ran: ran.seconds, LESS_TIME))
        found.append(
            both("seconds of the model with a prompt cache", lambda ran: ran.cached_seconds(pace) / pace.scale)
        )
    return found


def is_failed(rows: Sequence[Row], pace: Pace | None) -> bool:
    """A target was missed, or a job did not end as it should. Without a pace no time is judged."""
    return any(total.is_missed for total in totals(rows, pace)) or any(row.problem for row in rows)


def head(pace: Pace | None) -> str:
    told = "no latency: seconds are not measured"
    if pace:
        told = (
            f"a call takes {pace.base_s:g} s + {pace.prompt_s * 1000:g} ms per prompt token "
            f"+ {pace.completion_s * 1000:g} ms per completion token, all divided by {pace.scale:g}"
        )
    cells = ("calls: 7-node", "ours", "prompt tokens: 7-node", "ours", "seconds: 7-node", "ours")
    return f"{told}\n\n{_row('job', *cells)}"


def line(row: Row, pace: Pace | None) -> str:
    old, ours = row.old, row.ours
    times = [f"{ran.seconds:.2f}" if pace else "·" for ran in (old, ours)]
    cells = (f"{len(old.nodes)}", f"{len(ours.nodes)}", f"{old.prompt:,}", f"{ours.prompt:,}", *times)
    return _row(row.job, *cells) + (f"  PROBLEM: {row.problem}" if row.problem else "")


def foot(rows: Sequence[Row], pace: Pace | None) -> str:
    lines = [f"  {'total':<42}{'7-node':>10}{'ours':>10}{'less':>8}"]
    for total in totals(rows, pace):
        shown = [f"{n:,.1f}" if total.what.startswith("seconds") else f"{n:,.0f}" for n in (total.old, total.ours)]
        goal = "" if total.target is None else f"  target {total.target:.0%}: {'MISSED' if total.is_missed else 'met'}"
        lines.append(f"  {total.what:<42}{shown[0]:>10}{shown[1]:>10}{total.saved:>8.1%}{goal}")
    for name, flow in (("7-node", "old"), ("ours", "ours")):
        calls = Counter(node for row in rows for node in getattr(row, flow).nodes)
        lines.append(f"  calls of {name}: " + ", ".join(f"{node} {n}" for node, n in calls.items()))
    return "\n".join(lines)


def as_json(rows: Sequence[Row], pace: Pace | None) -> dict[str, Any]:
    def flow(ran: Ran) -> dict[str, Any]:
        tokens = {"calls": len(ran.nodes), "prompt_tokens": ran.prompt, "completion_tokens": ran.completion}
        return {"status": ran.status, "nodes": ran.nodes, **tokens, "seconds": round(ran.seconds, 3) if pace else None}

    return {
        "pace": asdict(pace) if pace else None,
        "jobs": [{"job": r.job, "old": flow(r.old), "ours": flow(r.ours), "problem": r.problem} for r in rows],
        "totals": [{**asdict(t), "saved": round(t.saved, 4), "missed": t.is_missed} for t in totals(rows, pace)],
    }


def _row(job: str, *cells: str) -> str:
    widths = (15, 6, 23, 8, 17, 7)
    return job.ljust(34) + "".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
