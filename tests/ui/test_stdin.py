"""Piped input: everything a pipeline says, however slow, and no waiting for somebody who never speaks."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from duckflow.ui import stdin

READ = (
    "import sys; from duckflow.ui import stdin;"
    "stdin.FIRST_SECONDS = 0.5; stdin.SLOW_SECONDS = 0.2;"
    "data = stdin.piped(lambda text: print(text, file=sys.stderr)); print(repr(data))"
)
ENV = {"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(__file__).resolve().parents[2] / "src")}


def shell(script: str) -> tuple[str, str]:
    command = f"read_it() {{ '{sys.executable}' -c '{READ}'; }}; {script}"
    done = subprocess.run(
        ["bash", "-c", command], env=ENV, capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL
    )
    return done.stdout.strip(), done.stderr


@pytest.mark.parametrize(
    ("script", "data"),
    [
        ("read_it < /dev/null", "None"),
        ("read_it <&-", "None"),
        ("printf 'a\\nb' | read_it", r"'a\nb'"),
        ("true | read_it", "None"),
        ("printf '\\xff\\xfeok' | read_it", "'��ok'"),
        ("echo text > f; read_it < f; rm f", r"'text\n'"),
        ("read_it <<< here", r"'here\n'"),
    ],
)
def test_what_was_piped_is_read(script: str, data: str, tmp_path: Path) -> None:
    assert shell(f"cd '{tmp_path}' && {script}")[0] == data


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="tells writers apart by /proc")
def test_a_slow_neighbour_is_waited_for_and_the_person_is_told_why() -> None:
    out, err = shell("{ sleep 1.5; echo late; sleep 1; echo later; } | read_it")
    assert out == r"'late\nlater\n'" and "waiting for the command before the pipe" in err


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="tells writers apart by /proc")
def test_a_parent_that_never_writes_is_not_waited_for() -> None:
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-c", READ], env=ENV, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "None\n"
    assert time.monotonic() - began < 10
    process.communicate()


def test_a_parent_that_writes_and_closes_is_heard() -> None:
    done = subprocess.run([sys.executable, "-c", READ], env=ENV, input="x" * 100_000, capture_output=True, text=True)
    assert done.stdout == repr("x" * 100_000) + "\n"


def test_only_the_beginning_of_too_much_is_used(tmp_path: Path) -> None:
    path = tmp_path / "big"
    path.write_bytes(b"y" * (stdin.MOST + 10))
    said: list[str] = []
    descriptor = os.open(path, os.O_RDONLY)
    try:
        text = stdin.piped(said.append, descriptor)
    finally:
        os.close(descriptor)
    assert text is not None and len(text) == stdin.MOST and len(said) == 1
    out, err = shell("yes | read_it | wc -c")
    assert int(out) >= stdin.MOST and "only its beginning" in err
