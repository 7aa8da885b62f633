"""The demo as people meet it: the whole run fits the screen, and its directory is gone afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from duckflow.ui import crash
from duckflow.ui.wrap import cells

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-P", "-c", "import sys; from duckflow.cli import main; sys.exit(main())"]


@pytest.mark.parametrize("lang", ["en", "ja"])
def test_no_line_of_the_demo_is_wider_than_80_columns(lang: str, tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "src"), "HOME": str(tmp_path), "LANG": "C.UTF-8"}
    done = subprocess.run(
        [*COMMAND, "demo", "--lang", lang],
        env={**env, "TMPDIR": str(tmp_path), "COLUMNS": "80"},
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if cells(line) > 80] == []
    assert list(tmp_path.glob("duckflow-demo-*")) == []


def test_the_log_of_a_bug_does_not_bring_a_deleted_directory_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    gone = tmp_path / "duckflow-demo-x" / "data"
    path = crash.record(RuntimeError("boom"), gone)
    assert path is not None and path.parent == tmp_path and "boom" in path.read_text(encoding="utf-8")
    assert not gone.parent.exists() and path.stat().st_mode & 0o777 == 0o600
