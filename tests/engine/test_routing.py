"""Where a Decision leads, as a table; and each rule of the dialog policy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckflow.config import Overrides
from duckflow.engine.route import MOST_NUDGES, Route, Situation, effective_profile, route
from duckflow.human import Request
from duckflow.prompts.library import Library
from duckflow.prompts.replies import Action, Decision, Question
from tests.engine.workbench import Bench, act, by_node, check_transitions, decision, verdict, yes

READ = Action(operation="file_ops.read_file", args={"path": "a.py"}, reasoning="look")
WRITE = Action(operation="file_ops.write_file", args={"path": "a.py", "content": "x"}, reasoning="do")
CLAIM = "I have created a.py."


def said(**fields: Any) -> Decision:
    base: dict[str, Any] = {"rationale": "r", "goal_consistency": "yes: it is", "constraint_check": "yes: none"}
    return Decision(**{**base, **fields})


# --- the table: what was said × the kind of request × what is known -------------------------------------------------

ACTING: dict[str, Any] = {"acts": True, "gathering": True}
TABLE: list[tuple[str, dict[str, Any], dict[str, Any], Route]] = [
    # guidance: the reply is all there is
    ("guidance", {"reply": "Use a dict."}, {}, Route.ANSWER),
    ("guidance", {"reply": "Use a dict.", "next_step": "done"}, {"targets": True, "requirements": 3}, Route.ANSWER),
    ("guidance", {"reply": "Use a dict.", "information_needs": ["a.py"]}, {"gathering": True}, Route.ANSWER),
    ("guidance", {"reply": ""}, {}, Route.NUDGE),
    ("guidance", {"reply": "I will fix it."}, {}, Route.NUDGE),
    ("guidance", {"reply": CLAIM}, {}, Route.NUDGE),
    ("guidance", {"reply": CLAIM}, {"nudges": MOST_NUDGES}, Route.JUDGE),
    ("guidance", {"reply": CLAIM}, {"nudges": 1, "changed": True}, Route.ANSWER),  # of earlier work
    ("guidance", {"reply": CLAIM}, {"nudges": 1, "changed": True, "strange": True}, Route.NUDGE),
    ("guidance", {"reply": CLAIM, "next_step": "pending_user"}, {}, Route.NUDGE),
    # confident, and something to do: it is done
    ("creation", {"actions": [WRITE], "confidence": 0.9}, ACTING, Route.ACT),
    ("modification", {"actions": [WRITE], "confidence": 0.5}, ACTING, Route.ACT),
    ("modification", {"actions": [READ]}, {"gathering": True, "unsure": True}, Route.ACT),  # reading harms nobody
    ("analysis", {"actions": [READ]}, {"gathering": True}, Route.ACT),
    ("modification", {"information_needs": ["a.py"]}, {"gathering": True}, Route.ACT),
    ("modification", {"information_needs": ["a.py"]}, {}, Route.NUDGE),  # only while it is being understood
    # hardly understood, or of unknown kind: one question before the first effect, and only one
    ("creation", {"actions": [WRITE], "confidence": 0.2}, {**ACTING, "unsure": True}, Route.CLARIFY),
    ("unknown", {"actions": [WRITE]}, {**ACTING, "unsure": True}, Route.CLARIFY),
    ("unknown", {"actions": [WRITE]}, {**ACTING, "unsure": True, "questions": 1}, Route.ACT),
    ("creation", {"actions": [WRITE]}, {"acts": True, "unsure": True}, Route.ACT),  # the work is under way
    # work without an action: asked for twice, then where it is to be done, or what is there is judged
    ("creation", {"reply": "Fine."}, {}, Route.NUDGE),
    ("creation", {"reply": "Fine."}, {"nudges": 1}, Route.NUDGE),
    ("creation", {"reply": "Fine."}, {"nudges": 2, "attended": True}, Route.TARGET),
    ("creation", {"reply": "Fine."}, {"nudges": 2, "attended": True, "targets": True}, Route.JUDGE),
    ("creation", {"reply": "Fine."}, {"nudges": 2, "attended": True, "questions": 1}, Route.JUDGE),
    ("creation", {"reply": "Fine."}, {"nudges": 2}, Route.JUDGE),
    ("unknown", {"reply": "Fine."}, {}, Route.NUDGE),
    ("unknown", {"reply": "Fine."}, {"nudges": 2, "attended": True}, Route.TARGET),
    ("modification", {"reply": "Fine."}, {"evidence": True}, Route.JUDGE),
    ("modification", {"reply": ""}, {"evidence": True}, Route.JUDGE),
    ("modification", {"reply": "Fine."}, {"refused": True}, Route.JUDGE),  # more words would not help
    ("modification", {"next_step": "continue"}, {}, Route.NUDGE),
    # analysis: an answer about the project needs something that was read
    ("analysis", {"reply": "It greets."}, {}, Route.NUDGE),
    ("analysis", {"reply": "It greets."}, {"evidence": True, "sure": True, "requirements": 1}, Route.ANSWER),
    ("analysis", {"reply": "It greets."}, {"evidence": True, "sure": True, "requirements": 2}, Route.JUDGE),
    ("analysis", {"reply": "It greets."}, {"evidence": True, "sure": False}, Route.JUDGE),
    ("analysis", {"reply": "It greets."}, {"evidence": True, "sure": True, "acted": True}, Route.JUDGE),
    ("analysis", {"reply": "It greets."}, {"evidence": True, "sure": True, "refused": True}, Route.JUDGE),
    ("analysis", {"reply": CLAIM}, {"evidence": True, "sure": True}, Route.NUDGE),
    ("analysis", {"reply": ""}, {"evidence": True}, Route.NUDGE),
    # what the model says about itself, and what it leaves to the person
    ("creation", {"actions": [WRITE], "goal_consistency": "no: unrelated"}, ACTING, Route.OBJECT),
    ("creation", {"actions": [WRITE], "constraint_check": "いいえ、違反"}, ACTING, Route.OBJECT),
    ("creation", {"actions": [WRITE], "constraint_check": "hm"}, ACTING, Route.ACT),  # unclear is no no
    ("guidance", {"reply": "Use a dict.", "goal_consistency": "no: unrelated"}, {}, Route.ANSWER),
    ("creation", {"question": Question(text="Which?")}, {}, Route.ASK),
    ("creation", {"next_step": "pending_user", "reply": "Shall I?"}, {}, Route.WAIT),
    ("creation", {"next_step": "pending_user", "reply": CLAIM}, {}, Route.NUDGE),
    ("creation", {"next_step": "pending_user", "reply": CLAIM}, {"acted": True}, Route.WAIT),
    ("creation", {"next_step": "defer", "reply": "Later."}, {}, Route.PARK),
    ("creation", {"next_step": "defer", "reply": CLAIM}, {}, Route.NUDGE),
]


@pytest.mark.parametrize(("profile", "fields", "now", "where"), TABLE)
def test_the_routing_table(profile: str, fields: dict[str, Any], now: dict[str, Any], where: Route) -> None:
    assert route(said(**fields), Situation(profile=profile, **now)) is where


SITUATIONS = st.builds(
    Situation,
    profile=st.sampled_from(["creation", "modification"]),
    requirements=st.integers(0, 3),
    nudges=st.integers(0, 4),
    questions=st.integers(0, 2),
    **{
        name: st.booleans()
        for name in ("evidence", "acted", "changed", "gathering", "unsure", "sure", "attended", "targets", "refused")
    },
)


@given(SITUATIONS, st.sampled_from([None, "done", "continue"]), st.sampled_from(["", "OK.", CLAIM]))
def test_creation_and_modification_never_end_with_words(now: Situation, step: str | None, reply: str) -> None:
    where = route(said(next_step=step, reply=reply), now)
    assert where in (Route.NUDGE, Route.JUDGE, Route.TARGET)
    if now.nudges >= MOST_NUDGES:
        assert where is not Route.NUDGE  # and the words come to an end


@given(SITUATIONS, st.floats(0, 1))
def test_creation_and_modification_with_actions_reach_execution_or_one_question(now: Situation, sure: float) -> None:
    where = route(said(actions=[WRITE], confidence=sure), now)
    assert where in (Route.ACT, Route.CLARIFY)
    assert where is Route.ACT or not now.questions


@pytest.mark.parametrize(
    ("said_now", "known", "proposed", "profile"),
    [
        ("guidance", "unknown", "", "guidance"),
        ("guidance", "unknown", "files", "modification"),
        ("guidance", "creation", "files", "creation"),
        ("analysis", "creation", "files", "creation"),
        ("unknown", "unknown", "files", "modification"),
        ("guidance", "unknown", "command", "modification"),
        ("analysis", "unknown", "command", "analysis"),
        (None, "creation", "", "creation"),
    ],
)
def test_no_word_makes_work_into_an_answer(said_now: str | None, known: str, proposed: str, profile: str) -> None:
    assert effective_profile(said_now, known, proposed) == profile


# --- thresholds ------------------------------------------------------------------------------------------------------

CREATE: dict[str, Any] = {"profile": "creation", "next_step": "done", "requirements": ["a.py exists"]}
WRITES = act("file_ops.write_file", path="a.py", content="x = 1\n")


@pytest.mark.parametrize(
    ("below", "confidence", "status"),
    [
        (0.5, 0.49, "asked"),
        (0.5, 0.5, "satisfied"),
        (0.9, 0.8, "asked"),
        (0.1, 0.2, "satisfied"),
        (0.0, 0.0, "satisfied"),
    ],
)
async def test_clarify_below_decides_when_an_effect_is_asked_about(
    tmp_path: Path, below: float, confidence: float, status: str
) -> None:
    shaky = decision(WRITES, confidence=confidence, **CREATE)
    bench = Bench(tmp_path, [shaky, verdict()], yes, settings=f"[routing]\nclarify_below = {below}\n")
    assert (await bench.chat.turn("make it nice")).status == status
    assert (bench.root / "a.py").exists() is (status == "satisfied")


@pytest.mark.parametrize(("below", "judged"), [(0.8, True), (0.6, False), (0.61, True)])
async def test_judge_below_decides_when_a_simple_answer_is_judged(tmp_path: Path, below: float, judged: bool) -> None:
    look = decision(act("file_ops.read_file", path="a.py"), profile="analysis", confidence=0.6, requirements=["told"])
    answer = decision(profile="analysis", next_step="done", reply="It sets x.", actions=[])
    bench = Bench(tmp_path, [look, answer, verdict()], settings=f"[routing]\njudge_below = {below}\n")
    bench.write("a.py", "x = 1\n")
    ending = await bench.chat.turn("what does it do?")
    assert ending.reply == "It sets x." and ("evaluate" in bench.nodes) is judged
    assert ending.status == ("satisfied" if judged else "answered")


# --- Clarify: only when confidence is low, one question, after the smallest plan -------------------------------------


async def test_clarify_asks_one_question_that_names_the_start_and_runs_nothing(tmp_path: Path) -> None:
    shaky = decision(WRITES, confidence=0.2, rationale="begin with an empty module", **CREATE)
    bench = Bench(tmp_path, [shaky, shaky, verdict()], yes)
    ending = await bench.chat.turn("make it nice")
    asked = bench.events("question")
    assert ending.status == "asked" and len(asked) == 1 and not list(bench.root.iterdir())
    assert "begin with an empty module" in asked[0].text and "file_ops.write_file" in asked[0].text
    assert (asked[0].options, asked[0].default) == (("go on", "stop"), "go on")
    assert (await bench.chat.turn("OK")).status == "satisfied" and len(bench.events("question")) == 1
    assert "The person is asked: I am not sure" in "".join(m.text for m in bench.asked[1].messages)
    check_transitions(bench)


async def test_clarify_does_not_ask_when_the_request_is_understood(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [decision(WRITES, confidence=0.95, **CREATE), verdict()], yes)
    assert (await bench.chat.turn("create a.py")).status == "satisfied" and not bench.events("question")


async def test_stop_as_the_answer_ends_the_work_without_an_effect(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [decision(WRITES, confidence=0.2, **CREATE)], yes)
    await bench.chat.turn("make it nice")
    assert (await bench.chat.turn("2")).status == "cancelled" and not list(bench.root.iterdir())


async def test_missing_targets_bring_the_smallest_plan_and_one_question(tmp_path: Path) -> None:
    words = decision(
        profile="modification", next_step="done", reply="Gladly.", state_delta={"goal": "g", "plan_brief": ["rename x"]}
    )
    edit = decision(act("file_ops.edit_file", path="a.py", search="x", replace="y"), **CREATE)
    bench = Bench(tmp_path, [words, words, words, edit, verdict(1.0, {"R1": ["E1", "E2"]})], yes)
    bench.write("a.py", "x = 1\n")
    ending = await bench.chat.turn("rename the variable")
    assert ending.status == "asked" and bench.nodes == ["understand"] * 3
    assert bench.events("question")[0].text == "I would begin like this: rename x. Which file or part do you mean?"
    assert (await bench.chat.turn("a.py")).status == "satisfied" and bench.read("a.py") == b"y = 1\n"
    assert "Which file or part do you mean?" in "".join(m.text for m in bench.asked[3].messages)


async def test_a_named_target_is_not_asked_for(tmp_path: Path) -> None:
    words = decision(profile="modification", next_step="done", reply="Gladly.")
    bench = Bench(tmp_path, by_node(understand=words, evaluate=verdict(0.0, {})), yes)
    ending = await bench.chat.turn("rename the variable in b.py")
    assert ending.status == "escalated" and not bench.events("question")


@pytest.mark.parametrize("mode", ["auto", "auto-edit"])
async def test_an_unknown_request_is_approved_before_its_first_effect_where_no_card_would_ask(
    tmp_path: Path, mode: Any
) -> None:
    unknown = decision(WRITES, profile="unknown", confidence=0.9, next_step="done")
    bench = Bench(tmp_path, [unknown, unknown, verdict()], yes, overrides=Overrides(mode=mode))
    ending = await bench.chat.turn("hm, a.py")
    assert ending.status == "asked" and not list(bench.root.iterdir())
    assert (await bench.chat.turn("はい")).status == "satisfied"


async def test_an_unknown_request_is_approved_by_its_card_in_ask_mode(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [decision(WRITES, profile="unknown", next_step="done"), verdict()], yes)
    assert (await bench.chat.turn("hm")).status == "satisfied"
    assert bench.person is not None and [r.kind for r in bench.person.seen] == ["gate"]


async def test_an_objection_the_person_has_overruled_is_not_raised_again(tmp_path: Path) -> None:
    against = decision(WRITES, constraint_check="no: it touches a.py, but you allowed it", **CREATE)
    bench = Bench(tmp_path, [against, against, verdict()], yes)
    assert (await bench.chat.turn("create a.py")).status == "asked" and not list(bench.root.iterdir())
    assert (await bench.chat.turn("go on")).status == "satisfied" and len(bench.events("question")) == 1


# --- Propose: options only when there are two different ones ---------------------------------------------------------


@pytest.mark.parametrize(
    ("given_options", "shown"),
    [([], ()), (["a"], ()), (["a", "a"], ()), (["a", "b"], ("a", "b")), (["a", "b", "a"], ("a", "b"))],
)
async def test_options_are_offered_only_when_there_is_a_choice(
    tmp_path: Path, given_options: list[str], shown: tuple[str, ...]
) -> None:
    ask = decision(profile="creation", question={"text": "Which name?", "options": given_options})
    bench = Bench(tmp_path, [ask], yes)
    await bench.chat.turn("create a file")
    assert bench.events("question")[0].options == shown


# --- Gate: before write, delete, run ---------------------------------------------------------------------------------

EFFECTS = [
    act("file_ops.write_file", path="new.txt", content="x"),
    act("file_ops.edit_file", path="a.txt", search="old", replace="new"),
    act("file_ops.delete_file", path="a.txt"),
    act("file_ops.move_file", **{"from": "a.txt", "to": "b.txt"}),
    act("shell.run", command="rm a.txt"),
]


@pytest.mark.parametrize("action", EFFECTS, ids=lambda a: a["operation"])
async def test_every_effect_passes_the_gate_in_ask_mode(tmp_path: Path, action: dict[str, Any]) -> None:
    waits = decision(profile="modification", next_step="pending_user", reply="As you wish.")

    def no(_request: Request) -> str:
        return "no"

    bench = Bench(tmp_path, [decision(action, profile="modification", confidence=0.9), waits], no)
    bench.write("a.txt", "old\n")
    await bench.chat.turn("go")
    assert bench.person is not None and [r.kind for r in bench.person.seen] == ["gate"]
    assert [p.name for p in bench.root.iterdir()] == ["a.txt"] and bench.read("a.txt") == b"old\n"
    check_transitions(bench)


async def test_reading_passes_no_gate(tmp_path: Path) -> None:
    look = decision(act("file_ops.read_file", path="a.txt"), profile="analysis", confidence=0.9)
    answer = decision(profile="analysis", next_step="done", reply="It is old.", actions=[])
    bench = Bench(tmp_path, [look, answer], yes)
    bench.write("a.txt", "old\n")
    assert (await bench.chat.turn("what is in it?")).status == "answered"
    assert bench.person is not None and not bench.person.seen


# --- what only the prompt can ask for --------------------------------------------------------------------------------

POLICY = {
    "Clarify, only then": ("only if confidence is below 0.5, or much is at stake", "0.5 未満か、影響が大きく"),
    "Clarify, one question": ("Ask one question, with options and a default", "選択肢と既定を付けて一つ"),
    "Clarify, the smallest start": ("the smallest start you could make now", "今すぐ始められる最小の一歩"),
    "Clarify, from coarse": ("Coarse questions first, finer ones later", "大まかな質問を先に、細かい質問は後に"),
    "Clarify, never twice": ("never the same twice", "同じ質問は二度しない"),
    "Propose": ("Offer A or B only when both are realistic", "A か B かの提案は両方が現実的なときだけ"),
    "Summarize → Next": ("Only after a long reply close with one line", "長い reply の後だけ「要約 → 次」"),
    "Nudge": ("Encourage only when the person says they are stuck", "励ましは利用者が行き詰まったと言ったときだけ"),
    "safe default": ("unknown: propose one small safe step", "unknown: 小さく安全な一歩を提案する"),
}


@pytest.mark.parametrize("rule", POLICY)
def test_the_dialog_policy_stands_in_the_prompt_of_both_languages(rule: str) -> None:
    english, japanese = POLICY[rule]
    assert english in Library("en").render("understand", clarify_below="0.5")
    assert japanese in Library("ja").render("understand", clarify_below="0.5")
