"""shell.run: bounded in time and output, clean environment, nothing left running."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from duckflow.engine.ledger import Outcome
from duckflow.engine.record import as_result
from duckflow.prompts.results import envelope
from duckflow.safety.change import Effect
from duckflow.tools.shell import child_environment
from tests.tools.bench import Bench


def running(mark: str) -> list[int]:
    """Processes whose command line holds the mark."""
    out = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                if mark.encode() in Path(f"/proc/{name}/cmdline").read_bytes():
                    out.append(int(name))
            except OSError:
                continue
    return out


async def test_output_comes_in_order_with_exit_code_and_directory(bench: Bench) -> None:
    result = await bench.act("shell.run", command="echo one; echo two >&2; pwd; cat; exit 3")
    assert result.ok and result.exit_code == 3 and result.kind == "command"
    assert result.text == f"one\ntwo\n{bench.root}\n"
    assert result.head[0] == "exit 3" and result.facts["exit"] == 3
    assert "".join(bench.live) == result.text


async def test_what_was_prepared_is_the_command_itself(bench: Bench) -> None:
    change = await bench.changed("shell.run", command="pytest -q\n")
    assert change.command == change.preview == "pytest -q" and change.preview_kind == "command"
    for command in ("", "  ", "a\0b", "x" * 200_000):
        assert not (await bench.act("shell.run", command=command)).ok
    for timeout in (0, -1, 601, "5"):
        assert "wrong arguments" in (await bench.act("shell.run", command="ls", timeout=timeout)).error
    assert (await bench.act("shell.run", command="-x")).exit_code == 127


async def test_the_environment_is_an_allow_list(bench: Bench) -> None:
    bench.env = {
        "PATH": os.environ["PATH"], "HOME": "/home/u", "LC_TIME": "ja_JP.UTF-8", "VIRTUAL_ENV": "/v",
        "OPENAI_API_KEY": "k",
        "DUCKFLOW_HOME": "d", "PAGER": "evil", "LD_PRELOAD": "evil.so", "BASH_ENV": "evil.sh", "PYTHONPATH": "p",
        "TERM": "xterm", "GITHUB_TOKEN": "t", "HTTPS_PROXY": "x", "ENV": "evil.sh", "PS4": "$(evil)",
        "BASH_FUNC_ls%%": "() { evil; }",
    }  # fmt: skip
    (bench.root / "evil.sh").write_text("echo EVIL\n", encoding="utf-8")
    names = {line.split("=")[0] for line in (await bench.act("shell.run", command="env")).text.splitlines()}
    assert names <= {
        "PATH",
        "HOME",
        "LC_TIME",
        "VIRTUAL_ENV",
        "TERM",
        "LANG",
        "NO_COLOR",
        "PWD",
        "SHLVL",
        "_",
        "OLDPWD",
    }
    assert "TERM=dumb" in (await bench.act("shell.run", command="env")).text
    assert child_environment({})["PATH"]
    await bench.act("shell.run", command="export PAGER=evil")
    assert "evil" not in (await bench.act("shell.run", command="echo $PAGER; cd /; pwd")).text
    assert (await bench.act("shell.run", command="pwd")).text == f"{bench.root}\n"


async def test_control_sequences_and_broken_bytes_are_shown_as_text(bench: Bench) -> None:
    command = r"printf '\033[31mred\033[0m \033]52;c;x\007 \033[2J \377 \303\251 a\rb\n'"
    result = await bench.act("shell.run", command=command)
    assert result.text == "red ␛]52;c;x␇ ␛[2J \ufffd é a\nb\n"
    assert not any("\x1b" in piece for piece in bench.live)


async def test_a_flood_of_output_keeps_head_and_tail(bench: Bench) -> None:
    command = "echo first; head -c 300000000 /dev/zero | tr '\\0' x; echo; echo last"
    result = await bench.act("shell.run", command=command)
    assert result.ok and result.text.startswith("first\nxxx") and result.text.endswith("\nlast\n")
    assert "bytes left out" in result.text and len(result.text) < 1_100_000
    assert result.facts["bytes"] > 300_000_000 and sum(map(len, bench.live)) < 2_000_000


async def test_the_time_limit_kills_everything(bench: Bench) -> None:
    mark = f"7{os.getpid()}1"
    began = time.monotonic()
    result = await bench.act("shell.run", command=f"echo begun; sleep {mark} & sleep {mark}", timeout=0.5)
    assert not result.ok and "timed out after 0.5 s" in result.error and result.text == "begun\n"
    assert result.facts["timed_out"] and result.exit_code is None
    assert time.monotonic() - began < 20 and running(mark) == []


async def test_what_ignores_the_polite_signal_is_killed(bench: Bench) -> None:
    mark = f"7{os.getpid()}2"
    script = f"trap '' TERM HUP INT; sleep {mark}; sleep {mark}; sleep {mark}"
    result = await bench.act("shell.run", command=script, timeout=0.3)
    assert not result.ok and running(mark) == []


@pytest.mark.parametrize(
    "how",
    ["sleep {0} &", "nohup sleep {0} >/dev/null 2>&1 &", "setsid sleep {0} &",
     "(setsid sh -c 'sleep {0} & sleep {0}' &)",
     "trap '' TERM; (setsid sh -c \"trap '' TERM; sleep {0}; sleep {0}\" &)"],
)  # fmt: skip
async def test_children_that_stay_behind_are_killed_when_the_command_ends(bench: Bench, how: str) -> None:
    mark = f"7{os.getpid()}3"
    result = await bench.act("shell.run", command=how.format(mark) + "\necho done; exit 5", timeout=30)
    assert result.ok and result.exit_code == 5 and "done" in result.text
    assert running(mark) == []


async def test_a_stop_kills_first_and_then_ends(bench: Bench) -> None:
    mark = f"7{os.getpid()}4"
    began = asyncio.Event()
    bench.live = _Signal(began)
    task = asyncio.ensure_future(bench.act("shell.run", command=f"echo begun; setsid sleep {mark} & sleep {mark}"))
    await asyncio.wait_for(began.wait(), 20)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert running(mark) == []


class _Signal(list[str]):
    def __init__(self, event: asyncio.Event) -> None:
        super().__init__()
        self._event = event

    def append(self, text: str) -> None:
        super().append(text)
        self._event.set()


async def test_a_screen_that_fails_does_not_hold_up_the_command(bench: Bench) -> None:
    class Broken(list[str]):
        def append(self, text: str) -> None:
            raise RuntimeError("no screen")

    bench.live = Broken()
    result = await bench.act("shell.run", command="seq 1 100000", timeout=30)
    assert result.ok and result.text.endswith("100000\n")


async def test_a_command_killed_by_a_signal_says_so(bench: Bench) -> None:
    assert (await bench.act("shell.run", command="kill -9 $$")).exit_code == 137


async def test_the_loop_goes_on_while_a_command_prints(bench: Bench) -> None:
    worst = 0.0

    async def tick() -> None:
        nonlocal worst
        while True:
            began = time.perf_counter()
            await asyncio.sleep(0.001)
            worst = max(worst, time.perf_counter() - began)

    ticking = asyncio.ensure_future(tick())
    await bench.act("shell.run", command="head -c 500000000 /dev/zero")
    ticking.cancel()
    assert worst < 0.5


_KILLED = """
import asyncio, sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from tests.tools.bench import Bench
class Live(list):
    def append(self, text):
        print(text, end="", flush=True)
