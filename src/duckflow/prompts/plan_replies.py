"""The shapes of answers about lasting work: plans, task lists, reports. Loaded when one is asked for."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field, field_validator

from duckflow.prompts.replies import OPEN, Action, Texts, as_word


class StepReply(BaseModel):
    """A step of a plan as the model writes it."""

    model_config = OPEN
    name: str = Field(min_length=1)
    description: str = ""
    depends_on: Texts = Field(default_factory=list)
    files: Texts = Field(default_factory=list)
    commands: Texts = Field(default_factory=list)
    done_when: Texts = Field(default_factory=list)


class RiskReply(BaseModel):
    model_config = OPEN
    risk: str
    level: Annotated[str, BeforeValidator(as_word)] = "medium"


class PlanReply(BaseModel):
    """A plan: what `plan` answers, and what `plan_tool.propose` may bring along."""

    model_config = OPEN
    name: str = ""
    goal: str = ""
    steps: list[StepReply] = Field(min_length=1)
    risks: list[RiskReply] = Field(default_factory=list)
    success_criteria: Texts = Field(default_factory=list)

    @field_validator("risks", mode="before")
    @classmethod
    def _plain_risks(cls, value: Any) -> Any:
        if not isinstance(value, list):
            return [] if value is None else value
        return [{"risk": item} if isinstance(item, str) else item for item in value]


class TasksReply(BaseModel):
    """The concrete operations of a step. Empty: they cannot be known in advance."""

    model_config = OPEN
    tasks: list[Action]


class ReportReply(BaseModel):
    """What `report` answers. Status and counts are the engine's whatever it says."""

    model_config = OPEN
    status: Annotated[str, BeforeValidator(as_word)] = ""
    succeeded: int = 0
    failed: int = 0
    causes: Texts = Field(default_factory=list)
    recommended_next: str = ""
    summary: str = ""
