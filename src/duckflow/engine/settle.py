"""What a Decision changes and where it leads: the working memory, the objective, the end of the turn."""

from __future__ import annotations

import re

from duckflow import events as ev
from duckflow.engine.ask import ask_decision
from duckflow.engine.clarify import ask, asked_before, decide_without, fruitless, was_allowed
from duckflow.engine.doubts import question_for
from duckflow.engine.kit import Ending, Kit
from duckflow.engine.mentions import names_a_place
from duckflow.engine.objectives import (
    absorb_objective,
    answered_offer,
    claims_falsely,
    conclude,
    has_acted,
    honest_reply,
)
from duckflow.engine.route import MOST_NUDGES, Route, Situation, claims_change, route
from duckflow.i18n import _
from duckflow.llm.base import Node
from duckflow.prompts.replies import Action, Decision, Question, says
from duckflow.record import Record
from duckflow.state.agent import changed, misfits
from duckflow.state.machine import Status, Trigger
from duckflow.state.runs import plan_of

_NUDGES = {
    "continue": "you said continue and gave no action: give the next actions, or done",
    "empty": "your answer had neither an action nor a reply",
    "claim": "your reply says that something was changed, but no action of this request did it: act now, or answer "
    "without that claim (earlier work may be named once more as earlier work)",
    "words": "words alone do not do it: nothing was read or changed yet. Give the actions now; "
    "only a guidance request ends with a reply alone",
}


class Judge(Record):
    """Nothing more to do in this attempt: let it be judged. `reply` is the closing word or the deliverable."""

    reply: str
    trigger: Trigger = Trigger.DECISION  # what led here


class OtherWork(Exception):
    """The message does not belong to the run it was put into: `new` work, a `side` question, or the `same` work
    that already runs in the background."""

    def __init__(self, decision: Decision) -> None:
        super().__init__(decision.objective)
        self.decision = decision


def _check_line_of_work(kit: Kit, run: str, decision: Decision) -> None:
    """Only the first Decision after a message was put into open work can find that it is about something else."""
    how = kit.entered.pop(run, "")
    if how == "open" and decision.objective != "same":
        raise OtherWork(decision)
    if how == "beside" and _elsewhere(decision):
        raise OtherWork(decision)
    if how == "offered" and not answered_offer(kit, run, decision):
        raise OtherWork(decision)


def _elsewhere(decision: Decision) -> bool:
    """Said while background work runs: does it belong to that work, or is it new work that has to wait?"""
    if decision.objective != "same":
        return decision.objective == "new"
    steers = any(a.operation.startswith(("task_loop.", "plan_tool.")) for a in decision.actions)
    if steers or decision.question is not None:
        return False
    return "objective" in decision.model_fields_set or decision.profile not in ("guidance", "analysis")


async def settle(kit: Kit, run: str, decision: Decision, node: Node) -> Decision | Judge | Ending:
    """Take the Decision in; ask again while it is only words. A Decision comes back when there is something to do."""
    nudges = 0
    _check_line_of_work(kit, run, decision)
    while True:
        decision = absorb(kit, run, decision)
        match route(decision, _situation(kit, run, decision, node, nudges)):
            case Route.ACT:
                _announce(kit, run, decision)
                return decision
            case Route.JUDGE:
                return Judge(decision.reply)
            case Route.ANSWER:
                return _answered(kit, run, decision)
            case Route.WAIT:
                return _waiting(kit, run, decision)
            case Route.PARK:
                say(kit, run, decision.reply)
                kit.session.move(run, Trigger.DECISION, status=Status.REQUIRES_USER_INPUT)
                return Ending("deferred", decision.reply)
            case Route.ASK | Route.OBJECT | Route.CLARIFY | Route.TARGET as where:
                question = question_for(decision, where)
                if where is Route.OBJECT and was_allowed(kit, run, question):
                    return decision
                if not _may_ask(kit, run, where, question):
                    nudges += 1
                    if nudges > MOST_NUDGES:
                        return Judge("")
                elif (ending := await _ask(kit, run, where, decision, question)) is not None:
                    return ending
            case Route.NUDGE:
                nudges += 1
                _nudge(kit, run, decision)
        decision = await ask_decision(kit, run, node)


def _may_ask(kit: Kit, run: str, where: Route, question: Question) -> bool:
    """Not what was asked already, and no third question after two that brought nothing: the model is told."""
    if asked_before(kit, run, question):
        return False
    if where is not Route.ASK or not fruitless(kit, run):
        return True
    say(kit, run, decide_without(kit, run, question))
    return False


async def _ask(kit: Kit, run: str, where: Route, decision: Decision, question: Question) -> Ending | None:
    """The model's question with its reply, as far as that claims nothing; or the engine's own question."""
    if where is not Route.ASK:
        return await ask(kit, run, question, by="engine")
    reply = honest_reply(kit, run, decision)
    say(kit, run, reply)
    return await ask(kit, run, question, reply)


def absorb(kit: Kit, run: str, decision: Decision) -> Decision:
    """Everything a Decision changes before anything is done."""
    decision = _with_question(decision)
    session = kit.session
    absorb_objective(kit, run, decision)
    agent, changes, cuts = changed(session.run(run).agent, decision.state_delta or {})
    bodies: list[ev.Body] = [ev.AgentChanged(changes=changes)] if changes else []
    unclear = [n for n in ("goal_consistency", "constraint_check") if says(getattr(decision, n)) == "unclear"]
    notes = [*cuts, *(f"{name} must begin with yes or no" for name in unclear)]
    if decision.profile != "guidance":
        mine = session.run(run)
        plan = plan_of(session.state, mine) if mine.plan_step is None else None
        notes += misfits(agent, mine.answers, [step.name for step in plan.steps] if plan else ())
    bodies += [ev.Noted(text=note) for note in notes]
    session.hold(*bodies, run=run)
    return decision


