"""One command as a process, measured from outside: CPU, wall clock, memory. Linux only, nothing is patched."""

from __future__ import annotations

import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.e2e.duck import COMMAND, Duck
from tests.e2e.server import ModelServer, Reply

SECONDS = 60.0  # after which a command counts as hanging
QUIET_SECONDS = 0.5
_ESCAPES = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\x1b\][^\x07]*\x07")
_PROMPT = re.compile(rb"[\r\n]>")
_WHERE_IS_THE_CURSOR = b"\x1b[6n"


class Failed(Exception):
    """The command did not do what the bench expects: there is nothing to measure."""


def cpu_ms(pid: int) -> float:
    """User and system time of all threads of a process so far; /proc/PID/stat counts the same in steps of 10 ms."""
    return time.clock_gettime_ns(~pid << 3 | 2) / 1e6  # the kernel's clock id of another process


def memory_mb(pid: int, name: str) -> float:
    """VmRSS (now) or VmHWM (the most so far)."""
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
        found = re.search(rf"^{name}:\s+(\d+) kB", file.read(), re.M)
    if found is None:
        raise Failed(f"process {pid} has no {name}")
    return int(found[1]) / 1024


@dataclass(frozen=True)
class Sample:
    """A process at one moment."""

    cpu_ms: float
    wall_ms: float
    peak_mb: float


def to_the_end(duck: Duck, *command: str) -> Sample:
    """CPU and wall clock of a whole command."""
    started = time.perf_counter()
    process = subprocess.Popen(command, cwd=duck.project, env=duck.env, stdout=subprocess.DEVNULL)
    with _at_most(process.pid):
        cpu = _waited(process)
    wall = (time.perf_counter() - started) * 1000
    if process.returncode != 0:
        raise Failed(f"{' '.join(command)} ended with {process.returncode}")
    return Sample(cpu, wall, 0.0)


@dataclass(frozen=True)
class Run:
    """`duckflow run` against a model on loopback: the process at each of its requests and at its end."""

    at: list[Sample]
    end: Sample
    bodies: list[dict[str, Any]]
    nodes: list[str]


Model = Callable[[Callable[[], None]], Callable[[dict[str, Any], Mapping[str, str]], Reply]]
"""Makes a scripted model from what is to happen while the client waits for an answer."""


def run(make_duck: Callable[[str], Duck], model: Model, *args: str) -> Run:
    at: list[Sample] = []
    pid, started = 0, 0.0

    def on_request() -> None:
        cpu = cpu_ms(pid)
        at.append(Sample(cpu, (time.perf_counter() - started) * 1000, memory_mb(pid, "VmHWM")))

    with ModelServer(model(on_request)) as server:
        duck = make_duck(server.url)
        started = time.perf_counter()
        process = subprocess.Popen(
            [str(COMMAND), "run", *args], cwd=duck.project, env=duck.env, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
        pid = process.pid
        assert process.stderr is not None
        with _at_most(pid), process.stderr as stream:
            said = stream.read()
            cpu = _waited(process)
        end = Sample(cpu, (time.perf_counter() - started) * 1000, 0.0)
        made = Run(at, end, [request.body for request in server.requests], server.nodes())
    if process.returncode != 0 or server.unexpected or not at:
        raise Failed(f"run ended with {process.returncode} after {len(at)} requests: {said.strip()[-300:]}")
    return made


def _waited(process: subprocess.Popen[Any]) -> float:
    """The CPU milliseconds of a process that has ended; its exit code is noted where Popen would note it."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return (usage.ru_utime + usage.ru_stime) * 1000


@contextmanager
def _at_most(pid: int) -> Iterator[None]:
    """A command of ours that hangs is killed: the bench goes on."""
    timer = threading.Timer(SECONDS, os.kill, (pid, signal.SIGKILL))
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@dataclass(frozen=True)
class Prompt:
    """`duckflow` on a terminal: when its prompt stood there, and when nothing moved any more."""

    drawn: Sample
    quiet: Sample
    idle_mb: float


def prompt(duck: Duck) -> Prompt:
    """Start the chat in a terminal of 80 × 24, wait for the prompt, then for silence, and leave with Ctrl-D."""
    terminal, inside = os.openpty()
    fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    started = time.perf_counter()
    process = subprocess.Popen(
        [str(COMMAND)], cwd=duck.project, env=duck.env,
        stdin=inside, stdout=inside, stderr=inside, start_new_session=True,
    )  # fmt: skip
    os.close(inside)

    def sample() -> Sample:
        cpu = cpu_ms(process.pid)
        return Sample(cpu, (time.perf_counter() - started) * 1000, memory_mb(process.pid, "VmHWM"))

    try:
        _read_until_prompt(terminal)
        drawn = sample()
        _read_until_quiet(terminal, process.pid)
        quiet, idle = sample(), memory_mb(process.pid, "VmRSS")
        os.write(terminal, b"\x04")
        _read_until_gone(terminal)
        if process.wait(SECONDS) != 0:
            raise Failed(f"the chat ended with {process.returncode}")
        return Prompt(drawn, quiet, idle)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        os.close(terminal)


def _read_until_prompt(terminal: int) -> None:
    seen, end = b"", time.monotonic() + SECONDS
    while not _PROMPT.search(_ESCAPES.sub(b"", seen)):
        if time.monotonic() > end:
            raise Failed(f"no prompt within {SECONDS:.0f} s: {seen[-300:]!r}")
        seen += _read(terminal, 0.5)


def _read_until_quiet(terminal: int, pid: int) -> None:
    """Neither output nor work for a while."""
    end, before, since = time.monotonic() + 10 * QUIET_SECONDS, cpu_ms(pid), time.monotonic()
    while time.monotonic() < end and time.monotonic() - since < QUIET_SECONDS:
        said, now = _read(terminal, 0.05), cpu_ms(pid)
        if said or now - before > 0.5:
            since = time.monotonic()
        before = now


def _read_until_gone(terminal: int) -> None:
    end = time.monotonic() + SECONDS
    try:
        while time.monotonic() < end:
            _read(terminal, 0.5)
    except Failed:
        return


def _read(terminal: int, seconds: float) -> bytes:
    """What the command wrote meanwhile; like every terminal, this one says where the cursor is when asked."""
    if not select.select([terminal], [], [], seconds)[0]:
        return b""
    try:
        data = os.read(terminal, 65536)
    except OSError:  # nobody holds the other end
        data = b""
    if not data:
        raise Failed("the command left the terminal")
    if _WHERE_IS_THE_CURSOR in data:
        os.write(terminal, b"\x1b[6;1R")
    return data
