"""plan_tool, task_tool and task_loop: what the model may ask of plans and background work."""

from __future__ import annotations

from pydantic import ValidationError

from duckflow.engine import planning
from duckflow.engine.kit import Kit
from duckflow.engine.steps import Assignment
from duckflow.prompts.replies import Action
from duckflow.prompts.sections import run_line
from duckflow.state.plan import Plan, PlanStep, progress
from duckflow.state.runs import working
from duckflow.tools.base import Args, ToolResult, failed
from duckflow.tools.plan import ApproveArgs, DeleteArgs, GetArgs, ListArgs, ProposeArgs, UpdateStepArgs
from duckflow.tools.tasks import GenerateListArgs, LoopArgs, LoopRunArgs

HOLDING = ("task_loop.pause", "task_loop.resume", "task_loop.stop")
LOOKING = ("plan_tool.get", "plan_tool.list", "task_loop.status")


async def operate(kit: Kit, run: str, args: Args, name: str) -> ToolResult:
    refused = _not_from_here(kit, run, name)
    if refused:
        return failed(refused)
    match args:
        case ProposeArgs():
            return await planning.propose(kit, run, args)
        case ApproveArgs():
            return await planning.approve(kit, run, args)
        case UpdateStepArgs():
            return planning.update_step(kit, run, args)
        case GetArgs():
            return planning.get_plan(kit, args)
        case ListArgs():
            return planning.list_plans(kit)
        case DeleteArgs():
            return planning.delete_plan(kit, run, args)
        case GenerateListArgs():
            return await planning.generate_list(kit, run, args)
        case LoopRunArgs():
            return _run_step(kit, run, args) if args.step_id else _run_list(kit, run, args)
        case LoopArgs():
            return _loop(kit, name, args)
    return failed(f"{name} is not known here")


def _not_from_here(kit: Kit, run: str, name: str) -> str:
    """Background work does its part: it makes no plans of its own, and does not hold or stop what works beside it."""
    mine = kit.session.run(run)
    if name in LOOKING or not mine.background:
        return ""
    if mine.kind in ("step", "tasks"):
        return f"{name} is not for a part of the work: do it with actions of your own"
    return f"{name} is the person's, not the background's" if name in HOLDING else ""


def _run_step(kit: Kit, run: str, args: LoopRunArgs) -> ToolResult:
    """The engine runs the steps of an approved plan by itself; asking for one takes up a plan that stopped."""
    found = planning.find_step(kit, args.step_id or "")
    if found is None:
        return failed(f"there is no step {args.step_id}")
    plan, step = found
    if plan.status in ("draft", "refused"):
        return failed(f"plan {plan.id} is not approved; plan_tool.approve opens its card")
    if not plan.approved or plan.approved != plan.hash or plan.status in ("replaced", "deleted"):
        return failed(f"plan {plan.id} is {plan.status} and cannot be carried out")
    if step.status == "completed":
        return ToolResult(ok=True, text=f"{step.id} is completed already. {progress(plan)}")
    if plan.status == "in_progress":
        return ToolResult(ok=True, text=f"it runs in its order. {progress(plan)}")
    if step.status == "blocked":
        return failed(f"{step.id} {step.reason}: run that one first")
    return _take_up(kit, run, plan, step)


def _take_up(kit: Kit, run: str, plan: Plan, step: PlanStep) -> ToolResult:
    """By the run that carried it out, while that lives; otherwise by the one that asks."""
    owner = kit.session.state.runs.get(plan.run or "")
    other = owner.id if owner is not None and owner.id != run and owner.outcome is None else None
    if other and kit.background.is_driven(other):
        if not kit.background.go_on(other):
            return failed(f"{other} still works on it: {status_text(kit, other)}")
    else:
        if step.status == "failed":
            planning.mark(kit, run, plan.id, step.id, "pending")
        planning.take_up(kit, other or run, plan.id)
        if other:
            kit.background.go_on(other)
    return ToolResult(ok=True, text=f"goes on. {progress(kit.session.state.plans[plan.id])}")


def _run_list(kit: Kit, run: str, args: LoopRunArgs) -> ToolResult:
    if not args.tasks:
        return failed("give step_id, or tasks: a list of {operation, args, reasoning}")
    try:
        actions = tuple(Action.model_validate(task) for task in args.tasks)
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        return failed(f"the tasks cannot be read: {wrong}")
    mine = kit.session.run(run)
    started = kit.background.start_list(run, Assignment(mine.agent.goal or mine.request, actions=actions))
    return ToolResult(ok=True, text=f"{started} works on {len(actions)} tasks in the background")


def _loop(kit: Kit, name: str, args: LoopArgs) -> ToolResult:
    done = {"task_loop.pause": kit.background.pause, "task_loop.resume": kit.background.go_on}
    if name in done and not done[name](args.run_id):
        return failed(f"nothing to do: {status_text(kit, args.run_id)}")
    if name == "task_loop.stop" and not kit.stop_background(args.run_id):
        return failed(f"nothing to stop: {status_text(kit, args.run_id)}")
    return ToolResult(ok=True, text=status_text(kit, args.run_id))


def status_text(kit: Kit, run: str | None = None) -> str:
    """What works in the background, for the model: the truth of this moment."""
    state = kit.session.state
    runs = [r for r in working(state) if run in (None, r.id, r.plan_step)]
    plans = [progress(p) for p in state.plans.values() if p.status in ("approved", "in_progress", "paused")]
    return "\n".join((*plans, *(run_line(state, r) for r in runs))) or "nothing works in the background"
