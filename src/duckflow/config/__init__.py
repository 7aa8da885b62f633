"""Settings: where they come from, what they may be, and which model serves which tier.

Owns the files and variables of the outside contract. Knows nothing of models' wire formats, screens or trust:
the caller says whether the folder is trusted.
"""

from duckflow.config.load import load
from duckflow.config.models import resolve_model_chain
from duckflow.config.places import data_home, project_files, user_file
from duckflow.config.settings import (
    Checks,
    Ignored,
    Limits,
    Mode,
    ModelSpec,
    Objective,
    Overrides,
    Price,
    Prompts,
    Provider,
    ProviderKind,
    Routing,
    Rules,
    Settings,
    TierName,
    describe,
)

__all__ = [
    "Checks",
    "Ignored",
    "Limits",
    "Mode",
    "ModelSpec",
    "Objective",
    "Overrides",
    "Price",
    "Prompts",
    "Provider",
    "ProviderKind",
    "Routing",
    "Rules",
    "Settings",
    "TierName",
    "data_home",
    "describe",
    "load",
    "project_files",
    "resolve_model_chain",
    "user_file",
]
