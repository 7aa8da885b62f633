"""The one input line: keys, history, completion, and printing above it. Knows not what the lines mean.

One prompt_toolkit application runs for the whole chat; its owner changes what the line is for (a message, an answer
to a card), never the application. So no key is lost or echoed between two of them.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from prompt_toolkit import PromptSession
from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition, has_completions
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.patch_stdout import patch_stdout
from prompt_toolkit.styles import Style

from duckflow.ui.completion import wants_completion
from duckflow.ui.line import Draft, Keys, View

if TYPE_CHECKING:
    from prompt_toolkit.completion import Completer
    from prompt_toolkit.history import History

ESCAPE_SECONDS = 0.05  # how long an Esc may be the beginning of a longer key
_STYLE = Style.from_dict(
    {
        "bottom-toolbar": "noreverse",
        "bottom-toolbar.text": "ansibrightblack noreverse",
        "above": "ansibrightblack",
        "ask": "bold ansicyan",
        "prompt": "bold",
    }
)


class InputLine:
    def __init__(self, keys: Keys, view: View, history: History, completer: Completer, *, colour: bool) -> None:
        self._keys = keys
        self._view = view
        self._pending: list[str] = []
        self._printing: asyncio.Task[None] | None = None
        self.changed_at = float("-inf")  # when the text last changed
        is_message = Condition(view.is_message)
        self._session: PromptSession[int] = PromptSession(
            message=self._message,
            bottom_toolbar=lambda: [("class:bottom-toolbar.text", view.below())],
            multiline=True,
            prompt_continuation="  ",
            history=history,
            completer=completer,
            complete_in_thread=True,
            complete_while_typing=is_message & Condition(self._completes),
            key_bindings=self._bindings(),
            enable_suspend=True,
            erase_when_done=True,
            style=_STYLE,
            color_depth=None if colour else ColorDepth.DEPTH_1_BIT,
            include_default_pygments_style=False,
        )
        app = self._session.app
        app.ttimeoutlen = app.timeoutlen = ESCAPE_SECONDS
        app.min_redraw_interval = 0.03
        self._session.default_buffer.on_text_changed += self._on_text_changed

    # --- the text on the line ------------------------------------------------------------------------------------

    @property
    def draft(self) -> Draft:
        document = self._session.default_buffer.document
        return Draft(document.text, document.cursor_position)

    @draft.setter
    def draft(self, draft: Draft) -> None:
        buffer = self._session.default_buffer
        buffer.cancel_completion()
        buffer.set_document(Document(*draft), bypass_readonly=True)
        self.changed_at = float("-inf")

    def _on_text_changed(self, _sender: object) -> None:
        self.changed_at = time.monotonic()

    def _completes(self) -> bool:
        return wants_completion(self._session.default_buffer.document.text_before_cursor)

    def _message(self) -> StyleAndTextTuples:
        style, text = self._view.above()
        above: StyleAndTextTuples = [(f"class:{style}", text + "\n")] if text else []
        return [*above, ("class:prompt", "> ")]

    def redraw(self) -> None:
        self._session.app.invalidate()

    # --- running -------------------------------------------------------------------------------------------------

    async def run(self) -> int:
        """Until `close` is called or the terminal is gone (EOFError)."""
        with patch_stdout(raw=True):
            try:
                return await self._session.prompt_async(set_exception_handler=False)
            finally:
                await self.drained()

    def close(self, result: int) -> None:
        app = self._session.app
        if app.is_running and app.future is not None and not app.future.done():
            app.exit(result=result)

    @property
    def height(self) -> int:
        return self._session.app.output.get_size().rows

    @property
    def width(self) -> int:
        return self._session.app.output.get_size().columns

    # --- printing above the line ---------------------------------------------------------------------------------

    def write(self, text: str) -> None:
        """Print above the line, in order, soon. Call it on the event loop."""
        self._pending.append(text)
        if self._printing is None or self._printing.done():
            self._printing = asyncio.get_running_loop().create_task(self._print())

    async def _print(self) -> None:
        while self._pending:
            if self._session.app.is_running:
                await run_in_terminal(self._put)
            else:
                self._put()

    def _put(self) -> None:
        text = "".join(self._pending)
        self._pending.clear()
        self._session.app.output.write_raw(text)
        self._session.app.output.flush()

    async def drained(self) -> None:
        """Everything printed so far is on the screen."""
        while self._printing is not None and not self._printing.done():
            await asyncio.wait([self._printing])

    def clear_screen(self) -> None:
        self._session.app.renderer.clear()

    # --- keys ----------------------------------------------------------------------------------------------------

    def _bindings(self) -> KeyBindings:
        keys, view, bindings = self._keys, self._view, KeyBindings()
        is_empty = Condition(lambda: not self.draft.text)

        @bindings.add("enter")
        def _enter(event: KeyPressEvent) -> None:
            self._enter(event)

        @bindings.add("escape", "enter")
        def _newline(event: KeyPressEvent) -> None:
            event.current_buffer.newline(copy_margin=False)

        @bindings.add("escape", filter=Condition(view.works))
        def _stop(event: KeyPressEvent) -> None:
            keys.stop()

        @bindings.add("c-c")
        @bindings.add("<sigint>")
        def _interrupt(event: KeyPressEvent) -> None:
            keys.interrupt()

        @bindings.add("c-d", filter=is_empty)
        def _leave(event: KeyPressEvent) -> None:
            keys.leave()

        @bindings.add("s-tab", filter=~has_completions)
        def _cycle(event: KeyPressEvent) -> None:
            keys.cycle()

        @bindings.add("c-g")
        def _open(event: KeyPressEvent) -> None:
            keys.open_waiting()

        return bindings

    def _enter(self, event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state is not None and buffer.complete_state.current_completion is not None:
            buffer.complete_state = None  # the first Enter takes what the menu put into the line
            return
        if buffer.document.is_cursor_at_the_end and buffer.text.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.newline(copy_margin=False)
            return
        text = buffer.text
        if self._view.is_message() and text.strip():
            buffer.append_to_history()
        buffer.reset()
        self._keys.submit(text)
