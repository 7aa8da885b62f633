"""The boundary: where paths lead, what is protected, and that nothing outside is ever written."""

from __future__ import annotations

import os
import shutil
import socket
import threading
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from duckflow.errors import UsageError
from duckflow.safety.change import content_hash
from duckflow.safety.names import TEMP_PREFIX, is_protected, is_secret
from duckflow.safety.paths import PathChanged, PathMissing, PathRefused, Workspace


@pytest.fixture
def ws(tmp_path: Path) -> Workspace:
    (tmp_path / "app").mkdir()
    (tmp_path / "app-evil").mkdir()
    (tmp_path / "app-evil" / "x").write_text("outside", encoding="utf-8")
    return Workspace(tmp_path / "app")


def test_inside_is_decided_by_components_of_the_resolved_path(ws: Workspace, tmp_path: Path) -> None:
    assert ws.locate("a/../b.txt").path == "b.txt"
    assert ws.locate(str(ws.root / "sub" / "c")).path == "sub/c"
    assert ws.locate(".").path == "."
    for path in ("../app-evil/x", str(tmp_path / "app-evil" / "x"), "../x", "/etc/passwd", "a/../../x"):
        assert ws.locate(path).where == "outside", path


@pytest.mark.parametrize(
    "path",
    ["", "   ", "~", "~/x", "~root/x", "a\0b", "x" * 5000, "d/" * 3000, "n" * 300, "\ud800"],
)
def test_paths_that_cannot_be_meant_are_refused(ws: Workspace, path: str) -> None:
    with pytest.raises(PathRefused):
        ws.locate(path)


def test_a_file_that_really_begins_with_a_tilde_can_be_named(ws: Workspace) -> None:
    assert ws.locate("./~x").path == "~x"


@pytest.mark.parametrize(
    "path",
    [
        ".git/config", ".git/hooks/pre-commit", ".Git/Hooks/x", ".GIT/config", ".git./config", ".git /config",
        "sub/.git/config", ".duckflow/config.toml", ".DuckFlow/config.toml", ".bashrc", ".ZSHRC", ".vimrc", ".vimrc.",
        "．git/config", ".g\u200dit/config", "git~1/config", ".ssh/authorized_keys",
    ],
)  # fmt: skip
def test_protected_names_in_every_spelling(ws: Workspace, path: str) -> None:
    place = ws.locate(path)
    assert place.protected
    with pytest.raises(PathRefused):
        ws.write_atomic(place.path, b"x", None, None)
    assert not (ws.root / path.split("/")[0]).exists()


@pytest.mark.parametrize(
    ("path", "secret"),
    [
        (".env", True), (".ENV", True), (".env.local", True), (".envrc", True), (".env.", True), (".env ", True),
        ("prod.env", True), ("id_rsa", True), ("deploy/server.PEM", True), ("tls.key", True), (".netrc", True),
        (".npmrc", True), (".pypirc", True), ("credentials", True), (".aws/config", True), ("a.p12", True),
        ("ＩＤ_rsa", True),
        (".env.example", False), (".env.sample", False), (".env.template", False), ("id_rsa.pub", False),
        ("environment.py", False), ("src/key.py", False), ("README.md", False), ("monkey", False),
    ],
)  # fmt: skip
def test_secret_names(path: str, secret: bool) -> None:
    assert is_secret(path.split("/")) is secret


def test_ordinary_dotfiles_are_not_protected() -> None:
    for path in (".github/workflows/ci.yml", ".gitignore", ".gitattributes", ".editorconfig", "src/.hidden"):
        assert not is_protected(path.split("/"))


def test_a_link_leads_where_it_points(ws: Workspace, tmp_path: Path) -> None:
    (ws.root / "real.txt").write_text("1", encoding="utf-8")
    (ws.root / "in").symlink_to("real.txt")
    (ws.root / "out").symlink_to(tmp_path / "app-evil" / "x")
    (ws.root / ".env").write_text("K=1", encoding="utf-8")
    (ws.root / "notes").symlink_to(".env")
    (ws.root / "loop").symlink_to("loop")
    assert ws.locate("in").path == "real.txt" and ws.locate("in").where == "inside"
    assert ws.locate("out").where == "outside"
    assert ws.locate("notes").secret
    assert ws.locate(f"/proc/self/root{ws.root}/.env") == ws.locate(".env")
    for path in ("loop", "loop/x"):
        with pytest.raises(PathRefused):
            ws.locate(path)


