"""Whether a change may happen: rules, mode, grants. Measures nothing, asks nobody, does nothing.

deny rule > boundary and plan mode > ask rule > allow rule > grant > mode. What matches nothing asks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from duckflow.i18n import _
from duckflow.record import Record
from duckflow.safety import globs
from duckflow.safety.card import card, shown_hash
from duckflow.safety.change import Change, Effect
from duckflow.safety.patterns import Grant, first_match, folded, grant_for, granted, pattern_for
from duckflow.safety.risk import Risk, RiskLevel

__all__ = [
    "Grant",
    "Mode",
    "Policy",
    "Ruling",
    "card",
    "decide",
    "grant_for",
    "hidden_by",
    "pattern_for",
    "shown_hash",
]

Mode = Literal["plan", "ask", "auto-edit", "auto"]


class Policy(Record):
    """What settings and command line say. Patterns are `operation` or `operation:glob`."""

    mode: Mode = "ask"
    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    sandbox: bool = False  # commands run in a kernel sandbox


class Ruling(Record):
    outcome: Literal["allow", "ask", "deny"]
    by: Literal["rule", "mode", "grant", "user", ""] = ""
    reason: str = ""  # for people, one line


def decide(change: Change, risk: Risk, policy: Policy, grants: Sequence[Grant] = ()) -> Ruling:
    """What to do with a change. Nothing here ever looks at the model's reasons."""
    rule = first_match(policy.deny, change, tighten=True)
    if rule:
        return Ruling("deny", "rule", _("denied by the rule {rule}", rule=rule))
    if change.effect in (Effect.SESSION, Effect.PERSON):
        return Ruling("allow")
    if change.effect is Effect.NONE:
        return _read(change, risk, policy, grants)
    refused = _boundary(change) or _plan_mode(policy)
    if refused:
        return refused
    rule = first_match(policy.ask, change, tighten=True)
    if rule:
        return Ruling("ask", "rule", _("the rule {rule} asks", rule=rule))
    return _passed(change, risk, policy, grants) or _by_mode(change, risk, policy)


def _read(change: Change, risk: Risk, policy: Policy, grants: Sequence[Grant]) -> Ruling:
    rule = first_match(policy.ask, change, tighten=True)
    if rule:
        return Ruling("ask", "rule", _("the rule {rule} asks", rule=rule))
    if not any(place.where == "outside" or place.secret or place.protected for place in change.places):
        return Ruling("allow")
    return _passed(change, risk, policy, grants) or Ruling("ask", "", risk.reason)


def _boundary(change: Change) -> Ruling | None:
    if change.effect is not Effect.FILES:
        return None
    for place in change.places:
        if place.where != "inside":
            reason = _("{path} is outside the workspace; nothing is ever written there", path=place.path)
            return Ruling("deny", "", reason)
        if place.protected:
            return Ruling("deny", "", _("{path} is protected; Duckflow never changes it", path=place.path))
    return None


def _plan_mode(policy: Policy) -> Ruling | None:
    return Ruling("deny", "mode", _("the mode plan only reads")) if policy.mode == "plan" else None


def _passed(change: Change, risk: Risk, policy: Policy, grants: Sequence[Grant]) -> Ruling | None:
    rule = first_match(policy.allow, change, tighten=False)
    if rule:
        return Ruling("allow", "rule", _("allowed by the rule {rule}", rule=rule))
    for grant in grants:
        fits = globs.text_glob(grant.operation).fullmatch(change.operation) is not None
        holds = policy.sandbox or not grant.sandboxed
        if fits and holds and granted(grant, change, risk):
            if grant.plan:
                return Ruling("allow", "grant", _("covered by the approved plan {plan}", plan=grant.plan))
            return Ruling("allow", "grant", _("covered by your earlier yes for this step"))
    return None


def _by_mode(change: Change, risk: Risk, policy: Policy) -> Ruling:
    if policy.mode == "ask":
        return Ruling("ask", "mode", _("the mode ask asks before every effect"))
    if change.effect is Effect.COMMAND:
        return Ruling("ask", "mode", _("there is no sandbox yet: every command asks unless a rule allows it"))
    if risk.level <= RiskLevel.MEDIUM:
        return Ruling("allow", "mode", _("the mode {mode} lets it pass", mode=policy.mode))
    return Ruling("ask", "mode", _("{risk} asks in every mode", risk=risk.level.name))


def hidden_by(policy: Policy) -> Callable[[str], bool]:
    """Which files a search must leave out: those whose reading by name would be denied or asked for."""
    rules = [
        globs.path_glob(folded(glob.strip()), fold=True, own=True)
        for operation, _colon, glob in (pattern.partition(":") for pattern in (*policy.deny, *policy.ask))
        if glob
        and any(
            globs.text_glob(operation.strip(), fold=True).fullmatch(name)
            for name in ("file_ops.read_file", "search.text")
        )
    ]
    return lambda path: any(rule.fullmatch(folded(path)) for rule in rules)
