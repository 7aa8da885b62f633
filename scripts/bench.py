"""Measures Duckflow against its budgets on this machine and prints a table. Reports; never fails because of time.

    make bench                  or: .venv/bin/python -P scripts/bench.py [--quick] [--json FILE]

CPU time is the yardstick: other work on the machine changes it less than the wall clock, which stands beside it for
information. The model is a scripted one on loopback, in this process: its own work is not counted.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import shlex
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts import bench_job, bench_process, bench_table, bench_tokens
from scripts.bench_process import Failed, Run, Sample
from scripts.bench_table import Figure
from tests.e2e.duck import COMMAND, Duck
from tests.engine.workbench import Bench, act, decision, yes

from duckflow import __version__

NOWHERE = "http://127.0.0.1:9/v1"  # the prompt needs a model to name, not one that answers

Measure = Callable[[Path, int], Iterator[Figure]]
"""Measures in a directory of its own, so many times."""


def machine(home: Path, times: int) -> Iterator[Figure]:
    """What everything below is to be compared with when two tables differ."""
    spent: list[float] = []
    for _ in range(times):
        before = time.process_time()
        sum(n % 7 for n in range(1_000_000))
        spent.append((time.process_time() - before) * 1000)
    yield Figure("this machine: a loop of a million steps", "ms", None, tuple(spent))
    bare = [bench_process.to_the_end(Duck(home), sys.executable, "-I", "-c", "pass") for _ in range(times)]
    yield _figure("this machine: Python alone", None, bare)


def version(home: Path, times: int) -> Iterator[Figure]:
    duck = Duck(home)
    samples = [bench_process.to_the_end(duck, str(COMMAND), "--version") for _ in range(3 * times)]
    yield _figure("duckflow --version", 60, samples)


def prompt(home: Path, times: int) -> Iterator[Figure]:
    made = [bench_process.prompt(_project(home / str(n), NOWHERE)) for n in range(times)]
    yield _figure("prompt on screen", 300, [one.drawn for one in made])
    yield _figure("  until nothing moves any more (loads ahead meanwhile)", None, [one.quiet for one in made])
    yield Figure("idle memory at the prompt (VmRSS)", "MB", 90, tuple(one.idle_mb for one in made))
    yield Figure("  the most until then (VmHWM)", "MB", 90, tuple(one.quiet.peak_mb for one in made))


def first_request_small(home: Path, times: int) -> Iterator[Figure]:
    yield from _first_request("small project", times, lambda n, url: _project(home / str(n), url))


def first_request_large(home: Path, times: int) -> Iterator[Figure]:
    files = bench_job.large_repository(home / "project")

    def duck(_n: int, url: str) -> Duck:
        shutil.rmtree(home / "data", ignore_errors=True)
        return Duck(home, url)

    yield from _first_request(f"{files:,} files", times, duck)


def _first_request(where: str, times: int, duck: Callable[[int, str], Duck]) -> Iterator[Figure]:
    def one(n: int) -> Run:
        return bench_process.run(lambda url: duck(n, url), bench_job.adviser, "list or set?")

    first = [one(n).at[0] for n in range(times)]
    yield _figure(f"run to its first model request, {where}", 300, first)
    yield Figure("  the most memory until then (VmHWM)", "MB", 90, tuple(sample.peak_mb for sample in first))


def whole_job(home: Path, times: int) -> Iterator[Figure]:
    """Twenty Decisions and a verdict over HTTP: what the harness adds to the model's own time."""
    runs = [_job(home / str(n)) for n in range(times)]
    steps = bench_job.DECISIONS

    def each(since: int, until: int | None, parts: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
        ends = [one.end if until is None else one.at[until] for one in runs]
        pairs = [(end, one.at[since]) for end, one in zip(ends, runs, strict=True)]
        cpu = tuple((end.cpu_ms - start.cpu_ms) / parts for end, start in pairs)
        return cpu, tuple((end.wall_ms - start.wall_ms) / parts for end, start in pairs)

    yield Figure(f"overhead per Decision, job of {steps}", "ms", 8, *each(0, None, steps))
    yield Figure("  from the second request to the verdict's, each", "ms", None, *each(1, -1, steps - 1))
    yield Figure("  once: the first answer and its actions", "ms", None, *each(0, 1, 1))
    yield Figure("  once: the verdict and the end of the process", "ms", None, *each(-1, None, 1))
    peaks = tuple(one.at[-1].peak_mb for one in runs)
    yield Figure("peak memory of the job (VmHWM at its last request)", "MB", 90, peaks)


def in_process(home: Path, times: int) -> Iterator[Figure]:
    """The same job without HTTP and without starting anything: engine, tools, prompts and store alone."""
    samples = []
    for n in range(times + 1):
        bench_job.small_project(home / str(n) / "project")
        bench = Bench(home / str(n), bench_job.in_process_worker(), settings='mode = "auto-edit"\n')
        started, before = time.perf_counter(), time.process_time()
        ending = asyncio.run(bench.chat.turn(bench_job.REQUEST))
        cpu, wall = time.process_time() - before, time.perf_counter() - started
        bench.store.close()
        if ending.status != "satisfied":
            raise Failed(f"the job ended {ending.status}")
        samples.append(Sample(cpu * 1000 / bench_job.DECISIONS, wall * 1000 / bench_job.DECISIONS, 0.0))
    yield _figure("  the same in this process, without HTTP, each", None, samples[1:])  # the first one warmed up


def beside(home: Path, times: int) -> Iterator[Figure]:
    """A message answered while commands keep a processor busy in the background; the model itself takes no time."""
    busy = act("shell.run", command=f"{shlex.quote(sys.executable)} -c 'sum(n % 7 for n in range(3_000_000))'")
    first = decision(act("task_loop.run", tasks=[busy] * 400), profile="creation", next_step="done")
    side = decision(profile="guidance", objective="side", reply="Use a set.", actions=[])
    bench = Bench(home, lambda request: side if request.messages[-1].text.count("in passing") else first, yes)

    async def measured() -> list[Sample]:
        began = asyncio.Event()
        bench.session.subscribe(lambda event: began.set() if event.body.type == "action.started" else None)
        await bench.chat.turn("work")
        samples = []
        for number in range(3 * times):
            began.clear()
            async with asyncio.timeout(60):
                await began.wait()  # a command has just begun
            at, cpu = time.perf_counter(), time.process_time()
            ending = await bench.chat.turn(f"{number}, in passing: list or set?")
            samples.append(Sample((time.process_time() - cpu) * 1000, (time.perf_counter() - at) * 1000, 0.0))
            if ending.reply != "Use a set.":
                raise Failed(f"the message was {ending.status}")
        await bench.chat.close()
        return samples

    samples = asyncio.run(measured())
    bench.store.close()
    walls = tuple(sample.wall_ms for sample in samples)
    yield Figure("a message answered while background commands run, wall", "ms", 100, walls, walls)
    yield _figure("  of it CPU of this process", None, samples)


def tokens(home: Path, times: int) -> Iterator[Figure]:
    """Counted on the requests the server received; English counts, Japanese templates are information."""
    for lang, most, tail in (("en", 2500, 300), ("ja", None, None)):
        made = _job(home / lang, f'[prompts]\nlang = "{lang}"\n')
        decisions = [body for body, node in zip(made.bodies, made.nodes, strict=True) if node != "evaluate"]
        judged = [body for body, node in zip(made.bodies, made.nodes, strict=True) if node == "evaluate"]
        cost = bench_tokens.cost(decisions)
        later = cost.tails[1:]
        rows: tuple[tuple[str, float | None, float], ...] = (
            ("first prompt", most, cost.first),
            ("  of it Base, Contract and Project (frozen)", None, cost.frozen),
            ("uncached tail (Main) of the first call", tail, cost.tails[0]),
            ("uncached tail (Main) of later calls, median", tail, statistics.median(later)),
            ("uncached tail (Main) of later calls, largest", tail, max(later)),
            ("new in a later call (Decision, results, tail), median", None, statistics.median(cost.fresh)),
            (f"all prompts of {bench_job.DECISIONS} Decisions", None, cost.total),
            ("  what was sent before counted at a tenth", None, cost.weighted),
            ("prompt of the verdict", None, bench_tokens.cost(judged).total),
        )
        for what, budget, value in rows:
            yield Figure(f"{what} [{lang}]", "tokens", budget, (value,))


def _project(home: Path, url: str, extra: str = "") -> Duck:
    bench_job.small_project(home / "project")
    return Duck(home, url, extra=extra)


def _job(home: Path, extra: str = "") -> Run:
    args = ("--mode", "auto-edit", bench_job.REQUEST)
    made = bench_process.run(lambda url: _project(home, url, extra), bench_job.worker, *args)
    if len(made.at) != bench_job.DECISIONS + 1:
        raise Failed(f"{len(made.at)} requests instead of {bench_job.DECISIONS + 1}")
    return made


def _figure(what: str, budget: float | None, samples: list[Sample]) -> Figure:
    return Figure(what, "ms", budget, tuple(s.cpu_ms for s in samples), tuple(s.wall_ms for s in samples))


def measured(measure: Measure, home: Path, times: int) -> Iterator[Figure]:
    """What one measurement gives; a measurement that fails is a line of the table, not the end of the bench."""
    try:
        yield from measure(home, times)
    except Exception as error:
        problem = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        yield Figure(measure.__name__.replace("_", " "), "", None, (), problem=problem)


def _warm_up(home: Path) -> None:
    """Byte code and file cache: the first start after an installation is another matter."""
    try:
        _job(home / "job")
        bench_process.prompt(_project(home / "chat", NOWHERE))
    except (OSError, Failed) as error:
        print(f"while warming up: {error}", file=sys.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure Duckflow against its budgets.")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")
    options = parser.parse_args()
    times = 3 if options.quick else 11
    facts = {
        "duckflow": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        "repetitions": times,
    }
    print(", ".join(f"{name} {value}" for name, value in facts.items()), bench_table.head(), sep="\n", flush=True)
    steps = (machine, version, prompt, first_request_small, first_request_large, whole_job, in_process, beside, tokens)
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="duckflow-bench-") as folder:
        _warm_up(Path(folder) / "warm-up")
        for step in steps:
            for figure in measured(step, Path(folder) / step.__name__, times):
                figures.append(figure)
                print(bench_table.line(figure), flush=True)
    print(f"\n{bench_table.foot(figures)}")
    if options.json:
        bench_table.write(options.json, facts, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
