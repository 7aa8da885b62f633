"""Changing what is there: preview and approval, questions, errors, several attempts, answers, and the five ways on."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.e2e.duck import Duck
from tests.e2e.flows import Held, Talk, check_steps, flat, in_both, in_turn, journal, judged, of, steps_of, ui, ui_n
from tests.e2e.server import Function, Json, ModelServer, Reply
from tests.engine.workbench import act, decision

OLD = "# Pong\n\nA small game.\n"
NEW = "# ポン\n\n小さなゲームです。\n"


def write(path: str, text: str, **fields: Any) -> str:
    given: dict[str, Any] = {
        "profile": "modification",
        "confidence": 0.9,
        "next_step": "done",
        "requirements": ["R"],
        **fields,
    }
    return decision(
        act("file_ops.write_file", path=path, content={"block": "B"}), blocks=f"<<<B\n{text}B>>>", **given
    )  # fmt: skip


def edit(path: str, search: str, replace: str, **fields: Any) -> str:
    return decision(act("file_ops.edit_file", path=path, search=search, replace=replace), **fields)


# --- preview, approval, result ------------------------------------------------------------------------------------


class Rewrite(NamedTuple):
    wish: str
    yes: str
    closing: str


REWRITES = {
    "ja": Rewrite("README.md を日本語で書き直して", "はい", "README.md は日本語になっています。"),
    "en": Rewrite("rewrite README.md in Japanese", "y", "README.md is in Japanese now."),
}


@in_both
def test_a_rewrite_is_previewed_approved_and_told_only_when_it_was_judged(tmp_path: Path, lang: str) -> None:
    words, verdict = REWRITES[lang], Held(judged())
    rewrite = write("README.md", NEW, reply=words.closing)
    with ModelServer({"understand": rewrite, "evaluate": verdict}) as server:
        duck = Duck(tmp_path, server.url)
        (duck.project / "README.md").write_text(OLD, encoding="utf-8")
        talk = Talk(duck, lang)
        talk.says(words.wish)
        talk.card()
        talk.sees("-# Pong", "+# ポン", "+小さなゲームです。", "README.md")
        assert duck.files() == {"README.md": OLD.encode()} and "evaluate" not in server.nodes()
        talk.types(words.yes)
        talk.asked(server, "evaluate")
        assert duck.files() == {"README.md": NEW.encode()}
        assert flat(words.closing) not in talk.text, "said before it was judged"
        verdict.release.set()
        talk.sees(words.closing, talk.ui("done, with evidence"))
        talk.leaves()
    assert OLD.splitlines()[-1] in server.requests[0].text, "the file named in the message comes with it"
    assert server.nodes() == ["understand", "evaluate"]
    events = journal(duck)
    assert steps_of(events, "run1") == ["PLANNING", "EXECUTION", "AWAITING_APPROVAL", "EXECUTION", "REVIEW", "DONE"]
    (asked,) = of(events, "gate.asked")
    assert all(asked[name] for name in ("intent", "rationale", "impact", "alternatives", "preview"))
    assert of(events, "verdict")[0]["requirements"]["R1"]["evidence"]


@in_both
def test_a_refused_rewrite_changes_nothing_and_the_comment_leads_to_another(tmp_path: Path, lang: str) -> None:
    words = REWRITES[lang]
    comment = {"ja": "もっと短く", "en": "make it shorter"}[lang]
    first, second = write("README.md", NEW), write("README.md", "# ポン\n", reply=words.closing)
    with ModelServer({"understand": first, "execute": second, "evaluate": judged()}) as server:
        duck = Duck(tmp_path, server.url)
        (duck.project / "README.md").write_text(OLD, encoding="utf-8")
        talk = Talk(duck, lang)
        talk.says(words.wish)
        talk.card()
        talk.types(comment)
        talk.asked(server, "execute")
        assert duck.files() == {"README.md": OLD.encode()} and comment in server.requests[1].text
        talk.sees("+# ポン", times=2)
        talk.card()
        talk.types(words.yes)
        talk.sees(words.closing)
        talk.leaves()
    assert duck.files() == {"README.md": "# ポン\n".encode()}
    answers = [(e["answer"], e["comment"]) for e in of(journal(duck), "gate.answered")]
    assert answers == [("no", comment), ("yes", "")]


@in_both
def test_a_closing_word_that_stands_before_the_actions_is_not_shown_while_they_arrive(
    tmp_path: Path, lang: str
) -> None:
    """Models write piece by piece: at some moment the list of actions has begun and none is in it yet."""
    claim = {"ja": "日本語です。\n\n読みやすいです。\n\n以上です。", "en": "It is Japanese.\n\nEnjoy it.\n\nBye."}[lang]
    made, here = write("README.md", NEW, reply=claim), Reached()
    border = made.index('"actions": [') + len('"actions": [')
    assert made.index('"reply"') < border
    with ModelServer({"understand": Reply(made, hold_after=border, release=here)}) as server:
        duck = Duck(tmp_path, server.url)
        talk = Talk(duck, lang)
        talk.says(REWRITES[lang].wish)
        talk.until(here.reached.is_set, "the beginning of the actions")
        for keys, shown in (("x", "> x"), ("\x7f", ">")):  # seen: the chat has looked at what came before
            talk.screen.send(keys)
            talk.until(lambda shown=shown: shown in talk.screen.lines, shown)  # type: ignore[misc]
        here.set()
        talk.card()
        first = flat(claim.splitlines()[0])
        assert first not in talk.text and duck.files() == {}, talk.screen.text
        talk.escapes()
        talk.sees(talk.ui("stopped"))
        talk.leaves()
    assert first not in talk.text


class Reached(threading.Event):
    """Tells that somebody waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.reached = threading.Event()

    def wait(self, timeout: float | None = None) -> bool:
        self.reached.set()
        return super().wait(timeout)


