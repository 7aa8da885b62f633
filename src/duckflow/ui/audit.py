"""`duckflow audit`: who decided what, with which effect and evidence; the chain, the events, the figures."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from duckflow.errors import N_, UsageError, fill
from duckflow.events import Event, body_from_json
from duckflow.i18n import _, listed, ngettext
from duckflow.record import Record
from duckflow.state.journal import SessionRow, Store
from duckflow.state.session import find_session
from duckflow.ui.answers import answer_word, who, why_not
from duckflow.ui.figures import joined, when
from duckflow.ui.out import Out, stderr, stdout
from duckflow.ui.safe import safe_json, safe_line
from duckflow.ui.table import table

NOTHING_YET = N_("Nothing was done yet.")
RISKS = ("LOW", "MEDIUM", "HIGH", "CRITICAL")
_ABOUT_ACTIONS = ("gate.asked", "gate.answered", "action.started", "action.finished")


class Query(Record):
    session: str | None = None
    operation: str | None = None  # a name or a pattern: file_ops.*
    risk: str | None = None
    verify: bool = False
    export: str | None = None  # a file; "-" is standard output
    stats: bool = False


@dataclass
class Entry:
    """One action from the question to the evidence."""

    session: str
    action: str
    at: str = ""
    operation: str = ""
    risk: str = ""
    answer: str = ""
    by: str = ""
    comment: str = ""
    reasoning: str = ""
    ok: bool | None = None
    evidence: str = ""
    error: str = ""
    proof: list[dict[str, Any]] = field(default_factory=list)  # `evidence` as it was recorded

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "proof"}


def show(store: Store, query: Query, out: Out | None = None, *, as_json: bool = False) -> int:
    """Exit code 1 when the chain does not hold, 0 otherwise."""
    out = out or stdout()
    if query.stats:
        return _stats(store, query, out, as_json)
    if query.risk is not None and query.risk.upper() not in RISKS:
        hint = N_("It is LOW, MEDIUM, HIGH or CRITICAL.")
        raise UsageError(N_("{risk} is not a risk level."), hint=hint, risk=safe_line(query.risk))
    rows = _sessions(store, query.session)
    if query.verify:
        return _verify(store, query, rows, out)
    if query.export is not None:
        return _export(store, query, rows, out)
    entries = [entry for row in rows for entry in _entries(store, row.id) if _matches(entry, query)]
    if as_json:
        for entry in entries:
            out.line(safe_json(json.dumps(entry.to_json(), ensure_ascii=False)))
    elif entries:
        _print(entries, out)
    else:
        is_all = query.operation is None and query.risk is None
        out.line(_(NOTHING_YET) if is_all else _("No recorded action matches."))
    return 0


def _sessions(store: Store, wanted: str | None) -> list[SessionRow]:
    """Oldest first, as a log is read."""
    if wanted is None:
        return store.sessions()[::-1]
    name = find_session(store, wanted)
    return [row for row in store.sessions() if row.id == name]


def _stats(store: Store, query: Query, out: Out, as_json: bool) -> int:
    """Figures over the objectives. A fork is read together with the session it came from."""
    from duckflow.ui import stats

    given = (query.operation, query.risk, query.verify or None, query.export)
    for option, value in zip(("--operation", "--risk", "--verify", "--export"), given, strict=True):
        if value is not None:
            raise UsageError(N_("{one} and {other} exclude each other."), one="--stats", other=option)
    rows = _sessions(store, query.session)
    names = [row.id for row in rows]
    origins = [row.parent for row in rows if row.parent is not None]
    told = {name: _events(store, name, stats.ABOUT) for name in dict.fromkeys((*names, *origins))}
    return stats.show(stats.compute(told, names), len(names), out, as_json=as_json)


def _events(store: Store, session: str, types: tuple[str, ...]) -> list[Event]:
    """The events of these types, without the long texts of the others."""
    return [
        Event(line["seq"], line["at"], session, line["run"], body_from_json(line["type"], line))
        for line in store.stored_lines(session)
        if line["type"] in types
    ]


# --- the table ----------------------------------------------------------------------------------------------------


def _entries(store: Store, session: str) -> Iterator[Entry]:
    found: dict[str, Entry] = {}
    for line in store.stored_lines(session):
        if line["type"] not in _ABOUT_ACTIONS:
            continue
        for action in line.get("actions") or [line["action"]]:
            entry = found.setdefault(action, Entry(session, action))
            _add(entry, line)
    yield from found.values()


def _add(entry: Entry, line: dict[str, Any]) -> None:
    entry.at = entry.at or line["at"]
    entry.operation = entry.operation or line.get("operation") or ""
    match line["type"]:
        case "gate.asked":
            entry.risk = line["risk"]
        case "gate.answered":
            entry.answer, entry.by, entry.comment = line["answer"], line["by"], line.get("comment", "")
        case "action.started":
            entry.risk, entry.reasoning = line["risk"], line["reasoning"]
        case _:
            entry.ok, entry.error = line["ok"], line.get("error") or ""
            entry.proof = list(line.get("evidence", ()))
            entry.evidence = ", ".join(_for_scripts(item) for item in entry.proof)


def _about(item: dict[str, Any]) -> tuple[str, str, int | None]:
    facts = item.get("facts", {})
    return str(item.get("id", "")), str(facts.get("path") or facts.get("command") or ""), facts.get("exit")


def _for_scripts(item: dict[str, Any]) -> str:
    """In the JSON output, the same in every language."""
    name, what, code = _about(item)
    return f"{name} {item.get('kind', '')} {what}{'' if code is None else f' exit {code}'}".strip()


def _shown(item: dict[str, Any]) -> str:
    name, what, code = _about(item)
    kinds = {"read": _("{id} read {what}"), "change": _("{id} changed {what}"), "command": _("{id} ran {what}")}
    text = fill(kinds.get(item.get("kind", ""), "{id} {what}"), {"id": name, "what": what}).strip()
    return joined((text, "" if code is None else _("exit {code}", code=code)))


def _matches(entry: Entry, query: Query) -> bool:
    if query.risk is not None and entry.risk.upper() != query.risk.upper():
        return False
    wanted = query.operation
    return wanted is None or fnmatchcase(entry.operation, wanted) or entry.operation.startswith(f"{wanted}.")


def _print(entries: list[Entry], out: Out) -> None:
    heads = (_("AT"), _("OPERATION"), _("RISK"), _("ANSWER"), _("OK"), _("EVIDENCE"))
    rows = [
        (
            when(entry.at),
            safe_line(entry.operation),
            safe_line(entry.risk) or "—",
            f"{answer_word(entry.answer)}/{who(entry.by)}" if entry.answer else "—",
            {True: "✓", False: "✗", None: "?"}[entry.ok],
            safe_line(listed(map(_shown, entry.proof)) or why_not(entry.error) or entry.comment) or "—",
        )
        for entry in entries
    ]
    table(out, heads, rows, flexible=5)


# --- checking and exporting ---------------------------------------------------------------------------------------


def _verify(store: Store, query: Query, rows: list[SessionRow], out: Out) -> int:
    breaks = store.verify(rows[0].id if query.session is not None else None)
    what = {
        "missing": _("an event is missing"),
        "changed": _("the event was changed"),
        "blob changed": _("a text it names was changed"),
        "blob missing": _("a text it names is missing"),
        "end missing": _("the end of the session is missing"),
        "session missing": _("the session's own row is missing"),
    }
    for found in breaks:
        told = what.get(found.what, found.what)
        out.line(_("{session} event {seq}: {what}", session=safe_line(found.session), seq=found.seq, what=told), "red")
    count = sum(row.last_seq for row in rows)
    sessions = ngettext("{n} session", "{n} sessions", len(rows))
    events = ngettext("{n} event", "{n} events", count)
    out.line(_("checked: {what}", what=listed((sessions, events))))
    if breaks:
        told = ngettext(
            "The record does not hold in {n} place.", "The record does not hold in {n} places.", len(breaks)
        )
        out.line(told, "red")
        return 1
    out.line(_("The record is whole."), "green")
    return 0


def _export(store: Store, query: Query, rows: list[SessionRow], out: Out) -> int:
    lines = [line for row in rows for line in _chosen(store, row.id, query)]
    text = "".join(safe_json(json.dumps(line, ensure_ascii=False)) + "\n" for line in lines)
    if query.export == "-":
        out.write(text)
        return 0
    assert query.export is not None
    try:
        descriptor = os.open(query.export, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise UsageError(N_("Cannot write {path}: {why}."), path=query.export, why=error.strerror or error) from error
    path = safe_line(query.export, exact=True)
    told = ngettext("{n} event written to {path}", "{n} events written to {path}", len(lines), path=path)
    stderr().line(told)
    return 0


def _chosen(store: Store, session: str, query: Query) -> Iterator[dict[str, Any]]:
    """All events of a session, or those about the actions that were asked for."""
    if query.operation is None and query.risk is None:
        yield from store.stored_lines(session)
        return
    wanted = {entry.action for entry in _entries(store, session) if _matches(entry, query)}
    for line in store.stored_lines(session):
        actions = line.get("actions") or [line.get("action")]
        if line["type"] in _ABOUT_ACTIONS and wanted.intersection(actions):
            yield line
