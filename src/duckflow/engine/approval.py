"""Approval of an effect: rule, card, door, record. Asks through the one door; never acts and never measures."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Literal

from duckflow import events as ev
from duckflow.config import Settings
from duckflow.human import Door, Request
from duckflow.i18n import _
from duckflow.safety.change import Change
from duckflow.safety.gate import Grant, Policy, Ruling, card, decide, pattern_for, shown_hash
from duckflow.safety.risk import Risk, RiskLevel
from duckflow.state.machine import Status, Step, Trigger
from duckflow.state.session import Session

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
        ruling = decide(change, risk, self.policy(), grants)
        if approved and ruling.outcome == "ask" and risk.level < RiskLevel.CRITICAL:
            return Ruling("allow", approved, "")
        return ruling

    async def ask(
        self, run: str, ids: Sequence[str], changes: Sequence[Change], risk: Risk, claims: Sequence[str],
        status_only: bool = False,
    ) -> str:  # fmt: skip
        """Show the card and wait. Empty: yes; otherwise the reason it may not be done, in words for the model."""
        shown = card(changes, risk, claims)
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
            return "refused: the transition table of this project does not allow asking here"
        began = time.monotonic()
        request = Request(f"{self._session.id}/{ids[0]}/{digest[:8]}", run, "gate", shown, digest)
        overdue = asyncio.get_running_loop().call_later(self._settings.limits.gate_timeout_s, self._overdue, run)
        answer = await self._door.ask(request)
        overdue.cancel()
        waited = round((time.monotonic() - began) * 1000)
        yes = answer.choice in ("yes", "step")
        by = "user" if answer.by == "stop" else answer.by
        self._answered(run, ids, changes, answer.choice if yes else "no", by, answer.comment, digest, waited)
        then = None if status_only else Step.EXECUTION if yes else Step.PLANNING
        self._session.move(run, Trigger.GATE_ANSWERED, then, Status.IN_PROGRESS)
        return "" if yes else _refusal(by, answer.comment)

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


def _refusal(by: str, comment: str) -> str:
    if by == "nobody":
        return "refused: it needs an approval and nobody is here to give it"
    said = f" They said: {comment}" if comment else ""
    return f"refused by the person.{said} The refusal holds for the effect, not for the wording."
