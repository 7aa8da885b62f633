"""What the rest of the program sees of the configuration. Frozen; knows nothing of files.

The small ones are named tuples because each dataclass costs 0.7 ms at every start, a named tuple 0.1 ms.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from duckflow.record import Record

LangSetting = Literal["auto", "ja", "en"]
Mode = Literal["plan", "ask", "auto-edit", "auto"]
ProviderKind = Literal["openai", "anthropic", "pydantic-ai", "scripted"]
TierName = Literal["creative", "fast", "evaluator"]


class Overrides(Record):
    """What the command line says. None and () mean it says nothing."""

    model: str | None = None
    mode: str | None = None
    lang: str | None = None
    config_file: Path | None = None
    max_attempts: int | None = None
    max_turns: int | None = None
    max_cost_usd: float | None = None
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


class Price(NamedTuple):
    """USD per million tokens."""

    input: float
    cached_input: float
    output: float


class Provider(NamedTuple):
    name: str
    kind: ProviderKind
    base_url: str | None
    api_key_env: str | None
    ready: bool  # needs no key, or the variable with the key is set


class ModelSpec(Record):
    """Everything needed to reach one model, except the key itself."""

    name: str  # its name in [models], or PROVIDER/MODEL
    provider: str
    kind: ProviderKind
    base_url: str | None
    api_key_env: str | None
    model: str
    window: int | None = None  # None: not known
    price: Price | None = None  # None: not known
    max_output: int | None = None


class Prompts(NamedTuple):
    profile: Literal["full", "compact"]
    lang: Literal["en", "ja"]  # of the instructions, not of the conversation
    base_max_tokens: int
    main_max_tokens: int
    specialized_max_tokens: int


class Objective(NamedTuple):
    satisfaction: float
    max_attempts: int


class Checks(NamedTuple):
    commands: tuple[str, ...]


class Routing(NamedTuple):
    clarify_below: float
    judge_below: float  # confidence under which even a simple answer about the project is judged


class Limits(NamedTuple):
    max_turns: int
    max_cost_usd: float
    gate_timeout_s: float
    first_byte_s: float | None  # None: as patient as the place of the model suggests
    idle_s: float | None
    total_s: float | None


class Rules(NamedTuple):
    """`operation` or `operation:glob`, of all levels together."""

    allow: tuple[str, ...]
    ask: tuple[str, ...]
    deny: tuple[str, ...]


class Ignored(NamedTuple):
    """A setting of a project file that does not count until the folder is trusted."""

    file: str
    key: str
    reason: str  # a message id


class Settings(Record):
    lang: LangSetting
    mode: Mode
    prompts: Prompts
    objective: Objective
    checks: Checks
    routing: Routing
    limits: Limits
    rules: Rules
    providers: Mapping[str, Provider]
    models: Mapping[str, ModelSpec]
    tiers: Mapping[TierName, tuple[str, ...]]  # names in `models`; empty when no model is configured
    home: Path  # the data directory
    trusted: bool
    files: tuple[Path, ...] = ()  # the settings files that were read, weakest first
    ignored: tuple[Ignored, ...] = ()
    unknown_variables: tuple[str, ...] = ()  # DUCKFLOW_* variables nobody knows: worth a warning
    origins: tuple[tuple[str, str, str], ...] = ()

    @property
    def has_model(self) -> bool:
        return bool(self.tiers)


def describe(settings: Settings) -> list[tuple[str, str, str]]:
    """Every setting as (key, value in TOML notation, where it came from)."""
    return list(settings.origins)
