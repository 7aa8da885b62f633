"""user.ask: the question of a Decision, spelt as an action. The engine asks it; nothing happens here."""

from __future__ import annotations

from pydantic import Field

from duckflow.i18n import _
from duckflow.safety.change import Change, Effect
from duckflow.tools.base import Args, Context, Operation, ToolResult, failed


class AskArgs(Args):
    question: str
    options: list[str] = Field(default_factory=list)
    default: str | None = None


async def _prepare(args: AskArgs, ctx: Context) -> Change | ToolResult:
    if not args.question.strip():
        return failed("the question is empty")
    summary = _("ask: {question}", question=args.question)
    return Change("user.ask", Effect.PERSON, summary, preview=args.question)


async def _run(args: AskArgs, change: Change, ctx: Context) -> ToolResult:
    return failed("a question ends the turn and is asked by the engine; it was not asked here")


USER_ASK = Operation("user.ask", AskArgs, Effect.PERSON, "", _prepare, _run)
