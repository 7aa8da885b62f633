"""task_tool.* and task_loop.*: the tasks of a plan step, and work in the background. The engine carries them out."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from duckflow.tools.base import Args
from duckflow.tools.plan import session_operation


class GenerateListArgs(Args):
    step_id: str


class LoopRunArgs(Args):
    step_id: str | None = None
    tasks: list[dict[str, Any]] = Field(default_factory=list)


class LoopArgs(Args):
    run_id: str | None = None


GENERATE_LIST = session_operation("task_tool.generate_list", GenerateListArgs, "makes the task list of a plan step")
LOOP_RUN = session_operation(
    "task_loop.run",
    LoopRunArgs,
    "runs a plan step, or tasks like actions, in the background",
    usage="{step_id} or {tasks}",
)
LOOP_STATUS = session_operation("task_loop.status", LoopArgs, "what works in the background", reads=True)
LOOP_PAUSE = session_operation("task_loop.pause", LoopArgs, "")
LOOP_RESUME = session_operation("task_loop.resume", LoopArgs, "")
LOOP_STOP = session_operation("task_loop.stop", LoopArgs, "")

TASK_OPERATIONS = (GENERATE_LIST, LOOP_RUN, LOOP_STATUS, LOOP_PAUSE, LOOP_RESUME, LOOP_STOP)
