"""The figures of the bench as a table for people and as JSON for programs."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

NEAR = 0.9  # share of a budget from which on it is worth a look
_WIDTHS = (58, 12, 9, 9, 9)


@dataclass(frozen=True)
class Figure:
    """One line of the table. Without a budget it is information."""

    what: str
    unit: str  # ms (of CPU), MB, tokens
    budget: float | None
    values: tuple[float, ...]
    wall_ms: tuple[float, ...] = ()
    problem: str = ""

    @property
    def verdict(self) -> str:
        """Judged by the median; a busy machine may put it over, then the best value tells."""
        if self.problem:
            return f"NOT MEASURED: {self.problem}"
        if self.budget is None:
            return "·"
        share = statistics.median(self.values) / self.budget
        if share > 1:
            best = ", best within" if min(self.values) <= self.budget else ""
            return f"OVER by {share - 1:.0%}{best}"
        return f"near ({share:.0%})" if share >= NEAR else "ok"

    @property
    def is_missed(self) -> bool:
        return self.verdict.startswith(("OVER", "NOT"))


def head() -> str:
    return _row("what", "budget", "best", "median", "wall ms", "verdict (by the median)")


def line(figure: Figure) -> str:
    budget = figure.unit if figure.budget is None else f"{figure.budget:,.0f} {figure.unit}"
    if figure.problem:
        return _row(figure.what, budget, "", "", "", figure.verdict)
    best, middle = (_number(pick(figure.values), figure.unit) for pick in (min, statistics.median))
    wall = f"{statistics.median(figure.wall_ms):.1f}" if figure.wall_ms else ""
    return _row(figure.what, budget, best, middle, wall, figure.verdict)


def foot(figures: Sequence[Figure]) -> str:
    missed = [figure.what.strip() for figure in figures if figure.is_missed]
    judged = sum(figure.budget is not None or bool(figure.problem) for figure in figures)
    told = f"{judged - len(missed)} of {judged} figures within their budgets"
    return f"{told}; over budget or not measured: {'; '.join(missed)}" if missed else told


def write(path: Path, machine: Mapping[str, object], figures: Sequence[Figure]) -> None:
    rows = [{**asdict(figure), "verdict": figure.verdict} for figure in figures]
    path.write_text(json.dumps({"machine": machine, "figures": rows}, indent=1) + "\n", encoding="utf-8")


def _row(what: str, *cells: str) -> str:
    *numbers, verdict = cells
    aligned = (cell.rjust(width) for cell, width in zip(numbers, _WIDTHS[1:], strict=True))
    return "  ".join((what.ljust(_WIDTHS[0]), *aligned, verdict)).rstrip()


def _number(value: float, unit: str) -> str:
    return f"{value:,.0f}" if unit == "tokens" else f"{value:,.1f}"
