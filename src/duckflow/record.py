"""Frozen values without the cost of generated code: a dataclass takes a millisecond of every start, a Record none.

Fields are the annotated names, in order; defaults are class attributes and must not be mutable.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar, dataclass_transform

NOTHING: Mapping[Any, Any] = MappingProxyType({})
"""The empty mapping, for defaults."""


@dataclass_transform(frozen_default=True)
class Record:
    """A value: made once, equal to what has the same fields, never changed."""

    FIELDS: ClassVar[tuple[str, ...]] = ()
    _names: ClassVar[frozenset[str]] = frozenset()
    _defaults: ClassVar[dict[str, Any]] = {}

    def __init_subclass__(cls, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        said = cls.__dict__.get("__annotations__", {})  # noqa: RUF063 (inspect would cost what this class saves)
        own = [name for name, kind in said.items() if not str(kind).startswith("ClassVar")]
        cls.FIELDS = tuple(dict.fromkeys((*cls.FIELDS, *own)))
        cls._names = frozenset(cls.FIELDS)
        cls._defaults = {**cls._defaults, **{name: cls.__dict__[name] for name in own if name in cls.__dict__}}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        values = self.__dict__
        values.update(self._defaults)
        values.update(zip(self.FIELDS, args, strict=False))
        values.update(kwargs)
        if len(args) > len(self.FIELDS) or values.keys() != self._names:
            raise TypeError(
                f"{type(self).__name__}({', '.join(self.FIELDS)}) got {len(args)} values and {list(kwargs)}"
            )

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: {name} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: {name} cannot be removed")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self is other or all(self.__dict__[n] == other.__dict__[n] for n in self.FIELDS)

    def __hash__(self) -> int:
        return hash((type(self), *(self.__dict__[name] for name in self.FIELDS)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{n}={self.__dict__[n]!r}' for n in self.FIELDS)})"


R = TypeVar("R", bound=Record)


def replace(record: R, /, **changes: Any) -> R:
    """The same value with other fields."""
    return type(record)(**{**{name: record.__dict__[name] for name in record.FIELDS}, **changes})
