"""What a service's refusal means for us: who must act, and whether trying again helps. Sends nothing."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable, Mapping

from duckflow.errors import N_, CredentialsError, DuckflowError, RequestRefused, WrongService
from duckflow.llm.base import ContextOverflow, Transient
from duckflow.record import Record

LATER = frozenset({408, 409, 425, 429})
EXCERPT = 300

# Patterns as text: `re` compiles them when the first fault comes, not at every start.
_OVERFLOW = (
    r"(?is)context[_ ](?:length|window|size|limit)|maximum context|exceed_context_size|prompt is too long"
    r"|input is too long|too many (?:input )?tokens|reduce the length|request[_ ]too[_ ]large"
    r"|input token count.{0,40}exceeds"
)
_BAD_KEY = (
    r"(?i)(?:incorrect|invalid|missing|expired) (?:x-)?api[ _-]?key"
    r"|api[ _-]?key (?:is )?(?:not valid|invalid|expired)|invalid_api_key|authentication_error"
)
_NO_QUOTA = r"(?i)insufficient_quota|insufficient[ _]balance|credit balance is too low"
_REFUSED = r"(?i)invalid_request|not_found_error|unsupported|content_policy"
_DENIED = r"(?i)permission_error|unauthorized|forbidden"
_MASKED = r"\S*\*{3,}\S*"


class Service(Record):
    """Whom we talk to, as messages name it. `hide` takes the key out of what the service says."""

    provider: str
    model: str
    base_url: str
    key_env: str | None
    hide: Callable[[str], str]


class Said(Record):
    """What an error answer says: its message, and its type and code for recognition."""

    message: str
    kind: str = ""
    status: int | None = None  # some gateways put the real status into an answer with status 200


def hiding(key: str | None) -> Callable[[str], str]:
    """A function that removes the key, also half of it and masked forms, from a text."""
    stem = key[:8] if key and len(key) >= 12 else None

    def hide(text: str) -> str:
        if key:
            text = text.replace(key, "***")
        if stem:
            text = re.sub(re.escape(stem) + r"\S*", "***", text)
        return re.sub(_MASKED, "***", text)

    return hide


def one_line(text: str, limit: int = EXCERPT) -> str:
    """The beginning of a text on one line, control characters made harmless."""
    text = " ".join("".join(ch if ch.isprintable() else " " for ch in text[: limit * 4]).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def read_error(payload: object) -> Said:
    """The message inside an error answer, in any of the shapes services use."""
    if isinstance(payload, bytes):
        payload = _parsed(payload)
    if isinstance(payload, list) and payload:
        payload = payload[0]
    if not isinstance(payload, dict):
        return Said(one_line(str(payload or "")))
    error = payload.get("error", payload)
    if not isinstance(error, dict):
        return Said(one_line(str(error)))
    message = error.get("message") or error.get("detail") or payload.get("detail") or error
    if not isinstance(message, str):
        message = json.dumps(message, ensure_ascii=False)
    code = error.get("code")
    kind = " ".join(str(v) for v in (error.get("type"), code, error.get("status")) if v)
    return Said(one_line(message), kind, code if isinstance(code, int) else None)


def _parsed(raw: bytes) -> object:
    text = raw.decode("utf-8", "replace")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def fault(status: int, said: Said, service: Service, retry_after: float | None = None) -> Transient | DuckflowError:
    """The error an answer with this status means."""
    text = f"{said.message} {said.kind}"
    detail = service.hide(said.message) or f"HTTP {status}"
    if status in (401, 403) or (status == 400 and re.search(_BAD_KEY, text)):
        return _no_access(service, detail)
    if status == 402 or (status in (400, 429) and re.search(_NO_QUOTA, text)):
        hint = N_("The account with {provider} has no credit or quota left.")
        return _refused(service, detail, hint=hint, error=RequestRefused)
    if status in LATER or (status >= 500 and status not in (501, 505)):
        return Transient(f"{status}: {detail}" if said.message else f"{status}", retry_after)
    if status == 413 or (status in (400, 422) and re.search(_OVERFLOW, text)):
        return ContextOverflow(
            N_("The prompt is too long for {provider}/{model}: {detail}"),
            hint=N_("Use a model with a larger window, or start a new session."),
            **_names(service),
            detail=detail,
        )
    if status == 404:
        return _refused(
            service,
            detail,
            hint=N_("Check the model's name ({model}) and base_url ({base_url}) in the settings."),
        )
    if 300 <= status < 400:
        return _refused(
            service,
            f"it redirects elsewhere (HTTP {status})",
            hint=N_("Check base_url ({base_url}): redirects are not followed."),
        )
    return _refused(service, detail, hint=N_("Check the settings of {provider}/{model}."))


def fault_in_stream(payload: object, service: Service) -> Transient | DuckflowError:
    """The error that an error event inside a stream means: overload unless it says otherwise."""
    said = read_error(payload)
    text = f"{said.message} {said.kind}"
    if said.status is not None and 400 <= said.status < 600:
        return fault(said.status, said, service)
    if re.search(_BAD_KEY, text) or re.search(_DENIED, said.kind):
        return _no_access(service, service.hide(said.message))
    if re.search(_OVERFLOW, text) or re.search(_NO_QUOTA, text) or re.search(_REFUSED, said.kind):
        return fault(400, said, service)
    return Transient(f"error in the stream: {service.hide(said.message) or said.kind or '?'}")


def wrong_content(what: str, excerpt: str, service: Service) -> RequestRefused:
    """Something answered that is not a model service: a web page, a proxy's log-in, a wrong path."""
    shown = f"{what or '?'} ({excerpt})" if excerpt else what or "?"
    return WrongService(
        N_("{provider} answered with {what} instead of a model's reply."),
        hint=N_("Check base_url ({base_url}): it must lead to the model service, often with /v1 at its end."),
        **_names(service),
        what=service.hide(shown),
    )


def _no_access(service: Service, detail: str) -> CredentialsError:
    if service.key_env is None:
        return CredentialsError(
            N_("{provider} refused the request, no key was sent: {detail}"),
            hint=N_("Name the variable that holds the key as api_key_env of provider {provider}."),
            **_names(service),
            detail=detail,
        )
    return CredentialsError(
        N_("{provider} refused the key in {key_env}: {detail}"),
        hint=N_("Check the value of {key_env} and that the account may use {model}."),
        **_names(service),
        detail=detail,
    )


def _refused(service: Service, detail: str, *, hint: str, error: type[RequestRefused] = WrongService) -> RequestRefused:
    return error(
        N_("{provider} did not accept the request for {model}: {detail}"),
        hint=hint,
        **_names(service),
        detail=detail,
    )


def _names(service: Service) -> dict[str, object]:
    return {
        "provider": service.provider,
        "model": service.model,
        "base_url": service.base_url,
        "key_env": service.key_env or "",
    }


def retry_after(headers: Mapping[str, str], now: Callable[[], float] = time.time) -> float | None:
    """Seconds to wait, from `retry-after-ms` or `Retry-After` (seconds or a date). None: it does not say."""
    exact = _seconds(headers.get("retry-after-ms"))
    if exact is not None:
        return exact / 1000
    value = headers.get("retry-after")
    seconds = _seconds(value)
    if seconds is not None or value is None:
        return seconds
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - now())
    except (ValueError, TypeError, OverflowError):
        return None


def _seconds(value: str | None) -> float | None:
    try:
        seconds = float(value or "")
    except ValueError:
        return None
    return max(0.0, seconds) if math.isfinite(seconds) else None
