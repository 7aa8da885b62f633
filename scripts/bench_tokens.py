"""How many tokens the requests of a job cost, counted on what was really sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from duckflow.llm.tokens import count

CACHED_PRICE = 0.1  # of a token that is not in the cache

Body = Mapping[str, Any]


@dataclass(frozen=True)
class Cost:
    """Prompt tokens of the Decisions of one job."""

    first: int
    frozen: int  # of the first: Base, Contract and Project
    tails: tuple[int, ...]  # Main of every call but the last
    fresh: tuple[int, ...]  # of every later call: what no earlier one began with
    total: int
    weighted: float  # with what the call before began with at the price of the cache


def cost(bodies: Sequence[Body]) -> Cost:
    """Of consecutive Decision requests in the OpenAI format (content is text)."""
    texts = ["\n\n".join(str(message["content"]) for message in body["messages"]) for body in bodies]
    totals = [count(text) for text in texts]
    shared = [count(shared_beginning(*pair)) for pair in pairwise(texts)]
    fresh = tuple(total - known for total, known in zip(totals[1:], shared, strict=True))
    return Cost(
        first=totals[0],
        frozen=count(str(bodies[0]["messages"][0]["content"])),
        tails=tuple(count(main(*pair)) for pair in pairwise(bodies)),
        fresh=fresh,
        total=sum(totals),
        weighted=sum(totals) - (1 - CACHED_PRICE) * sum(shared),
    )


def main(body: Body, following: Body) -> str:
    """The tail of a request: what its last message had and the history does not keep."""
    last = str(body["messages"][-1]["content"])
    later = following["messages"][len(body["messages"]) - 1 :]
    kept = str(later[0]["content"]) if later and later[0]["role"] == "user" else ""
    return last.removeprefix(kept).strip() if last.startswith(kept) else last


def shared_beginning(one: str, other: str) -> str:
    """What a provider can serve from its cache: everything up to the first difference."""
    differ = (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return one[: next(differ, min(len(one), len(other)))]