def test_a_hard_link_to_a_secret_is_secret(ws: Workspace) -> None:
    (ws.root / "deploy").mkdir()
    (ws.root / "deploy" / ".env").write_text("K=1", encoding="utf-8")
    os.link(ws.root / "deploy" / ".env", ws.root / "notes.txt")
    (ws.root / "a").write_text("x", encoding="utf-8")
    os.link(ws.root / "a", ws.root / "b")
    assert ws.locate("notes.txt").secret
    assert not ws.locate("b").secret


def test_composed_and_decomposed_spellings_find_the_same_file(ws: Workspace) -> None:
    decomposed = unicodedata.normalize("NFD", "がぎ/ぐ.txt")
    (ws.root / decomposed).parent.mkdir()
    (ws.root / decomposed).write_bytes(b"x")
    place = ws.locate("がぎ/ぐ.txt")
    assert ws.read_bytes(place.path, 10) == b"x"
    assert ws.locate("がぎ/new.txt").path == unicodedata.normalize("NFD", "がぎ") + "/new.txt"


def test_special_files_are_refused_without_waiting(ws: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(ws.root / "fifo")
    with socket.socket(socket.AF_UNIX) as server:
        monkeypatch.chdir(ws.root)  # socket paths are short
        server.bind("sock")
        for name in ("fifo", "sock"):
            with pytest.raises(PathRefused, match=r"pipe|socket"):
                ws.read_bytes(name, 10)
            with pytest.raises(PathRefused):
                ws.write_atomic(name, b"x", None, None)
    with pytest.raises(PathRefused, match="device"):
        ws.read_bytes("/dev/zero", 10)
    with pytest.raises(PathRefused, match="directory"):
        ws.read_bytes(".", 10)


def test_reading_is_limited(ws: Workspace) -> None:
    (ws.root / "f").write_bytes(b"12345")
    assert ws.read_bytes("f", 5) == b"12345"
    with pytest.raises(PathRefused, match="limit"):
        ws.read_bytes("f", 4)
    with pytest.raises(PathMissing):
        ws.read_bytes("none", 4)
    assert ws.stat("none") is None and ws.stat("no/ne") is None
    with pytest.raises(PathRefused):
        ws.stat("f/below")


def test_a_workspace_must_be_a_directory(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"")
    for path in (tmp_path / "f", tmp_path / "none"):
        with pytest.raises(UsageError):
            Workspace(path)


# --- writing ---


def test_writing_makes_parents_keeps_the_mode_and_leaves_nothing_else(ws: Workspace) -> None:
    ws.write_atomic("a/b/c.txt", b"1", None, None)
    os.chmod(ws.root / "a/b/c.txt", 0o750)
    ws.write_atomic("a/b/c.txt", b"2", None, content_hash(b"1"))
    assert (ws.root / "a/b/c.txt").read_bytes() == b"2"
    assert (ws.root / "a/b/c.txt").stat().st_mode & 0o777 == 0o750
    ws.write_atomic("a/b/c.txt", b"3", 0o600, content_hash(b"2"))
    assert (ws.root / "a/b/c.txt").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in ws.root.rglob("*")] == ["a", "b", "c.txt"]


def test_a_file_that_changed_is_not_overwritten_removed_or_moved(ws: Workspace) -> None:
    target = ws.root / "f"
    target.write_bytes(b"theirs")
    expect = content_hash(b"ours") or ""
    attempts: list[Callable[[], None]] = [
        lambda: ws.write_atomic("f", b"new", None, expect),
        lambda: ws.write_atomic("f", b"new", None, None),
        lambda: ws.write_atomic("gone", b"new", None, expect),
        lambda: ws.remove("f", expect),
        lambda: ws.rename("f", "g", expect),
    ]
    for attempt in attempts:
        with pytest.raises(PathChanged):
            attempt()
    assert target.read_bytes() == b"theirs"
    assert [path.name for path in ws.root.iterdir()] == ["f"]


def test_moving_never_replaces(ws: Workspace) -> None:
    (ws.root / "f").write_bytes(b"1")
    (ws.root / "g").write_bytes(b"2")
    expect = content_hash(b"1") or ""
    with pytest.raises(PathChanged):
        ws.rename("f", "g", expect)
    ws.rename("f", "deep/h", expect)
    assert (ws.root / "deep/h").read_bytes() == b"1" and not (ws.root / "f").exists()