# --- question, answer, execution ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lang", "answer", "meant"),
    [
        ("en", "1", "pygame"),
        ("ja", "2で", "curses"),
        ("ja", "はい", "curses"),
        ("en", "OK", "curses"),
        ("ja", "", "curses"),
    ],
)
def test_a_short_answer_to_a_question_leads_to_execution(tmp_path: Path, lang: str, answer: str, meant: str) -> None:
    text = {"ja": "どのライブラリを使いますか？", "en": "Which library?"}[lang]
    question = {"text": text, "options": ["pygame", "curses"], "default": "curses"}
    asks = decision(act("file_ops.write_file", path="early.py", content=""), profile="creation", question=question)
    make = write("game.py", f"import {meant}\n", profile="creation", reply=f"{meant}!")
    with ModelServer({"understand": [asks, make], "evaluate": judged()}) as server:
        duck = Duck(tmp_path, server.url)
        talk = Talk(duck, lang)
        talk.says({"ja": "ゲームを作って", "en": "make a game"}[lang])
        talk.sees(text, "1 pygame", f"2 curses {talk.ui('(default)')}")
        talk.sees(talk.ui("number or your own words"))
        assert duck.files() == {}, "nothing runs beside a question"
        talk.says(answer)
        talk.card()
        talk.types("y")
        talk.sees(f"{meant}!", talk.ui("done, with evidence"))
        talk.leaves()
    assert f"the answer to your question: {meant}" in server.requests[1].text
    assert duck.files() == {"game.py": f"import {meant}\n".encode()}
    events = journal(duck)
    assert [e["status"] for e in of(events, "run.ended")] == ["satisfied"], "the answer belongs to the same work"


@in_both
def test_evidence_from_before_a_resume_is_still_named_in_the_verdict(tmp_path: Path, lang: str) -> None:
    text = {"ja": "どちらにしますか？", "en": "Which one?"}[lang]
    look = decision(act("file_ops.read_file", path="app.toml"), profile="modification", confidence=0.9)
    asks = decision(profile="modification", question={"text": text, "options": ["x", "y"]})
    made = write("x.txt", "x\n", reply="x!")
    with ModelServer({"understand": look, "execute": [asks, made], "evaluate": judged()}) as server:
        duck = Duck(tmp_path, server.url)
        (duck.project / "app.toml").write_text("port = 1\n", encoding="utf-8")
        talk = Talk(duck, lang, "--mode", "auto-edit")
        talk.says("x?")
        talk.sees(text)
        talk.leaves()
        talk = Talk(duck, lang, "resume")
        talk.says("1")
        talk.sees("x!", talk.ui("done, with evidence"))
        talk.leaves()
    assert flat(f"E1 {talk.ui('read {path}', path='app.toml')}") in talk.text, talk.screen.text


def test_an_exported_approval_still_says_what_was_approved(tmp_path: Path) -> None:
    """The hash of what was shown is not the hash of the chain."""
    with ModelServer({"understand": write("a.txt", "a\n", reply="a"), "evaluate": judged()}) as server:
        duck = Duck(tmp_path, server.url)
        ran = duck.run("--mode", "auto-edit", "x")
    exported = [json.loads(line) for line in duck("audit", "--export", "-").out.splitlines()]
    (streamed,), (kept,) = ran.of("gate.answered"), of(exported, "gate.answered")
    assert streamed["hash"] in kept.values()


