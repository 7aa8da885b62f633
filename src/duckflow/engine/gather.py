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
    needs = () if rest else decision.information_needs
    more, unmet = derive(needs, kit, {str(action.args.get("path", "")) for action in lead})
    outcomes = await kit.dispatcher.batch(run, [*lead, *more]) if lead or more else []
    if lead or not unmet:
        return Gathered(decision, tuple(outcomes), rest)
    return await _ask_what_is_missing(kit, run, outcomes, unmet)


async def _ask_what_is_missing(
    kit: Kit, run: str, outcomes: Sequence[Outcome], unmet: Sequence[str]
) -> Gathered | Judge | Ending:
    """Needs that name neither a file nor a piece of code: the model says how to find out."""
    record_results(kit, run, outcomes)
    begin_node(kit, run, "gather", needs=list(unmet))
    settled = await settle(kit, run, await ask_decision(kit, run, "gather"), "gather")
    if not isinstance(settled, Decision):
        return settled
    return await gather(kit, run, settled.model_copy(update={"information_needs": []}))


def derive(needs: Sequence[str], kit: Kit, known: set[str]) -> tuple[list[Action], list[str]]:
    """Reads and searches for needs that name a file or a piece of code; the needs that name neither."""
    actions: dict[str, Action] = {}
    unmet: list[str] = []
    for need in needs:
        paths = [p for p in re.findall(_PATH, need) if is_readable(kit, p)]
        words = [next(w for w in groups if w) for groups in re.findall(_CODE, need)]
        for path in paths if not known.issuperset(paths) else ():
            actions[path] = Action(operation="file_ops.read_file", args={"path": path}, reasoning=need)
        for word in [] if paths else words[:2]:
            actions[word] = Action(operation="search.text", args={"query": word}, reasoning=need)
        if not paths and not words:
            unmet.append(need)
    return list(actions.values())[:MOST_DERIVED], unmet
