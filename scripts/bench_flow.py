"""Compares our flow with the seven-node flow it replaces: model calls, prompt tokens and time for the same ten jobs.

    make bench-flow             or: .venv/bin/python -P scripts/bench_flow.py [--quick] [--json [FILE]]

Exits with 1 when a target is missed (43 % fewer calls, 30 % less time) or a job did not end as it should.

Ours is the product: `ChatLoop.turn` of a real kit with its dispatcher, store and files; only the model is scripted.
The old flow is `SevenNodes` below. What it assumes, in favour of the old flow where there was a choice:

- One pass calls thinking, context collection, risk assessment, approval, tool execution and result confirmation once
  each; error analysis follows when an operation failed or a command ended with another exit code than 0.
- A node without work is not called: where nothing is changed, no risk assessment, approval or tool execution. Context
  collection is asked once per job (somebody must find that nothing is needed), later only when there is more to read.
- Reading and then changing is one pass, because reading is context collection: all reads of a pass are one call, all
  its effects are one call. A second pass follows a failure, a failing test or a result that is not enough. That it is
  not enough is found by result confirmation and costs no error analysis.
- The call of the approval node words the question for the person, who answers at once in both flows.
- A node sees the system text that ours froze, the history so far (the message, the nodes' answers, results recorded
  by the same code) and one sentence of its own; our procedures and Main are longer, and they are counted. The two
  nodes that give actions answer with the Decision that system text asks for, reduced to what it requires; the others
  with one or two fields of a line each. Nothing that is another node's matter is said twice.
- The actions and their texts are the same, read by the same decoder, run by the same dispatcher. Both scripts are of a
  model that makes no mistake but the one its job is about; a real one may need more calls in either flow.

A call takes the seconds of `Pace`; they are slept, scaled down. No prompt cache is assumed; what one would change is
computed and printed below the table. The wall time includes our own work, which is not scaled.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts import bench_flow_table
from scripts.bench_flow_jobs import JOBS, PROJECT, Job, Judged, Loop, said
from scripts.bench_flow_table import Pace, Ran, Row
from scripts.bench_tokens import shared_beginning
from tests.engine.workbench import Bench, verdict, yes

from duckflow import events as ev
from duckflow.engine.ledger import Outcome
from duckflow.engine.record import record_results
from duckflow.llm.base import Finish, Message, ModelRequest, Node, Part, Usage
from duckflow.llm.decode import decode
from duckflow.llm.scripted import FunctionModel, Reply
from duckflow.llm.tokens import count
from duckflow.prompts.layers import conversation
from duckflow.prompts.replies import Decision
from duckflow.state.machine import Status, Step, Trigger

OLD_NODES: dict[str, tuple[Node, str]] = {  # name: ours that stands for it in a request, its instruction
    "thinking": ("understand", "Say what the person needs, how to do it, and what must be known first."),
    "context collection": ("gather", "Give the read-only actions that collect what is needed; [] when nothing is."),
    "risk assessment": ("execute", "Say how risky the next actions are, and why."),
    "approval": ("execute", "Word the question the person is asked before the next actions run."),
    "tool execution": ("execute", "Give the actions that carry out the plan, with their blocks."),
    "result confirmation": ("evaluate", "Compare results and request: COMPLETE or CONTINUE, and what to tell."),
    "error analysis": ("evaluate", "Say why it failed and what to do differently."),
}


class Paced(FunctionModel):
    """Says what it is told to and takes its time. Counts the real tokens."""

    def __init__(self, answer: Callable[[ModelRequest], str], pace: Pace | None) -> None:
        super().__init__(self._slowly)
        self._answer, self._pace = answer, pace
        self._used: list[Usage] = []

    async def _slowly(self, request: ModelRequest) -> Reply:
        text = self._answer(request)
        usage = Usage(sum(count(message.text) for message in request.messages), 0, count(text))
        self._used.append(usage)
        if self._pace:
            await asyncio.sleep(self._pace.seconds(usage) / self._pace.scale)
        return Reply(text, usage=usage)

    def usages(self) -> tuple[Usage, ...]:
        texts = ["\n\n".join(message.text for message in request.messages) for request in self.asked]
        known = [
            max((shared_beginning(e, text) for e in texts[:n]), key=len, default="") for n, text in enumerate(texts)
        ]
        return tuple(Usage(u.prompt, count(k), u.completion) for u, k in zip(self._used, known, strict=True))


# --- ours ------------------------------------------------------------------------------------------------------------


def scripted(job: Job) -> Callable[[ModelRequest], str]:
    """Decisions in order; the evaluator cites all evidence it is shown."""
    script = deque(job.ours)

    def answer(request: ModelRequest) -> str:
        judging = request.node == "evaluate"
        if not script or isinstance(script[0], Judged) is not judging:
            raise RuntimeError(f"{job.name}: the script has nothing for {request.node} here")
        given = script.popleft()
        return given if isinstance(given, str) else _verdict(given, request.messages[-1].text)

    return answer


def _verdict(judged: Judged, prompt: str) -> str:
    words = prompt.split()
    shown = [word.removeprefix("<<<") for word in words if word.startswith("<<<E")]
    wanted = sorted({word for word in words if word[0] == "R" and word[1:].isdigit()})
    enough = not judged.missing
    return verdict(
        judged.score,
        dict.fromkeys(wanted, shown),
        missing_aspects=list(judged.missing),
        quality_assessment="It does what was asked." if enough else "Not yet what was asked.",
        completion_recommendation=enough,
    )


def run_ours(job: Job, home: Path, pace: Pace | None) -> tuple[Ran, str]:
    """What it took, and the system text that was frozen for it."""
    model = Paced(scripted(job), pace)
    bench = _bench(home, model)
    began = time.perf_counter()
    ending = asyncio.run(bench.chat.turn(job.message))
    seconds = time.perf_counter() - began
    bench.store.close()
    ran = Ran(ending.status, tuple(bench.nodes), model.usages(), seconds, _files(bench.root))
    return ran, bench.session.state.system


def _bench(home: Path, model: Paced) -> Bench:
    for path, text in PROJECT.items():
        (home / "project" / path).parent.mkdir(parents=True, exist_ok=True)
        (home / "project" / path).write_text(text, encoding="utf-8")
    return Bench(home, model, yes)


def _files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


# --- the old flow ----------------------------------------------------------------------------------------------------


class SevenNodes:
    """One model call per node, one node after the other, over the same kit."""

    def __init__(self, job: Job, home: Path, pace: Pace | None, system: str) -> None:
        self._job, self._system = job, system
        self._said: deque[str] = deque()
        self.model = Paced(lambda _request: self._said.popleft(), pace)
        self.bench = _bench(home, self.model)
        self.nodes: list[str] = []
        session = self.bench.session
        self._run = session.start_run()
        session.move(self._run, Trigger.MESSAGE, Step.PLANNING, Status.IN_PROGRESS)

    async def work(self) -> str:
        self._remember("user", "message", self._job.message)
        for number, loop in enumerate(self._job.loops):
            await self._pass(loop, first=number == 0)
            if loop.complete:
                return "complete"
        return "incomplete"

    async def _pass(self, loop: Loop, first: bool) -> None:
        needs = [str(action["args"].get("path") or action["args"].get("query")) for action in loop.reads]
        await self._ask("thinking", {"requirement": loop.thought, "plan": loop.plan, "information_needs": needs})
        if first or loop.reads:
            await self._act(await self._ask("context collection", said("what the plan needs", *loop.reads)))
        outcomes: list[Outcome] = []
        if loop.effects:
            await self._ask("risk assessment", {"risk_level": "LOW", "risks": loop.risk})
            await self._ask("approval", {"question": loop.question})
            self.bench.kit.advance(self._run, Trigger.DECISION, Step.EXECUTION)
            given = said("as planned", *loop.effects, blocks=loop.blocks)
            outcomes = await self._act(await self._ask("tool execution", given))
        result = "COMPLETE" if loop.complete else "CONTINUE"
        await self._ask("result confirmation", {"next_action": result, "reply": loop.told})
        if any(outcome.state != "ok" or outcome.result.exit_code for outcome in outcomes):
            await self._ask("error analysis", {"cause": loop.cause, "fix": loop.fix})

    async def _ask(self, name: str, reply: str | dict[str, Any]) -> str:
        """The call of one node; its answer joins the history."""
        self._said.append(reply if isinstance(reply, str) else json.dumps(reply, ensure_ascii=False))
        self.nodes.append(name)
        stands_for, instruction = OLD_NODES[name]
        kit = self.bench.kit
        thread = kit.session.state.threads.get(kit.session.run(self._run).thread, ())
        last = Message("user", (Part(f"Node {name}. {instruction}"),))
        messages = (Message("system", (Part(self._system),)), *conversation(thread), last)
        answer = await kit.models.ask(
            ModelRequest(stands_for, "evaluator" if stands_for == "evaluate" else "creative", messages)
        )
        self._remember("assistant", "decision", answer.text)
        return answer.text

    async def _act(self, text: str) -> list[Outcome]:
        decoded = decode(text, Finish.STOP, Decision)
        assert decoded.value is not None, decoded.problem
        outcomes = await self.bench.kit.dispatcher.batch(self._run, decoded.value.actions)
        record_results(self.bench.kit, self._run, outcomes)
        return outcomes

    def _remember(self, role: str, kind: str, text: str) -> None:
        session = self.bench.session
        thread = session.run(self._run).thread
        session.append(ev.HistoryAdded(thread=thread, role=role, kind=kind, text=text), run=self._run)


def run_old(job: Job, home: Path, pace: Pace | None, system: str) -> Ran:
    flow = SevenNodes(job, home, pace, system)
    began = time.perf_counter()
    status = asyncio.run(flow.work())
    seconds = time.perf_counter() - began
    flow.bench.store.close()
    return Ran(status, tuple(flow.nodes), flow.model.usages(), seconds, _files(flow.bench.root))


# --- both ------------------------------------------------------------------------------------------------------------


def compare(home: Path, pace: Pace | None, jobs: Sequence[Job] = JOBS) -> Iterator[Row]:
    for number, job in enumerate(jobs):
        ours, system = run_ours(job, home / f"{number}-ours", pace)
        yield Row(job.name, run_old(job, home / f"{number}-old", pace, system), ours)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Compare our flow with the seven-node flow.")
    parser.add_argument("--quick", action="store_true", help="no latency: calls and tokens only")
    parser.add_argument(
        "--json", nargs="?", const="-", metavar="FILE", help="JSON there, too; alone: instead of the table"
    )
    options = parser.parse_args(argv)
    pace = None if options.quick else Pace()
    tell: Callable[[str], None] = (lambda _text: None) if options.json == "-" else print
    rows: list[Row] = []
    tell(bench_flow_table.head(pace))
    with tempfile.TemporaryDirectory(prefix="duckflow-bench-") as folder:
        list(compare(Path(folder) / "warm-up", None, JOBS[:1]))  # imports, byte code, the tokenizer
        for row in compare(Path(folder) / "jobs", pace):
            rows.append(row)
            tell(bench_flow_table.line(row, pace))
    tell(f"\n{bench_flow_table.foot(rows, pace)}")
    made = json.dumps(bench_flow_table.as_json(rows, pace), indent=1, ensure_ascii=False)
    if options.json == "-":
        print(made)
    elif options.json:
        Path(options.json).write_text(made + "\n", encoding="utf-8")
    return int(bench_flow_table.is_failed(rows, pace))


if __name__ == "__main__":
    sys.exit(main())