# --- errors ---------------------------------------------------------------------------------------------------------


@in_both
def test_three_failing_operations_lead_back_to_planning_and_another_approach_succeeds(
    tmp_path: Path, lang: str
) -> None:
    wish = {"ja": "色を赤にして", "en": "make the colour red"}[lang]
    closing = {"ja": "赤です。", "en": "It is red."}[lang]
    wrong = [edit("theme.css", f"colour: {n}", "color: red", profile="modification") for n in range(3)]
    right = write("theme.css", "color: red\n", strategy="write it whole", reply=closing)
    given: dict[str, Any] = {"understand": [wrong[0], right], "execute": wrong[1:], "evaluate": judged()}
    with ModelServer(given) as server:
        duck = Duck(tmp_path, server.url)
        (duck.project / "theme.css").write_text("color: blue\n", encoding="utf-8")
        ran = duck.run("--mode", "auto-edit", "--lang", lang, wish)
    assert (ran.code, ran.result["status"], ran.result["reply"]) == (0, "satisfied", closing)
    assert duck.files() == {"theme.css": b"color: red\n"}
    assert server.nodes() == ["understand", "execute", "execute", "understand", "evaluate"]
    thought = server.requests[3].text
    assert "3 operations failed in a row" in thought and "colour: 2" in thought
    check_steps(ran.events)
    assert steps_of(ran.events, "run1") == ["PLANNING", "EXECUTION", "PLANNING", "EXECUTION", "REVIEW", "DONE"]
    back = [e for e in ran.of("state.changed") if (e["from"], e["step"]) == ("EXECUTION", "PLANNING")]
    assert [(e["trigger"], e["status"]) for e in back] == [("error", "ERROR")]
    assert [e["ok"] for e in ran.of("action.finished")] == [False, False, False, True]
    assert {e["attempt"] for e in ran.of("objective.changed")} == {1}, "a recovery costs no attempt"


@in_both
def test_operations_that_never_work_end_with_the_ways_on_and_nothing_claimed(tmp_path: Path, lang: str) -> None:
    """Three times back to planning without a success between them is enough."""
    numbers = iter(range(100))

    def wrong(_body: Json, _headers: Mapping[str, str]) -> str:
        return edit("theme.css", f"no {next(numbers)}", "x", profile="modification")

    with ModelServer({"understand": wrong, "execute": wrong}) as server:
        duck = Duck(tmp_path, server.url)
        (duck.project / "theme.css").write_text("color: blue\n", encoding="utf-8")
        ran = duck("run", "--mode", "auto-edit", "--lang", lang, "x")
    assert ran.code == 3 and duck.files() == {"theme.css": b"color: blue\n"} and "evaluate" not in server.nodes()
    assert flat(ui(lang, "Operations kept failing, and planning again did not help.")) in flat(ran.out)
    backs = [e for e in of(journal(duck), "state.changed") if (e["from"], e["step"]) == ("EXECUTION", "PLANNING")]
    assert len(backs) == 2


# --- several attempts -----------------------------------------------------------------------------------------------

MODULES = {f"{name}.py": f"from lib import load\nload('{name}')\n" for name in "abc"}


@in_both
def test_a_refactoring_over_several_files_takes_a_second_attempt_for_what_is_missing(tmp_path: Path, lang: str) -> None:
    wish = {"ja": "load を fetch に改名して", "en": "rename load to fetch"}[lang]
    missing = {"ja": "c.py がまだ load を使っている", "en": "c.py still uses load"}[lang]
    first, second = {"ja": ("できました。", "三つとも fetch です。"), "en": ("All done.", "All three use fetch.")}[lang]
    sure: dict[str, Any] = {"profile": "modification", "confidence": 0.9, "next_step": "done"}
    edits = {
        name: act("file_ops.edit_file", path=f"{name}.py", search="load", replace="fetch", count=2) for name in "abc"
    }
    whole = ["a", "b", "c"]
    one = decision(edits["a"], edits["b"], requirements=whole, strategy="by hand", reply=first, **sure)
    two = decision(edits["c"], strategy="the file that is left", reply=second, **sure)
    verdicts = in_turn(judged(0.5, missing_aspects=[missing], lessons=["search every file"]), judged())
    with ModelServer({"understand": [one, two], "evaluate": verdicts}) as server:
        duck = Duck(tmp_path, server.url)
        for path, text in MODULES.items():
            (duck.project / path).write_text(text, encoding="utf-8")
        talk = Talk(duck, lang, "--mode", "auto-edit")
        talk.says(wish)
        talk.sees(missing, second, talk.ui("done, with evidence"))
        talk.leaves()
    assert flat(first) not in talk.text, "a closing word that was not earned"
    again = talk.ui("attempt {n}", n=2)
    assert flat(f"{again} · by hand") not in talk.text, "the second attempt is announced with the first one's strategy"
    assert flat(again) in talk.text and flat("the file that is left") in talk.text
    assert duck.files() == {path: text.replace("load", "fetch").encode() for path, text in MODULES.items()}
    assert server.nodes() == ["understand", "evaluate"] * 2
    again = server.requests[2].text
    assert missing in again and "search every file" in again and "attempt 1 (by hand) reached 0.50" in again
    events = journal(duck)
    assert [e["next"] for e in of(events, "verdict")] == ["retry", "complete"]
    assert steps_of(events, "run1") == ["PLANNING", "EXECUTION", "REVIEW"] * 2 + ["DONE"]


