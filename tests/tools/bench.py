"""Drives operations as the dispatcher does: validate, prepare, run. Nothing is replaced."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from duckflow.safety.change import Change
from duckflow.safety.paths import Workspace
from duckflow.tools.base import Context, ToolResult, read_args
from duckflow.tools.catalogue import core_registry

REGISTRY = core_registry()


@dataclass
class Bench:
    root: Path
    overlay: dict[str, bytes | None] = field(default_factory=dict)
    seen: dict[str, str] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    live: list[str] = field(default_factory=list)
    hidden: frozenset[str] = frozenset()

    @property
    def ctx(self) -> Context:
        return Context(
            Workspace(self.root),
            overlay=self.overlay,
            seen=self.seen,
            output=self.outputs.get,
            on_output=self.live.append,
            env=self.env,
            hidden=lambda path: path in self.hidden,
        )

    def put(self, path: str, data: bytes | str) -> Path:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data.encode("utf-8") if isinstance(data, str) else data)
        return target

    def get(self, path: str) -> bytes:
        return (self.root / path).read_bytes()

    async def prepare(self, name: str, args: Mapping[str, Any]) -> Change | ToolResult:
        operation = REGISTRY.get(name)
        assert operation is not None
        typed = read_args(operation, args)
        return typed if isinstance(typed, ToolResult) else await operation.prepare(typed, self.ctx)

    async def perform(self, name: str, args: Mapping[str, Any], change: Change) -> ToolResult:
        operation = REGISTRY.get(name)
        assert operation is not None
        typed = read_args(operation, args)
        assert not isinstance(typed, ToolResult)
        return await operation.run(typed, change, self.ctx)

    async def act(self, name: str, **args: Any) -> ToolResult:
        change = await self.prepare(name, args)
        return change if isinstance(change, ToolResult) else await self.perform(name, args, change)

    def do(self, name: str, **args: Any) -> ToolResult:
        """For property tests, which are not asynchronous."""
        return asyncio.run(self.act(name, **args))

    async def changed(self, name: str, **args: Any) -> Change:
        change = await self.prepare(name, args)
        assert isinstance(change, Change), change
        return change
