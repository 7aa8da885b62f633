"""What a piece of work came to: how it ended, who answered, how much it took."""

from __future__ import annotations

from duckflow import events as ev
from duckflow.i18n import _
from duckflow.ui import figures
from duckflow.ui.safe import safe_line


class Usage:
    """What some calls came to."""

    def __init__(self) -> None:
        self.calls = self.tokens = self.cached = self.unpriced = 0
        self.cost = 0.0
        self.estimated = False
        self.models: list[str] = []

    def add(self, body: ev.ModelCalled) -> None:
        self.calls += 1
        self.tokens += body.prompt_tokens + body.completion_tokens
        self.cached += body.cached_tokens
        self.cost += body.cost_usd or 0.0
        self.unpriced += body.cost_usd is None
        self.estimated |= body.estimated
        name = safe_line(f"{body.provider}/{body.model}")
        if name not in self.models:
            self.models.append(name)

    def line(self) -> str:
        """Empty when there was no call."""
        if not self.calls:
            return ""
        return figures.joined(
            (
                " + ".join(self.models),
                figures.calls(self.calls),
                figures.tokens(self.tokens, self.cached, estimated=self.estimated),
                figures.cost(self.cost, self.unpriced, self.calls),
            )
        )


def ended(status: str) -> str:
    """How a run ended, where that is worth a word."""
    words = {
        "satisfied": _("done, with evidence"),
        "partial": _("ended with a partial result"),
        "escalated": _("needs your decision"),
        "refused": _("ended: it was not allowed"),
        "failed": _("ended with an error"),
        "cancelled": _("stopped"),
        "deferred": _("put off"),
    }
    return words.get(status, "")
