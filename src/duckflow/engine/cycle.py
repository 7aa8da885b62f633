"""The story of the product: understand → gather → execute → evaluate, until it is there or the attempts are spent."""

from __future__ import annotations

from duckflow.engine.escalate import escalate
from duckflow.engine.evaluate import close, evaluate, try_again
from duckflow.engine.execute import execute
from duckflow.engine.gather import Gathered, gather
from duckflow.engine.kit import Ending, Kit
from duckflow.engine.settle import Judge, settle
from duckflow.engine.understand import decide, understand
from duckflow.llm.base import Node
from duckflow.prompts.replies import Decision


async def work(kit: Kit, run: str, decision: Decision | None = None) -> Ending:
    """One run from its message to its end. An answer to a question goes back to the node that asked it.

    `decision`: the first one, when it was already made (the message was put into another run at first).
    """
    node: Node | None = "execute" if kit.session.run(run).node == "execute" else None
    while True:
        step: object
        if decision is not None:
            step = await settle(kit, run, decision, "understand")
        else:
            step = await (decide(kit, run, node) if node else understand(kit, run))
        node = decision = None
        if isinstance(step, Decision):
            step = await gather(kit, run, step)
        if isinstance(step, Gathered):
            step = await execute(kit, run, step)
        if isinstance(step, Ending):
            return step
        assert isinstance(step, Judge)
        verdict, move = await evaluate(kit, run, step)
        if move == "complete":
            return close(kit, run, verdict, step.reply)
        if move == "escalate":
            return await escalate(kit, run, verdict)
        try_again(kit, run, verdict)
