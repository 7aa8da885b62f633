"""Every other service, through pydantic-ai (the extra `providers`). Imported only where one is configured.

The package itself is loaded in a thread with the first request: it takes about a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from duckflow.errors import N_, ConfigError, CredentialsError, DuckflowError, RequestRefused
from duckflow.llm.base import Done, Finish, Limits, ModelRequest, Price, Spec, Transient, Usage
from duckflow.llm.faults import Said, Service, fault, hiding, one_line, read_error
from duckflow.llm.wire import merged

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.models import Model as TheirModel
    from pydantic_ai.models import StreamedResponse

_FINISH = {"length": Finish.LENGTH, "content_filter": Finish.FILTER, "error": Finish.CUT}
_FAKES = ("test", "function")  # pydantic-ai's own test models end without a finish reason


class PydanticAIModel:
    """A `Model` whose requests pydantic-ai sends. `spec.model` is "provider:model" in its own terms."""

    def __init__(
        self,
        spec: Spec,
        limits: Limits,
        key: str | None,
        window: int,
        price: Price | None,
        model: TheirModel | None = None,
    ) -> None:
        if model is None and find_spec("pydantic_ai") is None:
            raise _not_installed(spec.provider, "pydantic-ai-slim")
        self.provider = spec.provider
        self.name = spec.model
        self.window = window
        self.price = price
        self._spec = spec
        self._limits = limits
        self._key = key
        self._model = model
        self._service = Service(spec.provider, spec.model, spec.base_url or "", spec.api_key_env, hiding(key))

    async def stream(self, request: ModelRequest) -> AsyncIterator[str | Done]:
        begun = False
        trouble: Exception | None = None
        done = Done(Finish.CUT)
        pieces = self._pieces(request)
        try:
            async for item in pieces:
                if isinstance(item, Done):
                    done = item
                else:
                    begun = True
                    yield item
        except (Transient, DuckflowError) as error:
            trouble = error
        except Exception as error:  # every SDK has its own; what it means is decided in one place
            trouble = self._fault(error)
        finally:
            await pieces.aclose()
        if trouble is not None and not begun:
            raise trouble
        yield done

    async def close(self) -> None:
        """pydantic-ai keeps its own pool of connections."""

    async def _pieces(self, request: ModelRequest) -> AsyncGenerator[str | Done, None]:
        loop = asyncio.get_running_loop()
        start, limits, size = loop.time(), self._limits, 0
        until = start + min(limits.first_byte_s, limits.total_s)
        if self._model is None:
            self._model = await asyncio.to_thread(self._load)
        model = self._model
        opening = _open(model, request, self._spec.max_output)
        try:
            async with asyncio.timeout_at(until):
                stream = await opening.__aenter__()
        except TimeoutError:
            raise Transient(f"no answer within {until - start:g} s", timed_out=True) from None
        try:
            events = aiter(stream)
            while True:
                async with asyncio.timeout_at(until):
                    event = await anext(events, None)
                if event is None:
                    break
                until = min(loop.time() + limits.idle_s, start + limits.total_s)
                if text := _text(event):
                    size += len(text)
                    yield text
                if size > limits.max_text:
                    return
            yield _done(stream, model)
        except TimeoutError:
            raise Transient(f"no answer within {loop.time() - start:.0f} s", timed_out=True) from None
        finally:
            await opening.__aexit__(None, None, None)

    def _load(self) -> TheirModel:
        """Make pydantic-ai's model. Runs in a thread."""
        from pydantic_ai.models import infer_model
        from pydantic_ai.providers import infer_provider, infer_provider_class

        given = {"api_key": self._key, "base_url": self._spec.base_url}
        given = {name: value for name, value in given.items() if value}

        def provider(name: str) -> Any:
            return infer_provider_class(name)(**given) if given else infer_provider(name)

        return infer_model(self.name, provider) if given else infer_model(self.name)

    def _fault(self, error: Exception) -> Exception:
        from pydantic_ai import exceptions as theirs

        detail = one_line(self._service.hide(str(error)))
        names = {"provider": self.provider, "model": self.name, "detail": detail}
        if isinstance(error, theirs.ModelHTTPError):
            said = read_error(error.body) if error.body else Said("")
            return fault(error.status_code, said, self._service, getattr(error, "retry_after", None))
        if isinstance(error, ImportError):
            return _not_installed(self.provider, detail)
        if isinstance(error, theirs.UserError | TypeError):
            if "api_key" in str(error).lower():
                return CredentialsError(
                    N_("The key of provider {provider} is missing: {detail}"),
                    hint=N_("Set it in the shell, or name its variable as api_key_env."),
                    **names,
                )
            return ConfigError(
                N_("{model} cannot be used through pydantic-ai: {detail}"),
                hint=N_("model is PROVIDER:MODEL, for example bedrock:NAME."),
                **names,
            )
        if isinstance(error, theirs.AgentRunError | OSError) or "Connect" in type(error).__name__:
            return Transient(detail or type(error).__name__)
        return RequestRefused(N_("{provider} did not accept the request for {model}: {detail}"), **names)


def _open(model: TheirModel, request: ModelRequest, max_output: int | None) -> Any:
    from pydantic_ai.direct import model_request_stream
    from pydantic_ai.settings import ModelSettings

    marks: dict[str, str] = {"X-Duckflow-Node": request.node, "X-Duckflow-Tier": request.tier}
    if request.retry:
        marks["X-Duckflow-Retry"] = "1"
    settings = ModelSettings(extra_headers=marks)
    if limit := request.max_output or max_output:
        settings["max_tokens"] = limit
    return model_request_stream(model, _messages(request), model_settings=settings, instrument=False)


def _messages(request: ModelRequest) -> Sequence[ModelMessage]:
    from pydantic_ai import messages as theirs

    made: list[ModelMessage] = []
    for role, parts in merged(request.messages):
        text = "\n\n".join(part.text for part in parts)
        if role == "assistant":
            made.append(theirs.ModelResponse(parts=[theirs.TextPart(text)]))
        elif role == "system":
            made.append(theirs.ModelRequest(parts=[theirs.SystemPromptPart(text)]))
        else:
            made.append(theirs.ModelRequest(parts=[theirs.UserPromptPart(text)]))
    return made


def _text(event: object) -> str:
    """The text an event adds: a part that starts with some, or a piece of one."""
    part = getattr(event, "part", None) if getattr(event, "event_kind", "") == "part_start" else None
    if getattr(part, "part_kind", "") == "text":
        return str(getattr(part, "content", ""))
    delta = getattr(event, "delta", None)
    if getattr(delta, "part_delta_kind", "") == "text":
        return str(getattr(delta, "content_delta", "") or "")
    return ""


def _done(stream: StreamedResponse, model: TheirModel) -> Done:
    usage = stream.usage() if callable(stream.usage) else stream.usage
    counts = Usage(usage.input_tokens, usage.cache_read_tokens, usage.output_tokens)
    reason = stream.finish_reason
    if reason is None:
        finish = Finish.STOP if model.system in _FAKES else Finish.CUT
    else:
        finish = _FINISH.get(reason, Finish.STOP)
    return Done(finish, counts if counts.prompt or counts.completion else None)


def _not_installed(provider: str, detail: str) -> ConfigError:
    return ConfigError(
        N_("Provider {provider} needs a package that is not installed: {detail}"),
        hint=N_("Install it with: pip install 'duckflow[providers]' (and the provider's own package)"),
        provider=provider,
        detail=detail,
    )
