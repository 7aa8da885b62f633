"""The operations on offer: a fixed order, short lines, strict arguments."""

from __future__ import annotations

import pytest

from duckflow.safety.change import Effect
from tests.tools.bench import REGISTRY, Bench


def test_the_order_and_the_effects() -> None:
    effects = {name: operation.effect for name in REGISTRY.names() if (operation := REGISTRY.get(name))}
    assert effects == {
        "file_ops.read_file": Effect.NONE,
        "file_ops.write_file": Effect.FILES,
        "file_ops.edit_file": Effect.FILES,
        "file_ops.delete_file": Effect.FILES,
        "file_ops.move_file": Effect.FILES,
        "file_ops.list_dir": Effect.NONE,
        "file_ops.find_files": Effect.NONE,
        "search.text": Effect.NONE,
        "shell.run": Effect.COMMAND,
        "plan_tool.propose": Effect.SESSION,
        "plan_tool.approve": Effect.SESSION,
        "plan_tool.update_step": Effect.SESSION,
        "plan_tool.get": Effect.NONE,
        "plan_tool.list": Effect.NONE,
        "plan_tool.delete": Effect.SESSION,
        "task_tool.generate_list": Effect.SESSION,
        "task_loop.run": Effect.SESSION,
        "task_loop.status": Effect.NONE,
        "task_loop.pause": Effect.SESSION,
        "task_loop.resume": Effect.SESSION,
        "task_loop.stop": Effect.SESSION,
        "user.ask": Effect.PERSON,
    }
    assert REGISTRY.names()[0] == "file_ops.read_file" and REGISTRY.names()[-1] == "user.ask"


def test_the_prompt_is_short_and_names_the_arguments() -> None:
    import splintr

    prompt = REGISTRY.prompt()
    assert len(splintr.Tokenizer.from_pretrained("o200k_base").encode_ordinary(prompt)) < 450
    assert "file_ops.move_file {from, to}" in prompt and "user.ask {question, options?, default?}" in prompt
    assert (
        "file_ops.edit_file {path, search, replace, count?}" in prompt and "file_ops.list_dir {path, depth?}" in prompt
    )


def test_every_operation_has_a_schema_that_refuses_unknown_arguments() -> None:
    schemas = REGISTRY.schema()
    assert list(schemas) == list(REGISTRY.names())
    assert all(schema["additionalProperties"] is False for schema in schemas.values())
    assert set(schemas["file_ops.move_file"]["properties"]) == {"from", "to"}


@pytest.mark.parametrize("name", REGISTRY.names())
async def test_wrong_arguments_name_what_is_wrong(bench: Bench, name: str) -> None:
    result = await bench.act(name, nonsense=1)
    assert not result.ok and "nonsense" in result.error and name in result.error


async def test_a_question_is_not_asked_by_its_operation(bench: Bench) -> None:
    change = await bench.changed("user.ask", question="Which one?", options=["a", "b"], default="a")
    assert change.effect is Effect.PERSON
    assert not (await bench.act("user.ask", question="Which one?")).ok
