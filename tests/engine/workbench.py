"""A real kit in a temporary workspace: real store, dispatcher, tools and prompts; only the model is scripted."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from duckflow import config
from duckflow import events as ev
from duckflow.engine.approval import Approval
from duckflow.engine.background import Background
from duckflow.engine.chat import ChatLoop
from duckflow.engine.dispatch import Dispatcher
from duckflow.engine.kit import Kit, Parts
from duckflow.engine.loops import operate
from duckflow.human import Answer, Door, Request
from duckflow.llm.base import Model, ModelRequest
from duckflow.llm.scripted import FunctionModel, Reply, ScriptedModel
from duckflow.llm.tiers import Models
from duckflow.prompts.budget import profile
from duckflow.prompts.layers import Prompts
from duckflow.prompts.library import Library
from duckflow.prompts.sections import Limits
from duckflow.safety.paths import Workspace
from duckflow.state.journal import Store
from duckflow.state.machine import Step, default_table
from duckflow.state.session import Session
from duckflow.tools.catalogue import core_registry


def decision(*actions: dict[str, Any], blocks: str = "", **fields: Any) -> str:
    """A Decision as a model would send it; the three required fields are filled in."""
    body: dict[str, Any] = {"rationale": "because", "goal_consistency": "yes: it is", "constraint_check": "yes: none"}
    body.update(fields)
    if actions:
        body["actions"] = list(actions)
    body.setdefault("state_delta", {"goal": "the goal"})
    if body["state_delta"] is None:
        del body["state_delta"]
    return json.dumps(body, ensure_ascii=False) + ("\n" + blocks if blocks else "")


def act(operation: str, **args: Any) -> dict[str, Any]:
    return {"operation": operation, "args": args, "reasoning": "needed"}


def verdict(score: float = 1.0, evidence: dict[str, list[str]] | None = None, **fields: Any) -> str:
    evidence = {"R1": ["E1"]} if evidence is None else evidence
    body = {
        "overall_score": score,
        "requirement_scores": dict.fromkeys(evidence, score),
        "evidence": evidence,
        "missing_aspects": [],
        "quality_assessment": "judged",
        "completion_recommendation": True,
        **fields,
    }
    return json.dumps(body, ensure_ascii=False)


def by_node(**answers: Any) -> Callable[[ModelRequest], Any]:
    """A model that answers per node: one text for ever, or a list used up in order."""
    left = {node: list(given) if isinstance(given, list) else given for node, given in answers.items()}

    def model(request: ModelRequest) -> Any:
        given = left[request.node]
        if callable(given):
            return given(request)
        return given.pop(0) if isinstance(given, list) else given

    return model


def all_evidence(request: ModelRequest) -> str:
    """A verdict that names every evidence id it was shown."""
    ids = re.findall(r"<<<(E\d+)", request.messages[-1].text)
    return verdict(1.0, {"R1": ids})


def check_transitions(bench: Bench) -> None:
    """Every state change in the stream is one the table allows."""
    rows = default_table().rows
    for event in bench.events("state.changed"):
        if event.refused or event.from_ is None or event.from_ == event.step:
            continue
        assert (Step(event.from_), Step(event.step)) in rows, event


class Person:
    """Answers cards: a function from the request to a choice, or (choice, comment)."""

    def __init__(self, door: Door, answer: Callable[[Request], str | tuple[str, str] | None]) -> None:
        self.door, self.answer = door, answer
        self.seen: list[Request] = []

    def arrived(self, request: Request) -> None:
        self.seen.append(request)
        said = self.answer(request)
        if said is not None:
            choice, comment = said if isinstance(said, tuple) else (said, "")
            self.door.answer(Answer(request.id, request.shown_hash, choice, comment))

    def withdrawn(self, request: Request) -> None:
        pass


async def _at_once(_seconds: float) -> None:
    """No test waits for a service."""


class Bench:
    """Everything one test needs, and the events it caused. `tiers`: another model for some of them."""

    def __init__(
        self,
        home: Path,
        replies: list[str | Reply] | Callable[[ModelRequest], str] | Model,
        answer: Callable[[Request], str | tuple[str, str] | None] | None = None,
        overrides: config.Overrides | None = None,
        settings: str = "",
        resume: bool = False,
        tiers: Mapping[str, Model] | None = None,
    ) -> None:
        self.root = home / "project"
        self.root.mkdir(parents=True, exist_ok=True)
        (home / "config.toml").write_text(settings, encoding="utf-8")
        options = overrides or config.Overrides()
        env = {"DUCKFLOW_HOME": str(home / "data"), "XDG_CONFIG_HOME": str(home / "none")}
        given = config.Overrides(
            mode=options.mode, config_file=home / "config.toml", max_attempts=options.max_attempts,
            max_turns=options.max_turns, max_cost_usd=options.max_cost_usd, allow=options.allow, deny=options.deny,
        )  # fmt: skip
        self.settings = config.load(self.root, given, env)
        self.store = Store(home / "data" / "duckflow.db")
        self.session = (
            Session.resume(self.store, None)
            if resume
            else Session.start(
                self.store,
                ev.SessionStarted(workspace=str(self.root), version="0", mode=self.settings.mode, models={}),
            )
        )
        if isinstance(replies, list):
            self.model: Any = ScriptedModel(replies)
        elif callable(replies):
            self.model = FunctionModel(replies)
        else:
            self.model = replies
        chains = {tier: [(tiers or {}).get(tier, self.model)] for tier in ("creative", "fast", "evaluator")}
        models = Models(chains, max_cost_usd=self.settings.limits.max_cost_usd, sleep=_at_once)  # type: ignore[arg-type]
        self.workspace = Workspace(self.root)
        door = Door()
        self.kit = Kit(
            self.session, door, models, self.settings, self.workspace, answer is not None, self._assemble
        )  # fmt: skip
        self.person = Person(door, answer) if answer else None
        door.listener = self.person
        self.chat = ChatLoop(self.kit)

    def _assemble(self, kit: Kit) -> Parts:
        settings, registry = self.settings, core_registry()
        limits = Limits(
            settings.objective.max_attempts, settings.limits.max_turns, settings.limits.max_cost_usd,
            settings.objective.satisfaction,
        )  # fmt: skip
        sized = profile(settings.prompts.profile, kit.models.window("creative"), None)
        approval = Approval(kit.session, kit.door, settings)
        env = {"PATH": "/usr/bin:/bin"}
        dispatcher = Dispatcher(kit.session, registry, kit.workspace, approval, env, partial(operate, kit))
        return Parts(registry, Prompts(Library("en"), sized, limits), dispatcher, approval, Background(kit))

    async def settled(self) -> None:
        """Until nothing works in the background any more."""
        while tasks := [job.task for job in self.chat._jobs.beside.values() if job.task]:
            await asyncio.wait(tasks, timeout=20)

    @property
    def asked(self) -> list[ModelRequest]:
        asked: list[ModelRequest] = self.model.asked
        return asked

    @property
    def nodes(self) -> list[str]:
        return [request.node for request in self.asked]

    def events(self, *types: str) -> list[Any]:
        return [e.body for e in self.store.events(self.session.id) if not types or e.body.type in types]

    def said(self) -> list[tuple[str, str]]:
        return [(m.kind, m.text) for m in self.events("message") if m.role == "assistant"]

    def write(self, path: str, text: str | bytes) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text if isinstance(text, bytes) else text.encode())

    def read(self, path: str) -> bytes:
        return (self.root / path).read_bytes()


def yes(_request: Request) -> str:
    return "yes"
