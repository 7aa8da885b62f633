"""The flow from a message to its end, with real parts and a scripted model."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from duckflow.config import Overrides
from duckflow.human import Request
from duckflow.llm.base import Finish, ModelRequest
from duckflow.llm.scripted import Reply
from duckflow.record import replace
from duckflow.state.machine import Step
from duckflow.tools.base import Registry, ToolResult
from tests.engine.workbench import Bench, act, decision, verdict, yes

CREATE: dict[str, Any] = {
    "profile": "creation",
    "confidence": 0.9,
    "next_step": "done",
    "requirements": ["hello.py exists"],
}
WRITE = act("file_ops.write_file", path="hello.py", content={"block": "B"})
BODY = "<<<B\nprint('やあ')\n\n\nB>>>"


async def test_a_guidance_question_costs_one_call_and_has_no_objective(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [decision(profile="guidance", reply="Use a dataclass.", state_delta=None, actions=[])])
    ending = await bench.chat.turn("dataclass or attrs?")
    assert (ending.status, ending.exit_code, ending.reply) == ("answered", 0, "Use a dataclass.")
    assert bench.nodes == ["understand"] and not bench.session.state.objectives
    assert bench.said() == [("reply", "Use a dataclass.")]


async def test_creating_a_file_costs_two_calls_and_its_bytes_are_exact(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [decision(WRITE, blocks=BODY, reply="There.", **CREATE), verdict()], yes)
    ending = await bench.chat.turn("create hello.py")
    assert ending.status == "satisfied" and bench.nodes == ["understand", "evaluate"]
    assert bench.read("hello.py") == "print('やあ')\n\n\n".encode()
    assert bench.said() == [("reply", "There.")]
    steps = [(e.from_, e.step, e.trigger) for e in bench.events("state.changed")]
    assert steps == [
        (None, "PLANNING", "message"),
        ("PLANNING", "EXECUTION", "decision"),
        ("EXECUTION", "AWAITING_APPROVAL", "gate_asked"),
        ("AWAITING_APPROVAL", "EXECUTION", "gate_answered"),
        ("EXECUTION", "REVIEW", "batch_finished"),
        ("REVIEW", "DONE", "verdict"),
    ]


async def test_reading_and_answering_costs_two_calls(tmp_path: Path) -> None:
    bench = Bench(
        tmp_path,
        [
            decision(
                act("file_ops.read_file", path="story.md"), profile="analysis", confidence=0.9, requirements=["told"]
            ),
            decision(profile="analysis", next_step="done", reply="A duck saves the pond.", actions=[]),
        ],
    )
    bench.write("story.md", "Once a duck saved the pond.\n")
    ending = await bench.chat.turn("tell me the scenario")
    assert (ending.status, ending.reply) == ("answered", "A duck saves the pond.")
    assert bench.nodes == ["understand", "execute"]
    assert "1│Once a duck saved the pond." in bench.asked[1].messages[-1].text


async def test_the_closing_word_is_held_back_until_the_verdict(tmp_path: Path) -> None:
    never = verdict(0.2, {"R1": ["E1"]}, missing_aspects=["it does not greet"])
    write = decision(WRITE, blocks=BODY, reply="Everything is perfect.", **CREATE)
    again = decision(
        act("file_ops.edit_file", path="hello.py", search="やあ", replace="x"), reply="Now it is.", **CREATE
    )
    third = decision(act("file_ops.edit_file", path="hello.py", search="x", replace="y"), reply="Surely.", **CREATE)
    bench = Bench(tmp_path, [write, never, again, never, third, never], yes)
    ending = await bench.chat.turn("create hello.py")
    assert (ending.status, ending.exit_code) == ("escalated", 3)
    assert bench.nodes == ["understand", "evaluate"] * 3
    told = "".join(text for _, text in bench.said())
    assert "perfect" not in told and "Surely" not in told and "it does not greet" in told
    assert [v.next for v in bench.events("verdict")] == ["retry", "retry", "escalate"]
    assert "it does not greet" in bench.asked[2].messages[-1].text


async def test_no_evidence_no_done_whatever_the_evaluator_says(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [decision(WRITE, blocks=BODY, **CREATE), *[verdict(1.0, {"R1": ["E42"]})] * 9], yes)
    ending = await bench.chat.turn("create hello.py")
    assert ending.exit_code != 0 and bench.events("verdict")[0].overall == 0.5


async def test_a_failing_configured_check_overrules_the_verdict(tmp_path: Path) -> None:
    bench = Bench(
        tmp_path,
        [decision(WRITE, blocks=BODY, **CREATE), verdict(), decision(WRITE, blocks=BODY, **CREATE), verdict()] * 2,
        yes,
        settings='[checks]\ncommands = ["test -f other.py"]\n[objective]\nmax_attempts = 2\n',
    )
    ending = await bench.chat.turn("create hello.py")
    assert ending.status == "escalated"
    first = bench.events("verdict")[0]
    assert first.overall == 1.0 and first.failed_checks and first.next == "retry"


async def test_a_configured_check_runs_unasked_and_once(tmp_path: Path) -> None:
    bench = Bench(
        tmp_path,
        [decision(WRITE, blocks=BODY, **CREATE), verdict()],
        overrides=Overrides(mode="auto-edit"),
        settings='[checks]\ncommands = ["test -f hello.py"]\n',
    )
    ending = await bench.chat.turn("create hello.py")
    assert ending.status == "satisfied"
    assert [c["passed"] for c in bench.events("verdict")[0].checks] == [True, True, True]
    assert [a.operation for a in bench.events("action.finished")] == ["file_ops.write_file", "shell.run"]


async def test_done_beside_unseen_reads_goes_back_once_and_spends_no_attempt(tmp_path: Path) -> None:
    read = decision(act("file_ops.read_file", path="a.txt"), profile="analysis", next_step="done", reply="I guess 1.")
    bench = Bench(tmp_path, [read, decision(profile="analysis", confidence=0.9, next_step="done", reply="It is 7.")])
    bench.write("a.txt", "7\n")
    ending = await bench.chat.turn("which number is in the file?")
    assert ending.reply == "It is 7." and "I guess" not in str(bench.said())
    assert "had not seen" in bench.asked[1].messages[-1].text


async def test_done_is_void_when_an_action_failed(tmp_path: Path) -> None:
    bad = decision(act("file_ops.edit_file", path="a.txt", search="nope", replace="x"), reply="Done!", **CREATE)
    good = decision(act("file_ops.edit_file", path="a.txt", search="7", replace="8"), reply="Now.", **CREATE)
    bench = Bench(tmp_path, [bad, good, verdict()], yes)
    bench.write("a.txt", "7\n")
    ending = await bench.chat.turn("make it 8")
    assert ending.reply == "Now." and bench.nodes == ["understand", "execute", "evaluate"]
    assert bench.read("a.txt") == b"8\n" and "Done!" not in str(bench.said())


async def test_an_announcement_without_an_action_does_not_end_the_turn(tmp_path: Path) -> None:
    bench = Bench(
        tmp_path,
        [
            decision(profile="modification", reply="I will fix it.", next_step="done"),
            decision(WRITE, blocks=BODY, **CREATE),
            verdict(),
        ],
        yes,
    )
    ending = await bench.chat.turn("fix it")
    assert ending.status == "satisfied" and bench.nodes == ["understand", "understand", "evaluate"]
    assert "words alone" in bench.asked[1].messages[-1].text
    assert bench.said()[0] == ("announcement", "I will fix it.")


@pytest.mark.parametrize("claim", ["I have created hello.py.", "hello.py を作成しました。", "It has been fixed."])
async def test_guidance_that_claims_a_change_is_not_an_answer(tmp_path: Path, claim: str) -> None:
    said = decision(profile="guidance", reply=claim, next_step="done")
    bench = Bench(tmp_path, [said, said, said, *[verdict(1.0, {"R1": ["E1"]})] * 3, said, said, said, said, said, said])
    ending = await bench.chat.turn("create hello.py")
    assert ending.exit_code != 0 and ending.status != "answered"


async def test_a_question_ends_the_turn_runs_no_action_and_the_answer_goes_on(tmp_path: Path) -> None:
    ask = decision(
        WRITE,
        blocks=BODY,
        profile="creation",
        question={"text": "Which name?", "options": ["hello.py", "hi.py"], "default": "hello.py"},
    )
    bench = Bench(tmp_path, [ask, decision(WRITE, blocks=BODY, **CREATE), verdict()], yes)
    ending = await bench.chat.turn("make a script")
    assert ending.status == "asked" and not (bench.root / "hello.py").exists()
    assert bench.session.run("run1").status == "REQUIRES_USER_INPUT"
    ending = await bench.chat.turn("1")
    assert ending.status == "satisfied" and "the answer to your question: hello.py" in bench.asked[1].messages[-1].text
    assert len(bench.session.state.runs) == 1


ASKING = decision(act("file_ops.list_dir", path="."), profile="creation", requirements=["a script"])
QUESTION = decision(profile="creation", question={"text": "Which name?", "options": ["a", "b"]})


async def test_a_side_question_is_answered_beside_open_work_and_its_question_stays_open(tmp_path: Path) -> None:
    side = decision(profile="guidance", objective="side", reply="A tuple is frozen.", goal_consistency="no: unrelated")
    bench = Bench(
        tmp_path,
        [ASKING, QUESTION, side, decision(WRITE, blocks=BODY, **CREATE), verdict(1.0, {"R1": ["E2"], "R2": ["E2"]})],
        yes,
    )
    assert (await bench.chat.turn("make a script")).status == "asked"
    ending = await bench.chat.turn("by the way, what is a tuple?")
    assert (ending.status, ending.reply) == ("answered", "A tuple is frozen.")
    waiting = bench.session.run("run1")
    assert waiting.outcome is None and waiting.question is not None and bench.session.run("run2").kind == "side"
    assert (await bench.chat.turn("1")).status == "satisfied" and bench.session.run("run1").outcome == "satisfied"


async def test_new_work_puts_the_open_one_off(tmp_path: Path) -> None:
    other = decision(WRITE, blocks=BODY, objective="new", **CREATE)
    bench = Bench(tmp_path, [ASKING, QUESTION, other, verdict(1.0, {"R1": ["E2"]})], yes)
    await bench.chat.turn("make a script")
    ending = await bench.chat.turn("forget that, create hello.py")
    assert ending.status == "satisfied" and bench.session.run("run1").outcome == "deferred"
    assert [o.status for o in bench.session.state.objectives.values()] == ["deferred", "satisfied"]
    assert bench.session.state.objectives["O2"].request == "forget that, create hello.py"


async def test_operations_that_keep_failing_lead_back_to_planning_and_then_to_an_end(tmp_path: Path) -> None:
    bad = decision(*[act("file_ops.read_file", path=f"no{n}") for n in range(3)], profile="modification")

    def model(request: ModelRequest) -> str:
        return verdict(0.0, {}) if request.node == "evaluate" else bad

    bench = Bench(tmp_path, model, yes, overrides=Overrides(max_attempts=1))
    ending = await bench.chat.turn("x")
    assert ending.status == "escalated" and "evaluate" not in bench.nodes
    back = [(e.from_, e.step, e.status) for e in bench.events("state.changed") if e.trigger == "error"]
    assert back == [("EXECUTION", "PLANNING", "ERROR")] * 2


async def test_an_operation_that_crashes_is_a_failure_the_model_sees(tmp_path: Path) -> None:
    bench = Bench(
        tmp_path,
        [
            decision(act("file_ops.read_file", path="a.txt"), profile="analysis"),
            decision(profile="analysis", next_step="pending_user", reply="?"),
        ],
        yes,
    )
    bench.write("a.txt", "x")

    async def crash(*_: object) -> ToolResult:
        raise RuntimeError("boom")

    read = bench.kit.registry.get("file_ops.read_file")
    assert read is not None
    bench.kit.dispatcher._registry = Registry((replace(read, run=crash),))
    await bench.chat.turn("x")
    assert "crashed: RuntimeError: boom" in bench.asked[1].messages[-1].text


@pytest.mark.parametrize(
    ("row", "written"),
    [
        ((Step.PLANNING, Step.EXECUTION), False),
        ((Step.EXECUTION, Step.AWAITING_APPROVAL), False),
        ((Step.EXECUTION, Step.REVIEW), True),
        ((Step.REVIEW, Step.DONE), True),
    ],
)
async def test_a_table_that_leaves_no_way_on_ends_honestly_and_names_the_row(
    tmp_path: Path, row: tuple[Step, Step], written: bool
) -> None:
    gave_up = Reply(decision(profile="creation", next_step="pending_user", reply="I cannot."), node="execute")
    bench = Bench(tmp_path, [decision(WRITE, blocks=BODY, reply="There.", **CREATE), gave_up, verdict()], yes)
    bench.session.table = bench.session.table.tightened([row])
    ending = await bench.chat.turn("create hello.py")
    assert ending.status in ("escalated", "asked") and (bench.root / "hello.py").exists() is written
    refused = [e for e in bench.events("state.changed") if e.refused]
    assert refused and f"{row[0]} → {row[1]}" in refused[0].reason and ("reply", "There.") not in bench.said()


async def test_user_ask_among_the_actions_is_the_question(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [decision(WRITE, act("user.ask", question="Sure?"), blocks=BODY, profile="creation")], yes)
    ending = await bench.chat.turn("x")
    assert ending.status == "asked" and not (bench.root / "hello.py").exists()


async def test_without_a_person_a_default_answers_and_is_reported(tmp_path: Path) -> None:
    ask = decision(profile="creation", question={"text": "Which?", "options": ["a", "b"], "default": "a"})
    bench = Bench(
        tmp_path, [ask, decision(WRITE, blocks=BODY, **CREATE), verdict()], overrides=Overrides(mode="auto-edit")
    )
    ending = await bench.chat.turn("x")
    assert ending.status == "satisfied" and bench.events("question")[0].answered == "default"
    assert "The default was taken: a" in bench.asked[1].messages[-1].text


async def test_without_a_person_and_a_default_the_run_is_escalated(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [decision(profile="creation", question={"text": "Which?"})])
    ending = await bench.chat.turn("x")
    assert (ending.status, ending.exit_code) == ("escalated", 3) and "Which?" in ending.reply


async def test_a_clear_no_stops_the_actions_and_asks(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [decision(WRITE, blocks=BODY, constraint_check="no: it touches tests", **CREATE)], yes)
    ending = await bench.chat.turn("x")
    assert ending.status == "asked" and "it touches tests" in bench.events("question")[0].text
    assert not (bench.root / "hello.py").exists()


async def test_a_refusal_goes_back_with_its_comment_and_drops_the_rest(tmp_path: Path) -> None:
    def answer(request: Request) -> tuple[str, str]:
        return ("no", "call it hi.py")

    first = decision(WRITE, act("shell.run", command="touch evil"), blocks=BODY, **CREATE)
    bench = Bench(
        tmp_path, [first, decision(profile="creation", next_step="pending_user", reply="Understood.")], answer
    )
    ending = await bench.chat.turn("x")
    assert ending.status == "asked" and not (bench.root / "hello.py").exists() and not (bench.root / "evil").exists()
    told = bench.asked[1].messages[-1].text
    assert "call it hi.py" in told and "not run" in told
    assert ("AWAITING_APPROVAL", "PLANNING") in [(e.from_, e.step) for e in bench.events("state.changed")]


async def test_nobody_to_approve_goes_back_first_and_ends_as_refused(tmp_path: Path) -> None:
    bench = Bench(
        tmp_path,
        [
            decision(WRITE, blocks=BODY, **CREATE),
            decision(profile="creation", next_step="done", reply="I could not write it."),
            verdict(0.0, {}),
        ],
    )
    ending = await bench.chat.turn("create hello.py")
    assert (ending.status, ending.exit_code) == ("refused", 4)
    assert "nobody is here" in bench.asked[1].messages[-1].text
    assert [a.by for a in bench.events("gate.answered")] == ["nobody"]


async def test_plan_mode_refuses_every_effect_even_with_an_allow_rule(tmp_path: Path) -> None:
    bench = Bench(
        tmp_path,
        [
            decision(WRITE, blocks=BODY, **CREATE),
            decision(act("shell.run", command="touch evil"), **CREATE),
            decision(profile="creation", next_step="done", reply="Only a plan."),
            verdict(0.0, {}),
        ],
        yes,
        overrides=Overrides(mode="plan", allow=("shell.run", "file_ops.*"), max_attempts=1),
    )
    await bench.chat.turn("x")
    assert list(bench.root.iterdir()) == [] and bench.person is not None and bench.person.seen == []


async def test_an_unreadable_reply_is_asked_again_once_with_the_exact_error(tmp_path: Path) -> None:
    bench = Bench(tmp_path, ['{"rationale": "x"', decision(profile="guidance", reply="Fine.")])
    ending = await bench.chat.turn("hi")
    assert ending.reply == "Fine." and [r.retry for r in bench.asked] == [False, True]
    thread = bench.session.state.threads["chat"]
    assert [e.kind for e in thread] == ["message", "procedure", "decision"]


@pytest.mark.parametrize("broken", ["", "Sure, I will do it!", '{"a": 1}', "{" * 500, "null", "[]"])
async def test_two_unreadable_replies_end_the_turn_clearly_and_change_nothing(tmp_path: Path, broken: str) -> None:
    bench = Bench(tmp_path, [broken, broken], yes)
    ending = await bench.chat.turn("hi")
    assert (ending.status, ending.exit_code) == ("failed", 3)
    assert bench.events("error")[0].code == "unreadable" and list(bench.root.iterdir()) == []


@pytest.mark.parametrize("finish", [Finish.CUT, Finish.LENGTH])
async def test_a_complete_looking_reply_that_was_cut_runs_nothing(tmp_path: Path, finish: Finish) -> None:
    whole = decision(WRITE, blocks=BODY, **CREATE)
    bench = Bench(tmp_path, [Reply(whole, finish=finish), Reply(whole, finish=finish)], yes)
    ending = await bench.chat.turn("x")
    assert ending.exit_code == 3 and not (bench.root / "hello.py").exists()


async def test_the_turn_limit_ends_with_its_own_code(tmp_path: Path) -> None:
    again = decision(act("file_ops.list_dir", path="."), profile="analysis", next_step="continue")
    bench = Bench(tmp_path, [again] * 9, overrides=Overrides(max_turns=3))
    ending = await bench.chat.turn("look around")
    assert (ending.status, ending.exit_code) == ("failed", 53) and len(bench.asked) == 3


async def test_two_errors_in_a_row_stop_the_batch(tmp_path: Path) -> None:
    missing = [act("file_ops.delete_file", path=f"no{n}") for n in range(2)]
    bench = Bench(
        tmp_path,
        [
            decision(*missing, act("shell.run", command="touch later"), **CREATE),
            decision(profile="creation", next_step="pending_user", reply="?"),
        ],
        yes,
    )
    await bench.chat.turn("x")
    assert not (bench.root / "later").exists() and "2 errors in a row" in bench.asked[1].messages[-1].text


async def test_more_than_six_effects_come_back_as_not_run(tmp_path: Path) -> None:
    writes = [act("file_ops.write_file", path=f"f{n}", content="x") for n in range(8)]
    bench = Bench(
        tmp_path,
        [decision(*writes, **CREATE), decision(profile="creation", next_step="pending_user", reply="?")],
        yes,
    )
    await bench.chat.turn("x")
    assert sorted(p.name for p in bench.root.iterdir()) == [f"f{n}" for n in range(6)]
    assert "over the limit" in bench.asked[1].messages[-1].text


async def test_neighbouring_file_effects_share_one_card(tmp_path: Path) -> None:
    edit = act("file_ops.edit_file", path="a.py", search="one", replace="two")
    bench = Bench(
        tmp_path,
        [decision(act("file_ops.write_file", path="a.py", content="one\n"), edit, **CREATE), verdict()],
        yes,
    )
    await bench.chat.turn("x")
    assert bench.read("a.py") == b"two\n"
    assert bench.person is not None and len(bench.person.seen) == 1
    assert "+one" in bench.person.seen[0].card.preview and "+two" in bench.person.seen[0].card.preview


async def test_a_file_that_changes_after_the_preview_is_shown_again(tmp_path: Path) -> None:
    bench = Bench(
        tmp_path,
        [decision(act("file_ops.edit_file", path="a.txt", search="old", replace="new"), **CREATE), verdict()],
        yes,
    )
    bench.write("a.txt", "old\n")
    answers = iter(["mine\nold\n", None])

    def meddle(request: Request) -> str:
        text = next(answers)
        if text:
            bench.write("a.txt", text)
        return "yes"

    assert bench.person is not None
    bench.person.answer = meddle
    await bench.chat.turn("x")
    assert bench.read("a.txt") == b"mine\nnew\n" and len(bench.person.seen) == 2


async def test_yes_for_this_step_covers_the_same_command_only(tmp_path: Path) -> None:
    def answer(request: Request) -> str:
        return "step"

    same = act("shell.run", command="echo a")
    bench = Bench(
        tmp_path,
        [
            decision(same, profile="modification"),
            decision(same, profile="modification"),
            decision(act("shell.run", command="echo a; echo b"), profile="modification"),
            decision(profile="modification", next_step="pending_user", reply="?"),
        ],
        answer,
    )
    await bench.chat.turn("x")
    assert bench.person is not None
    assert [r.card.preview for r in bench.person.seen] == ["echo a", "echo a; echo b"]


async def test_the_users_files_come_with_the_message(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [decision(profile="guidance", reply="ok")] * 2)
    bench.write("README.md", "# 見出し\n")
    bench.write(".env", "SECRET=1\n")
    await bench.chat.turn("README.mdを日本語で書き直して。.env も")
    first = bench.asked[0].messages[-1].text
    assert "1│# 見出し" in first and "SECRET=1" not in first


async def test_steering_reaches_the_model_before_its_next_decision(tmp_path: Path) -> None:
    bench: Bench

    def model(request: ModelRequest) -> str:
        if len(bench.asked) == 1:
            bench.chat.steer("use tabs")
            return decision(act("file_ops.list_dir", path="."), profile="analysis", confidence=0.9)
        return decision(profile="analysis", next_step="done", reply="ok")

    bench = Bench(tmp_path, model)
    ending = await bench.chat.turn("look")
    assert ending.status == "answered" and "use tabs" in bench.asked[1].messages[-1].text
    assert len(bench.asked) == 2


async def test_what_was_typed_too_late_becomes_the_next_turn(tmp_path: Path) -> None:
    bench: Bench

    def model(request: ModelRequest) -> str:
        if len(bench.asked) == 1:
            bench.chat.steer("and why?")
            return decision(profile="guidance", reply="first")
        return decision(profile="guidance", reply="second")

    bench = Bench(tmp_path, model)
    ending = await bench.chat.turn("what?")
    assert ending.reply == "second" and "and why?" in bench.asked[1].messages[-1].text


async def test_stop_ends_the_turn_kills_the_command_and_records_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [decision(act("shell.run", command="echo began; sleep 60"), profile="modification")], yes)
    turn = asyncio.ensure_future(bench.chat.turn("x"))
    began = asyncio.Event()
    bench.session.watch(lambda live: began.set() if live.kind == "output" else None)
    await began.wait()
    bench.chat.stop()
    ending = await turn
    assert (ending.status, ending.exit_code) == ("cancelled", 3)
    finished = bench.events("action.finished")[-1]
    assert not finished.ok and "interrupted" in finished.error
    assert bench.session.run("run1").outcome == "cancelled" and not bench.session.run("run1").open_actions


async def test_a_command_typed_by_the_person_needs_no_card(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [decision(profile="guidance", reply="I saw it.")], yes)
    await bench.chat.command("echo hi > typed.txt")
    assert bench.read("typed.txt") == b"hi\n" and bench.person is not None and not bench.person.seen
    await bench.chat.turn("did you see it?")
    assert "echo hi > typed.txt" in bench.asked[0].messages[1].text


async def test_the_first_message_never_changes_and_the_history_only_grows(tmp_path: Path) -> None:
    replies = [
        decision(act("file_ops.list_dir", path="."), profile="analysis", confidence=0.9),
        decision(act("file_ops.find_files", pattern="*"), profile="analysis"),
        decision(profile="analysis", next_step="done", reply="nothing"),
        decision(profile="guidance", reply="yes"),
    ]
    bench = Bench(tmp_path, list(replies))
    await bench.chat.turn("look")
    bench.write("new.txt", "x")
    await bench.chat.turn("thanks?")
    assert len({request.messages[0].text for request in bench.asked}) == 1
    kept = ["\0".join(p.text for m in r.messages for p in m.parts) for r in bench.asked]
    tails = [r.messages[-1].parts[-1].text for r in bench.asked]
    for earlier, tail, later in zip(kept, tails, kept[1:], strict=False):
        assert later.startswith(earlier.removesuffix(tail).rstrip("\0"))


async def test_a_search_does_not_show_what_a_deny_rule_hides(tmp_path: Path) -> None:
    bench = Bench(
        tmp_path,
        [
            decision(act("search.text", query="treasure"), profile="analysis", confidence=0.9),
            decision(profile="analysis", next_step="done", reply="Found."),
        ],
        overrides=Overrides(deny=("file_ops.*:vault/**",)),
    )
    bench.write("vault/map.txt", "treasure here\n")
    bench.write("open.txt", "treasure there\n")
    await bench.chat.turn("where?")
    told = bench.asked[1].messages[-1].text
    assert "open.txt:1" in told and "vault" not in told


async def test_nobody_is_asked_about_what_will_not_run_anyway(tmp_path: Path) -> None:
    bench = Bench(
        tmp_path,
        [
            decision(
                act("file_ops.write_file", path=".git/hooks/pre-commit", content="evil"),
                act("file_ops.write_file", path="ok.txt", content="x"),
                **CREATE,
            ),
            decision(profile="creation", next_step="pending_user", reply="?"),
        ],
        yes,
    )
    await bench.chat.turn("x")
    assert bench.person is not None and bench.person.seen == [] and list(bench.root.iterdir()) == []
    told = bench.asked[1].messages[-1].text
    assert "protected" in told and "not run" in told


async def test_needs_alone_become_reads_and_searches(tmp_path: Path) -> None:
    bench = Bench(
        tmp_path,
        [
            decision(
                profile="analysis", confidence=0.9, information_needs=["contents of a.py", "who calls `start_up`"]
            ),
            decision(profile="analysis", next_step="done", reply="It starts up."),
        ],
    )
    bench.write("a.py", "start_up()\n")
    ending = await bench.chat.turn("what does it do?")
    assert ending.reply == "It starts up." and bench.nodes == ["understand", "execute"]
    assert [a.operation for a in bench.events("action.finished")] == ["file_ops.read_file", "search.text"]


async def test_needs_that_name_nothing_are_asked_of_the_model_in_gather(tmp_path: Path) -> None:
    bench = Bench(
        tmp_path,
        [
            decision(profile="analysis", confidence=0.9, information_needs=["how the release works"]),
            decision(act("file_ops.read_file", path="RELEASE.md"), profile="analysis"),
            decision(profile="analysis", next_step="done", reply="By a script."),
        ],
    )
    bench.write("RELEASE.md", "run release.sh\n")
    ending = await bench.chat.turn("how do we release?")
    assert ending.reply == "By a script." and bench.nodes == ["understand", "gather", "execute"]
    assert bench.session.run("run1").agent.context_refs == ("file:RELEASE.md",)
    assert "how the release works" in bench.asked[1].messages[-1].text


@pytest.mark.parametrize("kind", ["reads", "edits"])
async def test_two_errors_in_a_row_stop_neighbours_too(tmp_path: Path, kind: str) -> None:
    bad = [
        act("file_ops.read_file", path=f"no{n}")
        if kind == "reads"
        else act("file_ops.edit_file", path=f"no{n}", search="a", replace="b")
        for n in range(2)
    ]
    last = act("file_ops.write_file", path="later", content="x")
    bench = Bench(
        tmp_path,
        [decision(*bad, last, **CREATE), decision(profile="creation", next_step="pending_user", reply="?")],
        yes,
    )
    await bench.chat.turn("x")
    assert list(bench.root.iterdir()) == [] and bench.person is not None and not bench.person.seen
    finished = bench.events("action.finished")
    assert [f.action for f in finished] == ["A1", "A2", "A3"] and finished[2].error.startswith("not run: 2 errors")


async def test_an_analysis_without_an_answer_is_never_satisfied(tmp_path: Path) -> None:
    def model(request: ModelRequest) -> str:
        if request.node == "evaluate":
            return verdict(1.0, {"R1": [f"E{n}" for n in range(1, 30)]})
        return decision(act("file_ops.read_file", path="a.py"), profile="analysis", confidence=0.9, next_step="done")

    bench = Bench(tmp_path, model)
    bench.write("a.py", "x = 1\n")
    ending = await bench.chat.turn("explain a.py")
    assert ending.exit_code == 3


@pytest.mark.parametrize(
    "words", ["I will fix the bug in a.py now.", "これから修正します。", "Let me look at the tests."]
)
async def test_an_announced_answer_is_no_answer(tmp_path: Path, words: str) -> None:
    bench = Bench(
        tmp_path,
        [
            decision(profile="guidance", reply=words, next_step="done"),
            decision(WRITE, blocks=BODY, **CREATE),
            verdict(),
        ],
        yes,
    )
    ending = await bench.chat.turn("fix the bug")
    assert ending.status == "satisfied" and bench.said()[0] == ("announcement", words)


async def test_an_effect_on_a_shaky_understanding_is_asked_about_once(tmp_path: Path) -> None:
    shaky = decision(WRITE, blocks=BODY, **{**CREATE, "confidence": 0.2})
    bench = Bench(tmp_path, [shaky, shaky, verdict()], yes)
    ending = await bench.chat.turn("make it nice")
    assert ending.status == "asked" and not (bench.root / "hello.py").exists() and "0.20" in ending.reply
    assert (await bench.chat.turn("1")).status == "satisfied"


async def test_the_same_question_is_never_asked_twice(tmp_path: Path) -> None:
    again = decision(profile="creation", question={"text": "Which one?", "options": ["a", "b"], "default": "a"})

    def model(request: ModelRequest) -> str:
        return verdict(0.0, {}) if request.node == "evaluate" else again

    bench = Bench(tmp_path, model)
    ending = await bench.chat.turn("x")
    assert ending.exit_code == 3 and len(bench.events("question")) == 1 and len(bench.asked) < 15


async def test_a_write_that_changes_nothing_beside_done_costs_no_further_call(tmp_path: Path) -> None:
    same = decision(act("file_ops.write_file", path="a.txt", content="x\n"), reply="It is so.", **CREATE)
    bench = Bench(tmp_path, [same, verdict()], yes)
    bench.write("a.txt", "x\n")
    ending = await bench.chat.turn("make sure a.txt holds x")
    assert (ending.status, ending.reply) == ("satisfied", "It is so.") and bench.nodes == ["understand", "evaluate"]


async def test_a_file_that_came_with_the_message_is_evidence_for_the_answer(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [decision(profile="analysis", confidence=0.9, next_step="done", reply="It sets x to 1.")])
    bench.write("a.py", "x = 1\n")
    ending = await bench.chat.turn("what does a.py do?")
    assert (ending.status, ending.reply) == ("answered", "It sets x to 1.") and len(bench.asked) == 1
