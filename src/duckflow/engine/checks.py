"""Checks a machine can make: files that should be there, the user's commands, commands that prove a requirement."""

from __future__ import annotations

from duckflow.engine.approval import Approver
from duckflow.engine.evidence import change_evidence, current_hash
from duckflow.engine.kit import Kit
from duckflow.prompts.replies import Action
from duckflow.state.objective import Check, Evidence


async def run_checks(kit: Kit, run: str) -> list[Check]:
    """Derived checks first, then the user's commands, then those that requirements carry."""
    objective = kit.session.objective(run)
    assert objective is not None
    found = _files(kit, run)
    changes = objective.profile in ("creation", "modification") or bool(objective.originals)
    commands: list[tuple[str, tuple[str, ...], Approver]] = []
    if changes:
        commands += [(command, (), "rule") for command in kit.settings.checks.commands]
    commands += [(r.check, (r.id,), "") for r in objective.requirements if r.check]
    seen: set[str] = set()
    for command, requirements, approved in commands:
        if command in seen:
            continue
        seen.add(command)
        found.append(await _command(kit, run, f"C{len(found) + 1}", command, requirements, approved))
    return found


def _files(kit: Kit, run: str) -> list[Check]:
    """Every file an action wrote or removed must still be there or gone."""
    checks: list[Check] = []
    for path, last in change_evidence(kit, run).items():
        wanted = last.facts.get("hash") is not None
        there = current_hash(kit, path) is not None
        text = f"{path} exists" if wanted else f"{path} is gone"
        checks.append(Check(f"C{len(checks) + 1}", text, there is wanted, last.id))
    return checks


async def _command(
    kit: Kit, run: str, name: str, command: str, requirements: tuple[str, ...], approved: Approver
) -> Check:
    """A command's exit code. What already ran after the last change is not run again."""
    ran = _fresh(kit, run, command)
    if ran is None:
        action = Action(operation="shell.run", args={"command": command}, reasoning="a check of the work")
        outcome = (await kit.dispatcher.batch(run, [action], approved, review=True))[0]
        if outcome.state != "ok":
            return Check(name, command, None, None, requirements, outcome.result.error)
        ran = _fresh(kit, run, command)
    code = ran.facts.get("exit") if ran else None
    return Check(name, command, code == 0, ran.id if ran else None, requirements, f"exit {code}")


def _fresh(kit: Kit, run: str, command: str) -> Evidence | None:
    """The newest result of this command, while nothing has changed since."""
    state = kit.session.state
    mine = state.evidence.get(kit.session.run(run).objective or "", ())
    for item in reversed(mine):
        if item.kind == "command" and item.ok and item.facts.get("command") == command:
            return item if item.fresh(state.effects, {}) else None
    return None
