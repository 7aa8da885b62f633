"""Asking a model over HTTP: one client per model, limits on time and size, faults in the contract's terms.

Knows no wire format; `wire.py` says what one must provide. httpx2 is imported with the first request.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from duckflow.errors import N_, ConfigError, DuckflowError
from duckflow.llm.base import Done, Limits, ModelRequest, Price, Transient
from duckflow.llm.faults import Service, fault, one_line, read_error, retry_after
from duckflow.llm.guard import Watch
from duckflow.llm.incoming import Incoming, TooLarge
from duckflow.llm.sse import EventTooLong
from duckflow.llm.wire import Wire

if TYPE_CHECKING:
    from httpx2 import AsyncClient, Response

ERROR_BYTES = 65_536
ADAPTATIONS = 3
END_SECONDS = 0.05  # for the end of a body after the service said that nothing follows

_LOOPBACK = re.compile(r"(?:.*\.)?localhost|(?:::ffff:)?127(?:\.\d{1,3}){3}|0\.0\.0\.0|::1", re.IGNORECASE)


def is_loopback(url: str) -> bool:
    """The address is this machine: no proxy, no key needed, time to think."""
    return _LOOPBACK.fullmatch(urlsplit(url).hostname or "") is not None


class HttpModel:
    """A `Model` that speaks one wire format over HTTP."""

    def __init__(
        self, wire: Wire, service: Service, limits: Limits, key: str | None, window: int, price: Price | None
    ) -> None:
        self.provider = service.provider
        self.name = service.model
        self.window = window
        self.price = price
        self._wire = wire
        self._service = service
        self._limits = limits
        self._headers = wire.headers(key)
        self._client: AsyncClient | None = None

    async def stream(self, request: ModelRequest) -> AsyncIterator[str | Done]:
        self._client = self._client or self._connect()
        watch = Watch(self._limits, self._service)
        response = await self._open(request, watch)
        kind = response.headers.get("content-type", "")
        incoming = Incoming(kind, self._wire.reader(), self._service, self._limits.max_text)
        chunks = response.aiter_bytes()
        trouble: Transient | DuckflowError | None = None
        try:
            while not incoming.over:
                chunk = await watch.guard(anext(chunks, None))
                for piece in incoming.close() if chunk is None else incoming.feed(chunk):
                    yield piece
                if chunk is None:
                    break
                watch.finished = incoming.finished
            if incoming.over:
                await _rest(chunks)
        except (TooLarge, EventTooLong):
            incoming.cut = True
        except (Transient, DuckflowError) as error:
            trouble = error
        finally:
            await _close(response, chunks)
        done = incoming.done()
        if done is None:
            raise trouble or Transient("the answer ended before it began")
        yield done

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _open(self, request: ModelRequest, watch: Watch) -> Response:
        """Send, and send again without the optional fields this service turns out not to know."""
        error: Transient | DuckflowError | None = None
        for _ in range(ADAPTATIONS):
            response = await watch.guard(self._send(request))
            if 200 <= response.status_code < 300:
                return response
            said = read_error(await _error_body(response, watch))
            error = fault(response.status_code, said, self._service, retry_after(response.headers))
            adaptable = response.status_code in (400, 422)
            if not adaptable or not self._wire.adapt(f"{said.message} {said.kind}"):
                break
        assert error is not None
        raise error

    async def _send(self, request: ModelRequest) -> Response:
        client = self._client = self._client or self._connect()
        body = json.dumps(self._wire.body(request), ensure_ascii=False).encode("utf-8", "replace")
        headers = {**self._headers, "X-Duckflow-Node": request.node, "X-Duckflow-Tier": request.tier}
        if request.retry:
            headers["X-Duckflow-Retry"] = "1"
        message = client.build_request("POST", self._wire.url, content=body, headers=headers)
        return await client.send(message, stream=True)

    def _connect(self) -> AsyncClient:
        import httpx2

        local, plain = is_loopback(self._wire.url), self._wire.url.startswith("http://")
        headers = {
            "User-Agent": "duckflow",
            "Content-Type": "application/json",
            "Accept": "text/event-stream, application/json",
            "Accept-Encoding": "identity",  # nothing to gain on small pieces, and nothing can inflate
        }
        try:
            return httpx2.AsyncClient(
                headers=headers,
                timeout=httpx2.Timeout(None, connect=self._limits.connect_s),
                limits=httpx2.Limits(max_keepalive_connections=4, keepalive_expiry=60.0),
                follow_redirects=False,
                trust_env=not local,  # proxies of the environment are not for this machine
                verify=not plain,  # loading certificates takes longer than a plain request
            )
        except (ValueError, ImportError, httpx2.InvalidURL) as error:
            raise ConfigError(
                N_("The proxy settings of the environment cannot be used: {detail}"),
                hint=N_("Check HTTP_PROXY, HTTPS_PROXY and ALL_PROXY."),
                detail=one_line(str(error)),
            ) from None


async def _rest(chunks: AsyncIterator[bytes]) -> None:
    """Nothing follows but the end of the body: read it, so that the connection serves the next request too."""
    with suppress(Exception):
        async with asyncio.timeout(END_SECONDS):
            await anext(chunks, None)


async def _error_body(response: Response, watch: Watch) -> bytes:
    """The beginning of an error answer; whatever goes wrong while reading it, the status is the news."""
    raw = b""
    chunks = response.aiter_bytes()
    try:
        while len(raw) < ERROR_BYTES and (chunk := await watch.guard(anext(chunks, None))) is not None:
            raw += chunk
    except (Transient, DuckflowError):
        pass
    finally:
        await _close(response, chunks)
    return raw


async def _close(response: Response, chunks: AsyncIterator[bytes]) -> None:
    if isinstance(chunks, AsyncGenerator):
        await chunks.aclose()
    await response.aclose()
