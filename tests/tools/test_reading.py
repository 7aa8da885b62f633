"""read_file, list_dir, find_files: bounded, numbered, honest about what is left out."""

from __future__ import annotations

import asyncio
import os
import resource
import time
import unicodedata
from pathlib import Path

import pytest

from duckflow.safety.change import content_hash
from tests.tools.bench import Bench


async def test_a_file_is_read_with_line_numbers_and_facts(bench: Bench) -> None:
    bench.put("a.txt", "一\r\n二\r\n\r\n四\x1b[2J\r\n")
    result = await bench.act("file_ops.read_file", path="a.txt")
    assert result.text == "1│一\n2│二\n3│\n4│四␛[2J" and result.first_line == 1
    digest = content_hash(bench.get("a.txt")) or ""
    assert result.head == ("lines 1-4 of 4", "utf-8 CRLF", digest[:8])
    assert result.kind == "read" and result.facts == {"path": "a.txt", "lines": "1-4 of 4", "hash": digest}


async def test_a_part_of_a_file(bench: Bench) -> None:
    bench.put("a.txt", "".join(f"line {n}\n" for n in range(1, 101)))
    part = await bench.act("file_ops.read_file", path="a.txt", start=99, end=200)
    assert part.text == "99│line 99\n100│line 100" and part.head[0] == "lines 99-100 of 100" and part.first_line == 99
    assert (await bench.act("file_ops.read_file", path="a.txt", end=1)).text == "1│line 1"
    assert "only 100 lines" in (await bench.act("file_ops.read_file", path="a.txt", start=101)).error
    assert "before start" in (await bench.act("file_ops.read_file", path="a.txt", start=5, end=4)).error
    for wrong in ({"start": 0}, {"start": "1"}, {"from": 1}):
        assert "wrong arguments" in (await bench.act("file_ops.read_file", path="a.txt", **wrong)).error


async def test_what_cannot_be_read(bench: Bench) -> None:
    bench.put("i.png", b"\x89PNG\0")
    bench.put("empty", b"")
    os.mkfifo(bench.root / "fifo")
    for path, says in (
        ("i.png", "binary (PNG image, 5 bytes)"),
        (".", "directory"),
        ("x", "no such file"),
        ("fifo", "pipe"),
    ):
        result = await bench.act("file_ops.read_file", path=path)
        assert not result.ok and says in result.error
    assert (await bench.act("file_ops.read_file", path="empty")).head[0] == "empty"


async def test_an_earlier_output_is_read_like_a_file(bench: Bench) -> None:
    bench.outputs["A7"] = "one\ntwo\n"
    assert (await bench.act("file_ops.read_file", path="out:A7", start=2)).text == "2│two"
    assert "no output named out:A8" in (await bench.act("file_ops.read_file", path="out:A8")).error


async def test_long_lines_and_many_lines_are_cut_with_a_note(bench: Bench) -> None:
    bench.put("long", "x" * 10_000 + "\nend\n")
    result = await bench.act("file_ops.read_file", path="long")
    assert "[6,000 more characters]" in result.text and result.text.endswith("2│end")
    bench.put("many", "a\n" * 9_000)
    result = await bench.act("file_ops.read_file", path="many")
    assert result.head[0] == "lines 1-5000 of 9000" and "4,000 more lines" in result.text


@pytest.mark.parametrize(
    ("encoding", "newline"), [("utf-8", "\n"), ("utf-16", "\r\n"), ("cp932", "\r\n"), ("utf-8", "\r")]
)
async def test_a_large_file_is_read_in_windows(bench: Bench, encoding: str, newline: str) -> None:
    text = "".join(f"{n} 行目のテキストです。これは長いファイルの一部。{newline}" for n in range(1, 400_001))
    bench.put("big.txt", text.encode(encoding))
    whole = await bench.act("file_ops.read_file", path="big.txt")
    assert not whole.ok and "give start and end" in whole.error
    part = await bench.act("file_ops.read_file", path="big.txt", start=399_999, end=500_000)
    assert part.ok and part.text.splitlines() == [
        f"{n}│{n} 行目のテキストです。これは長いファイルの一部。" for n in (399_999, 400_000)
    ]
    beyond = await bench.act("file_ops.read_file", path="big.txt", start=400_001)
    assert not beyond.ok and "only 400,000 lines" in beyond.error


