"""The store: one SQLite database per workspace, an append-only event table with a hash chain per session, blobs.

Owns the file and its format. Knows events as JSON; what they mean is none of its business.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from duckflow.errors import N_, StoreError
from duckflow.events import Event, body_from_json
from duckflow.record import Record

FORMAT = 1
START = "0" * 64
_BUSY = 10.0  # seconds to wait for another process
_SCHEMA = """
create table if not exists sessions(
  id text primary key, created text, updated text, title text not null default '', status text not null default '',
  parent text, last_seq integer not null default 0, head text not null);
create table if not exists events(
  session text, seq integer, at text, run text, type text, body text, hash text,
  primary key (session, seq)) without rowid;
create table if not exists blobs(name text primary key, data blob) without rowid;
"""


class SessionRow(Record):
    id: str
    created: str
    updated: str
    title: str
    status: str
    parent: str | None
    last_seq: int
    head: str


class Break(Record):
    """A place where the chain does not hold."""

    session: str
    seq: int
    what: str


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def workspace_dir(data_home: Path, workspace: Path) -> Path:
    """Where everything about a workspace is kept, outside of it."""
    digest = hashlib.sha256(os.fsencode(workspace)).hexdigest()[:10]
    slug = "".join(c if c.isalnum() or c in "-_" else "-" for c in workspace.name)[:40] or "root"
    return data_home / "workspaces" / f"{slug}-{digest}"


class Store:
    """The database of one workspace. Opened once per process; every call is one transaction."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.set_aside: Path | None = None  # where a damaged or newer database was put
        self._pending: dict[str, bytes] = {}  # blobs that the next event will name
        self._db = self._open()

    def _open(self) -> sqlite3.Connection:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            try:
                return self._connect()
            except sqlite3.DatabaseError as error:
                if isinstance(error, sqlite3.OperationalError) and "malformed" not in str(error):
                    raise
                self._put_aside()
                return self._connect()
        except (OSError, sqlite3.Error) as error:
            raise StoreError(
                N_("The data directory cannot be used: {path} ({error})."),
                hint=N_("Make it writable, free some space, or set DUCKFLOW_HOME to another directory."),
                path=self.path.parent,
                error=error,
            ) from error

    def _connect(self) -> sqlite3.Connection:
        fresh = not self.path.exists()
        db = sqlite3.connect(self.path, isolation_level=None, timeout=_BUSY)
        try:
            _patiently(lambda: _prepare(db))
            if fresh:
                self.path.chmod(0o600)
        except BaseException:
            db.close()
            raise
        return db

    def _put_aside(self) -> None:
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
        self.set_aside = self.path.with_name(f"{self.path.name}.set-aside-{stamp}")
        for suffix in ("", "-wal", "-shm"):
            old = self.path.with_name(self.path.name + suffix)
            if old.exists():
                old.rename(self.set_aside.with_name(self.set_aside.name + suffix))

    def close(self) -> None:
        self._db.close()

    # --- writing -------------------------------------------------------------------------------------------------

    def append(self, events: Sequence[Event], title: str, status: str, parent: str | None) -> None:
        """Add events of one session in one transaction; committed and on disk when this returns."""
        session = events[0].session
        try:
            self._db.execute("begin immediate")
            row = self._db.execute("select last_seq, head from sessions where id=?", (session,)).fetchone()
            last, head = row or (0, START)
            if events[0].seq != last + 1:
                raise StoreError(
                    N_("Session {session} was changed by another Duckflow."),
                    hint=N_("Nothing of it was overwritten. Go on with `duckflow resume {session} --fork`."),
                    session=session,
                )
            if row is None:
                self._db.execute(
                    "insert into sessions(id, created, parent, head) values(?,?,?,?)",
                    (session, events[0].at, parent, START),
                )
            for event in events:
                head = self._insert(event, head)
            self._db.executemany("insert or ignore into blobs values(?,?)", self._pending.items())
            self._db.execute(
                "update sessions set updated=?, title=?, status=?, last_seq=?, head=? where id=?",
                (events[-1].at, title, status, events[-1].seq, head, session),
            )
            self._db.execute("commit")
            self._pending.clear()
        except BaseException as error:
            if self._db.in_transaction:
                self._db.execute("rollback")
            if isinstance(error, sqlite3.Error):
                raise StoreError(
                    N_("What just happened could not be recorded in {path} ({error}). Duckflow stops here."),
                    hint=N_("Free some space or set DUCKFLOW_HOME, then `duckflow resume`."),
                    path=self.path,
                    error=error,
                ) from error
            raise

    def _insert(self, event: Event, head: str) -> str:
        body = json.dumps(event.body.brief(self._keep), ensure_ascii=False, sort_keys=True)
        name = event.to_json()["type"] if event.body.type == "?" else event.body.type
        digest = chain(head, event.session, event.seq, event.at, event.run, name, body)
        self._db.execute(
            "insert into events values(?,?,?,?,?,?,?)",
            (event.session, event.seq, event.at, event.run, name, body, digest),
        )
        return digest

    def _keep(self, text: str) -> str:
        return self.put(text.encode("utf-8", "surrogatepass"))

    def put(self, data: bytes) -> str:
        """Keep a content under its hash. It is written together with the next event, which should name it."""
        name = hashlib.sha256(data).hexdigest()
        self._pending[name] = data
        return name

    # --- reading -------------------------------------------------------------------------------------------------

    def get(self, name: str) -> bytes | None:
        if name in self._pending:
            return self._pending[name]
        row = self._db.execute("select data from blobs where name=?", (name,)).fetchone()
        if row is None:
            return None
        return row[0].encode() if isinstance(row[0], str) else bytes(row[0])

    def sessions(self) -> list[SessionRow]:
        """Newest first."""
        rows = self._db.execute(
            "select id, created, updated, title, status, parent, last_seq, head from sessions "
            "order by updated desc, id desc"
        )
        return [SessionRow(*row) for row in rows]

    def events(self, session: str) -> Iterator[Event]:
        rows = self._db.execute("select seq, at, run, type, body from events where session=? order by seq", (session,))
        for seq, at, run, type_, body in rows:
            yield Event(seq, at, session, run, body_from_json(type_, self._restored(json.loads(body))))

    def stored_lines(self, session: str) -> Iterator[dict[str, Any]]:
        """The events as they are stored: long texts by name; `chain` is the hash that links them."""
        rows = self._db.execute(
            "select seq, at, run, type, body, hash from events where session=? order by seq", (session,)
        )
        for seq, at, run, type_, body, digest in rows:
            head = {"seq": seq, "at": at, "session": session, "type": type_, "run": run}
            yield {**head, **json.loads(body), "chain": digest}

    def _restored(self, data: dict[str, Any]) -> dict[str, Any]:
        return {
            k: {n: self._text(t) for n, t in v.items()} if k == "blocks" and isinstance(v, Mapping) else self._text(v)
            for k, v in data.items()
        }

    def _text(self, value: Any) -> Any:
        if isinstance(value, dict) and set(value) == {"blob", "chars"}:
            raw = self.get(value["blob"])
            return "" if raw is None else raw.decode("utf-8", "surrogatepass")
        return value

    def verify(self, session: str | None = None) -> list[Break]:
        """Every place where a chain, its end, or a blob does not match. Empty: nothing was changed."""
        rows = [s for s in self.sessions() if session in (None, s.id)]
        return [found for row in rows for found in self._verify(row)] + self._stray(rows, session)

    def _verify(self, row: SessionRow) -> Iterator[Break]:
        head, expected = START, 1
        lines = self._db.execute(
            "select seq, at, run, type, body, hash from events where session=? order by seq", (row.id,)
        )
        for seq, at, run, type_, body, digest in lines:
            if seq != expected:
                yield Break(row.id, expected, "missing")
            if chain(head, row.id, seq, at, run, type_, body) != digest:
                yield Break(row.id, seq, "changed")
            for name in _blob_names(_parsed(body)):
                data = self.get(name)
                if data is None or hashlib.sha256(data).hexdigest() != name:
                    yield Break(row.id, seq, "blob changed" if data is not None else "blob missing")
            head, expected = digest, seq + 1
        if head != row.head or expected != row.last_seq + 1:
            yield Break(row.id, row.last_seq, "end missing")

    def _stray(self, rows: list[SessionRow], session: str | None) -> list[Break]:
        known = {row.id for row in rows}
        found = [r[0] for r in self._db.execute("select distinct session from events") if session in (None, r[0])]
        return [Break(name, 0, "session missing") for name in found if name not in known]


