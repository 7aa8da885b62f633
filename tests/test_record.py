"""Records: frozen values that behave like dataclasses and cost nothing at start."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar, cast

import pytest

from duckflow.record import NOTHING, Record, replace


class Point(Record):
    kind: ClassVar[str] = "point"
    x: int
    y: int = 0

    @cached_property
    def far(self) -> bool:
        return self.x + self.y > 10


class Named(Point):
    name: str = ""
    more: Any = NOTHING


def test_fields_come_in_order_with_their_defaults() -> None:
    assert Point.FIELDS == ("x", "y") and Named.FIELDS == ("x", "y", "name", "more")
    assert (Point(1).y, Point(1, 2).y, Named(1, name="n").name) == (0, 2, "n")
    assert repr(Point(1)) == "Point(x=1, y=0)"


@pytest.mark.parametrize(("args", "kwargs"), [((), {}), ((1, 2, 3), {}), ((1,), {"z": 1}), ((), {"y": 1})])
def test_missing_and_unknown_fields_are_errors(args: tuple[int, ...], kwargs: dict[str, int]) -> None:
    with pytest.raises(TypeError, match="Point"):
        cast(Any, Point)(*args, **kwargs)


def test_values_are_frozen_equal_and_hashable() -> None:
    point = Point(5, 7)
    with pytest.raises(AttributeError):
        cast(Any, point).x = 1
    with pytest.raises(AttributeError):
        del cast(Any, point).x
    assert point == Point(5, 7) != Point(5, 8) and point != Named(5, 7) and len({point, Point(5, 7)}) == 1


def test_replace_makes_a_new_value_and_forgets_what_was_cached() -> None:
    point = Point(5, 7)
    assert point.far and point == Point(5, 7)
    assert replace(point, y=0) == Point(5) and not replace(point, y=0).far and point.y == 7
