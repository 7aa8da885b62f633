"""What a Decision changes and where it leads: the working memory, the objective, the end of the turn."""

from __future__ import annotations

from duckflow import events as ev
from duckflow.engine.ask import ask_decision
from duckflow.engine.clarify import ask, asked_before
from duckflow.engine.kit import Ending, Kit
from duckflow.engine.objectives import absorb_objective, conclude
from duckflow.engine.route import MOST_NUDGES, Route, Situation, route
from duckflow.i18n import _
from duckflow.llm.base import Node
from duckflow.prompts.replies import Action, Decision, Question, says
from duckflow.record import Record
from duckflow.state.agent import changed, misfits
from duckflow.state.machine import Status, Trigger

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
    """The message does not belong to the run it was put into: `new` work, or a `side` question."""

    def __init__(self, decision: Decision) -> None:
        super().__init__(decision.objective)
        self.decision = decision


def _check_line_of_work(kit: Kit, run: str, decision: Decision) -> None:
    """Only the first Decision after a message was put into open work can find that it is about something else."""
    entered, kit.entered = kit.entered, None
    if entered == run and decision.objective != "same":
        raise OtherWork(decision)


async def settle(kit: Kit, run: str, decision: Decision, node: Node) -> Decision | Judge | Ending:
    """Take the Decision in; ask again while it is only words. A Decision comes back when there is something to do."""
    nudges = 0
    _check_line_of_work(kit, run, decision)
    while True:
        decision = absorb(kit, run, decision)
        match route(decision, _situation(kit, run, decision, node, nudges)):
            case Route.ACT:
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
            case Route.ASK | Route.OBJECT | Route.CLARIFY as where:
                question = _question(decision, where)
                if asked_before(kit, run, question):
                    nudges += 1
                    if nudges > MOST_NUDGES:
                        return Judge("")
                else:
                    say(kit, run, decision.reply if where is Route.ASK else "")
                    ending = ask(kit, run, question, decision.reply)
                    if ending is not None:
                        return ending
            case Route.NUDGE:
                nudges += 1
                say(kit, run, decision.reply, "announcement")
                _nudge(kit, run, decision)
        decision = await ask_decision(kit, run, node)


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
        notes += misfits(agent)
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
    found = state.evidence.get(objective.id, ()) if objective else ()
    return Situation(
        profile=profile,
        requirements=len(objective.requirements) if objective else len(decision.requirements),
        confidence=decision.confidence if decision.confidence is not None else mine.confidence,
        evidence=bool(found if profile in ("guidance", "analysis") else [e for e in found if not e.given]),
        acted=bool(objective and objective.originals),
        changed=state.effects > 0,
        gathering=node in ("understand", "gather"),
        acts=any(kit.dispatcher.acts(action) for action in decision.actions),
        questions=len(mine.asked),
        unsure=decision.confidence is not None and decision.confidence < kit.settings.routing.clarify_below,
        refused=bool(mine.unattended) and not kit.attended,
        nudges=nudges,
    )


def _answered(kit: Kit, run: str, decision: Decision) -> Ending:
    say(kit, run, decision.reply)
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


def _question(decision: Decision, where: Route) -> Question:
    if where is Route.ASK and decision.question is not None:
        return decision.question
    if where is Route.OBJECT:
        return _objection(decision)
    what = ", ".join(dict.fromkeys(a.operation for a in decision.actions))
    text = _(
        "I am not sure that I understood ({confidence}). I would do this: {why} ({what}). Go on?",
        confidence=f"{decision.confidence or 0:.2f}",
        why=decision.rationale,
        what=what,
    )
    return Question(text=text, options=[_("go on"), _("stop")], default=_("go on"))


def _objection(decision: Decision) -> Question:
    """The model says itself that its actions do not fit. They do not run; the person decides."""
    field = "goal_consistency" if says(decision.goal_consistency) == "no" else "constraint_check"
    why = getattr(decision, field)
    what = ", ".join(dict.fromkeys(a.operation for a in decision.actions))
    text = (
        _(
            "The next actions ({what}) do not serve the goal, says the model: {why} Go on all the same?",
            what=what,
            why=why,
        )
        if field == "goal_consistency"
        else _(
            "The next actions ({what}) break a constraint, says the model: {why} Go on all the same?",
            what=what,
            why=why,
        )
    )
    return Question(text=text, options=[_("go on"), _("stop")])


def _nudge(kit: Kit, run: str, decision: Decision) -> None:
    from duckflow.engine.route import claims_change

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


def say(kit: Kit, run: str, text: str, kind: str = "reply") -> None:
    """What the person reads, once, and only when there is something."""
    if text.strip():
        record = kit.session.hold if kind == "announcement" else kit.session.append
        record(ev.Message(role="assistant", text=text, kind=kind), run=run)
