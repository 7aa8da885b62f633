"""A write is whole or did not happen: killed at any moment, out of space, out of permission."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from duckflow.safety.names import TEMP_PREFIX

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
