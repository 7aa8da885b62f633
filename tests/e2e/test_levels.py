"""The three levels of document 004: basic work, complex work, and what one node knows reaching the next."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from duckflow.llm.tokens import count
from tests.e2e.duck import Duck, Ran
from tests.e2e.flows import Talk, check_actions, check_steps, in_both, in_turn, journal, judged, of, steps_of
from tests.e2e.server import ModelServer, Recorded
from tests.engine.workbench import act, decision

SURE: dict[str, Any] = {"confidence": 0.9}


def put(duck: Duck, **files: str) -> None:
    for name, text in files.items():
        (duck.project / name.replace("_", ".")).write_text(text, encoding="utf-8")


def read(path: str) -> dict[str, Any]:
    return act("file_ops.read_file", path=path)


def edit(path: str, search: str, replace: str) -> dict[str, Any]:
    return act("file_ops.edit_file", path=path, search=search, replace=replace)


# --- level 1: basic work ------------------------------------------------------------------------------------------


@in_both
@pytest.mark.parametrize(("wanted", "nodes"), [(1, 2), (2, 3)])
def test_a_file_is_read_and_the_answer_given_in_one_loop(tmp_path: Path, lang: str, wanted: int, nodes: int) -> None:
    """Understand, gather (no call), execute; several requirements are also evaluated."""
    wish = {"ja": "ポートは何番？", "en": "which port is it?"}[lang]
    answer = {"ja": "8089 番です。", "en": "It is 8089."}[lang]
    look = decision(read("app.toml"), profile="analysis", requirements=["R"] + ["S"] * (wanted - 1), **SURE)
    told = decision(profile="analysis", next_step="done", reply=answer, actions=[], **SURE)
    with ModelServer({"understand": look, "execute": told, "evaluate": judged()}) as server:
        duck = Duck(tmp_path, server.url)
        put(duck, app_toml="port = 8089\n")
        ran = duck.run("--lang", lang, wish)
    assert (ran.code, ran.result["reply"]) == (0, answer)
    assert server.nodes() == ["understand", "execute", "evaluate"][:nodes]
    assert "port = 8089" in server.requests[1].text and duck.files() == {"app.toml": b"port = 8089\n"}
    assert {e["attempt"] for e in ran.of("objective.changed")} == {1} and not ran.of("gate.asked")
    check_steps(ran.events)
    check_actions(ran.events)


@in_both
def test_a_file_is_changed_after_the_approval(tmp_path: Path, lang: str) -> None:
    """All four nodes: understand, gather what it names, execute behind a card, evaluate."""
    wish = {"ja": "ポートを 9000 にして", "en": "make the port 9000"}[lang]
    closing = {"ja": "9000 番です。", "en": "It is 9000."}[lang]
    needs = decision(profile="modification", information_needs=["app.toml"], requirements=["port is 9000"], **SURE)
    change = decision(edit("app.toml", "8089", "9000"), next_step="done", reply=closing)
    with ModelServer({"understand": needs, "execute": change, "evaluate": judged()}) as server:
        duck = Duck(tmp_path, server.url)
        put(duck, app_toml="port = 8089\n")
        talk = Talk(duck, lang)
        talk.says(wish)
        talk.card()
        talk.sees("-port = 8089", "+port = 9000")
        assert duck.files() == {"app.toml": b"port = 8089\n"}
        talk.types({"ja": "はい", "en": "yes"}[lang])
        talk.sees(closing, talk.ui("done, with evidence"))
        talk.leaves()
    assert duck.files() == {"app.toml": b"port = 9000\n"}
    assert server.nodes() == ["understand", "execute", "evaluate"], "what names a file is read without a call"
    events = journal(duck)
    assert steps_of(events, "run1") == ["PLANNING", "EXECUTION", "AWAITING_APPROVAL", "EXECUTION", "REVIEW", "DONE"]
    assert [e["by"] for e in of(events, "gate.answered")] == ["user"]


# --- level 2: complex work ----------------------------------------------------------------------------------------

CHECK = "! grep -l oldname *.py"


@in_both
def test_a_refactoring_over_several_files_is_not_done_before_the_check_passes(tmp_path: Path, lang: str) -> None:
    """The evaluator is content at once; the check of the settings is not."""
    wish = {"ja": "oldname を newname に", "en": "rename oldname to newname"}[lang]
    early, late = {"ja": ("全部直しました。", "本当に全部です。"), "en": ("All of them.", "Really all of them.")}[lang]
    look = decision(act("search.text", query="oldname"), profile="modification", requirements=["renamed"], **SURE)
    two = decision(edit("a.py", "oldname", "newname"), edit("b.py", "oldname", "newname"), next_step="continue")
    done = decision(next_step="done", reply=early, actions=[])
    rest = decision(edit("c.py", "oldname", "newname"), next_step="done", strategy="what grep found", reply=late)
    given: dict[str, Any] = {"understand": [look, rest], "execute": [two, done], "evaluate": judged()}
    with ModelServer(given) as server:
        duck = Duck(tmp_path, server.url, extra=f"[checks]\ncommands = [{json.dumps(CHECK)}]")
        put(duck, a_py="oldname = 1\n", b_py="oldname = 2\n", c_py="oldname = 3\n")
        ran = duck.run("--mode", "auto-edit", "--lang", lang, wish)
    assert (ran.code, ran.result["reply"]) == (0, late)
    assert duck.files() == {"a.py": b"newname = 1\n", "b.py": b"newname = 2\n", "c.py": b"newname = 3\n"}
    first, second = ran.of("verdict")
    assert (first["next"], second["next"]) == ("retry", "complete") and first["failed_checks"]
    assert [c["text"] for c in first["checks"] if c["passed"] is False] == [CHECK]
    assert server.nodes() == ["understand", "execute", "execute", "evaluate", "understand", "evaluate"]
    assert f"{CHECK}: FAILED (exit 1)" in server.requests[3].text and CHECK in server.requests[4].text
    assert early not in ran.result["reply"] and not [e for e in ran.of("message") if e["text"] == early]
    check_steps(ran.events)


@in_both
def test_an_error_is_seen_understood_and_repaired_in_the_same_attempt(tmp_path: Path, lang: str) -> None:
    """An edit that finds nothing, then a test that fails, then both right."""
    wish = {"ja": "add を直して", "en": "mend add"}[lang]
    closing = {"ja": "足し算になりました。", "en": "It adds."}[lang]
    proof = "python3 -c 'import calc, sys; sys.exit(calc.add(1, 2) != 3 and 1)' || (echo WRONG-SUM; exit 1)"
    test = act("shell.run", command=proof)
    wrong = decision(edit("calc.py", "return a-b", "return a + b"), profile="modification", requirements=["R"], **SURE)
    half = decision(edit("calc.py", "a - b", "a * b"), test, next_step="continue")
    right = decision(edit("calc.py", "a * b", "a + b"), test, next_step="done", reply=closing)
    with ModelServer({"understand": wrong, "execute": [half, right], "evaluate": judged()}) as server:
        duck = Duck(tmp_path, server.url)
        put(duck, calc_py="def add(a, b):\n    return a - b\n")
        ran = duck.run("--mode", "auto-edit", "--allow", "shell.run", "--lang", lang, wish)
    assert b"return a + b" in duck.files()["calc.py"]
    assert server.nodes() == ["understand", "execute", "execute", "evaluate"]
    assert "2│    return a - b" in server.requests[1].text, "the nearest lines come with the error"
    assert "exit 1" in server.requests[2].text and "WRONG-SUM" in server.requests[2].text
    finished = [(e["operation"], e["ok"], e["exit_code"]) for e in ran.of("action.finished")]
    assert finished[:3] == [
        ("file_ops.edit_file", False, None),
        ("file_ops.edit_file", True, None),
        ("shell.run", True, 1),
    ]
    assert (ran.code, ran.result["status"], ran.result["reply"]) == (0, "satisfied", closing)
    assert {e["attempt"] for e in ran.of("objective.changed")} == {1}
    check_steps(ran.events)


# --- level 3: what one node knows reaches the next ------------------------------------------------------------------


@in_both
def test_what_each_node_found_is_in_the_prompt_of_the_next(tmp_path: Path, lang: str) -> None:
    words = {
        "ja": (
            "価格を税込みにして",
            "税込みの価格を出す",
            "税率は変えない",
            "丸め方が違う",
            "切り捨てる",
            "切り捨てです。",
        ),
        "en": (
            "show prices with tax",
            "prices include tax",
            "keep the rate",
            "rounding is wrong",
            "round down",
            "Down.",
        ),
    }[lang]
    wish, goal, constraint, missing, lesson, closing = words
    delta = {"goal": goal, "constraints": [constraint]}
    needs = ["rate.toml", {"ja": "だれが使うか", "en": "who uses it"}[lang]]
    understand = decision(
        profile="modification", information_needs=needs, requirements=[f"R: {goal}"], state_delta=delta, **SURE
    )
    gather = decision(read("shop.py"), state_delta=None)
    first = decision(edit("shop.py", "cost", "round(cost * 1.1)"), next_step="done", strategy="round", state_delta=None)
    again = decision(edit("shop.py", "round(", "int("), next_step="done", reply=closing, state_delta=None)
    verdicts = in_turn(judged(0.5, missing_aspects=[missing], lessons=[lesson]), judged())
    given: dict[str, Any] = {
        "understand": [understand, again],
        "gather": gather,
        "execute": first,
        "evaluate": verdicts,
    }
    with ModelServer(given) as server:
        duck = Duck(tmp_path, server.url)
        put(duck, rate_toml="tax = 0.1  # RATE-FACT\n", shop_py="price = cost  # SHOP-FACT\n")
        ran = duck.run("--mode", "auto-edit", "--lang", lang, wish)
    assert ran.code == 0 and server.nodes() == ["understand", "gather", "execute", "evaluate", "understand", "evaluate"]
    _first, gathered, executed, judged_first, retried, judged_last = (request.text for request in server.requests)
    assert "RATE-FACT" in gathered and needs[1] in gathered and goal in gathered and constraint in gathered
    for fact in (wish, "RATE-FACT", "SHOP-FACT", f"R1 R: {goal}", goal, constraint):
        assert fact in executed, f"execute does not know {fact}"
    for fact in (wish, f"R1 R: {goal}", "+price = round(cost * 1.1)", "C1 shop.py exists"):
        assert fact in judged_first, f"evaluate does not know {fact}"
    for fact in (wish, missing, lesson, "attempt 1 (round) reached 0.50", goal, constraint, "SHOP-FACT"):
        assert fact in retried, f"the second attempt does not know {fact}"
    assert "+price = int(cost * 1.1)" in judged_last and "-price = cost" in judged_last
    check_steps(ran.events)
    check_actions(ran.events)


COMPACT = "[prompts]\nprofile = 'compact'\n"
ROOM = 6000  # tokens for history and evidence
TAIL = 800 + 1200  # Main and one procedure


def sizes(requests: list[Recorded]) -> list[tuple[str, int]]:
    """Tokens beside the frozen first message, exactly counted."""
    return [(r.node, sum(count(text) for text in _beside(r.body))) for r in requests]


def _beside(body: dict[str, Any]) -> list[str]:
    texts = []
    for message in body["messages"][1:]:
        content = message["content"]
        texts += [content] if isinstance(content, str) else [part["text"] for part in content]
    return texts


LINE = {
    "ja": "エラー: 接続が切れました。再接続を試みます。",
    "en": "error: the connection was lost, trying again",
}
GOAL = {"ja": ("ログの原因を探す", "ログは消さない"), "en": ("find the cause in the log", "keep the log")}
LONG = {"ja": "一行ずつ丁寧に見て。" * 250, "en": "Look at it line by line, with care. " * 70}


def search_logs(tmp_path: Path, lang: str, wish: str) -> tuple[Ran, list[Recorded]]:
    """Four Decisions that read three long files each, then an answer, with the profile for small models."""
    goal, constraint = GOAL[lang]
    fixed: dict[str, Any] = {"state_delta": {"goal": goal, "constraints": [constraint]}, "profile": "analysis", **SURE}
    looks = [
        decision(*(read(f"{3 * k + n}.log") for n in range(3)), requirements=["the cause"], **fixed) for k in range(4)
    ]
    told = decision(profile="analysis", next_step="done", reply="42", actions=[], **SURE)
    given: dict[str, Any] = {"understand": looks[0], "execute": [*looks[1:], told]}
    with ModelServer(given) as server:
        duck = Duck(tmp_path, server.url, extra=COMPACT)
        for n in range(12):
            (duck.project / f"{n}.log").write_text(f"FIRST-{n}\n" + f"{LINE[lang]}\n" * 1500, encoding="utf-8")
        ran = duck.run("--lang", lang, wish)
    assert (ran.code, ran.result["reply"]) == (0, "42")
    assert server.nodes() == ["understand", *["execute"] * 4]
    check_steps(ran.events)
    return ran, server.requests


@in_both
def test_a_small_model_gets_prompts_that_fit_and_never_loses_goal_constraints_or_message(
    tmp_path: Path, lang: str
) -> None:
    ran, requests = search_logs(tmp_path, lang, LONG[lang] + "KEEP-THE-END")
    assert all(tokens <= ROOM + TAIL for _node, tokens in sizes(requests)), sizes(requests)
    assert of(ran.events, "history.compacted"), "there was no need to cut: the test is too small"
    goal, constraint = GOAL[lang]
    assert all(f"Goal: {goal}" in r.text and constraint in r.text for r in requests[1:])
    assert all("KEEP-THE-END" in r.text for r in requests), "the message was cut"


@in_both
def test_a_small_model_sees_what_it_just_read_shortened_and_not_only_that_it_was_read(
    tmp_path: Path, lang: str
) -> None:
    _ran, requests = search_logs(tmp_path, lang, GOAL[lang][0])
    assert "# Procedure: execute" in requests[1].text, "the node begins without its procedure"
    for k, request in enumerate(requests[1:]):
        for n in range(3 * k, 3 * k + 3):
            assert f"FIRST-{n}\n" in request.text, f"{n}.log was read and never shown"


@in_both
def test_the_evaluator_of_a_small_model_sees_all_evidence_shortened_and_the_whole_request(
    tmp_path: Path, lang: str
) -> None:
    line = {"ja": "とても長い行です。", "en": "a rather long line"}[lang]
    wish = {"ja": "三つ書いて KEEP-THIS", "en": "write three KEEP-THIS"}[lang]
    writes = [act("file_ops.write_file", path=f"{n}.txt", content={"block": f"B{n}"}) for n in range(3)]
    blocks = "\n".join(f"<<<B{n}\nHEAD-{n}\n" + f"{line}\n" * 1500 + f"B{n}>>>" for n in range(3))
    made = decision(
        *writes, blocks=blocks, profile="creation", next_step="done", requirements=["three"], reply="3", **SURE
    )
    with ModelServer({"understand": made, "evaluate": judged()}) as server:
        duck = Duck(tmp_path, server.url, extra=COMPACT)
        ran = duck.run("--mode", "auto-edit", "--lang", lang, wish)
    assert ran.code == 0 and len(duck.files()) == 3
    (_node, tokens) = sizes(server.requests)[1]
    assert tokens <= ROOM + TAIL, tokens
    seen = server.requests[1].text
    assert "KEEP-THIS" in seen and "R1 three" in seen
    assert all(f"HEAD-{n}" in seen and f"{n}.txt exists" in seen for n in range(3))
    assert "shortened" in seen and of(ran.events, "model.called")[1]["cuts"]
