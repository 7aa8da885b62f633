"""Runs one command and leaves nothing behind: a process of its own, standard library only, run as a script.

supervisor.py GRACE PROGRAM ARGUMENT…   standard input is the lifeline: when it closes (a stop, or Duckflow was
killed) everything ends. Its exit code is the command's, 128 + n after signal n. Orphans of the command come back
here (Linux), so that also processes which left the group are found and killed.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time

_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
_LAST = 5.0  # seconds in which everything must be gone


def _adopt_orphans() -> None:
    try:
        import ctypes

        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    except (ImportError, OSError, AttributeError):
        return


def _start(argv: list[str]) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        for number in (signal.SIGPIPE, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.execv(argv[0], argv)
    finally:
        os._exit(127)


def _children() -> list[int]:
    me = os.getpid()
    try:
        with open(f"/proc/self/task/{me}/children", encoding="ascii") as handle:
            return [int(word) for word in handle.read().split()]
    except OSError:
        return [pid for pid in _processes() if _parent(pid) == me]


def _processes() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []


def _parent(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as handle:
            return int(handle.read().rpartition(b")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return 0


def _signal(shell: int, number: int) -> None:
    """To the command's group (its leader is not waited for yet, so the number is still its own) and to orphans."""
    for kill, target in ((os.killpg, shell), *((os.kill, pid) for pid in _children())):
        try:
            kill(target, number)
        except (ProcessLookupError, PermissionError):
            continue


def _alone(shell: int) -> bool:
    """Reap what has ended; whether nothing but the (unreaped) command's leader is left."""
    for pid in _children():
        if pid != shell:
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                continue
    return all(pid == shell for pid in _children()) and not _group_lives(shell)


def _group_lives(shell: int) -> bool:
    """Whether the group has other members; a zombie leader alone still takes signals, so ask /proc."""
    for pid in _processes():
        if pid == shell:
            continue
        try:
            if os.getpgid(pid) == shell:
                return True
        except OSError:
            continue
    return False


def _ended(shell: int) -> bool:
    return os.waitid(os.P_PID, shell, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _wait(shell: int, wake: int) -> None:
    """Until the command ends or the lifeline closes."""
    while not _ended(shell):
        ready, _w, _x = select.select([0, wake], [], [])
        if wake in ready:
            os.read(wake, 4096)
        if 0 in ready and not os.read(0, 4096):
            return


def _clean(shell: int, wake: int, grace: float) -> None:
    for number, seconds in ((signal.SIGTERM, grace), (signal.SIGKILL, _LAST)):
        end = time.monotonic() + seconds
        while not (_ended(shell) and _alone(shell)):
            _signal(shell, number)
            left = end - time.monotonic()
            if left <= 0:
                break
            pause = left if number == signal.SIGTERM else 0.01
            select.select([wake], [], [], min(pause, 0.05))


def main() -> int:
    grace, argv = float(sys.argv[1]), sys.argv[2:]
    _adopt_orphans()
    wake, signalled = os.pipe()
    os.set_blocking(signalled, False)
    signal.set_wakeup_fd(signalled, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    shell = _start(argv)
    _wait(shell, wake)
    _clean(shell, wake, grace)
    _pid, status = os.waitpid(shell, os.WNOHANG)
    if os.WIFSIGNALED(status):
        return 128 + os.WTERMSIG(status)
    return os.WEXITSTATUS(status)


if __name__ == "__main__":
    os._exit(main())
