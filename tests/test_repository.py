"""The repository itself: sizes, lock files, addresses and paths that must not be here."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FILE_LINES = 300
FUNCTION_LINES = 50
LARGER: dict[str, int] = {}  # path: lines it may have instead; a reason belongs beside each entry

# Put together so that this file does not match its own search.
MACHINE_PATHS = re.compile("/" + "work" + "/|" + re.escape(f"{ROOT}/"))
MADE = {"__pycache__", "build", "dist", "htmlcov"}
LOCKS = sorted((ROOT / "requirements").glob("*.lock"))


def sources() -> list[Path]:
    return sorted((ROOT / "src").rglob("*.py"))


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def repository_files() -> list[Path]:
    """What belongs to the repository: no caches, no environment, no build products."""

    def belongs(path: Path) -> bool:
        *folders, _name = path.relative_to(ROOT).parts
        return not any((part.startswith(".") and part != ".ci") or part in MADE for part in folders)

    return [path for path in ROOT.rglob("*") if path.is_file() and belongs(path)]


def text_of(path: Path) -> str:
    """Empty for files that are not text."""
    data = path.read_bytes()
    return "" if b"\0" in data else data.decode("utf-8")


def test_no_source_file_grows_past_one_sitting() -> None:
    lines = {str(path.relative_to(ROOT)): text_of(path).count("\n") for path in sources()}
    too_long = {name: count for name, count in lines.items() if count > LARGER.get(name, FILE_LINES)}
    assert not too_long


def test_no_function_grows_past_one_screen() -> None:
    too_long = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}: {length}"
        for path in sources()
        for node in functions(ast.parse(text_of(path)))
        if (length := (node.end_lineno or 0) - node.body[0].lineno + 1) > FUNCTION_LINES
    ]
    assert not too_long


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_lock_files_pin_with_hashes_and_name_no_address(lock: Path) -> None:
    text = text_of(lock)
    assert not re.search(r"://|^-|^\s*--(?!hash=)|file:| @ ", text, re.MULTILINE)
    pins = re.findall(r"^[a-z0-9]\S*.*?(?=^[a-z0-9]|\Z)", text, re.MULTILINE | re.DOTALL)
    assert pins
    assert all("==" in pin and "--hash=sha256:" in pin for pin in pins)


def test_the_development_lock_holds_everything_the_running_one_holds() -> None:
    run, dev = (
        set(re.findall(r"^\S+==[^\s\\]+", text_of(ROOT / "requirements" / name), re.MULTILINE))
        for name in ("run.lock", "dev.lock")
    )
    assert run < dev


def test_no_file_names_a_path_of_somebodys_machine() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:80]}"
        for path in repository_files()
        for number, line in enumerate(text_of(path).splitlines(), 1)
        if MACHINE_PATHS.search(line)
    ]
    assert not found


@pytest.mark.parametrize("name", ["README.md", "README.ja.md"])
def test_a_readme_opens_with_the_two_commands(name: str) -> None:
    opening = (ROOT / name).read_text(encoding="utf-8")[:1500]
    assert "./duckflow demo" in opening
    assert "./test" in opening


@pytest.mark.parametrize("name", ["duckflow", "test", ".ci/run", "scripts/lock", "scripts/setup.sh"])
def test_scripts_can_be_executed_and_need_only_a_posix_shell(name: str) -> None:
    path = ROOT / name
    assert path.stat().st_mode & 0o111
    assert text_of(path).startswith("#!/bin/sh\n")
    subprocess.run(["sh", "-n", str(path)], check=True)
