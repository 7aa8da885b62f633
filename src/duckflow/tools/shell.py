"""shell.run: one command in the workspace, with a clean environment, a time limit and a bounded output."""

from __future__ import annotations

import asyncio
import codecs
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import Field

from duckflow.i18n import _
from duckflow.safety.change import Change, Effect
from duckflow.safety.neutral import neutral
from duckflow.tools.base import Args, Context, Operation, ToolResult, failed

DEFAULT_LIMIT = 120.0
MAX_LIMIT = 600.0
_GRACE = 1.0  # seconds between asking to end and killing
_MAX_COMMAND = 100_000
_HEAD, _TAIL = 256 * 1024, 768 * 1024
_MAX_LIVE = 1_000_000  # characters shown while it runs
_PIECE = 64 * 1024

_PASSED = frozenset((
    "PATH", "HOME", "LANG", "LANGUAGE", "TMPDIR", "USER", "LOGNAME", "SHELL", "TZ", "VIRTUAL_ENV", "CONDA_PREFIX",
    "JAVA_HOME", "GOPATH", "GOROOT", "CARGO_HOME", "RUSTUP_HOME", "NVM_DIR", "PYENV_ROOT", "RBENV_ROOT", "PNPM_HOME",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "CI"
))  # fmt: skip
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SHELLS = (("/bin/bash", "--noprofile", "--norc"), ("/usr/bin/bash", "--noprofile", "--norc"), ("/bin/sh",))


class ShellArgs(Args):
    command: str
    timeout: float | None = Field(default=None, gt=0, le=MAX_LIMIT)


def child_environment(env: Mapping[str, str]) -> dict[str, str]:
    """What a command may know of the user's environment: an allow-list without keys or ways to inject code."""
    out = {name: value for name, value in env.items() if name in _PASSED or name.startswith("LC_")}
    out.setdefault("PATH", _DEFAULT_PATH)
    if not any(out.get(name) for name in ("LC_ALL", "LC_CTYPE", "LANG")):
        out["LANG"] = "C.UTF-8"
    return {**out, "TERM": "dumb", "NO_COLOR": "1"}


async def _prepare(args: ShellArgs, ctx: Context) -> Change | ToolResult:
    command = args.command.removesuffix("\n")
    if not command.strip():
        return failed("the command is empty")
    if "\0" in command:
        return failed("the command contains a NUL character")
    if len(command.encode("utf-8", "replace")) > _MAX_COMMAND:
        return failed(f"the command is longer than {_MAX_COMMAND:,} bytes; write a file and run that")
    summary = _("run {command}", command=command)
    return Change("shell.run", Effect.COMMAND, summary, command=command, preview=command, preview_kind="command")


@dataclass
class _Output:
    """The beginning and the end of what a command prints, however much it is."""

    live: Callable[[str], None] | None
    head: bytearray = field(default_factory=bytearray)
    tail: deque[bytes] = field(default_factory=deque)
    total: int = 0
    _kept: int = 0
    _shown: int = 0
    _line: str = ""
    _decoder: codecs.IncrementalDecoder = field(
        default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace")
    )

    def add(self, piece: bytes) -> None:
        self.total += len(piece)
        self._show(piece)
        room = _HEAD - len(self.head)
        self.head += piece[:room]
        rest = piece[room:]
        if not rest:
            return
        self.tail.append(rest)
        self._kept += len(rest)
        while self._kept - len(self.tail[0]) >= _TAIL:
            self._kept -= len(self.tail.popleft())

    def _show(self, piece: bytes) -> None:
        if self.live is None or self._shown > _MAX_LIVE:
            return
        text = self._line + self._decoder.decode(piece)
        done, newline, self._line = text.rpartition("\n")
        if len(self._line) > 4096:
            done, newline, self._line = text, "", ""
        if done or newline:
            self._tell(done + newline)

    def _tell(self, text: str) -> None:
        self._shown += len(text)
        try:
            if self.live is not None:
                self.live(neutral(text))
        except Exception:  # a broken screen must not leave the command without a reader
            self.live = None

    def close(self) -> None:
        if self._line:
            self._tell(self._line)
            self._line = ""

    def text(self) -> str:
        tail = b"".join(self.tail)[-_TAIL:]
        left_out = self.total - len(self.head) - len(tail)
        if left_out <= 0:
            return neutral((bytes(self.head) + tail).decode("utf-8", "replace"))
        note = f"\n… [{left_out:,} bytes left out] …\n"
        return neutral(self.head.decode("utf-8", "replace") + note + tail.decode("utf-8", "replace"))


async def _run(args: ShellArgs, change: Change, ctx: Context) -> ToolResult:
    limit = args.timeout or DEFAULT_LIMIT
    output = _Output(ctx.on_output)
    began = time.monotonic()
    try:
        process = await _start(change.command or "", ctx)
    except OSError as error:
        return failed(f"the command could not be started: {error.strerror}")
    reader = asyncio.create_task(_pump(process, output))
    timed_out = False
    try:
        async with asyncio.timeout(limit):
            await process.wait()
    except TimeoutError:
        timed_out = True
    finally:
        await _end(process, reader)
    output.close()
    seconds = time.monotonic() - began
    return _result(change.command or "", output, None if timed_out else process.returncode, seconds, limit)


async def _start(command: str, ctx: Context) -> asyncio.subprocess.Process:
    shell = next((shell for shell in _SHELLS if os.access(shell[0], os.X_OK)), _SHELLS[-1])
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *("-I", "-S", str(Path(__file__).with_name("supervisor.py")), str(_GRACE)),
        *shell,
        *("-c", "--", command),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=ctx.workspace.root,
        env=child_environment(ctx.env),
        start_new_session=True,
        limit=_PIECE,
    )


async def _pump(process: asyncio.subprocess.Process, output: _Output) -> None:
    assert process.stdout is not None
    while piece := await process.stdout.read(_PIECE):
        output.add(piece)


async def _end(process: asyncio.subprocess.Process, reader: asyncio.Task[None]) -> None:
    """Let go of the lifeline and wait until everything is gone. A second stop does not cut this short."""
    if process.stdin is not None:
        process.stdin.close()
    ending = asyncio.ensure_future(_gone(process, reader))
    stopped: asyncio.CancelledError | None = None
    while not ending.done():
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError as error:
            stopped = error
    if stopped is not None:
        raise stopped


async def _gone(process: asyncio.subprocess.Process, reader: asyncio.Task[None]) -> None:
    try:
        async with asyncio.timeout(_GRACE + 8):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
    _done, late = await asyncio.wait([reader], timeout=1)
    for task in late:
        task.cancel()


def _result(command: str, output: _Output, code: int | None, seconds: float, limit: float) -> ToolResult:
    facts = {"command": command, "exit": code, "seconds": round(seconds, 1), "bytes": output.total}
    took, text = f"{seconds:.1f} s", output.text()
    if code is None:
        return ToolResult(
            ok=False,
            text=text,
            head=("timed out", took),
            error=f"timed out after {limit:g} s; the command and all its processes were killed",
            kind="command",
            facts={**facts, "timed_out": True},
            output=text,
        )
    head = (f"exit {code}", took)
    return ToolResult(True, text, head, exit_code=code, kind="command", facts=facts, output=text)


SHELL_RUN = Operation(
    "shell.run", ShellArgs, Effect.COMMAND, "one command in the workspace; no input, default 120 s", _prepare, _run
)
