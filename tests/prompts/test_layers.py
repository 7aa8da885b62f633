"""The order of a call: a first message that never changes, a history that only grows, a short tail."""

from __future__ import annotations

from itertools import pairwise

from duckflow.llm.base import Message
from duckflow.llm.tokens import count
from duckflow.prompts.budget import profile
from duckflow.prompts.compact import compacted
from duckflow.prompts.layers import Prompts, conversation
from duckflow.prompts.library import Library
from duckflow.prompts.sections import Limits, ProjectFacts
from duckflow.record import replace
from duckflow.state.agent import AgentState
from duckflow.state.runs import Entry, RunState, SessionState

PROMPTS = Prompts(Library("en"), profile("full", 128_000, None), Limits(3, 40, 5.0, 0.8))
FACTS = ProjectFacts(workspace="/w/app", system="Linux", date="2026-11-16", tree="README.md\nsrc/ app.py")


def state(*entries: Entry, system: str = "SYSTEM") -> SessionState:
    return SessionState(id="s1", system=system, threads={"chat": entries})


def test_the_prefix_stays_byte_identical_while_the_conversation_grows() -> None:
    run = RunState("run1")
    entries: list[Entry] = []
    sent: list[str] = []
    for n in range(6):
        entries += [Entry("user", "message", f"message {n}"), Entry("user", "procedure", "proc", "understand")]
        prompt = PROMPTS.decision(state(*entries), replace(run, decisions=n, notes=(f"note {n}",)), "execute")
        assert prompt.messages[0] == Message("system", prompt.messages[0].parts)
        texts = [part.text for message in prompt.messages for part in message.parts]
        sent.append("\0".join(texts[:-1]))
        entries.append(Entry("assistant", "decision", f"decision {n}"))
    for earlier, later in pairwise(sent):
        assert later.startswith(earlier)


def test_main_is_the_last_part_of_the_last_user_message_and_is_not_kept() -> None:
    run = RunState("run1", agent=AgentState(goal="mend it"))
    prompt = PROMPTS.decision(state(Entry("user", "message", "hello")), run, "understand")
    last = prompt.messages[-1]
    assert last.role == "user" and last.parts[0].text == "hello" and last.parts[0].cache
    assert "Goal: mend it" in last.parts[-1].text and not last.parts[-1].cache


def test_roles_alternate_whatever_the_entries_are() -> None:
    kinds = [Entry("user", "message", "a"), Entry("user", "note", "b"), Entry("assistant", "decision", "c")]
    messages = conversation([*kinds, *kinds, Entry("assistant", "decision", "d")])
    assert [m.role for m in messages] == ["user", "assistant", "user", "assistant"]


def test_a_first_prompt_is_small_and_its_tail_smaller() -> None:
    system = PROMPTS.system("s1", "op {a}  does\n" * 10, FACTS)
    first = state(
        Entry("user", "message", "the test suite fails, find out why and fix it"),
        Entry("user", "procedure", Library("en").render("understand", clarify_below="0.5"), "understand"),
        system=system,
    )
    prompt = PROMPTS.decision(first, RunState("run1"), "understand")
    assert sum(count(m.text) for m in prompt.messages) < 2500
    assert count(prompt.messages[-1].parts[-1].text) < 300
    assert prompt.pattern == "base_main_specialized"


def test_the_project_section_keeps_its_budget_by_shedding_the_tree() -> None:
    tree = "\n".join(f"directory{n}/ file_a.py file_b.py file_c.py" for n in range(60))
    system = PROMPTS.system("s1", "", replace(FACTS, tree=tree))
    project = system[system.index("# Project (") :]
    assert count(project) <= 160 and "directory0/" in project


def test_an_evaluation_sees_base_and_facts_not_the_conversation() -> None:
    prompt = PROMPTS.specialized(state(Entry("user", "message", "secret argument")), "FACTS")
    assert [m.role for m in prompt.messages] == ["system", "user"]
    assert "secret argument" not in "".join(m.text for m in prompt.messages)


def test_compaction_keeps_the_first_instruction_the_newest_entries_and_loses_no_message() -> None:
    thread = [Entry("user", "message", "FIRST instruction")]
    for n in range(60):
        decision = '{"rationale": "step %d", "actions": [{"operation": "file_ops.read_file", "args": {"path": "f%d"}}]}'
        thread += [
            Entry("assistant", "decision", decision % (n, n)),
            Entry(
                "user", "results", f"Results\n<<<A{n} file_ops.read_file f{n} · E{n}\n" + "text " * 300 + f"\nA{n}>>>"
            ),
        ]
    made = compacted(thread, 6000)
    assert made is not None
    text, kept = made
    assert "FIRST instruction" in text and 0 < kept < len(thread)
    assert thread[len(thread) - kept].kind in ("decision", "message")
    assert count(text) + sum(count(e.text) for e in thread[len(thread) - kept :]) < 6000
    again = compacted([Entry("user", "summary", text), *thread[len(thread) - kept :], *thread[1:41]], 6000)
    assert again is not None and "FIRST instruction" in again[0]
