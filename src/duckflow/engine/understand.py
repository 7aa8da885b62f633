"""Node one: what does the person need, and how is it done here?"""

from __future__ import annotations

from duckflow import events as ev
from duckflow.engine.ask import ask_decision
from duckflow.engine.kit import Ending, Kit
from duckflow.engine.settle import Judge, settle
from duckflow.llm.base import Node
from duckflow.prompts.replies import Decision


async def understand(kit: Kit, run: str) -> Decision | Judge | Ending:
    """The first Decision about a message, or about what a verdict found missing."""
    begin_node(kit, run, "understand", clarify_below=f"{kit.settings.routing.clarify_below:g}")
    return await decide(kit, run, "understand")


async def decide(kit: Kit, run: str, node: Node) -> Decision | Judge | Ending:
    return await settle(kit, run, await ask_decision(kit, run, node), node)


def begin_node(kit: Kit, run: str, name: str, **variables: object) -> None:
    """Put the node's procedure into the history, once."""
    session = kit.session
    if not kit.prompts.wants_procedure(session.state, session.run(run), name):
        return
    text = kit.prompts.procedure(kit.prompts.library.render(name, **variables))
    session.append(
        ev.HistoryAdded(thread=session.run(run).thread, role="user", kind="procedure", text=text, name=name),
        run=run,
    )
