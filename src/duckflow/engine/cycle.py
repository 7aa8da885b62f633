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
from duckflow.state.machine import Step


async def work(kit: Kit, run: str, decision: Decision | None = None) -> Ending:
    """One run from its message to its end. An answer to a question goes back to the node that asked it.

    `decision`: the first one, when it was already made (the message was put into another run at first).
    """
    mine = kit.session.run(run)
    node: Node | None = "execute" if mine.node == "execute" and mine.step is Step.EXECUTION else None
    while True:
        step: object
        if kit.background.is_waited_for(run):
            step = await kit.background.finish(run)
        elif decision is not None:
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
            return await close(kit, run, verdict, step.reply)
        asked = await (escalate(kit, run, verdict) if move == "escalate" else try_again(kit, run, verdict))
        if asked is not None:
            return asked
