"""The shapes a model may answer in: the Decision and the evaluator's verdict. Data that crosses a boundary."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator

Profile = Literal["guidance", "creation", "modification", "analysis", "unknown"]
NextStep = Literal["done", "pending_user", "defer", "continue"]

OPEN = ConfigDict(extra="allow", defer_build=True)


def as_word(value: Any) -> Any:
    return value.strip().lower() if isinstance(value, str) else value


def _yes_no(value: Any) -> Any:
    return {True: "yes", False: "no"}.get(value, value) if isinstance(value, bool) else value


def _texts(value: Any) -> Any:
    """One string where a list of them is meant."""
    return [value] if isinstance(value, str) else [] if value is None else value


YesNo = Annotated[str, BeforeValidator(_yes_no)]
Texts = Annotated[list[str], BeforeValidator(_texts)]


class Action(BaseModel):
    """The only thing anyone may do."""

    model_config = OPEN
    operation: str = Field(min_length=1)
    args: dict[str, Any] = Field(default_factory=dict)
    reasoning: str = Field(min_length=1)


class Question(BaseModel):
    model_config = OPEN
    text: str = Field(min_length=1)
    options: Texts = Field(default_factory=list)
    default: str | None = None


class Wish(BaseModel):
    """A requirement as the model writes it."""

    model_config = OPEN
    text: str = Field(min_length=1)
    priority: int = Field(default=2, ge=1, le=3)
    check: str | None = None


class Decision(BaseModel):
    """What the main model says. The three required fields come first; absent means unchanged or empty."""

    model_config = OPEN
    rationale: str
    goal_consistency: YesNo
    constraint_check: YesNo
    next_step: Annotated[NextStep | None, BeforeValidator(as_word)] = None
    question: Question | None = None
    actions: list[Action] = Field(default_factory=list)
    profile: Annotated[Profile | None, BeforeValidator(as_word)] = None
    confidence: float | None = Field(default=None, ge=0, le=1)
    step: str | None = None
    prompt_pattern: Annotated[Literal["base_main", "base_main_specialized"] | None, BeforeValidator(as_word)] = None
    objective: Annotated[Literal["same", "new", "side"], BeforeValidator(as_word)] = "same"
    state_delta: dict[str, Any] | str | None = None
    requirements: list[Wish] = Field(default_factory=list)
    information_needs: Texts = Field(default_factory=list)
    strategy: str | None = None
    reply: str = ""

    @field_validator("question", mode="before")
    @classmethod
    def _plain_question(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"text": value} if value.strip() else None
        return value

    @field_validator("requirements", mode="before")
    @classmethod
    def _plain_wishes(cls, value: Any) -> Any:
        if not isinstance(value, list):
            return [] if value is None else value
        return [{"text": item} if isinstance(item, str) else item for item in value]

    @field_validator("actions", mode="before")
    @classmethod
    def _no_actions(cls, value: Any) -> Any:
        return [] if value is None else value

    @field_validator("reply", mode="before")
    @classmethod
    def _no_reply(cls, value: Any) -> Any:
        return "" if value is None else value

    @field_validator("objective", mode="before")
    @classmethod
    def _no_objective(cls, value: Any) -> Any:
        return "same" if value is None else value


class VerdictReply(BaseModel):
    """What the evaluator says. The harness caps it; ids that were not shown count for nothing."""

    model_config = OPEN
    overall_score: float
    requirement_scores: dict[str, float] = Field(default_factory=dict)
    evidence: dict[str, Texts] = Field(default_factory=dict)
    missing_aspects: Texts = Field(default_factory=list)
    quality_assessment: str = ""
    completion_recommendation: bool
    rating: str | None = None
    problems: Texts = Field(default_factory=list)
    improvements: Texts = Field(default_factory=list)
    lessons: Texts = Field(default_factory=list)
    alternatives: Texts = Field(default_factory=list)
    failure_analysis: dict[str, Any] | None = None


_NO = ("no", "いいえ", "いや", "ノー")
_YES = ("yes", "はい", "イエス")


def says(text: str) -> Literal["yes", "no", "unclear"]:
    """How a `yes: …` or `no: …` field reads. Anything else is unclear, and unclear is not a no."""
    head = text.strip().casefold()
    for word in _NO:
        if head.startswith(word) and not head[len(word) :][:1].isalpha():
            return "no"
    for word in _YES:
        if head.startswith(word) and not head[len(word) :][:1].isalpha():
            return "yes"
    return "unclear"
