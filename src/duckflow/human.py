"""The only door to the person: requests with an owner, answers bound to what was shown."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from duckflow.record import Record

Kind = Literal["gate", "question", "plan", "escalation"]
By = Literal["user", "rule", "mode", "time-out", "stop", "nobody"]


class Card(Record):
    """Plain data for a screen. `preview` comes first; `claim` is the model's word and is labelled as such."""

    title: str
    preview: str = ""
    preview_kind: Literal["diff", "command", "text"] = "text"
    risk: str = ""
    risk_reason: str = ""
    intent: str = ""
    claim: str = ""
    impact: str = ""
    alternatives: tuple[str, ...] = ()
    options: tuple[tuple[str, str], ...] = ()  # choice → label, in the order shown
    default: str | None = None
    pattern: str = ""  # what "yes for this step" and "always" would cover
    asker: str = ""  # which background work asks; empty: the turn the person is looking at


class Request(Record):
    id: str
    owner: str  # run id
    kind: Kind
    card: Card
    shown_hash: str
    watched: bool = True  # the turn the person is looking at
    deadline_s: float | None = None


class Answer(Record):
    request: str
    shown_hash: str
    choice: str  # one of the card's choices; "no" when nothing else fits
    comment: str = ""
    by: By = "user"


class Listener(Protocol):
    """A screen: it learns of requests and answers them through `Door.answer`."""

    def arrived(self, request: Request) -> None: ...

    def withdrawn(self, request: Request) -> None: ...


@dataclass
class Door:
    """Parks a run until somebody answers, time is over, or the run is stopped. No listener: nobody is there."""

    listener: Listener | None = None
    _waiting: dict[str, tuple[Request, asyncio.Future[Answer]]] = field(default_factory=dict)

    async def ask(self, request: Request) -> Answer:
        """Never call this while holding the workspace lock: a person may be at lunch."""
        if self.listener is None:
            return Answer(request.id, request.shown_hash, "no", by="nobody")
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting[request.id] = (request, future)
        self.listener.arrived(request)
        try:
            async with asyncio.timeout(request.deadline_s):
                return await future
        except asyncio.CancelledError:
            self.listener.withdrawn(request)
            raise
        except TimeoutError:
            self.listener.withdrawn(request)
            return Answer(request.id, request.shown_hash, "no", by="time-out")
        finally:
            self._waiting.pop(request.id, None)

    def pending(self) -> tuple[Request, ...]:
        return tuple(request for request, _ in self._waiting.values())

    def answer(self, answer: Answer) -> bool:
        """False: unknown, already answered, or something else was shown."""
        request, future = self._waiting.get(answer.request, (None, None))
        if request is None or future is None or future.done() or answer.shown_hash != request.shown_hash:
            return False
        future.set_result(answer)
        return True

    def withdraw(self, owner: str) -> None:
        """The run was stopped: its open requests are answered with a no that nobody gave."""
        for request, future in list(self._waiting.values()):
            if request.owner == owner and not future.done():
                future.set_result(Answer(request.id, request.shown_hash, "no", by="stop"))
                if self.listener is not None:
                    self.listener.withdrawn(request)


_YES = """
y yes ok okay sure yep yeah
はい うん ええ よい いいよ いいですよ お願い お願いします どうぞ 了解 了解です
進めて 進めてください 承認 承認します オーケー
"""
_NO = """
n no nope cancel stop いいえ いや だめ だめです ダメ 駄目 やめて やめてください 中止 キャンセル 却下
"""
ANSWERS: Mapping[str, str] = {
    **dict.fromkeys((*_YES.split(), "go ahead"), "yes"),
    **dict.fromkeys(_NO.split(), "no"),
    **dict.fromkeys(("s", "step", "この作業"), "step"),
    **dict.fromkeys(("a", "always", "いつも"), "always"),
}
"""Words a person may type to a card, in both languages. Anything else is a "no" with that comment."""
