"""The chat loop as the screen sees it: what the person can make it do. `engine.chat.ChatLoop` is one."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Protocol


class Chat(Protocol):
    def turn(self, text: str) -> Coroutine[Any, Any, object]:
        """One message; it also ends when the work goes on in the background."""

    def command(self, command: str) -> Coroutine[Any, Any, object]: ...

    def steer(self, text: str) -> None: ...

    def stop(self) -> None: ...

    # Background work: one run, or (None) all of it. False: there was nothing to do that to.

    def pause(self, run: str | None) -> bool: ...

    def go_on(self, run: str | None) -> bool: ...

    def stop_background(self, run: str | None) -> bool: ...

    def close(self) -> Coroutine[Any, Any, None]:
        """Stop everything in the background so that it can be gone on with later."""
