"""write, delete and move: exactly what was shown, never outside, never over something else."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from duckflow.safety.change import Change, Effect, content_hash
from duckflow.safety.gate import Policy, decide
from duckflow.safety.risk import RiskLevel, measure
from duckflow.tools.base import ToolResult
from tests.tools.bench import Bench


async def test_a_new_file_has_exactly_the_bytes_of_the_content(bench: Bench) -> None:
    content = "一行目\r\nsecond\n\nno final newline"
    result = await bench.act("file_ops.write_file", path="new/dir/a.txt", content=content)
    assert result.ok and bench.get("new/dir/a.txt") == content.encode()
    assert result.facts["before"] is None and result.facts["added"] == 4
    assert "+++ b/new/dir/a.txt" in result.output and result.output.startswith("--- /dev/null")


async def test_an_existing_file_keeps_mode_and_what_is_the_same(bench: Bench) -> None:
    bench.put("run.sh", b"#!/bin/sh\r\na\nb\r\n").chmod(0o755)
    result = await bench.act("file_ops.write_file", path="run.sh", content="#!/bin/sh\na\nc\nb\n")
    assert result.ok and bench.get("run.sh") == b"#!/bin/sh\r\na\nc\r\nb\r\n"
    assert (bench.root / "run.sh").stat().st_mode & 0o777 == 0o755


async def test_content_that_has_no_place_in_the_encoding_is_refused(bench: Bench) -> None:
    data = "日本語のファイル。\n".encode("cp932")
    bench.put("a.txt", data)
    result = await bench.act("file_ops.write_file", path="a.txt", content="naïve\n")
    assert not result.ok and "cp932" in result.error and "'ï'" in result.error and bench.get("a.txt") == data
    result = await bench.act("file_ops.write_file", path="b.txt", content="\ud800")
    assert not result.ok and not (bench.root / "b.txt").exists()


async def test_writing_what_is_there_already_is_a_read_that_proves_it(bench: Bench) -> None:
    bench.put("a.txt", "same\n")
    args = {"path": "a.txt", "content": "same\n"}
    change = await bench.prepare("file_ops.write_file", args)
    assert isinstance(change, Change) and change.effect is Effect.NONE and not change.files
    result = await bench.perform("file_ops.write_file", args, change)
    assert result.ok and result.kind == "read" and result.facts["hash"] == content_hash(b"same\n")
    assert result.changed == ()


async def test_a_binary_file_is_not_overwritten_with_text_but_can_be_deleted(bench: Bench) -> None:
    bench.put("i.png", b"\x89PNG\0\0")
    result = await bench.act("file_ops.write_file", path="i.png", content="x")
    assert not result.ok and "binary (PNG" in result.error
    change = await bench.changed("file_ops.delete_file", path="i.png")
    assert "PNG" in change.preview
    assert (await bench.act("file_ops.delete_file", path="i.png")).ok and not (bench.root / "i.png").exists()


async def test_delete_shows_what_goes(bench: Bench) -> None:
    bench.put("a.txt", "one\ntwo\n")
    change = await bench.changed("file_ops.delete_file", path="a.txt")
    assert "-one\n-two" in change.preview and change.files[0].removed == 2
    result = await bench.act("file_ops.delete_file", path="a.txt")
    assert result.ok and result.changed == ("a.txt",) and result.facts["after"] is None
    for path, says in (("a.txt", "no such file"), (".", "workspace")):
        failed = await bench.act("file_ops.delete_file", path=path)
        assert not failed.ok and says in failed.error


async def test_move_renames_and_never_overwrites(bench: Bench) -> None:
    bench.put("a.txt", "x\n").chmod(0o640)
    inode = (bench.root / "a.txt").stat().st_ino
    bench.put("b.txt", "y\n")
    taken = await bench.act("file_ops.move_file", **{"from": "a.txt", "to": "b.txt"})
    assert not taken.ok and "exists already" in taken.error
    result = await bench.act("file_ops.move_file", **{"from": "a.txt", "to": "sub/c.txt"})
    assert result.ok and result.changed == ("a.txt", "sub/c.txt") and not (bench.root / "a.txt").exists()
    assert (bench.root / "sub/c.txt").stat().st_ino == inode
    assert (bench.root / "sub/c.txt").stat().st_mode & 0o777 == 0o640
    assert not (await bench.act("file_ops.move_file", **{"from": "none", "to": "x"})).ok
    assert not (await bench.act("file_ops.move_file", **{"from": "b.txt", "to": "sub"})).ok
    change = await bench.changed("file_ops.move_file", **{"from": "b.txt", "to": "z.txt"})
    assert "rename from b.txt" in change.preview and "rename to z.txt" in change.preview


async def test_a_target_that_appears_after_the_preview_is_not_overwritten(bench: Bench) -> None:
    bench.put("a.txt", "x\n")
    for name, args in (
        ("file_ops.write_file", {"path": "new.txt", "content": "mine\n"}),
        ("file_ops.move_file", {"from": "a.txt", "to": "new.txt"}),
    ):
        change = await bench.prepare(name, args)
        assert isinstance(change, Change)
        bench.put("new.txt", "theirs\n")
        result = await bench.perform(name, args, change)
        assert not result.ok and result.facts["stale"] and bench.get("new.txt") == b"theirs\n"
        (bench.root / "new.txt").unlink()
    assert bench.get("a.txt") == b"x\n"


_EFFECTS = [
    ("file_ops.write_file", {"content": "evil\n"}),
    ("file_ops.edit_file", {"search": "THEIRS", "replace": "evil"}),
    ("file_ops.delete_file", {}),
]


@pytest.mark.parametrize(("name", "args"), _EFFECTS)
async def test_outside_and_protected_targets_reach_the_gate_unread_and_are_refused(
    bench: Bench, name: str, args: dict[str, str]
) -> None:
    outside = bench.root.parent / "outside.txt"
    outside.write_text("THEIRS", encoding="utf-8")
    (bench.root / "link").symlink_to(outside)
    bench.put(".git/config", "THEIRS")
    bench.put(".bashrc", "THEIRS")
    for path in ("../outside.txt", str(outside), "link", ".git/config", ".GIT/config", ".bashrc"):
        change = await bench.prepare(name, {"path": path, **args})
        if isinstance(change, ToolResult):
            assert not change.ok
            continue
        assert change.files == () and "THEIRS" not in change.preview
        assert measure(change).level is RiskLevel.CRITICAL
        assert decide(change, measure(change), Policy("auto", allow=("*",))).outcome == "deny"
        result = await bench.perform(name, {"path": path, **args}, change)
        assert not result.ok
    assert outside.read_text(encoding="utf-8") == "THEIRS"
    assert bench.get(".git/config") == b"THEIRS" and bench.get(".bashrc") == b"THEIRS"


async def test_links_inside_are_written_through_and_not_deleted_or_moved_by_surprise(bench: Bench) -> None:
    bench.put("real.txt", "1\n")
    (bench.root / "link").symlink_to("real.txt")
    assert (await bench.act("file_ops.write_file", path="link", content="2\n")).ok
    assert bench.get("real.txt") == b"2\n" and (bench.root / "link").is_symlink()
    for result in (
        await bench.act("file_ops.delete_file", path="link"),
        await bench.act("file_ops.move_file", **{"from": "link", "to": "x"}),
        await bench.act("file_ops.move_file", **{"from": "real.txt", "to": "link"}),
    ):
        assert not result.ok and "symbolic link" in result.error
    assert bench.get("real.txt") == b"2\n"


async def test_a_link_made_after_the_preview_is_not_followed(bench: Bench) -> None:
    outside = bench.root.parent / "outside"
    outside.mkdir()
    args = {"path": "d/f.txt", "content": "x\n"}
    change = await bench.prepare("file_ops.write_file", args)
    assert isinstance(change, Change)
    (bench.root / "d").symlink_to(outside)
    result = await bench.perform("file_ops.write_file", args, change)
    assert not result.ok and list(outside.iterdir()) == []


async def test_special_and_large_files_are_refused(bench: Bench) -> None:
    os.mkfifo(bench.root / "fifo")
    with (bench.root / "huge").open("wb") as handle:
        handle.truncate(100_000_000)
    for path in ("fifo", "huge"):
        for name, args in _EFFECTS:
            result = await bench.act(name, path=path, **args)
            assert not result.ok, (path, name)


async def test_a_stop_waits_for_an_effect_that_has_begun(bench: Bench) -> None:
    args = {"path": "a.txt", "content": "x" * 3_000_000}
    change = await bench.prepare("file_ops.write_file", args)
    assert isinstance(change, Change)
    task = asyncio.ensure_future(bench.perform("file_ops.write_file", args, change))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    names = [path.name for path in bench.root.iterdir()]
    assert names in ([], ["a.txt"])
    if names:
        assert len(bench.get("a.txt")) == 3_000_000


def test_no_operation_leaves_temporary_files(bench: Bench) -> None:
    bench.do("file_ops.write_file", path="a", content="1\n")
    bench.do("file_ops.edit_file", path="a", search="1", replace="2")
    bench.do("file_ops.move_file", **{"from": "a", "to": "b"})
    assert [path.name for path in Path(bench.root).rglob("*")] == ["b"]


async def test_a_path_from_a_block_loses_the_line_end_of_the_block(bench: Bench) -> None:
    for end in ("\n", "\r\n"):
        assert (await bench.act("file_ops.write_file", path=f"dir/a.txt{end}", content="x\n")).ok
        assert (await bench.act("file_ops.read_file", path=f"dir/a.txt{end}")).ok
        assert (await bench.act("file_ops.edit_file", path=f"dir/a.txt{end}", search="x", replace="y")).ok
        assert (await bench.act("file_ops.list_dir", path=f"dir{end}")).head == ("1 entry",)
        assert (await bench.act("file_ops.find_files", pattern=f"*.txt{end}")).head == ("1 file",)
        found = await bench.act("search.text", query=f"y{end}", path=f"dir{end}")
        assert found.head == ("1 match", "1 file")
        assert (await bench.act("file_ops.move_file", **{"from": f"dir/a.txt{end}", "to": f"dir/b.txt{end}"})).ok
        assert [path.name for path in (bench.root / "dir").iterdir()] == ["b.txt"]
        assert (await bench.act("file_ops.delete_file", path=f"dir/b.txt{end}")).ok


@pytest.mark.parametrize("path", ["a\n\n", "a\nb", "a\r", "a\tb", "a\x1b[2J", "a\x85b", "a\u2028b", "\na"])
async def test_a_path_with_a_line_end_or_a_control_character_is_refused(bench: Bench, path: str) -> None:
    for name, args in (
        ("file_ops.write_file", {"path": path, "content": "x"}),
        ("file_ops.read_file", {"path": path}),
        ("file_ops.move_file", {"from": "x", "to": path}),
        ("search.text", {"query": "x", "path": path}),
    ):
        bench.put("x", "x")
        result = await bench.act(name, **args)
        assert not result.ok and result.error.isprintable()
        assert "line end" in result.error or "control character" in result.error
    assert [found.name for found in bench.root.iterdir()] == ["x"]
