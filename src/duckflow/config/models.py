"""Providers by name and which model serves which tier. Knows no wire format and never sees a key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeVar, cast

from duckflow.config.schema import TIERS, Problem, dotted, printable
from duckflow.config.settings import ModelSpec, Price, Provider, ProviderKind, Settings, TierName
from duckflow.config.source import BUILT_IN, Entry, Origin, Values, error
from duckflow.errors import N_

T = TypeVar("T")


class Known(NamedTuple):
    """A provider that needs no configuration, with the model a key alone gets."""

    kind: ProviderKind
    base_url: str
    key: str | None  # the variable that holds the key
    address: str | None  # the variable that replaces base_url
    model: str
    window: int | None = None
    price: Price | None = None


KNOWN = {
    "openai": Known(
        "openai",
        "https://api.openai.com/v1",
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "gpt-6.1-terra",
        1_050_000,
        Price(1.0, 0.05, 5.0),
    ),
    "anthropic": Known(
        "anthropic",
        "https://api.anthropic.com",
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_BASE_URL",
        "claude-sonnet-5-5",
        1_000_000,
        Price(2.0, 0.2, 10.0),
    ),
    "google": Known(
        "openai",
        "https://generativelanguage.googleapis.com/v1beta/openai",
        "GEMINI_API_KEY",
        None,
        "gemini-3.8-flash",
        1_000_000,
    ),
    "groq": Known(
        "openai",
        "https://api.groq.com/openai/v1",
        "GROQ_API_KEY",
        None,
        "openai/gpt-oss-120b",
        131_072,
        Price(0.15, 0.075, 0.6),
    ),
    "mistral": Known("openai", "https://api.mistral.ai/v1", "MISTRAL_API_KEY", None, "mistral-medium-latest", 256_000),
    "openrouter": Known("openai", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY", None, "openrouter/auto"),
    "ollama": Known("openai", "http://127.0.0.1:11434/v1", None, "OLLAMA_HOST", "qwen3-coder"),
}


def resolve_model_chain(settings: Settings, tier: TierName) -> tuple[ModelSpec, ...]:
    """The models that may serve a tier, first choice first. Empty when no model is configured."""
    return tuple(settings.models[name] for name in settings.tiers.get(tier, ()))


def providers(values: Values, env: Mapping[str, str]) -> dict[str, Provider]:
    """The configured ones in their order, then the built-in ones."""
    configured = dict.fromkeys(key[1] for key in values if key[0] == "providers")
    return {name: _provider(name, values, env) for name in (*configured, *KNOWN)}


def _provider(name: str, values: Values, env: Mapping[str, str]) -> Provider:
    known = KNOWN.get(name)
    is_configured = any(key[:2] == ("providers", name) for key in values)
    kind = _get(values, ("providers", name, "kind"), known.kind if known else "openai")
    base_url = _get(values, ("providers", name, "base_url"), _address(known, env) if known else None)
    if base_url is None and kind == "anthropic":
        base_url = KNOWN["anthropic"].base_url
    if base_url is None and kind == "openai":
        origin = next(entry.origin for key, entry in values.items() if key[:2] == ("providers", name))
        raise error(Problem(N_("{what} needs a {needed}."), needed="base_url"), origin, dotted(("providers", name)))
    key = _get(values, ("providers", name, "api_key_env"), known.key if known else None)
    named = bool(known and known.address and env.get(known.address))
    ready = bool(env.get(key)) if key else is_configured or named
    return Provider(name, kind, base_url, key, ready)


def _address(known: Known, env: Mapping[str, str]) -> str:
    address = env.get(known.address or "", "")
    if not address:
        return known.base_url
    if known.address == "OLLAMA_HOST":
        return _ollama(address)
    return address.rstrip("/")


def _ollama(host: str) -> str:
    """OLLAMA_HOST as Ollama itself understands it: an address, host:port, host, or :port."""
    scheme, mark, rest = host.partition("://")
    scheme, rest = (scheme, rest) if mark else ("http", host)
    name, _, port = rest.rstrip("/").partition(":")
    name = "127.0.0.1" if name in ("", "0.0.0.0") else name
    return f"{scheme}://{name}:{port or ('443' if scheme == 'https' else '11434')}/v1"


def models(values: Values, known: Mapping[str, Provider]) -> dict[str, ModelSpec]:
    """The entries of [models], in their order."""
    names = dict.fromkeys(key[1] for key in values if key[0] == "models")
    return {name: _configured(name, values, known) for name in names}


def _configured(name: str, values: Values, known: Mapping[str, Provider]) -> ModelSpec:
    mine = {key[2:]: entry for key, entry in values.items() if key[:2] == ("models", name)}
    origin = next(iter(mine.values())).origin
    for needed in ("provider", "model"):
        if (needed,) not in mine:
            raise error(Problem(N_("{what} needs a {needed}."), needed=needed), origin, f"models.{name}")
    provider, place = mine[("provider",)]
    if provider not in known:
        problem = _unknown(N_("{what}: there is no provider “{name}”."), str(provider), known)
        raise error(problem, place, dotted(("models", name, "provider")))
    spec = _spec(name, known[str(provider)], str(mine[("model",)].value))
    return ModelSpec(
        name,
        spec.provider,
        spec.kind,
        spec.base_url,
        spec.api_key_env,
        spec.model,
        _get(mine, ("window",), spec.window),
        _price(mine) or spec.price,
        _get(mine, ("max_output",), None),
    )


def _price(mine: Values) -> Price | None:
    given = {key[1]: float(cast(float, entry.value)) for key, entry in mine.items() if key[0] == "price"}
    if not given:
        return None
    into = given.get("input", 0.0)
    return Price(into, given.get("cached_input", into), given.get("output", 0.0))


def _spec(name: str, provider: Provider, model: str) -> ModelSpec:
    """A model with what is known about it without being told."""
    known = KNOWN.get(provider.name)
    is_known = known is not None and known.model == model and known.base_url == provider.base_url
    return ModelSpec(
        name,
        provider.name,
        provider.kind,
        provider.base_url,
        provider.api_key_env,
        model,
        known.window if known and is_known else None,
        known.price if known and is_known else None,
    )


def choose(wanted: str, known: Mapping[str, Provider], listed: Mapping[str, ModelSpec]) -> ModelSpec | None:
    """`-m`: a name in [models], PROVIDER/MODEL, or a model of the first provider that is ready."""
    if wanted in listed:
        return listed[wanted]
    head, _, tail = wanted.partition("/")
    if tail and head in known:
        return _spec(wanted, known[head], tail)
    first = next((provider for provider in known.values() if provider.ready), None)
    return _spec(f"{first.name}/{wanted}", first, wanted) if first else None


def fallback(known: Mapping[str, Provider]) -> ModelSpec | None:
    """Nothing said anywhere: the usual model of the first built-in provider that has its key."""
    first = next((p for p in known.values() if p.ready and p.name in KNOWN), None)
    return _spec(f"{first.name}/{KNOWN[first.name].model}", first, KNOWN[first.name].model) if first else None


def tiers(values: Values, listed: Mapping[str, ModelSpec]) -> dict[TierName, Entry]:
    """[tiers] with the gaps filled by the first model. Empty when there is no model at all."""
    found: dict[TierName, Entry] = {}
    first = next(iter(listed), None)
    for tier in TIERS:
        entry = values.get(("tiers", tier))
        if entry is None and first is None:
            continue
        entry = entry or Entry((first,), BUILT_IN)
        for name in cast(tuple[str, ...], entry.value):
            if name not in listed:
                problem = _unknown(N_("{what}: there is no model “{name}”."), name, listed)
                raise error(problem, entry.origin, f"tiers.{tier}")
        found[cast(TierName, tier)] = entry
    return found


def only(spec: ModelSpec, origin: Origin) -> dict[TierName, Entry]:
    """One model for every tier."""
    return {cast(TierName, tier): Entry((spec.name,), origin) for tier in TIERS}


def _unknown(message: str, name: str, known: Mapping[str, object]) -> Problem:
    from difflib import get_close_matches

    shown = printable(name)
    if close := get_close_matches(name, known, 1):
        return Problem(message, hint=N_("Did you mean {nearest}?"), name=shown, nearest=printable(close[0]))
    names = ", ".join(map(printable, known)) or "—"
    return Problem(message, hint=N_("Known here: {known}."), name=shown, known=names)


def _get(values: Values, key: tuple[str, ...], default: T) -> T:
    entry = values.get(key)
    return default if entry is None else cast(T, entry.value)
