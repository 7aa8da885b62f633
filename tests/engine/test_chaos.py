"""A model service that breaks in every way at once: the turn ends, and what is on disk is whole or not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from duckflow.llm.base import ModelRequest
from duckflow.llm.scripted import ChaosModel, FunctionModel
from tests.engine.workbench import Bench, act, decision, verdict, yes

BODY = "".join(f"line {n} 行\n" for n in range(40))


def good(request: ModelRequest) -> str:
    if request.node == "evaluate":
        return verdict()
    return decision(
        act("file_ops.write_file", path="out.txt", content={"block": "B"}),
        blocks=f"<<<B\n{BODY}B>>>",
        profile="creation",
        next_step="done",
        requirements=["out.txt has forty lines"],
    )


async def at_once(_seconds: float) -> None:
    return None


@pytest.mark.parametrize("seed", range(25))
async def test_whatever_breaks_nothing_half_done_remains(tmp_path: Path, seed: int) -> None:
    faults = [fault for fault in ChaosModel.FAULTS if fault != "huge" or seed == 0]  # nine megabytes take their time
    bench = Bench(tmp_path, ChaosModel(FunctionModel(good), seed, rate=0.6, faults=faults), yes)
    bench.kit.models.sleep = at_once
    ending = await bench.chat.turn("write forty lines")
    assert ending.status in ("satisfied", "failed", "escalated")
    files = {path.name: path.read_bytes() for path in bench.root.iterdir()}
    assert files in ({}, {"out.txt": BODY.encode()})
    if ending.status == "satisfied":
        assert files
    assert bench.store.verify() == [] and not bench.session.run("run1").open_actions
