"""The transition table: what a trigger may do to a run."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckflow.errors import ConfigError
from duckflow.state.machine import Moved, Refused, Step, Trigger, after, default_table, project_table

ROWS = {
    ("PLANNING", "EXECUTION"),
    ("PLANNING", "REVIEW"),
    ("PLANNING", "AWAITING_APPROVAL"),
    ("EXECUTION", "REVIEW"),
    ("EXECUTION", "AWAITING_APPROVAL"),
    ("EXECUTION", "PLANNING"),
    ("REVIEW", "EXECUTION"),
    ("REVIEW", "AWAITING_APPROVAL"),
    ("REVIEW", "DONE"),
    ("REVIEW", "PLANNING"),
    ("AWAITING_APPROVAL", "EXECUTION"),
    ("AWAITING_APPROVAL", "PLANNING"),
}


def test_the_shipped_table_has_the_eleven_rows_and_review_to_planning() -> None:
    assert {(str(a), str(b)) for a, b in default_table().rows} == ROWS


@given(st.sampled_from(Step), st.sampled_from(Trigger), st.one_of(st.none(), st.sampled_from(Step)))
def test_a_trigger_moves_only_along_a_row_and_never_out_of_done(
    step: Step, trigger: Trigger, wish: Step | None
) -> None:
    found = after(default_table(), step, trigger, wish)
    if isinstance(found, Moved):
        assert (str(step), str(found.to)) in ROWS
        assert step is not Step.DONE
        assert trigger is not Trigger.CANCEL
    elif isinstance(found, Refused):
        assert wish is not None and found.reason
    else:
        assert wish is None or wish is step


@given(st.sampled_from(Trigger), st.one_of(st.none(), st.sampled_from(Step)))
def test_a_run_starts_at_planning_and_nowhere_else(trigger: Trigger, wish: Step | None) -> None:
    found = after(default_table(), None, trigger, wish)
    assert isinstance(found, Moved) == (wish is Step.PLANNING)


@given(st.sets(st.sampled_from(sorted(ROWS))))
def test_a_tightened_table_only_loses_rows(removed: set[tuple[str, str]]) -> None:
    table = default_table().tightened((Step(a), Step(b)) for a, b in removed)
    assert table.rows <= default_table().rows
    for a, b in removed:
        assert isinstance(after(table, Step(a), Trigger.DECISION, Step(b)), Refused)


@pytest.mark.parametrize("step", list(Step))
def test_cancel_changes_the_status_only(step: Step) -> None:
    for wish in Step:
        assert not isinstance(after(default_table(), step, Trigger.CANCEL, wish), Moved)


def test_a_projects_table_can_leave_rows_out_and_never_add_one(tmp_path: Path) -> None:
    path = tmp_path / "transitions.toml"
    assert project_table(path) == default_table()
    path.write_text(
        '[[transition]]\nfrom = "PLANNING"\nto = "REVIEW"\n[[transition]]\nfrom = "PLANNING"\nto = "DONE"\n',
        encoding="utf-8",
    )
    assert project_table(path).rows == {(Step.PLANNING, Step.REVIEW)}


@pytest.mark.parametrize("text", ["[[transition]]\nfrom = 1", "x = ", '[[transition]]\nfrom = "A"\nto = "B"', "a = 1"])
def test_a_wrong_table_is_a_configuration_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "transitions.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match="transitions"):
        project_table(path)
