"""Approval of an effect: rule, card, door, record. Asks through the one door; never acts and never measures."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Literal

from duckflow import events as ev
from duckflow.config import Settings
from duckflow.engine.naming import asker
from duckflow.engine.plan_card import APPROVE, decide_plan, plan_card, plan_grants, plan_text
from duckflow.human import Answer, Door, Request
from duckflow.i18n import _
from duckflow.record import replace
from duckflow.safety.change import Change, Effect
from duckflow.safety.gate import Grant, Policy, Ruling, card, decide, pattern_for, shown_hash
from duckflow.safety.risk import Risk, RiskLevel
from duckflow.state.machine import Status, Step, Trigger
from duckflow.state.plan import Plan, plan_changed
from duckflow.state.session import Session

NO_ASKING = "the transition table of this project does not allow asking here"
Approver = Literal["user", "rule", ""]
"""Who allowed an action beforehand: the person who typed it, the settings that name it, or nobody."""


class Approval:
    def __init__(self, session: Session, door: Door, settings: Settings) -> None:
        self._session = session
        self._door = door
        self._settings = settings

    def policy(self) -> Policy:
        """The rules of the settings and the mode of this moment."""
        rules = self._settings.rules
        return Policy(self._session.state.mode, rules.allow, rules.ask, rules.deny)

    def rule(self, run: str, change: Change, risk: Risk, approved: Approver = "") -> Ruling:
        """What rules, mode and earlier answers say. What somebody allowed beforehand needs no card unless CRITICAL."""
        grants = [Grant(operation, pattern) for operation, pattern in self._session.run(run).grants]
        grants += plan_grants(self._session.state, run)
        ruling = decide(change, risk, self.policy(), grants)
        if approved and ruling.outcome == "ask" and risk.level < RiskLevel.CRITICAL:
            return Ruling("allow", approved, "")
        return ruling

    async def ask(
        self, run: str, ids: Sequence[str], changes: Sequence[Change], risk: Risk, claims: Sequence[str],
        status_only: bool = False,
    ) -> str:  # fmt: skip
        """Show the card and wait. Empty: yes; otherwise the reason it may not be done, in words for the model."""
        who = asker(self._session.state, run)
        shown = replace(card(changes, risk, claims), asker=who)
        digest = shown_hash(changes)
        name = changes[0].operation
        self._session.hold(
            ev.GateAsked(
                action=ids[0], actions=tuple(ids), operation=name, risk=risk.level.name, intent=shown.intent,
                rationale=shown.claim, impact=shown.impact, alternatives=shown.alternatives, preview=shown.preview,
                hash=digest,
            ),
            run=run,
        )  # fmt: skip
        wait = None if status_only else Step.AWAITING_APPROVAL
        waiting = self._session.move(run, Trigger.GATE_ASKED, wait, Status.REQUIRES_USER_INPUT)
        if not waiting:
            self._answered(run, ids, changes, "no", "mode", "the transition table does not allow asking here", digest)
            return f"refused: {NO_ASKING}"
        request = Request(f"{self._session.id}/{ids[0]}/{digest[:8]}", run, "gate", shown, digest, watched=not who)

        def settled(answer: Answer, ms: int) -> bool:
            yes = answer.choice in ("yes", "step")
            choice = answer.choice if yes else "no"
            self._answered(run, ids, changes, choice, answer.by, answer.comment, digest, ms)
            then = None if status_only else Step.EXECUTION if yes else Step.PLANNING
            self._session.move(run, Trigger.GATE_ANSWERED, then, Status.IN_PROGRESS)
            return yes

        answer, yes = await self._waited(request, settled)
        return "" if yes else _refusal(answer.by, answer.comment)

    async def _waited(self, request: Request, settled: Callable[[Answer, int], bool]) -> tuple[Answer, bool]:
        """The answer, recorded. A card that is taken away unanswered was a no, too: no gate is left open."""
        began = time.monotonic()
        overdue = asyncio.get_running_loop().call_later(
            self._settings.limits.gate_timeout_s, self._overdue, request.owner
        )
        try:
            answer = await self._door.ask(request)
        except asyncio.CancelledError:
            settled(Answer(request.id, request.shown_hash, "no", by="stop"), _since(began))
            raise
        finally:
            overdue.cancel()
        return answer, settled(answer, _since(began))

    async def ask_plan(self, run: str, plan: Plan, claim: str) -> str:
        """May this plan be carried out? Only a person, a rule or the mode `auto` says yes. Empty: yes; else why not.

        The answer and what it makes of the plan are written as one: no kill comes between them.
        """
        action, digest = self._session.new_id("A"), plan.hash
        shown = replace(plan_card(plan, claim), asker=asker(self._session.state, run))

        def ruled(yes: bool, by: str, comment: str, why: str = "", ms: int = 0) -> None:
            status, approved = ("approved", digest) if yes else ("refused", "")
            new = replace(plan, status=status, approved=approved, reason="" if yes else why)
            answered = ev.GateAnswered(action=action, actions=(action,), answer="yes" if yes else "no", by=by,
                                       operation=APPROVE, comment=comment, hash=digest, ms=ms)  # fmt: skip
            self._session.hold(answered, *((plan_changed(new),) if by != "stop" else ()), run=run)

        def settled(answer: Answer, ms: int) -> bool:
            yes = answer.choice == "yes"
            ruled(yes, answer.by, answer.comment, _refusal(answer.by, answer.comment), ms)
            self._session.move(run, Trigger.GATE_ANSWERED, Step.EXECUTION if yes else Step.PLANNING, Status.IN_PROGRESS)
            return yes

        change = Change(APPROVE, Effect.SESSION, plan.name, preview=plan_text(plan))
        ruling = decide_plan(change, self.policy())
        if ruling.outcome != "ask":
            ruled(ruling.outcome == "allow", ruling.by or "mode", ruling.reason, ruling.reason)
            return "" if ruling.outcome == "allow" else ruling.reason
        self._session.hold(
            ev.GateAsked(action=action, actions=(action,), operation=APPROVE, risk=shown.risk, intent=shown.intent,
                         rationale=claim, impact=shown.impact, alternatives=shown.alternatives,
                         preview=shown.preview, hash=digest),
            run=run,
        )  # fmt: skip
        if not self._session.move(run, Trigger.GATE_ASKED, Step.AWAITING_APPROVAL, Status.REQUIRES_USER_INPUT):
            ruled(False, "mode", "the transition table does not allow asking here", NO_ASKING)
            return NO_ASKING
        request = Request(f"{self._session.id}/{action}/{digest[:8]}", run, "plan", shown, digest, not shown.asker)
        answer, yes = await self._waited(request, settled)
        return "" if yes else _refusal(answer.by, answer.comment)

    def _overdue(self, run: str) -> None:
        """The person is away: the work stays paused, and its card can still be answered."""
        message = _("The work is paused until you answer the card.")
        self._session.append(ev.Warned(code="gate-waiting", message=message), run=run)

    def record(self, run: str, action: str, change: Change, answer: str, by: str, comment: str) -> None:
        """An effect that was ruled on without a card."""
        self._answered(run, [action], [change], answer, by or "rule", comment, change.hash)

    def _answered(
        self, run: str, ids: Sequence[str], changes: Sequence[Change], answer: str, by: str, comment: str,
        digest: str, ms: int = 0,
    ) -> None:  # fmt: skip
        """Held: it is written with the move or the effect that follows at once."""
        granted = changes if answer == "step" else changes[:1]
        self._session.hold(
            *(
                ev.GateAnswered(
                    action=ids[0], actions=tuple(ids), answer=answer, by=by, operation=change.operation,
                    pattern=pattern_for(change) if answer == "step" else "", comment=comment, hash=digest, ms=ms,
                )
                for change in granted
            ),
            run=run,
        )  # fmt: skip


def _since(began: float) -> int:
    return round((time.monotonic() - began) * 1000)


def _refusal(by: str, comment: str) -> str:
    if by == "nobody":
        return "refused: it needs an approval and nobody is here to give it"
    said = f" They said: {comment}" if comment else ""
    return f"refused by the person.{said} The refusal holds for the effect, not for the wording."