def _prepare(db: sqlite3.Connection) -> None:
    """Journal mode and tables. Several may do this to a new file at once: the version is looked at under the lock."""
    db.execute("pragma journal_mode=wal")
    db.execute("pragma synchronous=full")
    found = db.execute("pragma user_version").fetchone()[0]
    if found < FORMAT:
        with db:  # committed, or rolled back
            db.execute("begin immediate")
            found = db.execute("pragma user_version").fetchone()[0]
            for statement in (*_SCHEMA.split(";"), f"pragma user_version={FORMAT}") if found < FORMAT else ():
                db.execute(statement)
    if found > FORMAT:
        raise sqlite3.DatabaseError(f"made by a newer Duckflow (format {found})")


def _patiently(work: Callable[[], None]) -> None:
    """Again while another process is at it: changing the journal mode does not wait by itself."""
    end, pause = time.monotonic() + _BUSY, 0.002
    while True:
        try:
            return work()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() + pause > end:
                raise
        time.sleep(pause)
        pause = min(2 * pause, 0.05)


def chain(head: str, session: str, seq: int, at: str, run: str | None, type_: str, body: str) -> str:
    """The hash of an event: it covers everything stored of it and the hash of the one before."""
    line = json.dumps([head, session, seq, at, run, type_, body], ensure_ascii=False)
    return hashlib.sha256(line.encode("utf-8", "surrogatepass")).hexdigest()


def _parsed(body: str) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return None


def _blob_names(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if set(value) == {"blob", "chars"}:
            yield value["blob"]
        else:
            for item in value.values():
                yield from _blob_names(item)
    elif isinstance(value, list):
        for item in value:
            yield from _blob_names(item)
