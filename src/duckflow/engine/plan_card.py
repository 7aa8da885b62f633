"""Plans at the gate: what the card shows, who may approve, and what an approved plan allows its steps."""

from __future__ import annotations

from duckflow.human import Card
from duckflow.i18n import _, listed, ngettext
from duckflow.safety import globs
from duckflow.safety.change import Change
from duckflow.safety.gate import Policy, Ruling
from duckflow.safety.patterns import Grant, first_match
from duckflow.safety.risk import RiskLevel
from duckflow.state.plan import Plan, PlanStep
from duckflow.state.runs import SessionState

APPROVE = "plan_tool.approve"
WRITES = ("file_ops.write_file", "file_ops.edit_file", "file_ops.move_file")
_ANYWHERE = ("zq.zq", "zq/zq/zq.zq")
"""Names nobody means: a glob that fits one of them fits whatever there is."""


def decide_plan(change: Change, policy: Policy) -> Ruling:
    """Only a person, a rule or the mode `auto` approves; the model's own approval merely opens the card."""
    rule = first_match(policy.deny, change, tighten=True)
    if rule:
        return Ruling("deny", "rule", _("denied by the rule {rule}", rule=rule))
    if policy.mode == "plan":
        return Ruling("deny", "mode", _("the mode plan only reads"))
    rule = first_match(policy.ask, change, tighten=True)
    if rule:
        return Ruling("ask", "rule", _("the rule {rule} asks", rule=rule))
    rule = first_match(policy.allow, change, tighten=False)
    if rule:
        return Ruling("allow", "rule", _("allowed by the rule {rule}", rule=rule))
    if policy.mode == "auto":
        return Ruling("allow", "mode", _("the mode {mode} lets it pass", mode=policy.mode))
    return Ruling("ask", "mode", "")


def plan_grants(state: SessionState, run: str) -> list[Grant]:
    """What the approval of its plan allows this run: writes to the declared files, and commands in a sandbox."""
    wanted = state.runs[run].plan_step
    for plan in state.plans.values():
        step = plan.step(wanted or "")
        if step is not None and plan.is_approved:
            writes = [Grant(name, glob, RiskLevel.MEDIUM, plan=plan.name) for glob in step.files for name in WRITES]
            run_them = (*step.commands, *step.done_when)
            return [*writes, *(Grant("shell.run", c, RiskLevel.MEDIUM, True, plan.name) for c in run_them)]
    return []


def plan_text(plan: Plan) -> str:
    """The whole plan as the person decides on it: steps, what they touch, what proves them, risks, criteria."""
    lines = [f"{plan.name}: {plan.goal}" if plan.name != plan.goal else plan.goal]
    names = {step.id: step.name for step in plan.steps}
    for number, step in enumerate(plan.steps, 1):
        before = listed([names[i] for i in step.depends_on])
        order = _("after {steps}", steps=before)  # not inside an f-string: messages are collected from plain calls
        lines.append(f"{number}. {step.name} ({order})" if before else f"{number}. {step.name}")
        lines += [f"   {text}" for text in _details(step)]
    lines += [_("Risk ({level}): {risk}", level=r.get("level", ""), risk=r.get("risk", "")) for r in plan.risks]
    lines += [_("Done when: {criterion}", criterion=criterion) for criterion in plan.criteria]
    return "\n".join(lines)


def _details(step: PlanStep) -> list[str]:
    rows = (
        (step.description, step.description),
        (step.files, _("files: {what}", what=", ".join(step.files))),
        (step.commands, _("commands: {what}", what=", ".join(step.commands))),
        (step.done_when, _("proved by: {what}", what=", ".join(step.done_when))),
    )
    return [text for given, text in rows if given]


def is_broad(glob: str) -> bool:
    """Does it fit files that nobody had in mind?"""
    pattern = globs.path_glob(glob.strip())
    return glob.strip() in ("", ".", "./", "/") or any(pattern.fullmatch(path) for path in _ANYWHERE)


def plan_card(plan: Plan, claim: str) -> Card:
    files = list(dict.fromkeys(glob for step in plan.steps for glob in step.files))
    commands = list(dict.fromkeys(c for step in plan.steps for c in (*step.commands, *step.done_when)))
    broad = any(is_broad(glob) for glob in files)
    n = len(plan.steps)
    return Card(
        title=ngettext("Plan of {n} step: may I?", "Plan of {n} steps: may I?", n),
        preview=plan_text(plan),
        risk="HIGH" if broad else "MEDIUM" if files or commands else "LOW",
        risk_reason=_("a step may write to any file of the project") if broad else "",
        intent=plan.goal,
        claim=claim,
        impact=_impact(files, commands),
        alternatives=(
            _("say no and write what should be different: the plan is made again"),
            _("ask for the first step only"),
        ),
        options=(("yes", _("yes")), ("no", _("no"))),
    )


def _impact(files: list[str], commands: list[str]) -> str:
    parts = [
        _("your yes lets its steps write, without asking again, to: {files}", files=", ".join(files))
        if files
        else _("no files are named: every write asks")
    ]
    if commands:
        parts.append(_("its commands still ask, because there is no sandbox"))
    return "; ".join(parts)
