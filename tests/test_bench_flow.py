"""The comparison with the seven-node flow: its counts, and that both flows do the same work. Never the time."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from scripts import bench_flow, bench_flow_table
from scripts.bench_flow import OLD_NODES
from scripts.bench_flow_jobs import JOBS, PROJECT
from scripts.bench_flow_table import Pace, Row

from duckflow.llm.base import Usage

WHOLE_PASS = tuple(OLD_NODES)[:-1]  # error analysis only when something failed


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Row]:
    return {row.job: row for row in bench_flow.compare(tmp_path_factory.mktemp("flow"), None)}


def test_ten_jobs_end_well_in_both_flows_and_leave_the_same_files(rows: dict[str, Row]) -> None:
    assert len(rows) == 10
    assert {row.ours.status for row in rows.values()} == {"answered", "satisfied"}
    assert {row.old.status for row in rows.values()} == {"complete"}
    for row in rows.values():
        assert row.ours.files == row.old.files, row.job


def test_a_job_that_asks_for_a_change_gets_it_and_a_question_changes_nothing(rows: dict[str, Row]) -> None:
    before = {path: text.encode() for path, text in PROJECT.items()}
    changed = {
        name: sorted(path for path, data in row.ours.files.items() if before.get(path) != data)
        for name, row in rows.items()
    }
    assert list(changed.values()) == [
        [],
        [],
        ["CHANGELOG.md"],
        ["shop/cart.py"],
        ["shop/price.py"],
        ["bin/total.sh"],
        ["shop/cart.py", "shop/price.py", "shop/report.py"],
        ["README.md"],
        ["pyproject.toml"],
        ["docs/usage.md"],
    ]


def test_no_job_takes_more_calls_and_all_together_take_43_percent_fewer(rows: dict[str, Row]) -> None:
    for row in rows.values():
        assert len(row.ours.nodes) <= len(row.old.nodes), row.job
    old, ours = (sum(len(getattr(row, flow).nodes) for row in rows.values()) for flow in ("old", "ours"))
    assert ours <= old * (1 - 0.43)


def test_the_old_flow_is_not_made_worse_than_it_was(rows: dict[str, Row]) -> None:
    """At most one call per node and pass; no node is asked without work; failures cost one analysis each."""
    thinking, context, *effects, confirmation = WHOLE_PASS
    again = (thinking, *effects, confirmation)
    assert [row.old.nodes for row in rows.values()] == [
        (thinking, context, confirmation),
        (thinking, context, confirmation),
        *[WHOLE_PASS] * 3,
        (*WHOLE_PASS, "error analysis", *again),
        *[WHOLE_PASS] * 2,
        (*WHOLE_PASS, "error analysis", *again),
        (*WHOLE_PASS, *again),
    ]


def test_both_flows_send_whole_prompts_and_the_old_one_begins_with_less(rows: dict[str, Row]) -> None:
    for row in rows.values():
        first, ours = row.old.usages[0].prompt, row.ours.usages[0].prompt
        assert 1000 < first < ours, row.job  # a node's own sentence is shorter than our procedure and Main
        assert all(usage.cached < usage.prompt for usage in row.old.usages + row.ours.usages)


def test_the_script_counts_quickly_and_tells_in_words_and_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "flow.json"
    assert bench_flow.main(["--quick", "--json", str(target)]) == 0
    shown = capsys.readouterr().out
    assert all(job.name in shown for job in JOBS) and "target 43%: met" in shown and "PROBLEM" not in shown
    made = json.loads(target.read_text(encoding="utf-8"))
    assert [job["problem"] for job in made["jobs"]] == [""] * 10
    assert (made["totals"][0]["what"], made["totals"][0]["missed"]) == ("model calls", False)
    assert made["pace"] is None and all(job["ours"]["seconds"] is None for job in made["jobs"])


def test_a_missed_target_or_a_bad_ending_fails_the_bench(rows: dict[str, Row]) -> None:
    row = next(iter(rows.values()))
    same = replace(row, ours=row.old)
    assert "MISSED" in bench_flow_table.foot([same], None) and bench_flow_table.is_failed([same], None)
    bad = replace(row, ours=replace(row.ours, status="escalated"))
    assert bad.problem == "ended escalated" and bench_flow_table.is_failed([bad], None)
    assert replace(row, ours=replace(row.ours, files={})).problem == "the files differ"
    assert not bench_flow_table.is_failed([row], None)


def test_a_call_takes_longer_the_more_it_carries() -> None:
    pace = Pace(base_s=1, prompt_s=0.5, completion_s=0.25)
    assert pace.seconds(Usage(prompt=2, completion=4)) == 3
