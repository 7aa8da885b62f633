"""plan_tool and task_tool: proposing, approving and keeping plans, and the task lists of their steps."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import ValidationError

from duckflow import events as ev
from duckflow.engine.ask import ask_plan, ask_summary, ask_tasks
from duckflow.engine.kit import Kit
from duckflow.engine.objectives import put as put_objective
from duckflow.engine.plan_card import plan_text
from duckflow.engine.route import effective_profile
from duckflow.errors import ReplyUnreadable
from duckflow.prompts.budget import size
from duckflow.prompts.compact import spoken
from duckflow.prompts.replies import Action
from duckflow.record import replace
from duckflow.state.plan import LIVE, Plan, PlanStep, Task, drafted, plan_changed, progress, with_step
from duckflow.tools.base import ToolResult, failed
from duckflow.tools.plan import ApproveArgs, DeleteArgs, GetArgs, ProposeArgs, UpdateStepArgs
from duckflow.tools.tasks import GenerateListArgs

if TYPE_CHECKING:
    from duckflow.prompts.plan_replies import PlanReply

LONG_TALK = 1500
"""Tokens of conversation above which it is summarised for whoever does not carry it."""


def put(kit: Kit, run: str, plan: Plan) -> None:
    kit.session.append(plan_changed(plan), run=run)


def mark(kit: Kit, run: str, plan_id: str, step_id: str, status: str, reason: str = "") -> Plan:
    """A step of the plan is in another state; the plan knows what that means for the others, and keeps its owner."""
    old = kit.session.state.plans[plan_id]
    plan = with_step(old, step_id, status, reason)
    put(kit, old.run or run, plan)
    return plan


async def propose(kit: Kit, run: str, args: ProposeArgs) -> ToolResult:
    """Draft a plan, with a model call only when the model did not bring one, and open its card."""
    from duckflow.prompts.plan_replies import PlanReply

    try:
        reply = PlanReply.model_validate(args.plan) if args.plan else await _planned(kit, run, args.goal)
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        return failed(f"the plan cannot be read: {wrong}")
    except ReplyUnreadable as error:
        return failed(f"no plan came of it: {error} Give it yourself with plan_tool.propose {{goal, plan}}")
    session = kit.session
    try:
        name = reply.name.strip() or args.goal.strip()[:60]
        steps = [step.model_dump() for step in reply.steps]
        plan = drafted(session.new_id("P"), name, reply.goal.strip() or args.goal, steps, lambda: session.new_id("S"))
    except ValueError as error:
        return failed(f"the plan does not fit together: {error}")
    plan = replace(
        plan,
        risks=tuple({"risk": r.risk, "level": r.level} for r in reply.risks),
        criteria=tuple(reply.success_criteria),
        objective=session.run(run).objective,
    )
    _replace_others(kit, run)
    put(kit, run, plan)
    _means_work(kit, run, plan)
    return await _opened(kit, run, session.state.plans[plan.id], args.goal)  # as it is kept, without secrets


def _means_work(kit: Kit, run: str, plan: Plan) -> None:
    """A plan that writes files proposes effects: no word makes that request a mere answer again."""
    objective = kit.session.objective(run)
    if objective is None or not any(step.files for step in plan.steps) or objective.proposed == "files":
        return
    profile = effective_profile(None, objective.profile, "files")
    put_objective(kit, run, replace(objective, proposed="files", profile=profile))


async def _planned(kit: Kit, run: str, goal: str) -> PlanReply:
    mine = kit.session.run(run)
    objective = kit.session.objective(run)
    text = kit.prompts.library.render(
        "plan",
        goal=goal,
        requirements=[f"{r.id} {r.text}" for r in objective.requirements] if objective else [],
        constraints=list(mine.agent.constraints),
    )
    return await ask_plan(kit, run, text)


def _replace_others(kit: Kit, run: str) -> None:
    """One plan at a time for one piece of work: a new one takes the place of what it had."""
    for plan in kit.session.state.plans.values():
        if plan.run == run and plan.status in ("draft", "refused", "failed", *LIVE):
            put(kit, run, replace(plan, status="replaced"))


async def approve(kit: Kit, run: str, args: ApproveArgs) -> ToolResult:
    plan = kit.session.state.plans.get(args.plan_id)
    if plan is None:
        return _no_plan(kit, args.plan_id)
    if plan.status not in ("draft", "refused"):
        return failed(f"{plan.id} is {plan.status}; there is nothing to approve")
    return await _opened(kit, run, plan, plan.goal)


async def _opened(kit: Kit, run: str, plan: Plan, claim: str) -> ToolResult:
    """The card is shown; what comes back is the person's word (or the rule's, or the mode's)."""
    why_not = await kit.approval.ask_plan(run, plan, claim)
    if why_not:
        return failed(f"plan {plan.id} was not approved: {why_not}", plan_text(plan))
    brief = tuple(step.name[:100] for step in plan.steps[:3])
    kit.session.append(ev.AgentChanged(changes={"plan_brief": brief}), run=run)
    steps = "\n".join(f"{step.id} {step.name}" for step in plan.steps)
    text = f"plan {plan.id} is approved; its steps are carried out now, you need not start them:\n{steps}"
    return ToolResult(ok=True, text=text, head=(plan.id, "approved"))


