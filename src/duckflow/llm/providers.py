"""From a configured model to one that can be asked. Reads keys from the given environment, sends nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from duckflow.errors import N_, ConfigError, CredentialsError
from duckflow.llm import anthropic, openai
from duckflow.llm.base import LOCAL_LIMITS, Limits, Model, Price, Spec
from duckflow.llm.faults import Service, hiding
from duckflow.llm.http import HttpModel, is_loopback
from duckflow.llm.wire import Wire

WINDOW = 128_000  # tokens, where the settings do not say
LOCAL_WINDOW = 32_768


def build(spec: Spec, limits: Limits | None = None, env: Mapping[str, str] | None = None) -> Model:
    """The model a `config.ModelSpec` describes. Without `limits` it is more patient with this machine.

    Raises `CredentialsError` when its key is missing, `ConfigError` when it cannot work as configured.
    """
    env = os.environ if env is None else env
    match spec.kind:
        case "openai" | "anthropic":
            return _http(spec, limits, env)
        case "scripted":
            from duckflow.llm.scripted import ScriptedModel

            return ScriptedModel.from_file(
                spec.base_url or spec.model,
                provider=spec.provider,
                name=Path(spec.model).stem,
                window=spec.window or WINDOW,
                price=price_of(spec.price),
            )
        case "pydantic-ai":
            from duckflow.llm.pydantic_ai import PydanticAIModel

            key = key_of(spec, env, needed=True)
            window = spec.window or WINDOW
            return PydanticAIModel(spec, limits or Limits(), key, window, price_of(spec.price))
    raise ConfigError(
        N_("Provider {provider} has the unknown kind {kind}."),
        hint=N_("Known kinds: openai, anthropic, pydantic-ai, scripted."),
        provider=spec.provider,
        kind=spec.kind,
    )


def _http(spec: Spec, limits: Limits | None, env: Mapping[str, str]) -> HttpModel:
    base_url = spec.base_url or {"openai": openai.DEFAULT_URL, "anthropic": anthropic.DEFAULT_URL}[spec.kind]
    address = shown(base_url, spec.provider)
    local = is_loopback(base_url)
    key = key_of(spec, env, needed=not local)
    wire: Wire
    if spec.kind == "openai":
        wire = openai.OpenAIWire(base_url, spec.model, spec.max_output)
    else:
        wire = anthropic.AnthropicWire(base_url, spec.model, spec.max_output)
    service = Service(spec.provider, spec.model, address, spec.api_key_env, hiding(key))
    limits = limits or (LOCAL_LIMITS if local else Limits())
    window = spec.window or (LOCAL_WINDOW if local else WINDOW)
    return HttpModel(wire, service, limits, key, window, price_of(spec.price))


def shown(base_url: str, provider: str) -> str:
    """The address as messages may show it: without a password. Raises `ConfigError` when it is none."""
    try:
        parts = urlsplit(base_url)
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        host = None
    if not host or parts.scheme not in ("http", "https"):
        raise ConfigError(
            N_("base_url of provider {provider} is not an address: {base_url}"),
            hint=N_("It begins with http:// or https://, for example http://127.0.0.1:11434/v1"),
            provider=provider,
            base_url=base_url,
        )
    return f"{parts.scheme}://{host}{port}{parts.path}"


def key_of(spec: Spec, env: Mapping[str, str], *, needed: bool) -> str | None:
    """The key from the variable the settings name; never from a file."""
    if not spec.api_key_env:
        return None
    key = env.get(spec.api_key_env, "").strip()
    if key.isascii() and key.isprintable() and (key or not needed):
        return key or None
    raise CredentialsError(
        N_("The key of provider {provider} cannot be sent: {key_env} contains characters a key cannot have.")
        if key
        else N_("The key of provider {provider} is missing: {key_env} is not set."),
        hint=N_("Set it in the shell, for example: export {key_env}=..."),
        provider=spec.provider,
        key_env=spec.api_key_env,
    )


def price_of(value: object) -> Price | None:
    """USD per million tokens, from anything that has the three figures."""
    if value is None or isinstance(value, Price):
        return value
    if isinstance(value, tuple | list):
        return Price(*map(float, value))
    if isinstance(value, Mapping):
        return Price(**{name: float(figure) for name, figure in value.items()})
    return Price(*(float(getattr(value, name)) for name in ("input", "cached_input", "output")))
