"""Calls in their three layers: the frozen first message, the history, and the tail that is new every time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from duckflow.llm.base import Message, Part
from duckflow.llm.tokens import cut_to, estimate
from duckflow.prompts.budget import Profile, size
from duckflow.prompts.library import Library
from duckflow.prompts.sections import Limits, ProjectFacts, base_text, contract_text, main_text, project_text
from duckflow.record import NOTHING, Record
from duckflow.state.runs import Entry, RunState, SessionState


class Prompt(Record):
    """Everything one call sends, and what is worth recording about it."""

    messages: tuple[Message, ...]
    pattern: str  # base_main | base_main_specialized | base_specialized
    cuts: tuple[str, ...] = ()
    sections: Mapping[str, int] = NOTHING  # estimated tokens by part


class Prompts(Record):
    """How this session speaks to models."""

    library: Library
    profile: Profile
    limits: Limits
    main_max_tokens: int = 800
    specialized_max_tokens: int = 1200

    def system(self, session: str, operations: str, facts: ProjectFacts) -> str:
        """Base, Contract and Project: the same bytes for every node, mode and call of a session."""
        return "\n\n".join(
            (
                base_text(self.library, session),
                contract_text(self.library, operations, facts),
                project_text(self.library, facts),
            )
        )

    def decision(self, state: SessionState, run: RunState, node: str) -> Prompt:
        """A call that returns a Decision: the whole conversation, then Main."""
        thread = state.threads.get(run.thread, ())
        tail, cuts = main_text(
            self.library, state, run, node, self.limits, self.main_max_tokens, self.profile.exchanges
        )
        messages = [Message("system", (Part(state.system, cache=True),)), *conversation(thread)]
        last = messages[-1]
        if last.role == "user":
            kept = (*last.parts[:-1], Part(last.parts[-1].text, cache=True))
            messages[-1] = Message("user", (*kept, Part(tail)))
        else:
            messages.append(Message("user", (Part(tail),)))
        fresh = bool(thread) and thread[-1].role == "user" and _sends_procedure(thread)
        sizes = {
            "system": size(state.system),
            "history": sum(size(entry.text) for entry in thread),
            "main": estimate(tail),
        }
        return Prompt(tuple(messages), "base_main_specialized" if fresh else "base_main", cuts, sizes)

    def aside(self, state: SessionState, run: RunState, text: str) -> Prompt:
        """A call beside the conversation: it sees all of it, and what is asked here is not kept."""
        thread = state.threads.get(run.thread, ())
        said = conversation(thread)
        tail = Part(self.procedure(text))
        if said and said[-1].role == "user":
            said[-1] = Message("user", (*said[-1].parts, tail))
        else:
            said.append(Message("user", (tail,)))
        sizes = {
            "system": size(state.system),
            "history": sum(size(entry.text) for entry in thread),
            "main": estimate(tail.text),
        }
        messages = (Message("system", (Part(state.system, cache=True),)), *said)
        return Prompt(messages, "base_main_specialized", (), sizes)

    def specialized(self, state: SessionState, text: str, cuts: tuple[str, ...] = ()) -> Prompt:
        """A call that sees facts only, not the conversation that argues for them."""
        base = base_text(self.library, state.id)
        messages = (Message("system", (Part(base, cache=True),)), Message("user", (Part(text),)))
        return Prompt(messages, "base_specialized", cuts, {"system": size(base), "main": estimate(text)})

    def reask(self, prompt: Prompt, answer: str, problem: str, shape: str) -> Prompt:
        """The same call once more with the exact error. Neither is kept in the history."""
        note = self.library.render("reask", problem=problem, shape=shape)
        said = Message("assistant", (Part(answer if answer.strip() else "(empty)"),))
        return Prompt(
            (*prompt.messages, said, Message("user", (Part(note),))),
            prompt.pattern,
            prompt.cuts,
            prompt.sections,
        )

    def procedure(self, text: str) -> str:
        """A procedure within its budget, whatever was put into it."""
        return text if estimate(text) <= self.specialized_max_tokens else cut_to(text, self.specialized_max_tokens)[0]

    def wants_procedure(self, state: SessionState, run: RunState, name: str) -> bool:
        """A node's procedure enters the history once, and again when the model asked for it and it is far back."""
        thread = state.threads.get(run.thread, ())
        sent = [i for i, entry in enumerate(thread) if entry.kind == "procedure" and entry.name == name]
        if not sent:
            return True
        return run.specialized and len(thread) - sent[-1] > 12


def conversation(thread: Sequence[Entry]) -> list[Message]:
    """History entries as messages; neighbours of one role become parts of one message."""
    return [
        Message("assistant" if role == "assistant" else "user", tuple(Part(entry.text) for entry in entries))
        for role, entries in groupby(thread, key=lambda entry: entry.role)
    ]


def _sends_procedure(thread: Sequence[Entry]) -> bool:
    for entry in reversed(thread):
        if entry.role == "assistant":
            return False
        if entry.kind == "procedure":
            return True
    return False