@in_both
def test_an_attempt_that_repeats_a_failed_approach_is_refused_once(tmp_path: Path, lang: str) -> None:
    same = write("a.txt", "one\n", profile="creation")
    other = write("a.txt", "two\n", profile="creation", reply="two")
    given: dict[str, Any] = {"understand": [same, same], "execute": other, "evaluate": in_turn(judged(0.4), judged())}
    with ModelServer(given) as server:
        duck = Duck(tmp_path, server.url)
        ran = duck.run("--mode", "auto-edit", "--lang", lang, "x")
    assert ran.code == 0 and duck.files() == {"a.txt": b"two\n"}
    assert server.nodes() == ["understand", "evaluate", "understand", "execute", "evaluate"]
    assert "exactly what an earlier attempt did" in server.requests[3].text


# --- an answer that was asked for -------------------------------------------------------------------------------------

SCENARIO = {
    "ja": "主人公の鍛冶屋カナは、言葉で剣を打つ。\n敵は沈黙の王。\n",
    "en": "Kana, a smith, forges swords from words.\nHer enemy is the King of Silence.\n",
}


@in_both
def test_the_scenario_is_told_itself_not_that_it_was_read(tmp_path: Path, lang: str) -> None:
    wish, read_only, content = {
        "ja": ("シナリオを教えて", "シナリオのファイルを読み取りました。", "鍛冶屋カナが沈黙の王と戦う話です。"),
        "en": ("tell me the scenario", "The scenario file was read.", "Kana the smith fights the King of Silence."),
    }[lang]
    missing = {"ja": "内容が伝えられていない", "en": "the content itself is not told"}[lang]
    look = decision(
        act("file_ops.read_file", path="docs/scenario.md"), profile="analysis", confidence=0.9,
        requirements=["who", "against whom"], next_step="continue",
    )  # fmt: skip
    empty = decision(profile="analysis", next_step="done", reply=read_only)
    full = decision(profile="analysis", next_step="done", reply=content, strategy="tell it")
    given: dict[str, Any] = {
        "understand": [look, full],
        "execute": empty,
        "evaluate": in_turn(judged(0.3, missing_aspects=[missing]), judged(0.9)),
    }
    with ModelServer(given) as server:
        duck = Duck(tmp_path, server.url)
        (duck.project / "docs").mkdir()
        (duck.project / "docs/scenario.md").write_text(SCENARIO[lang], encoding="utf-8")
        ran = duck("run", "--lang", lang, wish)
    assert (ran.code, ran.out) == (0, content + "\n"), ran.err
    assert server.nodes() == ["understand", "execute", "evaluate", "understand", "evaluate"]
    first, last = server.requests[2].text, server.requests[4].text
    assert SCENARIO[lang].splitlines()[0] in server.requests[1].text
    assert read_only in first and content in last, "the reply is what is judged"
    assert missing in server.requests[3].text and missing in ran.err
    verdicts = of(journal(duck), "verdict")
    assert [e["overall"] for e in verdicts] == [0.3, 0.9]


# --- three attempts, five ways on -------------------------------------------------------------------------------------


class Poem(NamedTuple):
    wish: str
    missing: str
    cause: str
    fix: str
    closing: str
    detail: str


POEMS = {
    "ja": Poem("詩を書いて", "季語がない", "季節を聞いていない", "季節を決める", "春の詩です。", "春の俳句にして"),
    "en": Poem("write a poem", "no season word", "nobody said which season", "choose a season", "Spring.", "a haiku"),
}


