"""Which lines of a text match a query: plain text here, regular expressions in a process that can be killed."""

from __future__ import annotations

import json
import re
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

MOST = 101
_PATIENCE = 5.0  # seconds for one text of a megabyte or so: more is an expression that explodes
Matcher = Callable[[str], list[int]]  # text with LF → line numbers from 0


class TooSlow(Exception):
    """The regular expression did not finish in time."""


def literal(query: str) -> Matcher:
    """Lines that contain the query as it is."""

    def find(text: str) -> list[int]:
        out: list[int] = []
        at, line, counted = text.find(query), 0, 0
        while at >= 0 and len(out) < MOST:
            line += text.count("\n", counted, at)
            counted = at
            out.append(line)
            end = text.find("\n", at)
            at = text.find(query, end) if end >= 0 else -1
        return out

    return find


@contextmanager
def expression(pattern: str, seconds: float) -> Iterator[Matcher]:
    """Lines that match a regular expression. Raises re.error for a wrong one, TooSlow past the limit."""
    re.compile(pattern)
    worker = subprocess.Popen(
        [sys.executable, "-I", "-S", str(Path(__file__).with_name("regex_worker.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env={},
    )
    end = time.monotonic() + seconds
    try:
        _send(worker, pattern)
        yield lambda text: _ask(worker, text, end)
    finally:
        worker.kill()
        worker.communicate()


def _send(worker: subprocess.Popen[bytes], text: str) -> None:
    data = text.encode("utf-8", "replace")
    assert worker.stdin is not None
    worker.stdin.write(len(data).to_bytes(8, "big") + data)
    worker.stdin.flush()


def _ask(worker: subprocess.Popen[bytes], text: str, end: float) -> list[int]:
    assert worker.stdout is not None
    try:
        _send(worker, text)
        left = min(_PATIENCE, end - time.monotonic())
        ready, _w, _x = select.select([worker.stdout], [], [], max(0.0, left))
    except BrokenPipeError as error:
        raise TooSlow("the search process ended") from error
    answer = worker.stdout.readline() if ready else b""
    if not answer:
        raise TooSlow("the regular expression takes too long")
    found: list[int] = json.loads(answer)
    return found