def update_step(kit: Kit, run: str, args: UpdateStepArgs) -> ToolResult:
    found = find_step(kit, args.step_id)
    if found is None:
        return _no_step(kit, args.step_id)
    plan, step = found
    if args.status == "completed":
        return failed("only proof completes a step: its done_when commands, or all its tasks and its files changed")
    if step.status == "in_progress":
        return failed(f"{step.id} runs right now; task_loop.stop stops it first")
    if args.status == "in_progress" and plan.status in LIVE:
        return failed("a step begins when it is ready, by itself; task_loop.run takes up a plan that stopped")
    mark(kit, run, plan.id, step.id, args.status)
    return ToolResult(ok=True, text=progress(kit.session.state.plans[plan.id]))


def get_plan(kit: Kit, args: GetArgs) -> ToolResult:
    plan = kit.session.state.plans.get(args.plan_id)
    if plan is None:
        return _no_plan(kit, args.plan_id)
    rows = [f"{s.id} {s.name}: {s.status}" + (f" ({s.reason})" if s.reason else "") for s in plan.steps]
    return ToolResult(ok=True, text="\n".join((plan_text(plan), progress(plan), *rows)))


def list_plans(kit: Kit) -> ToolResult:
    plans = kit.session.state.plans.values()
    return ToolResult(ok=True, text="\n".join(progress(plan) for plan in plans) or "there is no plan")


def delete_plan(kit: Kit, run: str, args: DeleteArgs) -> ToolResult:
    plan = kit.session.state.plans.get(args.plan_id)
    if plan is None:
        return _no_plan(kit, args.plan_id)
    held = plan.status in LIVE and plan.run != run and kit.background.is_driven(plan.run)
    if plan.status == "in_progress" or held:
        return failed(f"{plan.id} runs right now; task_loop.stop stops it first")
    put(kit, plan.run or run, replace(plan, status="deleted"))
    return ToolResult(ok=True, text=f"{plan.id} is deleted; what its steps did stays")


def take_up(kit: Kit, run: str, plan_id: str) -> None:
    """An approved plan that stopped or failed goes on, for this run."""
    put(kit, run, replace(kit.session.state.plans[plan_id], status="approved", reason=""))


# --- task lists --------------------------------------------------------------------------------------------------


async def generate_list(kit: Kit, run: str, args: GenerateListArgs) -> ToolResult:
    found = find_step(kit, args.step_id)
    if found is None:
        return _no_step(kit, args.step_id)
    plan, step = found
    known = kit.session.state.tasks.get(step.id, ())
    if step.status in ("in_progress", "completed") or any(task.status != "pending" for task in known):
        return failed(f"{step.id} has begun: its tasks stay as they are")
    try:
        tasks = known or [task for task, _action in await make_tasks(kit, run, plan, step)]
    except ReplyUnreadable as error:
        return failed(f"no task list came of it: {error}")
    rows = [f"{task.id} {task.operation} {target(task.args)}" for task in tasks]
    return ToolResult(ok=True, text="\n".join(rows) or "no task can be known in advance; the step is worked on freely")


