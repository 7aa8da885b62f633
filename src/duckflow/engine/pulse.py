"""Vitals at work: measured after every batch and verdict, recorded when they change, and acted upon."""

from __future__ import annotations

from duckflow import events as ev
from duckflow.engine.clarify import ask
from duckflow.engine.kit import Ending, Kit
from duckflow.i18n import _
from duckflow.prompts.replies import Question
from duckflow.state import vitals as measure
from duckflow.state.vitals import ASK_BELOW, CONSULT_BELOW, REPLAN_BELOW, Vitals, stalled

NOTICEABLE = 0.05


def beat(kit: Kit, run: str) -> Vitals:
    """The vitals of this moment, from what happened."""
    mine, objective = kit.session.run(run), kit.session.objective(run)
    limits = kit.settings.limits
    attempt = objective.attempt if objective else 1
    most = max(kit.settings.objective.max_attempts, attempt)  # a further one is the person's wish
    now = Vitals(
        measure.mood(objective.verdicts if objective else (), mine.refusals),
        measure.focus(mine.recent),
        measure.stamina(
            (
                (mine.decisions, limits.max_turns),
                (attempt - 1, most),
                (kit.session.state.totals.cost_usd, limits.max_cost_usd),
            )
        ),
    )
    before = mine.vitals
    moved = max(abs(getattr(now, n) - getattr(before, n)) for n in Vitals.FIELDS)
    if moved >= NOTICEABLE:
        _record(kit, run, now)
    return now


def _record(kit: Kit, run: str, now: Vitals, reason: str = "") -> None:
    kit.session.hold(
        ev.VitalsChanged(mood=now.mood, focus=now.focus, stamina=now.stamina, loop_limit=now.loop_limit, reason=reason),
        run=run,
    )


def why_replan(kit: Kit, run: str) -> str:
    """A stall guard, or lost focus: why the work must be thought over. Empty while it moves."""
    recent = kit.session.run(run).recent
    why = stalled(recent)
    if not why and measure.focus(recent) < REPLAN_BELOW:
        why = "too much was repeated or failed"
    return why


def is_exhausted(kit: Kit, run: str) -> bool:
    """The pacemaker: enough Decisions in a row, let the work be judged."""
    mine = kit.session.run(run)
    return mine.loops >= mine.vitals.loop_limit


async def consult(kit: Kit, run: str) -> Ending | None:
    """Little strength left, or things get worse: ask the person, once each. Nobody there: go on to the hard limits."""
    mine = kit.session.run(run)
    now = beat(kit, run)
    if not kit.attended:
        return None
    if now.stamina < CONSULT_BELOW and "stamina" not in mine.consulted:
        _record(kit, run, now, "stamina")
        text = _("Most of what this request may use is spent. Shall I go on?")
    elif now.mood < ASK_BELOW and "mood" not in mine.consulted:
        _record(kit, run, now, "mood")
        text = _("This does not go well: it is getting worse, or you had to say no several times. Shall I go on?")
    else:
        return None
    question = Question(text=text, options=[_("go on"), _("stop")], default=_("go on"))
    return await ask(kit, run, question, by="engine")
