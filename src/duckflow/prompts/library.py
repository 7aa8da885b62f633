"""The templates: TOML files (role, focus, body) per language, overridable. Undefined variables are errors."""

from __future__ import annotations

import tomllib
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duckflow.errors import N_, ConfigError

if TYPE_CHECKING:
    from minijinja import Environment

SHIPPED = Path(__file__).parent / "templates"


class Library:
    """Templates by name. A file of the same name in `overrides` wins over the shipped one."""

    def __init__(self, lang: str = "en", overrides: tuple[Path, ...] = ()) -> None:
        self._places = (*(place / lang for place in overrides), SHIPPED / lang)
        self._loaded: dict[str, dict[str, str]] = {}

    def render(self, name: str, **variables: Any) -> str:
        """The text of a template. `role` and `example` of the file are known to its body."""
        template = self.template(name)
        values = {"role": template["role"], "example": template.get("example", ""), **variables}
        try:
            text: str = self._environment.render_str(template["body"], name, **values)
        except Exception as error:
            raise ConfigError(
                N_("The prompt template {name} cannot be rendered: {error}."),
                hint=N_("Mend or remove your own copy of it in {places}."),
                name=name,
                error=error,
                places=", ".join(map(str, self._places[:-1])) or "-",
            ) from error
        return text.strip("\n")

    def template(self, name: str) -> dict[str, str]:
        if name not in self._loaded:
            path = next(p for place in self._places if (p := place / f"{name}.toml").exists())
            try:
                loaded = tomllib.loads(path.read_text(encoding="utf-8"))
                self._loaded[name] = {key: str(loaded[key]) for key in ("role", "focus", "body")}
            except (KeyError, ValueError, OSError) as error:
                raise ConfigError(
                    N_("The prompt template {path} cannot be read: {error}."),
                    hint=N_("It needs role, focus and body."),
                    path=path,
                    error=error,
                ) from error
            self._loaded[name].update({k: str(v) for k, v in loaded.items()})
        return self._loaded[name]

    @cached_property
    def _environment(self) -> Environment:
        from minijinja import Environment

        return Environment(undefined_behavior="strict", auto_escape_callback=lambda name: False)
