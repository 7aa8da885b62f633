"""Results on their way to the model: enveloped, capped, one message per Decision."""

from __future__ import annotations

from collections.abc import Sequence

from duckflow import events as ev
from duckflow.engine.kit import Kit
from duckflow.engine.ledger import Outcome
from duckflow.prompts.budget import size
from duckflow.prompts.results import Result, entry
from duckflow.state.agent import with_refs


def record_results(kit: Kit, run: str, outcomes: Sequence[Outcome], notes: Sequence[str] = ()) -> None:
    """Append what came of the actions to the history of the run."""
    if not outcomes and not notes:
        return
    session = kit.session
    thread = session.run(run).thread
    used = sum(size(e.text) for e in session.state.threads.get(thread, ()))
    room = max(kit.prompts.profile.history - used, kit.prompts.profile.result)
    agent = session.run(run).agent
    paths = [o.result.facts.get("path") for o in outcomes if o.state == "ok"]
    known = with_refs(agent, tuple(f"file:{path}" for path in dict.fromkeys(paths) if path and path != "."))
    if known != agent:
        session.hold(ev.AgentChanged(changes={"context_refs": known.context_refs}), run=run)
    text, cuts = entry([as_result(o) for o in outcomes], notes, kit.prompts.profile.result, room)
    bodies: list[ev.Body] = [ev.HistoryAdded(thread=thread, role="user", kind="results", text=text)]
    if cuts:
        bodies.append(ev.Warned(code="cut", message=f"shortened for the model: {', '.join(cuts)}"))
    session.append(*bodies, run=run)


def as_result(outcome: Outcome) -> Result:
    result = outcome.result
    text = result.text if result.ok else "\n".join(part for part in (result.error, result.text) if part)
    return Result(
        action=outcome.action,
        operation=outcome.operation,
        target=outcome.target,
        state=outcome.state,
        facts=result.head,
        evidence=outcome.evidence,
        text=text,
        numbered_from=result.first_line,
        whole=bool(result.output),
    )
