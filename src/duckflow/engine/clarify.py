"""Questions: one at a time, never the same twice, and understanding short answers by code while one is open."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections import Counter

from duckflow import events as ev
from duckflow.engine.kit import Ending, Kit
from duckflow.engine.objectives import conclude
from duckflow.human import Card, Request
from duckflow.i18n import _
from duckflow.prompts.replies import Question
from duckflow.state.machine import Status, Trigger

SAME = 0.8
"""Similarity from which two questions count as one. A question too many is better than an answer to another one."""
ALIKE = 0.5
"""Share of common pairs of characters from which two words count as one ("change", "changed")."""
FRUITLESS = 2
"""Questions in a row that brought nothing new, after which none is asked any more."""
_YES = frozenset(
    {"ok", "okay", "yes", "y", "sure", "はい", "うん", "お願いします", "それで", "いいよ", "いいです", "了解"}
)
_KINDS = {  # in this order: the longer words first
    "?count": r"いくつ|いくら|何(?:個|件|回|行|人|秒|分)|\bhow (?:many|much)\b",
    "?why": r"なぜ|どうして|何故|\bwhy\b",
    "?when": r"いつ(?!も)|何時|\bwhen\b",
    "?where": r"どこ|何処|\bwhere\b",
    "?who": r"だれ|誰|\bwho\b",
    "?how": r"どのよう|どうやって|(?<!か)どう(?!か)|\bhow\b",
    "?what": r"どの|どれ|どちら|どっち|どんな|何|なに|\bwhich\b|\bwhat\b",
}
_SMALL_WORDS = (
    "a an the i me my we us our you your it its this that these those is are was be been am do does did should shall "
    "would will can could may might must want like need prefer wish to of in on at for with by from as and or so too "
    "also well then please there here have has had if one any some "
    "方 事 良 下 欲 頂 致 御 様"
)
_JOINTS = (  # Japanese between the words that carry meaning
    r"(?:(?<![ぁ-ゖ])|(?<=[をにがはもと]))(?:しま|する|した|して|すれば)|"
    r"でしょうか|ましょうか|ですか|ますか|ください|ほうが|たほう|いたし|ました|ません|です|ます|すか|"
    r"いい|よい|よろしい|たい|べき|こと|もの|ため|から|まで|より|など|とか|という|それとも|または|あるいは|はい|にし|"
    r"[をはがにでとものへやかねよ]"
)
_POLITE = re.compile(r"[、,\s]*(?:お願いします|お願い|それで|進めて(?:ください)?|please|go ahead)$")


def resolved(question: ev.QuestionAsked, text: str) -> str | None:
    """The option a short answer means ("1", "OK", 「2で」, 「はい」), or None when it says something else."""
    said = plain_answer(text)
    for option in question.options:
        if said == plain_answer(option):
            return option
    number = chosen_number(said, len(question.options))
    if number:
        return question.options[number - 1]
    if is_yes(said) and question.default:
        return question.default
    return None


def plain_answer(text: str) -> str:
    return unicodedata.normalize("NFKC", text).strip().rstrip("。.!！").casefold()


def chosen_number(said: str, most: int) -> int | None:
    """The number of a plain answer such as "2", 「2で」 or 「2番でお願いします」."""
    number = re.fullmatch(r"(\d+)\s*(?:番|で|でお願いします|番で|番でお願いします)*", said)
    return int(number[1]) if number and 1 <= int(number[1]) <= most else None


def is_yes(said: str) -> bool:
    return said in _YES or ((shorter := _POLITE.sub("", said)) != said and shorter in _YES)


def similarity(one: str, other: str) -> float:
    """How far two questions ask the same, 0 to 1. Words are compared by pairs of characters, in any order.

    What only one of them says counts little; a word that stands in the place of another ("delete" for "change",
    "when" for "which") counts much.
    """
    a, b = _asks(one), _asks(other)
    if len(a) < 2 or len(b) < 2:  # nothing but a question word: the texts themselves
        return _shared(_plain(one), _plain(other))
    missing_a = sum(all(_alike(word, known) < ALIKE for known in b) for word in a)
    missing_b = sum(all(_alike(word, known) < ALIKE for known in a) for word in b)
    shared = max(len(a) - missing_a, len(b) - missing_b)
    replaced, added = min(missing_a, missing_b), abs(missing_a - missing_b)
    return shared / (shared + 2 * replaced + added / 4)


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def _asks(text: str) -> frozenset[str]:
    """The words that carry a question, and what kind of question it is."""
    plain = _plain(text)
    kinds = set()
    for kind, pattern in _KINDS.items():
        plain, found = re.subn(pattern, " ", plain)
        kinds |= {kind} if found else set()
    words = set(re.findall(r"[a-z0-9][a-z0-9_.\-/]*[a-z0-9]|[a-z0-9]|[ァ-ヺー]+|[一-龯々〆]+", plain))
    words -= set(_SMALL_WORDS.split())
    spoken = (re.sub(_JOINTS, "", run) for run in re.findall(r"[ぁ-ゖ]+", plain))
    words |= {word for word in spoken if len(word) > 1}
    return frozenset(words | (kinds or {"?whether"}))


def _alike(one: str, other: str) -> float:
    """How far two words are one. Kinds of questions, names and numbers are the same or not."""
    if re.search(r"[?0-9_./-]", one + other):
        return float(one == other)
    if min(len(one), len(other)) == 1:
        return float(one in other or other in one)
    return _shared(one, other)


def _shared(one: str, other: str) -> float:
    """How many pairs of characters two texts share: it works without spaces between words."""
    a, b = (_pairs(text) for text in (one, other))
    return 2 * sum((a & b).values()) / max(sum(a.values()) + sum(b.values()), 1)


def _pairs(text: str) -> Counter[str]:
    plain = re.sub(r"\W+", "", text)
    return Counter(plain[i : i + 2] for i in range(max(len(plain) - 1, 1))) if plain else Counter()


def asked_before(kit: Kit, run: str, question: Question) -> bool:
    """Never the same question twice: the model is told the answer, or the default, and goes on."""
    mine, same = kit.session.run(run), _earlier(kit, run, question)
    if same is None:
        return False
    if same in mine.answers:
        told = f"You asked this already; the answer was: {mine.answers[same]}. Go on with it."
    else:
        told = f"You asked this already. {_default(question)}, say so, and go on with the safest small step."
    _note(kit, run, told)
    return True


def was_allowed(kit: Kit, run: str, question: Question) -> bool:
    """Has the person said "go on" to this already?"""
    said = kit.session.run(run).answers.get(_earlier(kit, run, question) or "", "")
    asked = ev.QuestionAsked(text=question.text, options=tuple(question.options), default=question.default)
    return resolved(asked, said) == _("go on")


def _earlier(kit: Kit, run: str, question: Question) -> str | None:
    asked = kit.session.run(run).asked
    return next((text for text in reversed(asked) if similarity(text, question.text) >= SAME), None)


def fruitless(kit: Kit, run: str) -> bool:
    """Have the last questions brought nothing new? Whether to go on is no question about the work."""
    known = [digest for digest in kit.session.run(run).known if digest]
    return known[-FRUITLESS:] == [known_now(kit, run)] * FRUITLESS


def decide_without(kit: Kit, run: str, question: Question) -> str:
    """No further question: the default is announced and the work goes on. Returns what to tell the person."""
    taken = question.default or (question.options[0] if question.options else "")
    note = (
        f"Two questions in a row brought nothing new, so “{question.text}” was not asked. {_default(question)}; go on "
    )
    _note(kit, run, note + "with the safest small step now.")
    if taken:
        return _("The last questions brought nothing new, so I decide for now: {default}.", default=taken)
    return _("The last questions brought nothing new, so I go on with the safest small step.")


def _default(question: Question) -> str:
    taken = question.default or (question.options[0] if question.options else "")
    return f"Take the default ({taken})" if taken else "Take the safest default"


def known_now(kit: Kit, run: str) -> str:
    """What is known about the request, as a digest. Open questions change by being asked and do not count."""
    mine, objective = kit.session.run(run), kit.session.objective(run)
    agent = mine.agent
    wanted = [r.text for r in objective.requirements] if objective else []
    known = [agent.goal, agent.why_now, agent.constraints, agent.plan_brief, wanted, sorted(agent.context_refs)]
    return hashlib.sha256(json.dumps(known, ensure_ascii=False).encode()).hexdigest()[:16]


def _note(kit: Kit, run: str, text: str) -> None:
    thread = kit.session.run(run).thread
    kit.session.append(ev.HistoryAdded(thread=thread, role="user", kind="note", text=text), run=run)


async def ask(kit: Kit, run: str, question: Question, reply: str = "", by: str = "model") -> Ending | None:
    """Put the question to the person: the turn ends. Nobody there: the default answers (None), or the run ends.

    Background work does not end with a question: it waits in the queue of requests for the answer.
    """
    session = kit.session
    beside = session.run(run).background and kit.attended
    taken = question.default if not kit.attended else None
    options = tuple(dict.fromkeys(question.options))
    asked = ev.QuestionAsked(
        text=question.text,
        options=options if len(options) > 1 else (),  # one way is no choice
        default=question.default,
        answered="default" if taken else None,
        by=by,
        known="" if by == "engine" and options else known_now(kit, run),
    )
    session.append(asked, run=run)
    if taken:
        told = f"Nobody is here to answer “{question.text}”. The default was taken: {taken}. Name it as an assumption."
        _note(kit, run, told)
        return None
    if by == "engine":  # the model has not said it: it would not know what is answered
        _note(kit, run, f"The person is asked: {question.text}")
    session.move(run, Trigger.DECISION, status=Status.REQUIRES_USER_INPUT)
    if beside:
        meant = await _ask_beside(kit, run, asked)
        return called_off(kit, run) if by == "engine" and meant == _("stop") else None
    text = "\n\n".join(part for part in (reply, question.text) if part)
    return Ending("asked" if kit.attended else "escalated", text)


def called_off(kit: Kit, run: str) -> Ending:
    """The person said stop. What works for another run ends alone."""
    if kit.session.run(run).parent is None:
        conclude(kit, run, "cancelled")
    kit.session.move(run, Trigger.CANCEL, status=Status.ERROR, reason="cancelled")
    return Ending("cancelled")


async def _ask_beside(kit: Kit, run: str, asked: ev.QuestionAsked) -> str:
    """Through the one queue of requests; the answer is a message to the background work. What was meant."""
    from duckflow.engine.naming import asker

    session = kit.session
    card = Card(
        title=asked.text,
        options=tuple((option, option) for option in asked.options),
        default=asked.default,
        asker=asker(session.state, run),
    )
    digest = hashlib.sha256(asked.text.encode()).hexdigest()
    answer = await kit.door.ask(Request(f"{session.id}/{run}/{digest[:8]}", run, "question", card, digest, False))
    said = answer.comment or answer.choice
    meant = resolved(asked, said) or said
    session.append(ev.Message(role="user", text=said, kind="answer"), run=run)
    session.append(
        ev.HistoryAdded(
            thread=session.run(run).thread,
            role="user",
            kind="message",
            text=f"{said}\n(the answer to your question: {meant})",
        ),
        run=run,
    )
    session.move(run, Trigger.MESSAGE, status=Status.IN_PROGRESS)
    return meant
