"""After a kill: what had begun is settled by looking at the files, nothing is repeated, the model is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from duckflow import events as ev
from duckflow.engine.recover import settle_interrupted
from duckflow.safety.change import content_hash
from duckflow.state.machine import Status, Step, Trigger
from tests.engine.workbench import Bench, decision, yes

OLD, NEW = b"old\n", b"new\n"


def interrupted(home: Path, now: bytes | None, command: bool = False) -> Bench:
    """A session that ended, without a word, between the intent of an action and its outcome."""
    bench = Bench(home, [decision(profile="guidance", reply="I see.")], yes)
    run = bench.session.start_run()
    bench.session.move(run, Trigger.MESSAGE, Step.PLANNING, Status.IN_PROGRESS)
    target = {"path": "a.txt", "before": content_hash(OLD), "after": content_hash(NEW)}
    bench.session.append(
        ev.Message(role="user", text="change it"),
        ev.HistoryAdded(thread="chat", role="user", kind="message", text="change it"),
        ev.HistoryAdded(thread="chat", role="assistant", kind="decision", text="{}"),
        ev.ActionStarted(
            action="A1", operation="shell.run" if command else "file_ops.edit_file", args_digest="d", reasoning="r",
            risk="LOW", targets=() if command else (target,), summary="edit a.txt",
        ),
        run=run,
    )  # fmt: skip
    if now is not None:
        bench.write("a.txt", now)
    bench.write(".duckflow-tmp-0123456789abcdef", b"half")
    return Bench(home, [decision(profile="guidance", reply="I see.")], yes, resume=True)


@pytest.mark.parametrize(
    ("now", "ok", "words"), [(NEW, True, "done"), (OLD, False, "not done"), (b"mine\n", False, "neither")]
)
def test_a_file_effect_is_settled_by_its_hashes(tmp_path: Path, now: bytes, ok: bool, words: str) -> None:
    bench = interrupted(tmp_path, now)
    told = settle_interrupted(bench.session, bench.workspace)
    finished = bench.events("action.finished")[-1]
    assert finished.ok is ok and words in told[0] and bench.read("a.txt") == now
    assert not list(bench.root.glob(".duckflow-tmp-*"))
    assert bench.session.run("run1").status is Status.REQUIRES_USER_INPUT


def test_a_command_is_unknown_and_counts_as_a_change(tmp_path: Path) -> None:
    bench = interrupted(tmp_path, OLD, command=True)
    before = bench.session.state.effects
    settle_interrupted(bench.session, bench.workspace)
    assert "outcome unknown" in bench.events("action.finished")[-1].error
    assert bench.session.state.effects == before + 1


async def test_the_next_message_goes_on_with_the_same_run_and_the_model_knows(tmp_path: Path) -> None:
    bench = interrupted(tmp_path, NEW)
    settle_interrupted(bench.session, bench.workspace)
    ending = await bench.chat.turn("go on")
    assert ending.reply == "I see." and len(bench.session.state.runs) == 1
    assert "interrupted here" in "".join(m.text for m in bench.asked[0].messages)
    assert bench.store.verify() == []


def test_settling_twice_changes_nothing_more(tmp_path: Path) -> None:
    bench = interrupted(tmp_path, NEW)
    settle_interrupted(bench.session, bench.workspace)
    count = bench.session.state.last_seq
    assert settle_interrupted(bench.session, bench.workspace) == () and bench.session.state.last_seq == count