async def make_tasks(kit: Kit, run: str, plan: Plan, step: PlanStep) -> list[tuple[Task, Action]]:
    """The step as concrete operations: recorded, and as the model gave them."""
    text = kit.prompts.library.render(
        "tasks",
        goal=plan.goal,
        step=step.name,
        description=step.description,
        files=", ".join(step.files),
        done_when=list(step.done_when),
        earlier=earlier_results(kit, plan, step),
        conversation=await conversation_summary(kit, run),
    )
    reply = await ask_tasks(kit, run, text)
    return record_tasks(kit, run, reply.tasks, plan.id, step.id)


def record_tasks(
    kit: Kit, run: str, actions: Sequence[Action], plan: str | None = None, step: str | None = None
) -> list[tuple[Task, Action]]:
    """All of them at once: a list of which a kill left only the beginning would look complete."""
    made: list[tuple[Task, Action]] = []
    bodies: list[ev.Body] = []
    for action in actions:
        given = json.dumps(action.args, ensure_ascii=False)
        intact = kit.session.redact(given) == given
        task = Task(kit.session.new_id("T"), action.operation, action.args, action.reasoning, intact=intact)
        made.append((task, action))
        bodies.append(
            ev.TaskChanged(
                task=task.id, status="pending", operation=task.operation, plan=plan, step=step, args=given,
                reasoning=task.reasoning, intact=intact,
            )
        )  # fmt: skip
    kit.session.append(*bodies, run=run)
    return made


def earlier_results(kit: Kit, plan: Plan, step: PlanStep | None = None) -> list[str]:
    """What the steps (before this one) came to, one line each."""
    state = kit.session.state
    lines = []
    for other in plan.steps:
        if (step is not None and other.id == step.id) or other.status not in ("completed", "failed"):
            continue
        files = [p for run in state.runs.values() if run.plan_step == other.id for p in run.changed]
        what = f"changed {', '.join(files)}" if files else "changed no file"
        lines.append(
            f"{other.id} {other.name}: {other.status}, {what}" + (f" ({other.reason})" if other.reason else "")
        )
    return lines


async def conversation_summary(kit: Kit, run: str) -> str:
    """The conversation for somebody who does not carry it: what was said, or a summary when that is long."""
    state = kit.session.state
    if state.runs[run].thread == "chat":
        return ""  # it carries the conversation itself
    said = spoken(state.threads.get("chat", ()))
    if size(said) <= LONG_TALK:
        return said
    if said not in kit.summaries:
        text = kit.prompts.library.render("summarize", conversation=said[-24_000:])
        kit.summaries[said] = await ask_summary(kit, run, text) or said[-LONG_TALK:]
    return kit.summaries[said]


def find_step(kit: Kit, step_id: str) -> tuple[Plan, PlanStep] | None:
    for plan in reversed(tuple(kit.session.state.plans.values())):
        step = plan.step(step_id)
        if step is not None:
            return plan, step
    return None


def target(args: object) -> str:
    """What a task is about, for a list."""
    given = args if isinstance(args, dict) else {}
    return next((str(given[k]) for k in ("path", "command", "from", "pattern", "query") if given.get(k)), "")


def _no_plan(kit: Kit, plan_id: str) -> ToolResult:
    known = ", ".join(kit.session.state.plans) or "none"
    return failed(f"there is no plan {plan_id}; there are: {known}")


def _no_step(kit: Kit, step_id: str) -> ToolResult:
    known = [s.id for plan in kit.session.state.plans.values() for s in plan.steps]
    return failed(f"there is no step {step_id}; there are: {', '.join(known) or 'none'}")