bench = Bench(Path(sys.argv[1]))
bench.live = Live()
asyncio.run(bench.act("shell.run", command=sys.argv[3]))
"""


def test_when_duckflow_itself_is_killed_the_command_ends_too(bench: Bench) -> None:
    mark = f"7{os.getpid()}5"
    root = Path(__file__).resolve().parents[2]
    process = subprocess.Popen(
        [sys.executable, "-c", _KILLED, str(bench.root), str(root), f"echo begun; setsid sleep {mark} & sleep {mark}"],
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None and process.stdout.readline() == b"begun\n"
    supervisors = [pid for pid in running("supervisor.py") if str(mark) in Path(f"/proc/{pid}/cmdline").read_text()]
    assert supervisors
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.read()  # ends when the last process that could print has ended
    end = time.monotonic() + 20
    while running(mark) and time.monotonic() < end:
        os.sched_yield()
    assert running(mark) == []


async def test_the_whole_output_can_be_read_again_and_the_header_says_so(bench: Bench) -> None:
    result = await bench.act("shell.run", command="seq 1 5000")
    assert result.output == result.text and result.output.endswith("5000\n")
    slow = await bench.act("shell.run", command="echo begun; sleep 9", timeout=0.5)
    assert not slow.ok and slow.output == slow.text == "begun\n"
    assert (await bench.act("shell.run", command="true")).output == ""
    outcome = Outcome("A3", "shell.run", "ok", Effect.COMMAND, result, "seq 1 5000", "E3")
    header = envelope(as_result(outcome), 200).split("\n")[0]
    assert " · out:A3 · E3" in header
