"""`duckflow audit --stats`: how the requests of a workspace went, in figures. Pure, apart from printing."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from duckflow import events as ev
from duckflow.i18n import _, ngettext
from duckflow.record import Record
from duckflow.state.runs import Totals
from duckflow.ui.figures import calls, cost, count, joined, tokens
from duckflow.ui.out import Out
from duckflow.ui.safe import safe_json
from duckflow.ui.sessions import status_word
from duckflow.ui.status import show_rows

ABOUT = ("session.started", "run.started", "message", "objective.changed", "verdict", "model.called")
"""The types of events that count here."""

STATUSES = ("satisfied", "answered", "partial", "escalated", "refused", "failed", "cancelled", "deferred", "open")
UNFINISHED = ("deferred", "open")
REACHED = ("satisfied", "answered")

FIRST_TARGET = 0.95  # at least, of the finished ones
ATTEMPTS_TARGET = 1.6  # at most, on average
SATISFACTION_TARGET = 0.85  # at least, on average


class Figures(Record):
    statuses: Mapping[str, int]  # objectives by how they stand
    finished: int  # neither open nor deferred
    first: int  # of them: there in one attempt, without a further message
    attempts: int  # of the finished ones, together
    judged: int  # objectives with a verdict
    satisfaction: float  # of the judged ones, together
    false_starts: int  # attempts whose verdict did not complete
    used: Totals  # calls for objectives
    beside: Totals  # calls of runs without one

    @property
    def objectives(self) -> int:
        return sum(self.statuses.values())


# --- from events to figures ---------------------------------------------------------------------------------------


def compute(sessions: Mapping[str, Sequence[ev.Event]], only: Collection[str] | None = None) -> Figures:
    """The figures of these sessions, or of some of them. What a fork copied counts where it happened."""
    found: list[_Objective] = []
    beside = Totals()
    for name, events in sessions.items():
        if only is None or name in only:
            reading = _Reading(events, _copied(events, sessions))
            found += [objective for objective in reading.objectives.values() if objective.here]
            beside = _sum(beside, reading.beside)
    ended = [objective for objective in found if objective.status not in UNFINISHED]
    judged = [objective.satisfaction for objective in found if objective.satisfaction is not None]
    used = Totals()
    for objective in found:
        used = _sum(used, objective.used)
    return Figures(
        statuses=Counter(objective.status for objective in found),
        finished=len(ended),
        first=sum(objective.is_first for objective in ended),
        attempts=sum(objective.attempts for objective in ended),
        judged=len(judged),
        satisfaction=sum(judged),
        false_starts=sum(move != "complete" for objective in found for move in objective.moves.values()),
        used=used,
        beside=beside,
    )


class _Objective:
    """One objective while its events are read."""

    def __init__(self) -> None:
        self.status = "open"
        self.attempt = 0  # as recorded: it begins anew when a later message continues the objective
        self.attempts = 0
        self.said = 0  # messages of the person
        self.satisfaction: float | None = None  # of the last verdict
        self.moves: dict[int, str] = {}  # attempt → what its verdict led to
        self.used = Totals()
        self.here = False  # something of it happened in this session, not only before a fork

    @property
    def is_first(self) -> bool:
        return self.status in REACHED and self.attempts == 1 and self.said <= 1

    def change(self, body: ev.ObjectiveChanged) -> None:
        reopened = self.status not in UNFINISHED and body.status == "open"
        self.attempts += body.attempt > self.attempt or reopened
        self.attempt, self.status = body.attempt, body.status


class _Reading:
    """The objectives of one session, and the calls beside them. The first `copied` events happened elsewhere."""

    def __init__(self, events: Sequence[ev.Event], copied: int) -> None:
        self.objectives: dict[str, _Objective] = {}
        self.beside = Totals()
        self._runs = {e.run: e.body for e in events if isinstance(e.body, ev.RunStarted)}
        self._named = {e.run: e.body.objective for e in events if isinstance(e.body, ev.ObjectiveChanged)}
        self._heard: dict[str, _Objective | None] = {}  # a text of the person → what it was counted for
        for index, event in enumerate(events):
            self._take(event, is_new=index >= copied)

    def _take(self, event: ev.Event, *, is_new: bool) -> None:
        name, body = self._owner(event.run), event.body
        objective = None if name is None else self.objectives.setdefault(name, _Objective())
        if isinstance(body, ev.Message):
            self._hear(event.run, objective, body)
        if isinstance(body, ev.ModelCalled) and objective is None and is_new:
            self.beside = _plus(self.beside, body)
        if objective is None:
            return
        objective.here = objective.here or is_new
        if isinstance(body, ev.ObjectiveChanged):
            objective.change(body)
        elif isinstance(body, ev.VerdictGiven):
            objective.satisfaction = body.overall
            if is_new:
                objective.moves[objective.attempts] = body.next
        elif isinstance(body, ev.ModelCalled) and is_new:
            objective.used = _plus(objective.used, body)

    def _owner(self, run: str | None) -> str | None:
        """The objective of a run, or of the run it works for."""
        seen: set[str] = set()
        while run is not None and run not in seen:
            if run in self._named:
                return self._named[run]
            seen.add(run)
            started = self._runs.get(run)
            run = started.parent if started else None
        return None

    def _hear(self, run: str | None, objective: _Objective | None, body: ev.Message) -> None:
        """Answers at a card are no messages. A moved one was put into another run first and was not meant for it."""
        if body.role != "user" or body.kind not in ("message", "steering", "moved"):
            return
        before = self._heard.pop(body.text, None)
        if body.kind == "moved" and before is not None:
            before.said -= 1
        started = self._runs.get(run)
        if started is not None and started.kind == "side" and run not in self._named:
            objective = None  # a question beside the work
        if objective is not None:
            objective.said += 1
        self._heard[body.text] = objective


def _copied(events: Sequence[ev.Event], sessions: Mapping[str, Sequence[ev.Event]]) -> int:
    """How many events a fork begins with that are those of its origin."""
    started = events[0].body if events else None
    origin = sessions.get(started.parent or "", ()) if isinstance(started, ev.SessionStarted) else ()
    number = 0
    for mine, other in zip(events, origin, strict=False):
        if mine.body is not started and (mine.run, mine.body) != (other.run, other.body):
            break
        number += 1
    return number


def _plus(totals: Totals, body: ev.ModelCalled) -> Totals:
    unknown = body.cost_usd is None
    call = Totals(1, body.prompt_tokens, body.cached_tokens, body.completion_tokens, body.cost_usd or 0.0, int(unknown))
    return _sum(totals, call)


def _sum(one: Totals, other: Totals) -> Totals:
    return Totals(*(getattr(one, name) + getattr(other, name) for name in Totals.FIELDS))


# --- showing them -------------------------------------------------------------------------------------------------


def show(figures: Figures, sessions: int, out: Out, *, as_json: bool = False) -> int:
    if as_json:
        out.line(safe_json(json.dumps(to_json(figures, sessions), ensure_ascii=False)))
        return 0
    if not figures.objectives:
        out.block(_("No objective is stored yet: questions answered in words have none."))
        show_rows(_beside(figures), out)
        return 0
    out.line(ngettext("Objectives of {n} session", "Objectives of {n} sessions", sessions), "bold")
    show_rows([*_outcomes(figures), *_usage(figures), *_beside(figures)], out)
    out.block(_("First request: done or answered in one attempt, without a further message."), "dim")
    out.block(_("False start: an attempt whose verdict was not “complete”."), "dim")
    return 0


def _outcomes(figures: Figures) -> list[tuple[str, str]]:
    order = dict.fromkeys((*STATUSES, *figures.statuses))
    stand = [f"{status_word(name)} {figures.statuses[name]}" for name in order if figures.statuses.get(name)]
    first = attempts = _("none is finished yet")
    satisfaction = _("no verdict yet")
    if figures.finished:
        share = _number(100 * figures.first / figures.finished, 1)
        first = _("{n} of {all} finished ({share} %)", n=figures.first, all=figures.finished, share=share)
        attempts = _("{n} on average", n=_number(figures.attempts / figures.finished))
    if figures.judged:
        mean = figures.satisfaction / figures.judged
        satisfaction = joined((_("{n} on average", n=_number(mean)), f"{_number(10 * mean)}/10"))
    each = _each(_number(figures.false_starts / figures.objectives))
    return [
        (_("objectives"), joined((str(figures.objectives), *stand))),
        (_("at the first request"), joined((first, _at_least(f"{_number(100 * FIRST_TARGET)} %")))),
        (_("attempts"), joined((attempts, _("target: at most {value}", value=_number(ATTEMPTS_TARGET))))),
        (_("satisfaction"), joined((satisfaction, _at_least(f"{_number(10 * SATISFACTION_TARGET)}/10")))),
        (_("false starts"), joined((str(figures.false_starts), each))),
    ]


def _usage(figures: Figures) -> list[tuple[str, str]]:
    used, n = figures.used, figures.objectives
    price = cost(used.cost_usd, used.unpriced, used.calls)
    each = "" if _is_unknown(used) else _each(cost(used.cost_usd / n, used.unpriced, used.calls))
    return [
        (_("calls"), joined((count(used.calls), _each(_number(used.calls / n))))),
        (_("read"), joined((tokens(used.prompt, used.cached), _each(count(round(used.prompt / n)))))),
        (_("written"), joined((tokens(used.completion), _each(count(round(used.completion / n)))))),
        (_("cost"), joined((price, each))),
    ]


def _beside(figures: Figures) -> list[tuple[str, str]]:
    """Calls that served no objective: questions answered in words."""
    used = figures.beside
    if not used.calls:
        return []
    flow = _("read {read}, written {written}", read=tokens(used.prompt), written=tokens(used.completion))
    return [(_("beside"), joined((calls(used.calls), flow, cost(used.cost_usd, used.unpriced, used.calls))))]


def _is_unknown(used: Totals) -> bool:
    """No call has a price."""
    return 0 < used.calls <= used.unpriced


def _at_least(value: str) -> str:
    return _("target: at least {value}", value=value)


def _each(value: str) -> str:
    return _("{n} per objective", n=value)


def _number(value: float, digits: int = 2) -> str:
    """Without zeros at the end: 1.6, 95, 0.25."""
    return f"{value:.{digits}f}".rstrip("0").rstrip(".")


def to_json(figures: Figures, sessions: int) -> dict[str, Any]:
    """The same figures for scripts; null where there is nothing to count, or no price."""
    n, finished, judged = figures.objectives, figures.finished, figures.judged
    satisfied = {"average": _mean(figures.satisfaction, judged), "of_ten": _mean(10 * figures.satisfaction, judged)}
    return {
        "sessions": sessions,
        "objectives": n,
        "by_status": {**dict.fromkeys(STATUSES, 0), **figures.statuses},
        "finished": finished,
        "first_request": {"count": figures.first, "share": _mean(figures.first, finished), "target": FIRST_TARGET},
        "attempts": {"average": _mean(figures.attempts, finished), "target": ATTEMPTS_TARGET},
        "satisfaction": {"judged": judged, **satisfied, "target": SATISFACTION_TARGET},
        "false_starts": {"count": figures.false_starts, "per_objective": _mean(figures.false_starts, n)},
        "usage": _usage_json(figures.used, 1),
        "usage_per_objective": _usage_json(figures.used, n),
        "beside": _usage_json(figures.beside, 1),
    }


def _usage_json(used: Totals, of: int) -> dict[str, float | None]:
    """As in the result of `run`: with a price unknown there is no cost; what is known of it stands beside."""
    return {
        "calls": _mean(used.calls, of),
        "prompt_tokens": _mean(used.prompt, of),
        "cached_tokens": _mean(used.cached, of),
        "completion_tokens": _mean(used.completion, of),
        "cost_usd": None if used.unpriced else _mean(used.cost_usd, of),
        "known_cost_usd": None if _is_unknown(used) else _mean(used.cost_usd, of),
        "unpriced_calls": _mean(used.unpriced, of),
    }


def _mean(number: float, of: int) -> float | None:
    """Whole numbers stay whole."""
    if not of:
        return None
    mean = number / of
    return int(mean) if mean == int(mean) else round(mean, 6)
