"""What happened, told by the harness from evidence, when the model's own words may not stand."""

from __future__ import annotations

from duckflow.engine.evidence import changed_files
from duckflow.engine.kit import Kit
from duckflow.i18n import _
from duckflow.state.objective import Verdict


def refused_alone(kit: Kit, run: str) -> tuple[str, ...]:
    """What nobody could allow, in this run and in those that work for it."""
    state = kit.session.state
    family = [r for r in state.runs.values() if run in (r.id, r.parent)]
    return tuple(action for r in family for action in r.unattended)


def outcome_text(kit: Kit, run: str, verdict: Verdict | None = None) -> str:
    """Changed files, the score, and what is missing, in the person's language."""
    lines: list[str] = []
    files = changed_files(kit, run)
    if files:
        lines.append(_("Changed: {files}.", files=", ".join(f"`{path}`" for path in files)))
    else:
        lines.append(_("Nothing was changed."))
    if verdict is None:
        return "\n".join(lines)
    lines.append(_("Judged {score} of 1.0.", score=f"{verdict.overall:.2f}"))
    if verdict.assessment:
        lines.append(verdict.assessment)
    if verdict.missing:
        lines += [_("Missing:"), *(f"- {item}" for item in verdict.missing)]
    elif verdict.blocked:
        lines.append(_("In the way: {what}.", what=verdict.blocked))
    return "\n".join(lines)
