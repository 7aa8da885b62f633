"""Between us and a connection: time limits, broken connections as faults, broken characters as damage."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable
from typing import TypeVar

from duckflow.errors import N_, DuckflowError, RequestRefused
from duckflow.llm.base import Limits, Transient
from duckflow.llm.faults import Service, one_line

T = TypeVar("T")

AFTER_FINISH_S = 5.0  # how long to wait for the usage once the text is complete

_SURROGATE = re.compile("[\ud800-\udfff]")


class Watch:
    """The clock of one request. `guard` waits for its next sign of life."""

    def __init__(self, limits: Limits, service: Service) -> None:
        self._limits = limits
        self._service = service
        self._loop = asyncio.get_running_loop()
        self._start = self._loop.time()
        self._begun = False  # bytes of the answer have come
        self.finished = False  # the text is complete; only the usage may follow

    async def guard(self, waiting: Awaitable[T]) -> T:
        """What comes next, or a `Transient` (sometimes `RequestRefused`) that says why nothing does."""
        import httpx2

        moment, seconds = self._until()
        trouble: Transient | DuckflowError
        try:
            async with asyncio.timeout_at(moment):
                got = await waiting
        except TimeoutError:
            trouble = self._too_slow(seconds)
        except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, OSError) as error:
            trouble = self._no_connection(type(error).__name__, str(error))
        else:
            self._begun |= isinstance(got, bytes)
            # A stream that never pauses never lets the timer fire.
            if self._loop.time() < self._start + self._limits.total_s:
                return got
            trouble = self._too_slow(self._limits.total_s)
        # Raised here, not above: an exception of the client holds the request and with it the key.
        raise trouble

    def _until(self) -> tuple[float, float]:
        now, limits = self._loop.time(), self._limits
        if self.finished:
            return now + AFTER_FINISH_S, AFTER_FINISH_S
        if not self._begun:
            next_sign = (self._start + limits.first_byte_s, limits.first_byte_s)
        else:
            next_sign = (now + limits.idle_s, limits.idle_s)
        return min(next_sign, (self._start + limits.total_s, limits.total_s))

    def _too_slow(self, seconds: float) -> Transient:
        return Transient(f"no answer within {seconds:g} s", timed_out=True)

    def _no_connection(self, kind: str, detail: str) -> Transient | DuckflowError:
        service, detail = self._service, one_line(self._service.hide(detail))
        if kind in ("UnsupportedProtocol", "LocalProtocolError", "InvalidURL", "TooManyRedirects"):
            return RequestRefused(
                N_("The request to {provider} cannot be sent: {detail}"),
                hint=N_("Check base_url ({base_url})."),
                provider=service.provider,
                base_url=service.base_url,
                detail=detail,
            )
        if "CERTIFICATE_VERIFY_FAILED" in detail:
            return RequestRefused(
                N_("The certificate of {base_url} is not trusted: {detail}"),
                hint=N_("Check base_url; a company's own authority can be named in SSL_CERT_FILE."),
                base_url=service.base_url,
                detail=detail,
            )
        if kind in ("ConnectError", "ConnectTimeout", "ProxyError"):
            return Transient(f"cannot connect to {service.base_url}: {detail or kind}")
        return Transient(f"the connection broke: {detail or kind}")


class TextJoiner:
    """Pieces of text as whole characters: halves that arrive apart are joined, lone ones replaced."""

    def __init__(self) -> None:
        self._held = ""
        self._damaged = False

    @property
    def damaged(self) -> bool:
        """What was delivered is not what the model said, byte for byte: nothing of it may be carried out."""
        return self._damaged or bool(self._held)

    def damage(self) -> None:
        self._damaged = True

    def join(self, piece: str) -> str:
        if self._held:
            piece, self._held = self._held + piece, ""
        if not _SURROGATE.search(piece):
            return piece
        if "\ud800" <= piece[-1] <= "\udbff":
            piece, self._held = piece[:-1], piece[-1]
        joined = piece.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        self._damaged |= joined.count("\ufffd") > piece.count("\ufffd")
        return joined
