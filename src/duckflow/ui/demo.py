"""The demo's screen: it tells the story of a real run and says yes to the cards, in a temporary directory."""

from __future__ import annotations

import asyncio
import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from duckflow.human import Answer, Door, Request
from duckflow.i18n import _
from duckflow.state.session import Session
from duckflow.ui.cards import draw
from duckflow.ui.out import Out
from duckflow.ui.render import Printer

FILES = Path(__file__).parent.parent / "demo"
PAUSE = 0.8
"""Seconds a card is shown before the demo answers it."""


def lay_out(folder: Path, lang: str) -> tuple[Path, Path, str]:
    """A project with a failing test, a settings file that names the scripted model, and what the person says."""
    project = folder / "cart"
    shutil.copytree(FILES / "project", project)
    script = FILES / f"{lang}.toml"
    settings = folder / "config.toml"
    settings.write_text(
        f'[providers.demo]\nkind = "scripted"\n[models.main]\nprovider = "demo"\nmodel = {json.dumps(str(script))}\n'
        "price = { input = 0.0, cached_input = 0.0, output = 0.0 }\n",
        encoding="utf-8",
    )
    return project, settings, _("The tests fail. Find out why and fix it.")


@dataclass
class DemoPerson:
    """Shows each card and answers it with yes: the only place where a program may, because it owns the directory."""

    door: Door
    out: Out

    def arrived(self, request: Request) -> None:
        for line in draw(request.card, request.kind, self.out, full=True).lines:
            self.out.line(line)
        asyncio.get_running_loop().call_later(PAUSE, self._say_yes, request)

    def withdrawn(self, request: Request) -> None:
        """Nothing to take back: what was printed stays."""

    def _say_yes(self, request: Request) -> None:
        command = request.card.preview_kind == "command"
        said = _("yes for this step") if command else _("yes")
        told = _("{said}  (here the demo answers; in your project only you do)", said=said)
        self.out.block(told, "green", first="  ▸ ", indent="    ")
        self.door.answer(Answer(request.id, request.shown_hash, "step" if command else "yes"))


def begin(session: Session, out: Out, project: Path) -> Printer:
    """The first lines, and everything that follows as it happens."""
    out.block(
        _("A real run on a small project with a failing test. Only the model is a script; no key is needed."), "dim"
    )
    out.block(_("Project: {path}", path=project), "dim", indent="  ", first="")
    out.line()
    printer = Printer(out)
    session.subscribe(lambda event: None if event.body.type == "gate.asked" else printer.event(event))
    session.watch(printer.live)
    return printer


def end(printer: Printer, ok: bool) -> None:
    printer.turn_ended()
    out = printer.out
    out.line()
    if not ok:
        out.block(_("The demo did not end as it should. `duckflow doctor` may know why."), "red")
        return
    out.block(_("Done means: checked, judged and recorded. Now with your own project:"), "bold")
    out.line("  export ANTHROPIC_API_KEY=…")
    out.line("  duckflow")
    out.block(_("Other keys (OPENAI_API_KEY, GEMINI_API_KEY, …) and local models: see README."), "dim")