async def test_two_gigabytes_and_a_very_long_line_do_not_fill_the_memory(bench: Bench) -> None:
    with (bench.root / "line").open("wb") as handle:
        for _ in range(60):
            handle.write(b"x" * 1_000_000)
        handle.write(b"\nend\n")
    with (bench.root / "huge").open("wb") as handle:
        handle.write(b"first line\n" * 20_000)
        handle.truncate(2_000_000_000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = await bench.act("file_ops.read_file", path="line", start=1, end=2)
    assert result.ok and "[59,996,000 more characters]" in result.text and result.text.endswith("2│end")
    assert (await bench.act("file_ops.read_file", path="huge", start=2, end=3)).text == "2│first line\n3│first line"
    assert (await bench.act("search.text", query="first", path=".")).ok
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 40_000  # KB


# --- list_dir ---


async def test_a_directory_is_listed_directories_first(bench: Bench) -> None:
    bench.put("b.txt", "12345")
    bench.put("sub/deep/x.py", "")
    bench.put("A.md", "")
    bench.put(".git/config", "")
    bench.put("node_modules/p/i.js", "")
    bench.put(".gitignore", "node_modules/\n*.log\n")
    bench.put("x.log", "")
    (bench.root / "link").symlink_to("b.txt")
    result = await bench.act("file_ops.list_dir", path=".", depth=2)
    assert result.text.splitlines() == [
        "node_modules/ (ignored)", "sub/", "  deep/", ".gitignore  20 B", "A.md  0 B", "b.txt  5 B",
         "link (link)", "x.log  0 B (ignored)",
    ]  # fmt: skip
    assert (await bench.act("file_ops.list_dir", path="sub")).text == "deep/"
    assert (await bench.act("file_ops.list_dir", path="node_modules", depth=2)).text == "p/\n  i.js  0 B"
    for path, says in (("b.txt", "is a file"), ("none", "no such directory"), ("out:A1", "output")):
        assert says in (await bench.act("file_ops.list_dir", path=path)).error


async def test_a_long_listing_is_cut_with_a_count(bench: Bench) -> None:
    for number in range(600):
        bench.put(f"f{number:03}", "")
    result = await bench.act("file_ops.list_dir", path=".")
    assert result.head == ("600 entries",) and "100 more entries" in result.text


async def test_a_directory_outside_is_listed_without_rules(bench: Bench) -> None:
    (bench.root.parent / "other").mkdir()
    (bench.root.parent / "other" / "f").write_bytes(b"")
    change = await bench.changed("file_ops.list_dir", path="../other")
    assert change.places[0].where == "outside"
    assert (await bench.act("file_ops.list_dir", path="../other")).text == "f  0 B"


# --- find_files ---


async def test_files_are_found_by_pattern(bench: Bench) -> None:
    for path in ("a.py", "src/b.py", "src/deep/c.py", "src/d.ts", "build/e.py", ".git/f.py", "x/.venv/g.py", ".env"):
        bench.put(path, "")
    bench.put(".gitignore", "build/\n")
    bench.put(".duckflowignore", ".venv\n")
    bench.put(unicodedata.normalize("NFD", "がく.txt"), "")

    async def found(pattern: str) -> list[str]:
        return (await bench.act("file_ops.find_files", pattern=pattern)).text.splitlines()

    assert await found("*.py") == ["a.py", "src/b.py", "src/deep/c.py"]
    assert await found("src/*.py") == ["src/b.py"]
    assert await found("src/**/*.{py,ts}") == ["src/b.py", "src/d.ts", "src/deep/c.py"]
    assert await found("./a.py") == ["a.py"] and await found(str(bench.root / "a.py")) == ["a.py"]
    assert await found("がく.*") == [unicodedata.normalize("NFD", "がく.txt")]
    assert "src is a directory" in (await found("src"))[0]
    for pattern in ("../*", "/etc/*", "~/x", "", "**/" * 9 + "x"):
        assert not (await bench.act("file_ops.find_files", pattern=pattern)).ok


async def test_a_name_cannot_pretend_to_be_several(bench: Bench) -> None:
    bench.put("a\nb.py", "hit\n")
    (bench.root / os.fsdecode(b"\xff\xfe.py")).write_bytes(b"")
    assert (await bench.act("file_ops.find_files", pattern="*.py")).text.splitlines() == ["a␊b.py", "\ufffd\ufffd.py"]
    assert (await bench.act("search.text", query="hit")).text == "a␊b.py:1│hit"
    assert len((await bench.act("file_ops.list_dir", path=".")).text.splitlines()) == 2


async def test_ignore_files_above_count_only_within_a_repository(bench: Bench) -> None:
    (bench.root.parent / ".gitignore").write_text("*.py\n", encoding="utf-8")
    bench.put("a.py", "")
    assert (await bench.act("file_ops.find_files", pattern="*.py")).head == ("1 file",)
    (bench.root.parent / ".git").mkdir()
    assert (await bench.act("file_ops.find_files", pattern="*.py")).head == ("0 files",)


async def test_many_files_do_not_hold_up_the_loop(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for folder in range(40):
        (tmp_path / f"d{folder}").mkdir()
        for number in range(100):
            os.close(os.open(tmp_path / f"d{folder}" / f"f{number}.py", os.O_CREAT | os.O_WRONLY))
    worst = 0.0

    async def tick() -> None:
        nonlocal worst
        while True:
            began = time.perf_counter()
            await asyncio.sleep(0.001)
            worst = max(worst, time.perf_counter() - began)

    ticking = asyncio.ensure_future(tick())
    began = time.perf_counter()
    result = await bench.act("file_ops.find_files", pattern="**/*9.py")
    took = time.perf_counter() - began
    ticking.cancel()
    assert result.head == ("400 files",) and "200 more files" in result.text
    assert result.text.splitlines()[:2] == ["d0/f19.py", "d0/f29.py"]
    assert took < 10 and worst < 0.5
