"""Screens of the chat with scripted turns instead of an engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ui.screens import Screen, Start

STANDIN = str(Path(__file__).with_name("standin.py"))


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    opened: list[Screen] = []
    (tmp_path / "work" / "src").mkdir(parents=True)
    (tmp_path / "work" / "src" / "x.py").write_text("x = 1\n", encoding="utf-8")

    def open_screen(*more: str, env: dict[str, str] | None = None, columns: int = 80, rows: int = 24) -> Screen:
        argv = [STANDIN, str(tmp_path / "home"), str(tmp_path / "work"), *(more or ("en",))]
        given = {"HOME": str(tmp_path), **(env or {})}
        screen = Screen(argv, given, tmp_path, columns, rows)
        opened.append(screen)
        screen.wait(r"(?m)^>")
        return screen

    yield open_screen
    for screen in opened:
        screen.close()
