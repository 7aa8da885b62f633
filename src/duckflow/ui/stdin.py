"""What is piped into `run`: all of it from a pipeline, however slow, and never a wait for nobody.

A pipe says nothing about whether anything will ever come. The process at its other end does: a neighbour in a
pipeline (`make | duckflow run …`) is waited for; a supervisor, an editor or a CI runner that merely handed its own
open pipe down to us is not.
"""

from __future__ import annotations

import os
import select
import stat
import sys
import time
from collections.abc import Callable

from duckflow.errors import N_, UsageError
from duckflow.i18n import _

MOST = 1_000_000  # bytes
FIRST_SECONDS = 3.0  # for the first byte from somebody who may never write
IDLE_SECONDS = 30.0  # between two pieces from somebody who may never close
SLOW_SECONDS = 2.0  # after which the person is told what we wait for
_LOOK_SECONDS = 0.3


def piped(say: Callable[[str], None], descriptor: int = 0) -> str | None:
    """The text on standard input, or None when there is none. `say` tells the person why it takes long."""
    try:
        kind = os.fstat(descriptor).st_mode
    except OSError:  # closed
        return None
    if stat.S_ISREG(kind):
        return _text(os.read(descriptor, MOST + 1), say)
    if not (stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind)):
        return None  # a terminal, /dev/null, another device
    return _text(_drain(descriptor, say), say)


def _drain(descriptor: int, say: Callable[[str], None]) -> bytes:
    data = b""
    began, told, neighbour = time.monotonic(), False, None
    while len(data) <= MOST:
        ready, _w, _x = select.select([descriptor], [], [], _LOOK_SECONDS)
        if ready:
            piece = os.read(descriptor, min(65_536, MOST + 1 - len(data)))
            if not piece:
                return data
            data += piece
            began = time.monotonic()
            continue
        waited = time.monotonic() - began
        neighbour = neighbour or written_by_neighbour(descriptor)
        patience = FIRST_SECONDS if not data and neighbour is False else IDLE_SECONDS
        if not neighbour and waited > patience:
            say(_("standard input stays open and silent; going on without waiting (use < /dev/null to say so)"))
            return data
        if neighbour is not False and waited > SLOW_SECONDS and not told:
            say(_("waiting for the command before the pipe to finish …"))
            told = True
    return data


def _text(data: bytes, say: Callable[[str], None]) -> str | None:
    if len(data) > MOST:
        say(_("standard input is longer than {n} bytes; only its beginning is used", n=MOST))
    text = data[:MOST].decode("utf-8", "replace")
    return text if text.strip() else None


def written_by_neighbour(descriptor: int) -> bool | None:
    """Whether a process that is neither we nor an ancestor of ours can write to this pipe. None: not known here."""
    try:
        name = os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return None  # a system without /proc
    if not name.startswith("pipe:"):
        return False
    mine = _ancestors()
    return any(_writes(pid, name) for pid in _processes() if pid not in mine)


def _processes() -> list[int]:
    return [int(entry) for entry in os.listdir("/proc") if entry.isdecimal()]


def _ancestors() -> set[int]:
    found, pid = set(), os.getpid()
    while pid > 0 and pid not in found:
        found.add(pid)
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                pid = int(file.read().rpartition(b")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            break
    return found


def _writes(pid: int, name: str) -> bool:
    folder = f"/proc/{pid}/fd"
    try:
        numbers = os.listdir(folder)
    except OSError:  # gone, or somebody else's
        return False
    for number in numbers:
        try:
            if os.readlink(f"{folder}/{number}") == name and os.lstat(f"{folder}/{number}").st_mode & stat.S_IWUSR:
                return True
        except OSError:
            continue
    return False


def need_terminal() -> None:
    """A chat needs a person at both ends."""
    try:
        is_there = sys.stdin.isatty() and sys.stdout.isatty()
    except (AttributeError, ValueError):  # closed
        is_there = False
    if not is_there:
        hint = N_('Without one: duckflow run "what you want"')
        raise UsageError(N_("The chat needs a terminal for input and output."), hint=hint)
