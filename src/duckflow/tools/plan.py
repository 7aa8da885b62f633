"""plan_tool.*: long plans. The engine keeps and carries them out; only a person, a rule or the mode approves one."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from duckflow.i18n import _
from duckflow.safety.change import Change, Effect
from duckflow.tools.base import Args, Context, Operation, ToolResult, failed


class ProposeArgs(Args):
    goal: str = Field(min_length=1)
    plan: dict[str, Any] | None = None


class ApproveArgs(Args):
    plan_id: str


class UpdateStepArgs(Args):
    step_id: str
    status: Literal["pending", "in_progress", "failed", "completed"]


class GetArgs(Args):
    plan_id: str


class ListArgs(Args):
    pass


class DeleteArgs(Args):
    plan_id: str


def session_operation(name: str, args: type[Any], line: str, *, reads: bool = False, usage: str = "") -> Operation[Any]:
    """An operation that touches nothing but what Duckflow knows: the engine carries it out."""
    effect = Effect.NONE if reads else Effect.SESSION

    async def prepare(given: Args, ctx: Context) -> Change | ToolResult:
        named = next((str(v) for v in given.model_dump().values() if isinstance(v, str)), "")
        return Change(name, effect, _("{operation}: {what}", operation=name, what=named) if named else name)

    async def run(given: Args, change: Change, ctx: Context) -> ToolResult:
        if ctx.work is None:
            return failed("plans and background work are not available here")
        return await ctx.work(given, name)

    return Operation(name, args, effect, line, prepare, run, usage)


PLAN_STEP = (
    '{"name", "description", "depends_on": [names], "files": [globs], "commands": [globs], "done_when": [commands]}'
)

PROPOSE = session_operation(
    "plan_tool.propose",
    ProposeArgs,
    "a plan for big work, shown to the person; once approved its steps run by themselves. "
    f'With plan = {{"name", "goal", "steps": [{PLAN_STEP}], "risks": [{{"risk", "level"}}], '
    '"success_criteria": []} no further call is made for it. Writes outside `files` ask again',
)
APPROVE = session_operation("plan_tool.approve", ApproveArgs, "opens the plan card once more; the person decides")
UPDATE_STEP = session_operation(
    "plan_tool.update_step", UpdateStepArgs, "pending, in_progress or failed; completed is set by proof alone"
)
GET = session_operation("plan_tool.get", GetArgs, "", reads=True)
LIST = session_operation("plan_tool.list", ListArgs, "", reads=True)
DELETE = session_operation("plan_tool.delete", DeleteArgs, "")

PLAN_OPERATIONS = (PROPOSE, APPROVE, UPDATE_STEP, GET, LIST, DELETE)