def spent(lang: str, understand: Sequence[str] = (), evaluate: Sequence[Function] = ()) -> dict[str, Any]:
    """A script of three attempts that do not satisfy, and what comes after them."""
    poem = POEMS[lang]
    tries = [write("poem.txt", f"{n}\n", profile="creation", reply=f"claim-{n}") for n in range(3)]
    poor = judged(0.4, missing_aspects=[poem.missing])
    return {"understand": [*tries, *understand], "evaluate": in_turn(poor, poor, poor, *evaluate)}


def escalated(server: ModelServer, duck: Duck, lang: str) -> Talk:
    """A chat in which the three attempts are spent."""
    poem = POEMS[lang]
    talk = Talk(duck, lang, "--mode", "auto-edit")
    talk.says(poem.wish)
    head = ui_n(lang, "Not finished after {n} attempt: {request}", "Not finished after {n} attempts: {request}", 3,
                request=poem.wish)  # fmt: skip
    talk.sees(head, poem.missing, f"5 {talk.ui('cancel')}")
    talk.rests()
    assert server.nodes() == ["understand", "evaluate"] * 3, "exactly three attempts"
    assert "claim-" not in talk.text
    return talk


@in_both
def test_after_three_attempts_help_analyses_and_another_approach_succeeds(tmp_path: Path, lang: str) -> None:
    poem = POEMS[lang]
    made = write("poem.txt", "spring\n", profile="creation", strategy="a season", reply=poem.closing)
    analysis = judged(0.4, improvements=[poem.fix], failure_analysis={"cause": poem.cause, "fix": poem.fix})
    with ModelServer(spent(lang, [made], [analysis, judged()])) as server:
        duck = Duck(tmp_path, server.url)
        talk = escalated(server, duck, lang)
        talk.says("4")
        talk.sees(poem.cause, poem.fix)
        talk.sees(f"5 {talk.ui('cancel')}", times=2)
        assert duck.files() == {"poem.txt": b"2\n"}
        talk.says("2")
        talk.sees(poem.closing, talk.ui("done, with evidence"))
        talk.leaves()
    assert duck.files() == {"poem.txt": b"spring\n"}
    assert server.nodes() == [*["understand", "evaluate"] * 3, "evaluate", "understand", "evaluate"]
    assert poem.missing in server.requests[6].text and "another approach" in server.requests[7].text
    events = journal(duck)
    assert len(of(events, "escalation")) == 2 and all(len(e["options"]) == 5 for e in of(events, "escalation"))
    assert of(events, "objective.changed")[-1]["status"] == "satisfied"


@in_both
@pytest.mark.parametrize(("number", "status", "step"), [("3", "partial", "DONE"), ("5", "cancelled", "REVIEW")])
def test_after_three_attempts_the_person_accepts_or_cancels(
    tmp_path: Path, lang: str, number: str, status: str, step: str
) -> None:
    hello = decision(profile="guidance", reply="hello-again", actions=[])
    with ModelServer(spent(lang, [hello])) as server:
        duck = Duck(tmp_path, server.url)
        talk = escalated(server, duck, lang)
        talk.says(number)
        told = {
            "partial": "Accepted as it is, a partial result.",
            "cancelled": "Cancelled. What was changed stays as it is; /diff shows it.",
        }
        talk.sees(talk.ui(told[status]), "poem.txt")
        assert server.nodes() == ["understand", "evaluate"] * 3, "no model is asked for that"
        talk.says("hi")
        talk.sees("hello-again")
        talk.leaves()
    assert duck.files() == {"poem.txt": b"2\n"}
    events = journal(duck)
    assert [e["status"] for e in of(events, "run.ended")] == [status, "answered"]
    assert of(events, "objective.changed")[-1]["status"] == status and steps_of(events, "run1")[-1] == step
    assert "claim-" not in talk.text


@in_both
def test_after_three_attempts_more_detail_begins_anew(tmp_path: Path, lang: str) -> None:
    poem = POEMS[lang]
    made = write("poem.txt", "spring\n", profile="creation", requirements=["a haiku"], reply=poem.closing)
    with ModelServer(spent(lang, [made], [judged()])) as server:
        duck = Duck(tmp_path, server.url)
        talk = escalated(server, duck, lang)
        talk.says("1")
        talk.sees(talk.ui("What exactly do you need? What is there already, and what is missing?"))
        talk.says(poem.detail)
        talk.sees(poem.closing)
        talk.leaves()
    assert duck.files() == {"poem.txt": b"spring\n"} and poem.detail in server.requests[6].text
    last = of(journal(duck), "objective.changed")[-1]
    assert (last["status"], last["attempt"]) == ("satisfied", 1)
    assert [r["text"] for r in last["requirements"]] == ["a haiku"]
