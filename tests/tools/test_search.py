"""search.text: finds, stays within limits, and cannot be hung or tricked into secrets."""

from __future__ import annotations

import os
import time

from tests.tools.bench import Bench


async def test_lines_are_found_with_path_and_number(bench: Bench) -> None:
    bench.put("src/a.py", "import os\nx = os.getcwd()\n")
    bench.put("b.txt", "東京は日本の首都です\nos\n")
    bench.put("c.txt", "設定を読み込む\n".encode("cp932") * 3)
    bench.put("d.txt", "設定\r\n".encode("utf-16"))
    bench.put("build/z.py", "os\n")
    bench.put(".gitignore", "build/\n")
    result = await bench.act("search.text", query="os")
    assert result.text.splitlines() == ["b.txt:2│os", "src/a.py:1│import os", "src/a.py:2│x = os.getcwd()"]
    assert result.head == ("3 matches", "2 files")
    assert (await bench.act("search.text", query="日本")).text == "b.txt:1│東京は日本の首都です"
    assert [line.split("│")[0] for line in (await bench.act("search.text", query="設定")).text.splitlines()] == [
        "c.txt:1", "c.txt:2", "c.txt:3", "d.txt:1",
    ]  # fmt: skip
    assert (await bench.act("search.text", query="OS")).text == "no match"
    assert (await bench.act("search.text", query="x = os", path="src")).text.startswith("src/a.py:2│")
    assert (await bench.act("search.text", query="x = os", path="src/a.py")).head[0] == "1 match"
    assert (await bench.act("search.text", query="os", path="build")).text == "build/z.py:1│os"


async def test_regular_expressions(bench: Bench) -> None:
    bench.put("a.py", "def one():\n    pass\ndef two(x):\n")
    bench.put("b.py", "class A:\n")
    result = await bench.act("search.text", query=r"^(def|class) \w+", regex=True)
    assert result.text.splitlines() == ["a.py:1│def one():", "a.py:3│def two(x):", "b.py:1│class A:"]
    assert result.head == ("3 matches", "2 files")
    wrong = await bench.act("search.text", query="(", regex=True)
    assert not wrong.ok and "not a regular expression" in wrong.error


async def test_an_expression_that_never_ends_is_stopped(bench: Bench) -> None:
    bench.put("a.txt", "a" * 60 + "!\n")
    began = time.perf_counter()
    result = await bench.act("search.text", query=r"(a+)+$", regex=True)
    assert not result.ok and "takes too long" in result.error and time.perf_counter() - began < 30


async def test_an_earlier_output_can_be_searched(bench: Bench) -> None:
    bench.outputs["A3"] = "ok\nFAILED one\nok\n"
    assert (await bench.act("search.text", query="FAILED", path="out:A3")).text == "out:A3:2│FAILED one"
    assert not (await bench.act("search.text", query="x", path="out:A4")).ok


async def test_secrets_binaries_links_and_large_files_are_left_out(bench: Bench) -> None:
    outside = bench.root.parent / "outside.txt"
    outside.write_text("needle outside", encoding="utf-8")
    bench.put(".env", "needle=1\n")
    os.link(bench.root / ".env", bench.root / "innocent.txt")
    bench.put(".git/config", "needle\n")
    bench.put(".bashrc", "needle\n")
    bench.put("bin", b"needle\0\1\2")
    bench.put("big.txt", "needle\n" * 400_000)
    bench.put("denied.txt", "needle\n")
    bench.put("found.txt", "needle\n")
    (bench.root / "link").symlink_to(outside)
    os.mkfifo(bench.root / "fifo")
    bench.hidden = frozenset({"denied.txt"})
    result = await bench.act("search.text", query="needle")
    assert result.text.splitlines() == ["found.txt:1│needle", "(not searched: 4 protected or secret, 1 too large)"] or (
        result.text.splitlines()[0] == "found.txt:1│needle"
        and "outside" not in result.text
        and "needle=1" not in result.text
    )
    change = await bench.changed("search.text", query="needle", path=".env")
    assert change.places[0].secret


async def test_matches_and_lines_are_limited(bench: Bench) -> None:
    bench.put("many.txt", "hit\n" * 500)
    result = await bench.act("search.text", query="hit")
    assert len(result.text.splitlines()) == 101 and result.head[0] == "100+ matches"
    regex = await bench.act("search.text", query="h.t", regex=True)
    assert regex.text == result.text
    bench.put("wide.txt", "x" * 5000 + "target" + "y" * 5000)
    line = (await bench.act("search.text", query="target")).text
    assert "target" in line and len(line) < 340


async def test_queries_that_cannot_be_meant(bench: Bench) -> None:
    for query, path in (("", None), ("a\nb", None), ("x", "none"), ("x", ".."), ("x", "~")):
        args = {"query": query} if path is None else {"query": query, "path": path}
        assert not (await bench.act("search.text", **args)).ok
    bench.put("a", "x\n")
    assert (await bench.act("search.text", query="x\n")).ok
