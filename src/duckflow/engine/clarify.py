"""Questions: asking one, and understanding short answers by code while one is open."""

from __future__ import annotations

import re
import unicodedata

from duckflow import events as ev
from duckflow.engine.kit import Ending, Kit
from duckflow.prompts.replies import Question
from duckflow.state.machine import Status, Trigger

_YES = frozenset(
    {"ok", "okay", "yes", "y", "sure", "はい", "うん", "お願いします", "それで", "いいよ", "いいです", "了解"}
)


def resolved(question: ev.QuestionAsked, text: str) -> str | None:
    """The option a short answer means ("1", "OK", 「2で」, 「はい」), or None when it says something else."""
    said = unicodedata.normalize("NFKC", text).strip().rstrip("。.!！").casefold()
    for option in question.options:
        if said == unicodedata.normalize("NFKC", option).strip().casefold():
            return option
    number = re.fullmatch(r"(\d+)\s*(?:番|で|でお願いします|番で)*", said)
    if number and 1 <= int(number[1]) <= len(question.options):
        return question.options[int(number[1]) - 1]
    if said in _YES and question.default:
        return question.default
    return None


def asked_before(kit: Kit, run: str, question: Question) -> bool:
    """Never the same question twice: the model is told the answer, or the default, and goes on."""
    said = _plain(question.text)
    if said not in map(_plain, kit.session.run(run).asked):
        return False
    way = f"Take the default ({question.default})" if question.default else "Take the safest default"
    note = f"You asked this already. {way}, say so, and go on with the safest small step."
    thread = kit.session.run(run).thread
    kit.session.append(ev.HistoryAdded(thread=thread, role="user", kind="note", text=note), run=run)
    return True


def _plain(text: str) -> str:
    return re.sub(r"\W+", "", unicodedata.normalize("NFKC", text).casefold())


def ask(kit: Kit, run: str, question: Question, reply: str = "") -> Ending | None:
    """Put the question to the person: the turn ends. Nobody there: the default answers (None), or the run ends."""
    session = kit.session
    alone = not kit.attended
    taken = question.default if alone else None
    session.append(
        ev.QuestionAsked(
            text=question.text,
            options=tuple(question.options),
            default=question.default,
            answered="default" if taken else None,
        ),
        run=run,
    )
    if taken:
        note = f"Nobody is here to answer “{question.text}”. The default was taken: {taken}. Name it as an assumption."
        thread = session.run(run).thread
        session.append(ev.HistoryAdded(thread=thread, role="user", kind="note", text=note), run=run)
        return None
    session.move(run, Trigger.DECISION, status=Status.REQUIRES_USER_INPUT)
    text = "\n\n".join(part for part in (reply, question.text) if part)
    return Ending("escalated" if alone else "asked", text)
