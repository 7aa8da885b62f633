"""The Decision: what is required, what is forgiven, what is not."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from duckflow.prompts.replies import Decision, VerdictReply, says

LEAST = {"rationale": "r", "goal_consistency": "yes: x", "constraint_check": "yes"}


def test_three_fields_are_enough_and_each_is_required() -> None:
    decision = Decision.model_validate(LEAST)
    assert decision.actions == [] and decision.objective == "same" and decision.next_step is None
    for name in LEAST:
        with pytest.raises(ValidationError):
            Decision.model_validate({k: v for k, v in LEAST.items() if k != name})


def test_an_action_needs_its_reasoning() -> None:
    with pytest.raises(ValidationError):
        Decision.model_validate({**LEAST, "actions": [{"operation": "file_ops.read_file", "args": {}}]})
    with pytest.raises(ValidationError):
        Decision.model_validate({**LEAST, "actions": [{"operation": "a.b", "args": "x", "reasoning": "r"}]})


def test_null_empty_and_plain_forms_are_understood() -> None:
    decision = Decision.model_validate(
        {
            **LEAST,
            "goal_consistency": True,
            "next_step": "DONE",
            "question": "which one?",
            "actions": None,
            "reply": None,
            "requirements": ["a", {"text": "b", "priority": 1, "check": "true"}],
            "information_needs": "one thing",
            "state_delta": "a line",
        }
    )
    assert decision.next_step == "done" and decision.question and decision.question.text == "which one?"
    assert [w.text for w in decision.requirements] == ["a", "b"] and decision.information_needs == ["one thing"]
    assert decision.goal_consistency == "yes"


@pytest.mark.parametrize("value", [{"confidence": 2}, {"next_step": "later"}, {"profile": "other"}, {"actions": {}}])
def test_wrong_values_are_errors(value: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Decision.model_validate({**LEAST, **value})


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("yes: it does", "yes"),
        ("はい、目標に合う", "yes"),
        ("NO: breaks it", "no"),
        ("いいえ: 合わない", "no"),
        ("no", "no"),
        ("not sure", "unclear"),
        ("nothing against it", "unclear"),
        ("", "unclear"),
        ("yesterday", "unclear"),
    ],
)
def test_yes_and_no_are_read_at_the_beginning_only(text: str, meaning: str) -> None:
    assert says(text) == meaning


def test_a_verdict_needs_its_score_and_recommendation() -> None:
    VerdictReply.model_validate({"overall_score": 1, "completion_recommendation": False})
    with pytest.raises(ValidationError):
        VerdictReply.model_validate({"overall_score": 1})
