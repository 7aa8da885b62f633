"""Builds .venv beside the checkout from a lock file, with the standard library alone.

Usage: setup.py run|dev. Safe to interrupt (the copy of the lock file that marks success is written last,
and a build that was cut off is started over) and safe to start twice (the second waits for the first).
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
UNFINISHED = VENV / "unfinished"

# Starts through the interpreter beside it, so a moved checkout still runs its own code.
LAUNCHER = """\
#!/bin/sh
'''exec' "${0%/*}/python" -I "$0" "$@"
' '''
import sys

from duckflow.cli import main

sys.exit(main())
"""


def main(kind: str) -> int:
    wait_for_others()
    locks = ["run"] if kind == "run" else ["dev", "run"]  # dev.lock holds everything run.lock holds
    if PYTHON.exists() and all(is_installed(name) for name in locks):
        return 0
    say("setting up, once (about a minute) … / 初回の準備をしています（1 分ほど）…")
    if UNFINISHED.exists() or not works():
        shutil.rmtree(VENV, ignore_errors=True)
    VENV.mkdir(exist_ok=True)
    UNFINISHED.touch()
    if not works() and not create():
        return 1
    if not install(lock(locks[0])):
        UNFINISHED.unlink()  # pip reported it and stopped by itself: what is there is whole
        return 1
    link_source()
    for name in locks:
        shutil.copyfile(lock(name), stamp(name))
    UNFINISHED.unlink()
    return 0


def wait_for_others() -> None:
    """Hold the checkout until this process ends; the kernel lets go even after a kill."""
    with contextlib.suppress(OSError):  # a file system without locks
        fcntl.flock(os.open(ROOT, os.O_RDONLY), fcntl.LOCK_EX)


def lock(name: str) -> Path:
    return ROOT / "requirements" / f"{name}.lock"


def stamp(name: str) -> Path:
    return VENV / f"{name}.lock"


def is_installed(name: str) -> bool:
    return stamp(name).exists() and stamp(name).read_bytes() == lock(name).read_bytes()


def works() -> bool:
    """An interpreter new enough, with pip."""
    check = "import sys, pip; sys.exit(sys.version_info < (3, 11))"
    try:
        return subprocess.run([PYTHON, "-I", "-c", check], capture_output=True).returncode == 0
    except OSError:
        return False


def create() -> bool:
    if importlib.util.find_spec("ensurepip") is None:
        package = f"python3.{sys.version_info.minor}-venv"
        say(f"Python lacks venv. Install it (on Debian or Ubuntu: sudo apt install {package}) and try again.")
        say("Python に venv がありません。インストールしてから、もう一度実行してください")
        say(f"（Debian、Ubuntu では: sudo apt install {package}）。")
        return False
    venv.EnvBuilder(symlinks=True, with_pip=True).create(VENV)
    return True


def install(requirements: Path) -> bool:
    """pip with the user's own configuration; what it says goes to stderr: stdout is the command's."""
    pip = [str(PYTHON), "-I", "-m", "pip", "--disable-pip-version-check", "--no-input"]
    command = [*pip, "install", "--quiet", "--require-hashes", "-r", str(requirements)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=sys.stderr)
    if done.returncode:
        say("the packages could not be installed (see above). Check the network and pip's settings.")
        say("パッケージをインストールできません（上を参照）。ネットワークと pip の設定を確かめてください。")
    return done.returncode == 0


def link_source() -> None:
    """What an editable install does, without needing a build backend. The path is relative: see LAUNCHER."""
    site = next(VENV.glob("lib/python3*/site-packages"))
    (site / "duckflow.pth").write_text(os.path.relpath(ROOT / "src", site) + "\n", encoding="utf-8")
    launcher = VENV / "bin" / "duckflow"
    launcher.write_text(LAUNCHER, encoding="utf-8")
    launcher.chmod(0o755)


def say(text: str) -> None:
    print(f"duckflow: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1]))
    except KeyboardInterrupt:
        sys.exit(130)
    except (OSError, subprocess.CalledProcessError) as error:
        say(f"cannot set up {VENV}: {error}")
        sys.exit(1)
