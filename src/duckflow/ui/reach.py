"""Does a model service answer? One short question for its list of models; says nothing about keys but yes or no."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from duckflow.i18n import _
from duckflow.llm.http import is_loopback
from duckflow.ui.safe import safe_line

if TYPE_CHECKING:
    from httpx2 import Response

SECONDS = 4.0


class Reached(NamedTuple):
    level: Literal["ok", "warn", "fail"]
    told: str
    todo: str = ""
    exit_code: int = 0


def reach(kind: str, base_url: str, key: str | None, model: str) -> Reached:
    """Ask once, without retries. The key goes where every request takes it, and nowhere else."""
    import httpx2

    address = f"{base_url}/v1/models" if kind == "anthropic" and not base_url.endswith("/v1") else f"{base_url}/models"
    headers = {}
    if key:
        headers = (
            {"x-api-key": key, "anthropic-version": "2023-06-01"}
            if kind == "anthropic"
            else {"Authorization": f"Bearer {key}"}
        )
    shown = safe_line(base_url)
    try:
        response = httpx2.get(address, headers=headers, timeout=SECONDS, trust_env=not is_loopback(base_url))
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
        told = _("{address} does not answer ({error})", address=shown, error=type(error).__name__)
        return Reached("fail", told, _("Check the address, the network and whether the service runs."), 75)
    return _read(response, shown, model)


def _read(response: Response, shown: str, model: str) -> Reached:
    if response.status_code in (401, 403):
        told = _("{address} refuses the key ({code})", address=shown, code=response.status_code)
        return Reached("fail", told, _("Check the key and what it may be used for."), 41)
    if response.status_code != 200:
        told = _("{address} answers, without a list of models ({code})", address=shown, code=response.status_code)
        return Reached("warn", told)
    if model not in _names(response):
        told = _("{address} answers, but does not list {model}", address=shown, model=safe_line(model))
        return Reached("warn", told, _("Check the name of the model."))
    return Reached("ok", _("{address} answers", address=shown))


def _names(response: Response) -> set[str]:
    try:
        items = response.json()["data"]
        return {str(item["id"]).removeprefix("models/") for item in items}
    except (ValueError, KeyError, TypeError):
        return set()
