"""Glob patterns: what they match, and that no pattern takes long."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckflow.safety.globs import braces, escape, literal, path_glob, text_glob


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("*.py", "a.py", True), ("*.py", "d/a.py", False), ("**/*.py", "a.py", True), ("**/*.py", "d/e/a.py", True),
        ("src/**", "src/a/b", True), ("src/**", "srcx/a", False), ("src/**", "src", False), ("src/", "src/a", True),
        ("a/**/b", "a/b", True), ("a/**/b", "a/x/y/b", True), ("a/**/b", "a/xb", False), ("**", "a/b", True),
        ("?.py", "a.py", True), ("?.py", "/.py", False), ("[ab].py", "b.py", True), ("[!ab].py", "c.py", True),
        ("[!ab].py", "a.py", False), ("a[", "a[", True), ("a**b", "axxb", True), ("a**b", "a/b", False),
        ("./a.py", "a.py", True), ("*a*b*c", "xaybzc", True), ("*a*b", "ab/b", False), ("[z-a]", "b", False),
        ("a.py", "axpy", False), ("日本*.txt", "日本語.txt", True),
    ],
)  # fmt: skip
def test_path_patterns(pattern: str, path: str, matches: bool) -> None:
    assert bool(path_glob(pattern).fullmatch(path)) is matches


def test_a_tree_pattern_can_stand_for_the_directory_itself() -> None:
    assert path_glob("secrets/**", own=True).fullmatch("secrets")
    assert path_glob("Secrets/**", fold=True, own=True).fullmatch("secrets/x")


def test_in_commands_a_star_is_any_text() -> None:
    assert text_glob("pytest*").fullmatch("pytest -q tests/a.py")
    assert text_glob("git * --stat").fullmatch("git diff HEAD~1 --stat")
    assert not text_glob("pytest*").fullmatch("sudo pytest")
    assert not text_glob("pytest").fullmatch("pytest -q")


@given(st.text(alphabet="ab*?[]!\\ /.", max_size=12))
def test_an_escaped_text_matches_itself_and_is_literal(text: str) -> None:
    assert text_glob(escape(text)).fullmatch(text)
    assert literal(escape(text)) == text


@given(st.text(alphabet="ab*?[", max_size=8), st.text(alphabet="ab*?[", max_size=8))
def test_an_escaped_text_matches_nothing_else(text: str, other: str) -> None:
    assert bool(text_glob(escape(text)).fullmatch(other)) is (text == other)


def test_no_pattern_takes_long() -> None:
    path = "a" * 3000 + "/" + "a" * 3000
    began = time.perf_counter()
    for pattern in ("*a" * 30 + "b", "**/" * 20 + "b", "*" * 100 + "b", "**/*a*a*a*a*b/**/*a*a*b"):
        assert not path_glob(pattern).fullmatch(path)
        assert not text_glob(pattern).fullmatch(path)
    assert time.perf_counter() - began < 5


def test_braces_are_spelt_out_within_a_limit() -> None:
    assert sorted(braces("*.{ts,tsx}")) == ["*.ts", "*.tsx"]
    assert braces("{a}") == ["{a}"]
    assert len(braces("{a,b}" * 40)) <= 64
