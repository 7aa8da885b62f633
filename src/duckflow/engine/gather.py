"""Node two: read what the work needs. The leading reads of the Decision, then what it says it must know."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile

from duckflow.engine.ask import ask_decision
from duckflow.engine.kit import Ending, Kit
from duckflow.engine.ledger import Outcome
from duckflow.engine.mentions import is_readable
from duckflow.engine.record import record_results
from duckflow.engine.settle import Judge, settle
from duckflow.engine.understand import begin_node
from duckflow.prompts.replies import Action, Decision
from duckflow.record import Record

MOST_DERIVED = 6
_CODE = r"`([^`]{2,80})`|\b([A-Za-z_][A-Za-z0-9_]*(?:[._][A-Za-z0-9_]+)+)\b|\b([a-z]+[A-Z]\w+)\b"
_PATH = r"(?a)[\w.\-/]*[\w\-]\.\w{1,8}|[\w.\-]+/[\w.\-/]+"


class Gathered(Record):
    """A Decision whose reads were done: what they gave, and the actions that are left."""

    decision: Decision
    outcomes: tuple[Outcome, ...] = ()
    rest: tuple[Action, ...] = ()


async def gather(kit: Kit, run: str, decision: Decision) -> Gathered | Judge | Ending:
    lead = tuple(takewhile(lambda action: not kit.dispatcher.acts(action), decision.actions))
    rest = tuple(decision.actions[len(lead) :])
    outcomes = await kit.dispatcher.batch(run, lead) if lead else []
    if lead or rest or not decision.information_needs:
        return Gathered(decision, tuple(outcomes), rest)
    return await _needs(kit, run, decision)


async def _needs(kit: Kit, run: str, decision: Decision) -> Gathered | Judge | Ending:
    """The model named what it must know and gave no action: search for it; ask the model only about what stays open."""
    actions, unmet = derive(decision.information_needs, kit)
    outcomes = await kit.dispatcher.batch(run, actions) if actions else []
    if not unmet:
        return Gathered(decision, tuple(outcomes))
    record_results(kit, run, outcomes)
    begin_node(kit, run, "gather", needs=list(unmet))
    settled = await settle(kit, run, await ask_decision(kit, run, "gather"), "gather")
    if not isinstance(settled, Decision):
        return settled
    return await gather(kit, run, settled.model_copy(update={"information_needs": []}))


def derive(needs: Sequence[str], kit: Kit) -> tuple[list[Action], list[str]]:
    """Reads and searches for needs that name a file or a piece of code; the needs that name neither."""
    actions: dict[str, Action] = {}
    unmet: list[str] = []
    for need in needs:
        paths = [p for p in re.findall(_PATH, need) if is_readable(kit, p)]
        words = [next(w for w in groups if w) for groups in re.findall(_CODE, need)]
        for path in paths:
            actions[path] = Action(operation="file_ops.read_file", args={"path": path}, reasoning=need)
        for word in [] if paths else words[:2]:
            actions[word] = Action(operation="search.text", args={"query": word}, reasoning=need)
        if not paths and not words:
            unmet.append(need)
    return list(actions.values())[:MOST_DERIVED], unmet
