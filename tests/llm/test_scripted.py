"""Models without a service: they record, they follow their script, they break in the same way for the same seed."""

from __future__ import annotations

from pathlib import Path

import pytest

from duckflow.errors import ConfigError, CredentialsError, RequestRefused
from duckflow.llm.base import Done, Finish, Model, Transient, Usage
from duckflow.llm.providers import build
from duckflow.llm.scripted import ChaosModel, FunctionModel, Reply, ScriptedModel, ScriptExhausted
from tests.llm.helpers import Spec, collect, request

SCRIPT = """
delay_ms = 5

[[reply]]
node = "understand"
text = '''
{"reply": "アヒル"}
'''

[[reply]]
text = "cut he"
finish = "cut"

[[reply]]
node = "execute"
error = 429
retry_after = 2.5

[[reply]]
text = "last"
delay_ms = 0
usage = { prompt = 10, cached = 4, completion = 2 }
"""


async def test_replies_go_to_the_node_they_are_meant_for_each_once() -> None:
    model = ScriptedModel(["any", Reply("plan it", node="plan"), Reply("judged", node="evaluate")])
    assert (await collect(model, request(node="evaluate")))[0] == "any"
    assert (await collect(model, request(node="evaluate")))[0] == "judged"
    assert (await collect(model, request(node="plan")))[0] == "plan it"
    assert [asked.node for asked in model.asked] == ["evaluate", "evaluate", "plan"]


async def test_an_exhausted_script_ends_the_product_cleanly() -> None:
    model = ScriptedModel([Reply("x", node="plan")])
    with pytest.raises(ScriptExhausted) as caught:
        await collect(model)
    assert isinstance(caught.value, RequestRefused)
    assert "understand" in str(caught.value)
    assert len(model.asked) == 1


async def test_a_script_file_with_everything_in_it(tmp_path: Path) -> None:
    path = tmp_path / "script.toml"
    path.write_text(SCRIPT, encoding="utf-8")
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    model = ScriptedModel.from_file(path, sleep=sleep)
    assert (await collect(model))[0] == '{"reply": "アヒル"}\n'
    assert waits == [0.005, 0.005]
    assert await collect(model, request(node="gather")) == ("cut he", Done(Finish.CUT))
    with pytest.raises(Transient) as caught:
        await collect(model, request(node="execute"))
    assert caught.value.retry_after == 2.5
    assert await collect(model) == ("last", Done(Finish.STOP, Usage(10, 4, 2)))
    assert len(waits) == 3


async def test_a_scripted_provider_is_built_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "script.toml"
    path.write_text('[[reply]]\ntext = "hello"\n', encoding="utf-8")
    for spec in (Spec(str(path), "scripted", model="demo"), Spec(None, "scripted", model=str(path))):
        assert (await collect(build(spec, None, {})))[0] == "hello"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[reply]]\ntxet = 1", "txet"),
        ('[[reply]]\nfinish = "soon"', "soon"),
        ('[[reply]]\nnode = "dream"', "dream"),
        ("[[reply]]\nusage = { tokens = 1 }", "tokens"),
        ('[reply]\ntext = "x"', "reply"),
        ("colour = 1", "colour"),
        ("[[reply]", "line 1"),
    ],
)
def test_a_wrong_script_says_what_is_wrong(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "script.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        ScriptedModel.from_file(path)
    assert said in str(caught.value) and str(path) in str(caught.value)


def test_a_missing_script_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        ScriptedModel.from_file(tmp_path / "none.toml")


@pytest.mark.parametrize(("status", "error"), [(401, CredentialsError), (404, RequestRefused), (503, Transient)])
async def test_scripted_errors_are_the_ones_a_service_would_give(status: int, error: type[Exception]) -> None:
    with pytest.raises(error):
        await collect(ScriptedModel([Reply(error=status)]))


async def test_a_function_can_be_the_model() -> None:
    async def later(asked: object) -> Reply:
        return Reply("later", finish=Finish.LENGTH)

    model = FunctionModel(lambda asked: f"{asked.node}!")
    assert (await collect(model, request(node="plan")))[0] == "plan!"
    assert (await collect(FunctionModel(later)))[1].finish is Finish.LENGTH
    assert len(model.asked) == 1
    fakes: list[Model] = [model, ScriptedModel([]), ChaosModel(model, 1)]  # they keep the contract
    assert len({id(fake) for fake in fakes}) == 3


async def outcomes(seed: int) -> list[str]:
    text = '{"rationale": "x", "actions": []}'
    model = ChaosModel(FunctionModel(lambda _: text), seed, faults=ChaosModel.FAULTS[:-1])
    results: list[str] = []
    for _ in range(150):
        try:
            got, done = await collect(model)
            results.append(f"{done.finish}:{got}")
        except Transient as error:
            results.append(error.reason)
    assert len(model.asked) == len(model.done) == 150
    assert {fault for fault in model.done if fault} == set(ChaosModel.FAULTS[:-1])
    for fault, result in zip(model.done, results, strict=True):
        assert fault is not None or result == f"stop:{text}"
        assert fault is None or fault != "json" or result != f"stop:{text}"
    return results


async def test_chaos_breaks_in_every_way_and_the_same_seed_in_the_same_way() -> None:
    assert await outcomes(7) == await outcomes(7)
    assert await outcomes(7) != await outcomes(8)


async def test_huge_is_huge() -> None:
    model = ChaosModel(FunctionModel(lambda _: "abc"), 1, rate=1.0, faults=["huge"])
    assert len((await collect(model))[0]) > 8_000_000