def test_a_hard_link_is_replaced_not_written_through(ws: Workspace, tmp_path: Path) -> None:
    outside = tmp_path / "app-evil" / "x"
    os.link(outside, ws.root / "x")
    ws.write_atomic("x", b"new", None, content_hash(b"outside"))
    assert outside.read_text(encoding="utf-8") == "outside"


def test_a_write_that_fails_leaves_no_directory_behind(ws: Workspace) -> None:
    with pytest.raises(PathChanged):
        ws.write_atomic("new/deep/f", b"x", None, content_hash(b"was"))
    assert list(ws.root.iterdir()) == []


@pytest.mark.parametrize("path", ["/etc/x", "../x", "a/../../x", "a//b", "", "a/./b", "/", "."])
def test_only_resolved_inside_paths_are_written(ws: Workspace, path: str) -> None:
    with pytest.raises(PathRefused):
        ws.write_atomic(path, b"x", None, None)


def test_a_directory_swapped_for_a_link_after_locating_is_refused(ws: Workspace, tmp_path: Path) -> None:
    (ws.root / "d").mkdir()
    (ws.root / "d" / "f").write_bytes(b"1")
    place = ws.locate("d/f")
    (ws.root / "d").rename(ws.root / "moved")
    (ws.root / "d").symlink_to(tmp_path / "app-evil")
    (tmp_path / "app-evil" / "f").write_bytes(b"1")
    expect = content_hash(b"1") or ""
    for attempt in (
        lambda: ws.write_atomic(place.path, b"2", None, expect),
        lambda: ws.write_atomic("d/new", b"2", None, None),
        lambda: ws.remove(place.path, expect),
        lambda: ws.rename(place.path, "e", expect),
        lambda: ws.rename("moved/f", "d/g", expect),
        lambda: ws.read_bytes(place.path, 10),
    ):
        with pytest.raises(PathRefused):
            attempt()
    assert sorted(path.name for path in (tmp_path / "app-evil").iterdir()) == ["f", "x"]
    assert (tmp_path / "app-evil" / "f").read_bytes() == b"1"


def test_links_swapped_all_the_time_never_let_a_write_out(ws: Workspace, tmp_path: Path) -> None:
    outside = tmp_path / "app-evil"
    real, link = ws.root / "real", ws.root / "link"
    real.mkdir()
    link.symlink_to(outside)
    stop = threading.Event()

    def swap() -> None:
        spot = ws.root / "d"
        while not stop.is_set():
            for source in (real, link):
                try:
                    os.rename(source, spot)
                    os.rename(spot, source)
                except OSError:  # the writer made the directory anew in between
                    shutil.rmtree(spot, ignore_errors=True)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for number in range(3000):
            try:
                ws.write_atomic(f"d/{number}", b"x", None, None)
            except PathRefused:
                continue
    finally:
        stop.set()
        thread.join()
    assert [path.name for path in outside.iterdir()] == ["x"]
    assert not list(ws.root.rglob(f"{TEMP_PREFIX}*"))


_NAMES = st.sampled_from(["a", "b", "..", ".", "", "link_in", "link_out", "link_up", "x", ".git", "が", "~", " "])


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parts=st.lists(_NAMES, min_size=1, max_size=6), absolute=st.booleans())
def test_whatever_the_path_nothing_outside_is_written(ws: Workspace, parts: list[str], absolute: bool) -> None:
    base = ws.root
    outside = base.parent / "app-evil"
    for name, target in (("link_in", "a"), ("link_out", str(outside)), ("link_up", "..")):
        if not (base / name).is_symlink():
            (base / name).symlink_to(target)
    (base / "a").mkdir(exist_ok=True)
    path = "/".join(parts)
    before = {p: p.lstat().st_mtime_ns for p in base.parent.iterdir()} | dict.fromkeys(outside.rglob("*"), 0)
    before[base] = 0
    try:
        place = ws.locate(f"{base}/{path}" if absolute else path)
        ws.write_atomic(place.path, b"written", None, None)
    except PathRefused:
        place = None
    after = {p: p.lstat().st_mtime_ns for p in base.parent.iterdir()} | dict.fromkeys(outside.rglob("*"), 0)
    after[base] = 0
    assert before == after
    if place is not None and place.where == "inside":
        real = Path(os.path.realpath(base / place.path))
        assert real.is_relative_to(base) and not is_protected(real.relative_to(base).parts)
        if real.is_file() and real.read_bytes() == b"written":
            real.unlink()
