"""`duckflow audit --stats`: which event counts for what, how the figures are shown, the command itself."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from duckflow import events as ev
from duckflow.state.journal import Store
from duckflow.state.runs import Totals
from duckflow.state.session import Session
from duckflow.ui import audit, stats
from duckflow.ui.audit import Query
from duckflow.ui.out import Out
from duckflow.ui.stats import Figures, compute
from duckflow.ui.wrap import cells
from tests.e2e.duck import Duck
from tests.e2e.server import ModelServer, Reply, Usage
from tests.engine.workbench import act, decision, verdict

Told = tuple[str | None, ev.Body]


class Paper:
    def __init__(self, width: int = 100) -> None:
        self.pieces: list[str] = []
        self.out = Out(self.pieces.append, colour=False, width=lambda: width)

    @property
    def text(self) -> str:
        return "".join(self.pieces)


def told(*bodies: Told, session: str = "S", parent: str | None = None) -> list[ev.Event]:
    started = ev.SessionStarted(workspace="w", version="0", mode="ask", models={}, parent=parent)
    return [ev.Event(i, "", session, run, body) for i, (run, body) in enumerate(((None, started), *bodies), 1)]


def figures(*bodies: Told) -> Figures:
    return compute({"S": told(*bodies)})


def started(run: str, kind: str = "turn", parent: str | None = None) -> Told:
    return run, ev.RunStarted(kind=kind, parent=parent)


def said(run: str, text: str, kind: str = "message", role: str = "user") -> Told:
    return run, ev.Message(role=role, text=text, kind=kind)


def objective(run: str, status: str = "open", attempt: int = 1, name: str = "O1") -> Told:
    return run, ev.ObjectiveChanged(
        objective=name, request="x", requirements=(), attempt=attempt, satisfaction=0.0, status=status
    )


def judged(run: str, move: str = "complete", overall: float = 0.9) -> Told:
    return run, ev.VerdictGiven(overall=overall, requirements={}, failed_checks=(), missing=(), next=move)


def called(run: str | None, usd: float | None = 0.5, prompt: int = 100) -> Told:
    return run, ev.ModelCalled(
        tier="creative", provider="p", model="m", node="execute", pattern="base_main", prompt_tokens=prompt,
        cached_tokens=40, completion_tokens=10, cost_usd=usd, ms=1,
    )  # fmt: skip


def work(run: str, *between: Told, status: str = "satisfied", name: str = "O1") -> tuple[Told, ...]:
    """One request from the message to the end, with something in between."""
    return started(run), said(run, f"do {name}"), objective(run, name=name), *between, objective(run, status, name=name)


# --- what counts --------------------------------------------------------------------------------------------------


def test_objectives_are_counted_by_how_they_stand_and_per_session() -> None:
    one = told(*work("run1"), *work("run2", status="refused", name="O2"), session="A")
    other = told(*work("run1", status="deferred"), *work("run2", status="open", name="O2"), session="B")
    found = compute({"A": one, "B": other})
    assert found.statuses == {"satisfied": 1, "refused": 1, "deferred": 1, "open": 1}
    assert (found.objectives, found.finished, found.first) == (4, 2, 1)
    assert compute({"A": one, "B": other}, ["B"]).statuses == {"deferred": 1, "open": 1}


@pytest.mark.parametrize(
    ("between", "first"),
    [
        ((), 1),
        ((judged("run1"),), 1),
        ((said("run1", "Shall I?", "message", "assistant"),), 1),
        ((said("run1", "a table", "data"),), 1),
        ((said("run1", "yes, that one"),), 0),
        ((said("run1", "not like this", "steering"),), 0),
        ((judged("run1", "retry", 0.2), objective("run1", attempt=2)), 0),
    ],
)
def test_the_first_request_was_enough_without_a_further_message_or_attempt(
    between: tuple[Told, ...], first: int
) -> None:
    assert figures(*work("run1", *between)).first == first
    assert figures(*work("run1", *between, status="answered")).first == first
    assert figures(*work("run1", *between, status="partial")).first == 0


def test_an_answer_at_a_card_is_no_further_message() -> None:
    answer = ev.GateAnswered(action="A1", actions=("A1",), answer="no", by="user", comment="another name, please")
    assert figures(*work("run1", ("run1", answer))).first == 1


def test_a_message_about_something_else_is_not_held_against_the_open_work() -> None:
    """It is put into the open run first, then moved: beside the work, or into a run of its own."""
    aside = (
        said("run1", "what time is it?"),
        started("run2", "side", "run1"),
        said("run2", "what time is it?", "moved"),
    )
    assert figures(*work("run1", *aside)).first == 1
    assert figures(*work("run1", *aside[:1])).first == 0
    new = (
        said("run1", "do O2"),
        started("run2"),
        said("run2", "do O2", "moved"),
        objective("run2", "satisfied", 1, "O2"),
    )
    both = figures(*work("run1", *new))
    assert (both.finished, both.first) == (2, 2)


def test_steering_work_in_the_background_counts_for_its_objective() -> None:
    step = (started("run2", "step", "run1"), said("run2", "faster", "steering"))
    assert figures(*work("run1", *step)).first == 0


def test_retries_are_attempts_and_false_starts() -> None:
    again = (
        judged("run1", "retry", 0.2), objective("run1", attempt=2),
        judged("run1", "retry", 0.4), objective("run1", attempt=3),
        judged("run1", "complete", 0.8), objective("run1", attempt=3),
    )  # fmt: skip
    found = figures(*work("run1", *again), *work("run2", judged("run2", "complete", 0.9), name="O2"))
    # The end of `work` names attempt 1 again, which is no new attempt.
    assert (found.attempts, found.false_starts) == (4, 2)
    assert found.judged == 2 and found.satisfaction == pytest.approx(1.7)


def test_the_last_verdict_of_an_attempt_decides_whether_it_was_a_false_start() -> None:
    twice = figures(*work("run1", judged("run1", "retry", 0.2), judged("run1", "complete", 0.9)))
    assert (twice.false_starts, twice.satisfaction) == (0, 0.9)
    assert figures(*work("run1", judged("run1", "escalate"), status="escalated")).false_starts == 1


def test_an_objective_that_a_later_message_takes_up_again_is_one_with_more_attempts() -> None:
    first = work("run1", judged("run1", "escalate", 0.3), status="escalated")
    found = figures(*first, *work("run2", judged("run2")))
    assert (found.objectives, found.attempts, found.first, found.false_starts) == (1, 2, 0, 1)
    put_off = figures(*work("run1", status="deferred"), *work("run2"))
    assert (put_off.attempts, put_off.first) == (1, 0)


def test_satisfaction_is_over_objectives_with_a_verdict_attempts_over_finished_ones() -> None:
    found = figures(
        *work("run1", judged("run1", overall=0.8)),
        *work("run2", name="O2"),
        *work("run3", judged("run3", "retry", 0.4), objective("run3", "open", 2, "O3"), status="open", name="O3"),
    )
    assert found.judged == 2 and found.satisfaction == pytest.approx(1.2)
    assert (found.finished, found.attempts, found.false_starts) == (2, 2, 1)


def test_calls_belong_to_the_objective_of_their_run_or_of_the_run_it_works_for() -> None:
    found = figures(
        started("run1"),
        said("run1", "do it"),
        called("run1", 1.0),  # before the objective has a name
        objective("run1"),
        started("run2", "step", "run1"),
        called("run2", 2.0),
        started("run3", "step", "run2"),
        called("run3", 4.0),
        started("run4", "side", "run1"),
        objective("run4", "satisfied", name="O2"),
        called("run4", 8.0),
        started("run5"),
        called("run5", 16.0),
        called(None, 32.0),
        started("run6", "step", "run5"),
        called("run6", 64.0),
        objective("run1", "satisfied"),
    )
    assert found.used == Totals(4, 400, 160, 40, 15.0, 0)
    assert found.beside == Totals(3, 300, 120, 30, 112.0, 0)
    assert found.objectives == 2


def test_runs_that_name_each_other_as_parents_end_nowhere() -> None:
    found = figures(started("run1", "step", "run2"), started("run2", "step", "run1"), called("run1"))
    assert (found.objectives, found.beside.calls) == (0, 1)


def test_a_fork_counts_only_what_happened_in_it() -> None:
    before = (
        *work("run1", called("run1", 1.0), judged("run1")),
        started("run2"), said("run2", "do O2"), called("run2", 2.0), objective("run2", name="O2"),
        judged("run2", "retry", 0.1), objective("run2", "escalated", 1, "O2"), called("run9", 64.0),
    )  # fmt: skip
    after = (said("run2", "try again"), called("run2", 4.0), objective("run2", "satisfied", 1, "O2"))
    origin, fork = told(*before, called("run2", 8.0)), told(*before, *after, session="F", parent="S")
    own = compute({"S": origin, "F": fork}, ["F"])
    assert own.statuses == {"satisfied": 1} and own.used.cost_usd == 4.0 and own.beside.calls == 0
    assert (own.first, own.false_starts) == (0, 0)
    both = compute({"S": origin, "F": fork})
    assert both.statuses == {"satisfied": 2, "escalated": 1}
    assert (both.used.cost_usd, both.beside.cost_usd, both.false_starts) == (15.0, 64.0, 1)


# --- how it is shown ----------------------------------------------------------------------------------------------


def shown(found: Figures, width: int = 100) -> str:
    paper = Paper(width)
    assert stats.show(found, 1, paper.out) == 0
    return paper.text


MIXED = (
    *work("run1", called("run1", 0.25), judged("run1", "retry", 0.5), objective("run1", attempt=2),
          called("run1", 0.25), judged("run1", overall=0.8)),
    *work("run2", called("run2", 0.5), judged("run2", overall=0.9), name="O2"),
    *work("run3", name="O3", status="answered"),
    *work("run4", called("run4", 0.0), name="O4", status="open"),
    started("run5"), called("run5", 3.0),
)  # fmt: skip


def test_the_figures_stand_beside_their_targets() -> None:
    text = shown(figures(*MIXED))
    assert text.startswith("Objectives of 1 session\n")
    for row in (
        r"objectives +4 · done 2 · answered 1 · unfinished 1\n",
        r"at the first request +2 of 3 finished \(66\.7 %\) · target: at least 95 %\n",
        r"attempts +1\.33 on average · target: at most 1\.6\n",
        r"satisfaction +0\.85 on average · 8\.5/10 · target: at least 8\.5/10\n",
        r"false starts +1 · 0\.25 per objective\n",
        r"calls +4 · 1 per objective\n",
        r"read +400 tokens \(160 cached\) · 100 per objective\n",
        r"written +40 tokens · 10 per objective\n",
        r"cost +\$1\.00 · \$0\.2500 per objective\n",
        r"beside +1 call · read 100 tokens, written 10 tokens · \$3\.00\n",
    ):
        assert re.search(rf"^  {row}", text, re.MULTILINE), row
    assert all(cells(line) <= 40 for line in shown(figures(*MIXED), 40).splitlines())


def test_an_unknown_price_is_said_and_never_a_zero() -> None:
    unknown = shown(figures(*work("run1", called("run1", None))))
    assert re.search(r"^  cost +cost unknown$", unknown, re.MULTILINE) and "$" not in unknown
    part = shown(figures(*work("run1", called("run1", None), called("run1", 0.5)), *work("run2", name="O2")))
    assert re.search(r"^  cost +\$0\.5000 \+ unknown · \$0\.2500 \+ unknown per objective$", part, re.MULTILINE)
    beside = shown(figures(*work("run1"), started("run2"), called("run2", None)))
    assert re.search(r"^  beside .* · cost unknown$", beside, re.MULTILINE)


def test_what_cannot_be_told_yet_is_said() -> None:
    text = shown(figures(*work("run1", status="open")))
    assert re.search(r"at the first request +none is finished yet · target: at least 95 %\n", text)
    assert re.search(r"satisfaction +no verdict yet · target", text) and "beside" not in text


def test_without_any_objective_there_is_a_sentence_and_the_calls_beside() -> None:
    assert shown(figures()) == "No objective is stored yet: questions answered in words have none.\n"
    assert re.search(r"No objective.*\n  beside +1 call · ", shown(figures(started("run1"), called("run1"))))


def as_json(found: Figures) -> dict[str, Any]:
    paper = Paper()
    stats.show(found, 3, paper.out, as_json=True)
    (line,) = paper.text.splitlines()
    answer: dict[str, Any] = json.loads(line)
    return answer


def test_scripts_get_the_same_figures_as_one_object() -> None:
    got = as_json(figures(*MIXED))
    assert got["by_status"] == {**dict.fromkeys(stats.STATUSES, 0), "satisfied": 2, "answered": 1, "open": 1}
    assert (got["sessions"], got["objectives"], got["finished"]) == (3, 4, 3)
    assert got["first_request"] == {"count": 2, "share": 0.666667, "target": 0.95}
    assert got["attempts"] == {"average": 1.333333, "target": 1.6}
    assert got["satisfaction"] == {"judged": 2, "average": 0.85, "of_ten": 8.5, "target": 0.85}
    assert got["false_starts"] == {"count": 1, "per_objective": 0.25}
    assert (got["usage"]["calls"], got["usage"]["prompt_tokens"], got["usage"]["cost_usd"]) == (4, 400, 1)
    assert got["usage_per_objective"]["completion_tokens"] == 10 and got["beside"]["cost_usd"] == 3


def test_scripts_get_null_for_what_is_unknown() -> None:
    part = as_json(figures(*work("run1", called("run1", None), called("run1", 0.5))))["usage"]
    assert (part["cost_usd"], part["known_cost_usd"], part["unpriced_calls"]) == (None, 0.5, 1)
    nothing = as_json(figures(started("run1"), called("run1", None)))
    assert nothing["beside"]["cost_usd"] is nothing["beside"]["known_cost_usd"] is None
    assert nothing["objectives"] == 0 and nothing["usage_per_objective"]["cost_usd"] is None
    assert (
        nothing["first_request"]["share"] is nothing["attempts"]["average"] is nothing["satisfaction"]["of_ten"] is None
    )


# --- from the store, and by the command ---------------------------------------------------------------------------


def test_a_stored_session_and_its_fork_are_read_and_can_be_told_apart(tmp_path: Path) -> None:
    store = Store(tmp_path / "state.db")
    first = ev.SessionStarted(workspace=str(tmp_path), version="0", mode="ask", models={})
    session = Session.start(store, first)
    for run, body in work("run1", called("run1", 1.0), judged("run1")):
        session.append(body, run=run)
    fork = Session.fork(store, session.id)
    for run, body in work("run2", called("run2", None), name="O2", status="failed"):
        fork.append(body, run=run)

    def got(name: str | None) -> dict[str, Any]:
        paper = Paper()
        assert audit.show(store, Query(session=name, stats=True), paper.out, as_json=True) == 0
        answer: dict[str, Any] = json.loads(paper.text)
        return answer

    every, old, new = got(None), got(session.id), got(fork.id)
    assert [(g["sessions"], g["objectives"], g["usage"]["calls"]) for g in (every, old, new)] == [
        (2, 2, 2), (1, 1, 1), (1, 1, 1)
    ]  # fmt: skip
    assert (old["by_status"]["satisfied"], new["by_status"]["satisfied"], new["by_status"]["failed"]) == (1, 0, 1)
    assert (old["usage"]["cost_usd"], new["usage"]["cost_usd"]) == (1, None)


def test_the_command_tells_how_real_work_went(tmp_path: Path) -> None:
    make = decision(
        act("file_ops.write_file", path="a.py", content="x = 1\n"),
        profile="creation", confidence=0.9, next_step="done", requirements=["a.py is there"], reply="made",
    )  # fmt: skip
    better = decision(
        act("file_ops.write_file", path="a.py", content="x = 2\n"),
        profile="creation", confidence=0.9, next_step="done", reply="made", strategy="another value",
    )  # fmt: skip
    replies: list[str | Reply] = [Reply(make, usage=Usage(1000, 0, 100)), better]
    with ModelServer(
        {"understand": replies, "evaluate": [verdict(0.3), verdict(0.9, {"R1": ["E1", "E2", "E3"]})]}
    ) as server:
        duck = Duck(tmp_path, server.url)
        ran = duck.run("--mode", "auto-edit", "make a.py")
    assert ran.result["status"] == "satisfied", ran.err
    told = duck("audit", "--stats", "--output-format", "json")
    got = json.loads(told.out)
    assert told.code == 0 and got["by_status"]["satisfied"] == got["objectives"] == 1
    assert (got["attempts"]["average"], got["first_request"]["count"], got["false_starts"]["count"]) == (2, 0, 1)
    assert got["usage"]["calls"] == len(server.requests) and got["usage"]["cost_usd"] > 0
    text = duck("audit", "--stats", "--session", ran.result["session"])
    assert text.code == 0 and re.search(r"attempts +2 on average · target: at most 1\.6", text.out)


def test_the_command_in_an_empty_workspace_and_with_options_that_do_not_fit(tmp_path: Path) -> None:
    duck = Duck(tmp_path)
    empty = duck("audit", "--stats")
    assert (empty.code, empty.out) == (0, "No objective is stored yet: questions answered in words have none.\n")
    for other in (["--verify"], ["--export", "-"], ["--risk", "HIGH"], ["--operation", "shell.run"]):
        wrong = duck("audit", "--stats", *other)
        assert (wrong.code, wrong.out) == (2, "") and f"--stats and {other[0]} exclude each other." in wrong.err
    assert "--stats" in duck("audit", "--help").out
