"""The report of background work: the counts are the engine's, the words around them a model's when one answers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from duckflow import events as ev
from duckflow.engine.ask import ask_report
from duckflow.engine.kit import Kit
from duckflow.engine.planning import target
from duckflow.i18n import _, ngettext
from duckflow.record import replace
from duckflow.state.plan import Plan
from duckflow.state.session import Session

if TYPE_CHECKING:
    from duckflow.prompts.plan_replies import ReportReply


async def report(kit: Kit, run: str, plan: Plan | None, missing: str = "") -> str:
    """Record what came of a plan, or of the loose list that `run` was, and return it in words."""
    facts = _plan_facts(plan) if plan else _list_facts(kit, run, missing)
    if facts.status != "paused":
        facts = await _worded(kit, run, facts, plan, missing)
    return _told(kit.session, run, facts, plan.name if plan else "")


def plain_report(session: Session, run: str, plan: Plan, missing: tuple[str, ...] = ()) -> str:
    """The counts alone, where no words are wanted. `missing`: all steps were done, and yet it is not what was asked."""
    facts = _plan_facts(plan)
    if missing and facts.status == "success":
        facts = replace(facts, status="partial", causes=(*facts.causes, *missing))
    return _told(session, run, facts, plan.name)


def _told(session: Session, run: str, facts: ev.Reported, name: str) -> str:
    """Into the conversation; and what a list came to into the history of the work that wants to go on with it."""
    text = in_words(facts, name)
    mine = session.run(run)
    whole = session.state.runs.get(mine.parent or "") if mine.kind == "tasks" else None
    notes = (
        ev.HistoryAdded(thread=thread, role="user", kind="note", text=f"Report of background work (data):\n{text}")
        for thread in dict.fromkeys(("chat", whole.thread if whole else "chat"))
    )
    session.append(facts, ev.Message(role="assistant", text=text, kind="report"), *notes, run=run)
    return text


def finished_plan(kit: Kit, run: str) -> Plan | None:
    """The newest plan this run carried out to its end."""
    plans = reversed(tuple(kit.session.state.plans.values()))
    return next((p for p in plans if p.run == run and p.status in ("completed", "failed")), None)


def _plan_facts(plan: Plan) -> ev.Reported:
    wrong = [s for s in plan.steps if s.status in ("failed", "blocked")]
    causes = tuple(f"{s.name}: {s.reason}" for s in wrong)
    total, done = len(plan.steps), plan.done
    status = "paused" if plan.status == "paused" else "success" if done == total else "partial" if done else "failed"
    if plan.status == "paused" and plan.reason:
        causes = (*causes, plan.reason)
    failed = sum(s.status == "failed" for s in plan.steps)
    return ev.Reported(status, done, failed, causes, "", "", plan.id, "steps", total)


def _list_facts(kit: Kit, run: str, missing: str) -> ev.Reported:
    tasks = kit.session.state.tasks.get(run, ())
    done = sum(task.status == "completed" for task in tasks)
    failed = sum(task.status == "failed" for task in tasks)
    status = "success" if not missing else "partial" if done else "failed"
    return ev.Reported(status, done, failed, (missing,) if missing else (), "", "", None, "tasks", len(tasks))


async def _worded(kit: Kit, run: str, facts: ev.Reported, plan: Plan | None, missing: str) -> ev.Reported:
    """The model's sentences, as far as they do not contradict the counts."""
    rows = [f"{s.id} {s.name}: {s.status} {s.reason}".rstrip() for s in plan.steps] if plan else []
    keys = [s.id for s in plan.steps] if plan else [run]
    for key in keys:
        tasks = kit.session.state.tasks.get(key, ())
        rows += [f"  {t.id} {t.operation} {target(t.args)}: {t.status} {t.error}".rstrip() for t in tasks]
    objective = kit.session.objective(run)
    text = kit.prompts.library.render(
        "report",
        request=objective.request if objective else kit.session.run(run).request,
        status=facts.status,
        succeeded=facts.succeeded,
        failed=facts.failed,
        unit=facts.unit,
        total=facts.total,
        satisfaction=f"{objective.satisfaction:.2f}" if objective and objective.verdicts else "",
        causes=list(facts.causes),
        log=rows[:60],
    )
    said = await ask_report(kit, run, text)
    return facts if said is None else _agreeing(facts, said)


def _agreeing(facts: ev.Reported, said: ReportReply) -> ev.Reported:
    """What of a model's words may stand beside the counts. Where not all is well, none that say it is."""
    if facts.status == "success":
        agrees = said.status in ("", "success")
        return replace(facts, recommended_next=said.recommended_next, summary=said.summary if agrees else "")
    agrees = said.status == facts.status and said.succeeded == facts.succeeded and not claims_success(said.summary)
    causes = [*facts.causes, *(cause for cause in said.causes if not claims_success(cause))]
    return replace(
        facts,
        causes=tuple(dict.fromkeys(causes)),
        recommended_next="" if claims_success(said.recommended_next) else said.recommended_next,
        summary=said.summary if agrees else "",
    )


_SUCCESS = (
    r"(?i)\b(?:all|everything|every|both|each|whole|fully|completely|successfully)\b[^.!?\n]*"
    r"\b(?:done|complete[ds]?|finish(?:ed)?|works?|working|pass(?:es|ed)?|ready|fine|there|succeed(?:s|ed)?|in place)\b"
    r"|\b(?:done|completed|finished|succeeded|works|passed)\s+(?:successfully|without (?:any )?(?:problems?|errors?))\b"
    r"|\b(?:successfully|all done|is done|are done|it works|no (?:errors|problems|failures))\b|^\W*done\b"
    r"|(?:すべて|全て|全部|全|両方|完全に|無事に?|問題なく|正常に)[^。！？\n]*"
    r"(?:完了|成功|終わ|終了|でき|動|通|合格|揃|そろ|整)|(?:完了|成功|終了)(?:しました|です|済み)"
)


def claims_success(text: str) -> bool:
    """Does a text say that all went well? Read only where it did not."""
    return bool(re.search(_SUCCESS, text)) and not re.search(_NOT, text)


_NOT = (
    r"(?i)\b(?:not|never|no longer|cannot|can't|didn't|isn't|aren't|without success|un(?:done|finished))\b"
    r"|ません|ない|なかった|未"
)


def in_words(body: ev.Reported, name: str) -> str:
    """The report for people: what the engine counted first."""
    if body.unit == "steps":
        head = ngettext(
            "Plan “{name}”: {done} of {n} step done.", "Plan “{name}”: {done} of {n} steps done.", body.total,
            name=name, done=body.succeeded,
        )  # fmt: skip
    else:
        head = ngettext(
            "Background work: {done} of {n} task done.", "Background work: {done} of {n} tasks done.", body.total,
            done=body.succeeded,
        )  # fmt: skip
    lines = [head]
    if body.status == "paused":
        lines.append(_("It is paused and can go on where it stopped."))
    if body.summary:
        lines.append(body.summary)
    lines += [_("Cause: {cause}", cause=cause) for cause in body.causes]
    if body.recommended_next:
        lines.append(_("Next: {what}", what=body.recommended_next))
    return "\n".join(lines)
