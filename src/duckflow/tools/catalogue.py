"""The operations that every session has, in the order the model reads them."""

from __future__ import annotations

from duckflow.tools.base import Registry
from duckflow.tools.edit import EDIT_FILE
from duckflow.tools.files import DELETE_FILE, MOVE_FILE, WRITE_FILE
from duckflow.tools.listing import FIND_FILES, LIST_DIR
from duckflow.tools.plan import PLAN_OPERATIONS
from duckflow.tools.reading import READ_FILE
from duckflow.tools.search import SEARCH_TEXT
from duckflow.tools.shell import SHELL_RUN
from duckflow.tools.tasks import TASK_OPERATIONS
from duckflow.tools.user import USER_ASK


def core_registry() -> Registry:
    """Files, search, shell, plans and background work, questions."""
    return Registry(
        (
            READ_FILE,
            WRITE_FILE,
            EDIT_FILE,
            DELETE_FILE,
            MOVE_FILE,
            LIST_DIR,
            FIND_FILES,
            SEARCH_TEXT,
            SHELL_RUN,
            *PLAN_OPERATIONS,
            *TASK_OPERATIONS,
            USER_ASK,
        )
    )