def _with_question(decision: Decision) -> Decision:
    """`user.ask` among the actions is the question of the Decision; beside a question no action runs."""
    asked = next((a for a in decision.actions if a.operation == "user.ask"), None)
    question = decision.question
    if question is None and asked is not None:
        question = _question_from(asked)
    if question is None:
        return decision
    return decision.model_copy(update={"question": question, "actions": []})


def _question_from(action: Action) -> Question:
    args = action.args
    options = args.get("options")
    return Question(
        text=str(args.get("question") or action.reasoning),
        options=[str(o) for o in options] if isinstance(options, list) else [],
        default=str(args["default"]) if args.get("default") else None,
    )


def _situation(kit: Kit, run: str, decision: Decision, node: Node, nudges: int) -> Situation:
    state, mine = kit.session.state, kit.session.run(run)
    objective = kit.session.objective(run)
    profile = objective.profile if objective else decision.profile or "unknown"
    found = [e for e in state.evidence.get(objective.id, ()) if e.ok and e.kind != "reply"] if objective else []
    if profile not in ("guidance", "analysis"):  # what came with the message, and what checks found, is not the work
        found = [e for e in found if not (e.given or e.is_check)]
    sure = decision.confidence if decision.confidence is not None else mine.confidence
    return Situation(
        profile=profile,
        requirements=len(objective.requirements) if objective else len(decision.requirements),
        evidence=bool(found),
        acted=has_acted(kit, run),
        changed=state.effects > 0,
        strange=_is_strange(kit, decision.reply),
        gathering=node in ("understand", "gather"),
        acts=any(kit.dispatcher.acts(action) for action in decision.actions),
        questions=len(mine.asked),
        unsure=_unsure(kit, decision),
        sure=sure >= kit.settings.routing.judge_below,
        attended=kit.attended,
        targets=bool(mine.agent.context_refs or names_a_place(mine.request)),
        refused=bool(mine.unattended) and not kit.attended,
        nudges=nudges,
    )


def _is_strange(kit: Kit, reply: str) -> bool:
    """Does it speak of files, and of none that this session has changed?"""
    changed = {path for run in kit.session.state.runs.values() for path in run.changed}
    named = re.findall(r"(?a)[\w./-]*\w\.\w{1,8}", reply)
    return bool(named) and changed.isdisjoint(named)


def _unsure(kit: Kit, decision: Decision) -> bool:
    """Hardly understood by its own word; or of unknown kind, where no gate would ask before the first effect."""
    low = decision.confidence is not None and decision.confidence < kit.settings.routing.clarify_below
    return low or (decision.profile == "unknown" and kit.session.state.mode in ("auto-edit", "auto"))


def _answered(kit: Kit, run: str, decision: Decision) -> Ending:
    say(kit, run, decision.reply)
    if claims_falsely(kit, run, decision.reply):  # of earlier work, as far as anybody can tell
        say(kit, run, _("For this request nothing was changed."), "outcome")
    conclude(kit, run, "answered")
    kit.session.move(run, Trigger.DECISION, status=Status.SUCCESS)
    return Ending("answered", decision.reply)


def _waiting(kit: Kit, run: str, decision: Decision) -> Ending:
    """`pending_user` without a question: the reply itself is what the person should answer."""
    say(kit, run, decision.reply)
    if decision.profile == "guidance" and kit.session.objective(run) is None:
        kit.session.move(run, Trigger.DECISION, status=Status.SUCCESS)
        return Ending("answered", decision.reply)
    kit.session.move(run, Trigger.DECISION, status=Status.REQUIRES_USER_INPUT)
    return Ending("asked" if kit.attended else "escalated", decision.reply)


def _nudge(kit: Kit, run: str, decision: Decision) -> None:
    """Back to the model. Its words are shown as what they are, an announcement; a false claim is not shown."""
    if not claims_falsely(kit, run, decision.reply):
        say(kit, run, decision.reply, "announcement")
    if decision.next_step == "continue":
        why = _NUDGES["continue"]
    elif not decision.reply.strip():
        why = _NUDGES["empty"]
    else:
        why = _NUDGES["claim" if claims_change(decision.reply) else "words"]
    thread = kit.session.run(run).thread
    kit.session.append(
        ev.HistoryAdded(thread=thread, role="user", kind="note", text=f"Nothing was run: {why}."), run=run
    )


def _announce(kit: Kit, run: str, decision: Decision) -> None:
    """What is said before it happened is an announcement; the closing word of `done` waits for the verdict."""
    acts = any(kit.dispatcher.acts(action) for action in decision.actions)
    if decision.next_step != "done" and (acts or not claims_falsely(kit, run, decision.reply)):
        say(kit, run, decision.reply, "announcement")


def say(kit: Kit, run: str, text: str, kind: str = "reply") -> None:
    """What the person reads, once, and only when there is something."""
    if text.strip():
        record = kit.session.hold if kind == "announcement" else kit.session.append
        record(ev.Message(role="assistant", text=text, kind=kind), run=run)
