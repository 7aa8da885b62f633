"""What fits: profiles, the fixed cut order, shortening. Pure functions over texts and a measure of tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from functools import lru_cache

from duckflow.llm.tokens import estimate
from duckflow.record import Record, replace

size = lru_cache(maxsize=4096)(estimate)
"""Estimated tokens of a text that is measured again and again, such as an entry of the history."""

Measure = Callable[[str], int]
Shorten = Callable[[str, int], str]


class Cut(IntEnum):
    """The order in which parts of a call give way. What has no rank is never cut."""

    EVIDENCE = 1
    CONVERSATION = 2
    OPEN_QUESTIONS = 3
    PLAN_BRIEF = 4


class Section(Record):
    """A named part of a call. Sections of one rank are cut oldest (first) first."""

    name: str
    text: str
    rank: Cut | None = None


class Fitted(Record):
    sections: tuple[Section, ...]
    cuts: tuple[str, ...]  # names, in the order they were cut

    def get(self, name: str) -> str:
        return next((s.text for s in self.sections if s.name == name), "")


def fit(sections: Sequence[Section], budget: int, measure: Measure) -> Fitted:
    """Empty sections in the fixed order until the rest fits. Goal, constraints and the message have no rank."""
    sizes = [measure(section.text) for section in sections]
    total, kept, cuts = sum(sizes), list(sections), []
    order = sorted(
        (i for i, s in enumerate(sections) if s.rank is not None and s.text),
        key=lambda i: (sections[i].rank or 0, i),
    )
    for index in order:
        if total <= budget:
            break
        total -= sizes[index]
        kept[index] = replace(sections[index], text="")
        cuts.append(sections[index].name)
    return Fitted(tuple(kept), tuple(cuts))


def shorten_largest(
    texts: Sequence[str], budget: int, measure: Measure, shorten: Shorten, floor: int = 60
) -> tuple[list[str], list[int]]:
    """Shorten the largest text until all fit; none is removed. Returns the texts and which were shortened."""
    result = list(texts)
    sizes = [measure(text) for text in result]
    touched: list[int] = []
    while sum(sizes) > budget:
        index = max(range(len(sizes)), key=sizes.__getitem__)
        if sizes[index] <= floor:
            break
        over = sum(sizes) - budget
        result[index] = shorten(result[index], max(floor, sizes[index] - over, sizes[index] // 2))
        after = measure(result[index])
        if after >= sizes[index]:
            break
        sizes[index] = after
        touched.append(index)
    return result, sorted(set(touched))


class Profile(Record):
    """How much room a call has beside its fixed parts."""

    name: str
    history: int  # tokens for history and evidence
    result: int  # tokens for one result
    exchanges: bool  # little room: repeat the last exchanges and the format in Main


def profile(name: str, window: int, max_output: int | None) -> Profile:
    """`compact` is fixed and small; `full` is sized from the window of the model that will answer."""
    if name == "compact":
        return Profile("compact", 6000, 1000, True)
    reserve = max_output or min(8192, window // 4)
    return Profile("full", max(2000, window - reserve - 4000), 2000, False)
