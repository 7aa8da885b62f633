"""A write is whole or did not happen: killed at any moment, out of space, out of permission."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from duckflow.safety import atomic
from duckflow.safety.change import content_hash
from duckflow.safety.names import TEMP_PREFIX
from duckflow.safety.paths import PathChanged, Workspace

_WRITER = """
import hashlib, sys
from pathlib import Path
from duckflow.safety.paths import Workspace
ws, size = Workspace(Path(sys.argv[1])), int(sys.argv[2])
contents = [letter * size for letter in (b"a", b"b")]
hashes = [hashlib.sha256(content).hexdigest() for content in contents]
turn = 0 if (ws.root / "f").read_bytes()[:1] == b"b" else 1
print("ready", flush=True)
while True:
    ws.write_atomic("f", contents[turn], None, hashes[1 - turn])
    turn = 1 - turn
    print("x", flush=True)
"""


@pytest.mark.parametrize("size", [10, 3_000_000])
def test_killed_at_any_moment_the_file_is_old_or_new(tmp_path: Path, size: int) -> None:
    target = tmp_path / "f"
    target.write_bytes(b"a" * size)
    chance = random.Random(size)
    for _ in range(12):
        process = subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(tmp_path), str(size)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        for _line in range(chance.randrange(4)):
            process.stdout.readline()
        for _spin in range(chance.randrange(200_000)):  # somewhere within the next write
            pass
        process.kill()
        process.communicate()
        assert target.read_bytes() in (b"a" * size, b"b" * size)
    left = [path.name for path in tmp_path.iterdir() if path != target]
    assert all(name.startswith(TEMP_PREFIX) for name in left)


_FULL = """
import resource, sys
from pathlib import Path
from duckflow.safety.paths import PathRefused, Workspace
from duckflow.safety.change import content_hash
ws = Workspace(Path(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
for path, expect in (("f", content_hash(b"old")), ("new/g", None)):
    try:
        ws.write_atomic(path, b"n" * 100_000, None, expect)
    except PathRefused as error:
        print(error)
"""


def test_when_the_disk_does_not_take_it_the_old_file_stays_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"old")
    run = subprocess.run([sys.executable, "-c", _FULL, str(tmp_path)], capture_output=True, text=True, check=True)
    assert run.stdout.count("File too large") == 2
    assert (tmp_path / "f").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_a_killed_write_leaves_nothing_to_see(tmp_path: Path) -> None:
    """Until it is complete a file has no name. Looked at while big writes run: no temporary name shows for long."""
    if not _nameless(tmp_path):
        pytest.skip("this file system has no nameless files")
    (tmp_path / "f").write_bytes(b"a" * 20_000_000)
    left = 0
    for turn in range(8):
        process = subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(tmp_path), "20000000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        time.sleep(0.005 * turn)
        process.kill()
        process.communicate()
        left += len([path for path in tmp_path.iterdir() if path.name.startswith(TEMP_PREFIX)])
    assert left == 0


def _nameless(directory: Path) -> bool:
    fd = os.open(directory, os.O_RDONLY)
    opened = atomic.open_nameless(fd, 0o600)
    os.close(fd)
    if opened is not None:
        os.close(opened)
    return opened is not None


@pytest.mark.parametrize("way", ["kernel", "no nameless files", "no /proc"])
def test_every_way_writes_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    if way == "no nameless files":
        monkeypatch.setattr(atomic, "open_nameless", lambda fd, bits: None)
    elif way == "no /proc":
        monkeypatch.setattr(atomic.Content, "_linked", lambda self, opened, name: False)
    mask = os.umask(0o027)
    try:
        ws = Workspace(tmp_path)
        ws.write_atomic("d/new", b"one", None, None)
        ws.write_atomic("d/run", b"x", 0o755, None)
        with pytest.raises(PathChanged, match="exists now"):
            ws.write_atomic("d/new", b"two", None, None)
        ws.write_atomic("d/new", b"two", None, content_hash(b"one"))
        with pytest.raises(PathChanged, match="changed after"):
            ws.write_atomic("d/new", b"three", None, content_hash(b"one"))
    finally:
        os.umask(mask)
    files = {path.name: (path.read_bytes(), path.stat().st_mode & 0o777) for path in (tmp_path / "d").iterdir()}
    assert files == {"new": (b"two", 0o640), "run": (b"x", 0o755)}


def test_a_file_that_appears_meanwhile_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = atomic.open_nameless

    def meanwhile(fd: int, bits: int) -> int | None:
        (tmp_path / "f").write_bytes(b"theirs")
        return real(fd, bits)

    monkeypatch.setattr(atomic, "open_nameless", meanwhile)
    with pytest.raises(PathChanged, match="exists now"):
        Workspace(tmp_path).write_atomic("f", b"ours", None, None)
    with pytest.raises(PathChanged, match="changed after"):
        (tmp_path / "f").write_bytes(b"old")
        Workspace(tmp_path).write_atomic("f", b"ours", None, content_hash(b"old"))
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("f", b"theirs")]


def test_sweep_removes_old_leftovers_beside_the_paths_and_nothing_else(tmp_path: Path) -> None:
    root, outside = tmp_path / "project", tmp_path / "outside"
    for directory in (root / "a", root / "b", outside):
        directory.mkdir(parents=True)
        for name, age in ((f"{TEMP_PREFIX}old", 100), (f"{TEMP_PREFIX}new", 5), ("other", 100)):
            (directory / name).write_text(name)
            os.utime(directory / name, (time.time() - age,) * 2)
    (root / "link").symlink_to(outside)
    (root / "a" / f"{TEMP_PREFIX}link").symlink_to(outside / "other")
    (root / "a" / f"{TEMP_PREFIX}dir").mkdir()
    Workspace(root).sweep(["a/x.py", "a/y.py", "link/z", "missing/x", f"{outside}/x", "../outside/x", ".git/x", "top"])
    assert sorted(path.name.removeprefix(TEMP_PREFIX) for path in (root / "a").iterdir()) == [
        "dir",
        "link",
        "new",
        "other",
    ]
    assert len(list((root / "b").iterdir())) == 3 and len(list(outside.iterdir())) == 3
