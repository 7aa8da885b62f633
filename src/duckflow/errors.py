"""The errors of Duckflow, sorted by who must act. Knows no other module.

DuckflowError                       what happened, what to do next, exit code
├── for the user
│   ├── UsageError            2     wrong argument, path or state of the command line
│   ├── ConfigError          52     a settings file or variable is wrong
│   ├── CredentialsError     41     no model configured, or the service refused the key
│   └── StoreError            1     the data directory cannot be used
├── for whoever runs the model service
│   ├── ServiceUnavailable   75     overloaded, unreachable, too slow: try later
│   └── RequestRefused        1     the service does not accept this request (too long, not paid for, …)
│       └── WrongService     52     the settings lead elsewhere: unknown model, wrong address
├── limits the user set
│   ├── TurnLimit            53
│   └── BudgetSpent          55
├── for the model
│   └── ReplyUnreadable       3     it answered twice in a form that cannot be read
└── everything else is a bug: exit code 1

Failures of an operation are values (`ToolResult(ok=False)`), not exceptions.
Messages are English message ids with {placeholders}; screens translate them (`i18n.explain`).
"""

from __future__ import annotations


def N_(message: str) -> str:
    """Mark a message id for translation without translating it here."""
    return message


class DuckflowError(Exception):
    """An error a user can act on. `message` and `hint` are message ids, `params` fills both."""

    exit_code = 1
    code = "internal"

    def __init__(self, message: str, *, hint: str = "", **params: object) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.params = params

    def __str__(self) -> str:
        return fill(self.message, self.params)


def fill(text: str, params: dict[str, object]) -> str:
    """`str.format` that leaves the text alone when a placeholder is missing: an error must not fail to be shown."""
    try:
        return text.format(**params)
    except (KeyError, IndexError, ValueError):
        return text


class UsageError(DuckflowError):
    exit_code, code = 2, "usage"


class ConfigError(DuckflowError):
    exit_code, code = 52, "config"


class CredentialsError(DuckflowError):
    exit_code, code = 41, "credentials"


class StoreError(DuckflowError):
    exit_code, code = 1, "store"


class ServiceUnavailable(DuckflowError):
    exit_code, code = 75, "service"


class RequestRefused(DuckflowError):
    exit_code, code = 1, "request"


class WrongService(RequestRefused):
    exit_code, code = 52, "service-settings"


class TurnLimit(DuckflowError):
    exit_code, code = 53, "turn-limit"


class BudgetSpent(DuckflowError):
    exit_code, code = 55, "budget"


class ReplyUnreadable(DuckflowError):
    exit_code, code = 3, "unreadable"
    rescued = ""  # the text of a reply that held no action, for display only
