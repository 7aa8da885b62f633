"""News of the background waits until it disturbs nobody: in order, nothing lost. Told what is typed; prints nothing."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator

from duckflow import events as ev
from duckflow.record import Record

LINE_SECONDS = 2.0  # from the last change of a draft until single lines may appear above it
TALK_SECONDS = 5.0  # the same for what somebody will want to read
LATEST_SECONDS = 10.0  # what was said is shown then, whatever is typed
TALK = frozenset({"message", "report", "verdict", "escalation", "warning", "error"})


class Moment(Record):
    """What the person is doing right now."""

    typed_at: float | None = None  # when the draft last changed; None: the line is empty
    decides: bool = False  # a card is open: it must stay in sight
    reads: bool = False  # an answer is being written on the screen: nothing may come between its parts


class Held(Record):
    event: ev.Event
    since: float

    @property
    def is_talk(self) -> bool:
        return self.event.body.type in TALK


class Holding:
    def __init__(self, moment: Callable[[], Moment], clock: Callable[[], float] = time.monotonic) -> None:
        self._moment = moment
        self._clock = clock
        self._queue: deque[Held] = deque()

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, event: ev.Event) -> None:
        self._queue.append(Held(event, self._clock()))

    def ready(self) -> Iterator[ev.Event]:
        """What may be shown now. Whatever stands before something that can wait no longer goes with it."""
        now, moment = self._clock(), self._moment()
        if moment.reads:
            return
        overdue = [n for n, held in enumerate(self._queue) if held.is_talk and now - held.since >= LATEST_SECONDS]
        must = overdue[-1] + 1 if overdue else 0
        while self._queue and (must > 0 or _may(self._queue[0], moment, now)):
            must -= 1
            yield self._queue.popleft().event

    def rest(self) -> Iterator[ev.Event]:
        """All of it, whatever the person does: nothing is lost."""
        while self._queue:
            yield self._queue.popleft().event


def _may(held: Held, moment: Moment, now: float) -> bool:
    if moment.decides:
        return False
    return moment.typed_at is None or now - moment.typed_at >= (TALK_SECONDS if held.is_talk else LINE_SECONDS)
