"""`duckflow sessions`: what was talked about in this workspace, newest first."""

from __future__ import annotations

import json
from typing import Any

from duckflow.i18n import _, ngettext
from duckflow.state.journal import SessionRow, Store
from duckflow.ui.figures import when
from duckflow.ui.out import Out, stdout
from duckflow.ui.safe import safe_json, safe_line
from duckflow.ui.table import table

MOST = 50
UNFINISHED = ("IN_PROGRESS", "REQUIRES_USER_INPUT", "ERROR")


def show(store: Store, out: Out | None = None, *, as_json: bool = False) -> int:
    out = out or stdout()
    rows = store.sessions()
    if as_json:
        for row in rows:
            out.line(safe_json(json.dumps(_facts(store, row), ensure_ascii=False)))
        return 0
    if not rows:
        out.block(_("There is no session in this workspace yet."))
        out.block(_("Start one with `duckflow`."), first="  → ", indent="    ")
        return 0
    heads = (_("SESSION"), _("LAST USED"), _("STATUS"), _("CALLS"), _("TITLE"))
    table(out, heads, [_row(store, row) for row in rows[:MOST]], flexible=4)
    if len(rows) > MOST:
        out.line(ngettext("… and {n} older one", "… and {n} older ones", len(rows) - MOST), "dim")
    out.line(_("`duckflow resume SESSION` goes on with one; the beginning of its name is enough."), "dim")
    return 0


def status_word(status: str) -> str:
    words = {
        "answered": _("answered"),
        "satisfied": _("done"),
        "partial": _("partial"),
        "escalated": _("needs you"),
        "refused": _("not allowed"),
        "failed": _("failed"),
        "cancelled": _("stopped"),
        "deferred": _("put off"),
        "empty": _("empty"),
        "REQUIRES_USER_INPUT": _("waits for you"),
    }
    return words.get(status, _("unfinished"))


def _row(store: Store, row: SessionRow) -> tuple[str, ...]:
    title = safe_line(row.title) or "—"
    if row.parent:
        title = f"{title} ← {safe_line(row.parent)}"
    return (safe_line(row.id), when(row.updated), status_word(row.status), str(_calls(store, row)), title)


def _calls(store: Store, row: SessionRow) -> int:
    return sum(line["type"] == "model.called" for line in store.stored_lines(row.id))


def _facts(store: Store, row: SessionRow) -> dict[str, Any]:
    return {
        "session": row.id,
        "created": row.created,
        "updated": row.updated,
        "title": row.title,
        "status": row.status,
        "parent": row.parent,
        "events": row.last_seq,
        "calls": _calls(store, row),
    }
