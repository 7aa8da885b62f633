"""A real kit in a temporary workspace: real store, dispatcher, tools and prompts; only the model is scripted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from duckflow import config
from duckflow import events as ev
from duckflow.engine.approval import Approval
from duckflow.engine.chat import ChatLoop
from duckflow.engine.dispatch import Dispatcher
from duckflow.engine.kit import Kit, Parts
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


class Bench:
    """Everything one test needs, and the events it caused."""

    def __init__(
        self,
        home: Path,
        replies: list[str | Reply] | Callable[[ModelRequest], str] | Model,
        answer: Callable[[Request], str | tuple[str, str] | None] | None = None,
        overrides: config.Overrides | None = None,
        settings: str = "",
        resume: bool = False,
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
        tiers = {"creative": [self.model], "fast": [self.model], "evaluator": [self.model]}
        models = Models(tiers, max_cost_usd=self.settings.limits.max_cost_usd)  # type: ignore[arg-type]
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
        dispatcher = Dispatcher(kit.session, registry, kit.workspace, approval, {"PATH": "/usr/bin:/bin"})
        return Parts(registry, Prompts(Library("en"), sized, limits), dispatcher)

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
