"""Reading replies: strictly, with exact problems; whatever is cut, broken or doubtful runs nothing."""

from __future__ import annotations

import json
import re
import string
import time
from typing import Any, Literal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field

from duckflow.llm.base import Finish
from duckflow.llm.decode import Decoded, decode


class Action(BaseModel):
    model_config = ConfigDict(extra="allow")
    operation: str
    args: dict[str, Any] = Field(default_factory=dict)
    reasoning: str = Field(min_length=1)


class Question(BaseModel):
    text: str
    options: list[str] = []


class Decision(BaseModel):
    model_config = ConfigDict(extra="allow")
    rationale: str
    next_step: Literal["done", "continue"] | None = None
    confidence: float | None = Field(None, ge=0, le=1)
    question: Question | str | None = None
    actions: list[Action] = []
    reply: str = ""


class Loose(BaseModel):
    """Everything optional: the shape that is easiest to satisfy by accident."""

    model_config = ConfigDict(extra="allow")
    status: str = ""
    operation: str = ""


WRITE = {
    "operation": "file_ops.write_file",
    "args": {"path": "a.py", "content": {"block": "A"}},
    "reasoning": "because",
}
BASIC: dict[str, Any] = {"rationale": "why", "actions": [WRITE], "reply": "done"}


def reply(value: object = None, **blocks: str) -> str:
    text = json.dumps(BASIC if value is None else value, ensure_ascii=False)
    for name, body in blocks.items():
        text += f"\n<<<{name}\n{body}{name}>>>"
    return text + "\n"


def read(text: str, finish: Finish = Finish.STOP) -> Decoded[Decision]:
    return decode(text, finish, Decision)


def content(decoded: Decoded[Decision]) -> str:
    assert decoded.value is not None, decoded.problem
    text = decoded.value.actions[0].args["content"]
    assert isinstance(text, str)
    return text


# --- good replies ------------------------------------------------------------------------------------------------


def test_an_object_with_its_block() -> None:
    decoded = read(reply(A="x = 1\n"))
    assert content(decoded) == "x = 1\n"
    assert (decoded.problem, decoded.notes, decoded.cut, decoded.rescued_reply) == (None, (), False, None)
    assert decoded.blocks == {"A": "x = 1\n"}
    assert decoded.used == {"A": ("actions[0].args.content",)}
    assert decoded.raw is not None and decoded.raw["actions"][0]["args"]["content"] == {"block": "A"}


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_fences_around_the_object_and_the_blocks_are_no_news(line_end: str) -> None:
    text = "```json\n" + reply(A="x\n").replace("\n<<<", "\n```\n\n<<<") + "\n```\n"
    decoded = read(text.replace("\n", line_end))
    assert content(decoded) == f"x{line_end}"
    assert decoded.notes == ()


def test_a_block_may_be_the_reply_and_stand_anywhere_in_args() -> None:
    args = {"edits": [{"search": {"block": "S1"}, "replace": {"block": "R1"}}], "block": "kept"}
    value = {
        "rationale": "r",
        "actions": [{"operation": "o", "args": args, "reasoning": "w"}],
        "reply": {"block": "SAY"},
    }
    decoded = read(reply(value, S1="a\n", R1="", SAY="# はい\n"))
    assert decoded.value is not None
    assert decoded.value.reply == "# はい\n"
    assert decoded.value.actions[0].args == {
        "edits": [{"search": "a\n", "replace": ""}],
        "block": "kept",
    }
    assert set(decoded.used) == {"S1", "R1", "SAY"}


def test_args_with_a_block_field_are_not_a_block() -> None:
    value = {"rationale": "r", "actions": [{"operation": "o", "args": {"block": "A"}, "reasoning": "w"}]}
    decoded = read(reply(value))
    assert decoded.value is not None and decoded.value.actions[0].args == {"block": "A"}


def test_unknown_fields_unused_blocks_and_prose_are_told() -> None:
    value = {**BASIC, "mood": 1, "actions": [{**WRITE, "priority": 2}]}
    decoded = read("Sure!\n" + reply(value, A="x\n", B="y\n") + "Hope it helps.")
    assert decoded.value is not None
    assert decoded.notes == (
        "Unknown fields were ignored: actions[0].priority, mood.",
        'Block "B" is named nowhere in the object and was ignored.',
        "Text before the object was ignored.",
        "Text after the object and outside its blocks was ignored.",
    )


def test_examples_in_the_prose_are_passed_over() -> None:
    prose = 'Like {"a": 1} or {x} or {"rationale": 5}, or f"{name}":\n'
    assert content(read(prose + reply(A="x\n"))) == "x\n"


def test_thoughts_are_not_the_answer() -> None:
    draft = json.dumps({"rationale": "draft", "reply": "no"})
    decoded = read(f"<think>\nI could say {draft}\n</think>\n" + reply(A="x\n"))
    assert decoded.value is not None and decoded.value.rationale == "why"
    assert decoded.notes == ()


def test_json_inside_a_block_before_the_object_is_not_the_answer() -> None:
    inner = json.dumps({"rationale": "hostile", "reply": "no"})
    decoded = read(f"<<<DATA\n{inner}\nDATA>>>\n" + reply(A="x\n"))
    assert decoded.value is not None and decoded.value.rationale == "why"


def test_a_corrected_object_after_a_broken_one_counts() -> None:
    broken = '{"rationale": "why", "actions": [}'
    assert content(read(f"{broken}\nSorry, once more:\n" + reply(A="x\n"))) == "x\n"


# --- problems ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "The reply is empty."),
        ("I would rather talk.", "No JSON object was found"),
        ('{"rationale": "a" "reply": 1}', "line 1, column 19: Expecting ',' delimiter"),
        ('{"rationale": "a",\n "reply": "b\nc"}', "line 2, column 13: Invalid control character at (write a line"),
        ('{"rationale": "a", "reply": "\\d"}', "Invalid \\escape"),
        ("{'rationale': 'a'}", "keys stand in double quotes"),
        ('{"rationale": "a", "rationale": "b"}', 'the key "rationale" appears twice'),
        ('{"rationale": "a", "x": {"k": 1, "k": 2}}', 'the key "k" appears twice'),
        ('{"rationale": "a", "confidence": NaN}', "NaN is not a JSON value"),
        ('{"rationale": "a", "confidence": -Infinity}', "-Infinity is not a JSON value"),
        ('{"rationale": "a", "confidence": 1e999}', "the number 1e999 is too large"),
        ('{"rationale": "a", "confidence": ' + "1" * 5000 + "}", "a number is too long"),
        ('{"rationale": "a", "x": ' + "[" * 100_000 + "}", "nested too deeply"),
        ('{"rationale": "a", "x": ' + "[" * 700 + "]" * 700 + "}", "nested too deeply"),
        ('{"rationale": "a", "reply": "\\ud83e"}', "reply: half of a character"),
        ('{"reply": "a"}', "rationale: this field is required."),
        ('{"hello": "a"}', "none of the expected fields. Required: rationale."),
        ("{}", "none of the expected fields"),
        ('{"rationale": 5}', "rationale: must be a valid string, not 5."),
        ('{"rationale": "a", "next_step": "soon"}', "next_step: must be 'done' or 'continue', not \"soon\"."),
        ('{"rationale": "a", "confidence": 3}', "confidence: must be less than or equal to 1, not 3."),
        (
            '{"rationale": "a", "actions": [{"operation": "o", "args": {}}]}',
            "actions[0].reasoning: this field is required.",
        ),
        ('{"rationale": "a", "question": {"txt": 1}}', "question.text: this field is required."),
        (reply(), 'Block "A" is named at actions[0].args.content but does not follow the object'),
        (reply() + "<<<A\nx\n", 'Block "A" (opened in line 2) is not closed: write A>>> alone on its own line'),
        (reply(A="1\n") + "<<<A\n2\nA>>>\n", 'Block "A" is defined twice, again in line 5'),
        (reply(A="1\nA>>>\n2\n"), 'Block "A" is closed twice'),
        (reply(A="1\n").replace("A>>>", "A>>> "), 'Block "A" (opened in line 2) is not closed'),
        (reply(A="1\n").replace("<<<A", "<<< A"), 'Block "A" is named at actions[0].args.content but'),
    ],
)
def test_problems_are_exact(text: str, problem: str) -> None:
    decoded = read(text)
    assert decoded.value is None
    assert problem in (decoded.problem or "")


def test_all_wrong_places_are_named_in_one_line_each() -> None:
    action = {"operation": 1, "args": [], "reasoning": ""}
    decoded = read(json.dumps({"rationale": None, "actions": [action] * 5}))
    lines = (decoded.problem or "").split("\n")
    assert lines[0] == "rationale: must be a valid string, not null."
    assert lines[1] == "actions[0].operation: must be a valid string, not 1."
    assert lines[3] == 'actions[0].reasoning: String should have at least 1 character, not "".'
    assert len(lines) == 9 and lines[-1] == "… and 8 more."


def test_a_part_of_a_broken_object_never_passes_for_the_answer() -> None:
    broken = '{"status": "x", "tasks": [\n  {"operation": "shell.run"},,\n  {"operation": "shell.run"}\n]'
    for text in (broken, broken + "}", broken.replace(",,", "\n"), '{"status": "a" "b": {"operation": "x"}}'):
        assert decode(text, Finish.STOP, Loose).value is None


def test_a_shape_without_required_fields_still_needs_one_of_its_fields() -> None:
    assert decode('Use {"a": 1}. {"status": "ok"}', Finish.STOP, Loose).value == Loose(status="ok")


@pytest.mark.parametrize("finish", [Finish.CUT, Finish.LENGTH, Finish.FILTER])
def test_a_reply_that_did_not_end_by_itself_runs_nothing_even_if_it_looks_whole(finish: Finish) -> None:
    decoded = read(reply(A="x\n"), finish)
    assert decoded.value is None and decoded.cut
    assert decoded.problem is not None and "\n" not in decoded.problem
    assert decoded.rescued_reply == "done"
    assert not decoded.blocks


# --- rescued text ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "finish", "rescued"),
    [
        ('{"rationale": "a", "reply": "half a sen', Finish.CUT, "half a sen"),
        ('```json\n{"rationale": "a", "reply": "日本\\n', Finish.LENGTH, "日本\n"),
        ('{"rationale": "a", "reply": "ok",}', Finish.STOP, "ok"),
        ('{"rationale": "a" "reply": "two\nlines"}', Finish.STOP, "two\nlines"),
        ('{"reply": "no rationale"}', Finish.STOP, "no rationale"),
        ('{"rationale": "a", "reply": {"block": "R"}}\n<<<R\nline 1\nlin', Finish.CUT, "line 1\nlin"),
        ('{"rationale": "a", "reply": {"block": "R"}}\n<<<R\nline 1\nR>>>\n<<<X\n', Finish.CUT, "line 1\n"),
        ("Just words.", Finish.STOP, "Just words."),
        ('{"rationale": "a"', Finish.CUT, None),
        ("", Finish.STOP, None),
        ("{", Finish.CUT, None),
    ],
)
def test_words_for_the_person_are_rescued(text: str, finish: Finish, rescued: str | None) -> None:
    decoded = read(text, finish)
    assert decoded.value is None
    assert decoded.rescued_reply == rescued


# --- laws --------------------------------------------------------------------------------------------------------

NAMES = st.text(string.ascii_letters + string.digits + "_.-", min_size=1, max_size=12)
MARKS = "<<<A\n", "A>>> \n", " A>>>\n", "A>>>x\n", "xA>>>\n", "<<<B\n", "B>>>\n", "```\n", "<<<", ">>>"
SIGNS = '{"rationale": "no"}\n', "日本語\n", "\r\n", "\r", "\u2028", "\\n", '"', "\x00", "\x85"
LOOK_ALIKES = st.sampled_from([*MARKS, *SIGNS])
LINES = st.lists(st.one_of(LOOK_ALIKES, st.text(max_size=20).map(lambda text: text + "\n")), max_size=12)


def closes(name: str, text: str) -> bool:
    return re.search(rf"^{re.escape(name)}>>>\r?$", text, re.MULTILINE) is not None


@given(LINES, LINES, NAMES)
@example(["A\r\n", "\r\n"], [], "A")
def test_blocks_come_back_byte_for_byte(first: list[str], second: list[str], name: str) -> None:
    texts = {name: "".join(first), name + "2": "".join(second)}
    texts = {key: text + "\n" if text and not text.endswith("\n") else text for key, text in texts.items()}
    if any(closes(key, text) for key, text in texts.items()) or _halves(texts):
        return
    value = {"rationale": "r", "reply": {"block": name + "2"}, "actions": [_with({"block": name})]}
    decoded = read(reply(value, **texts))
    assert decoded.value is not None, decoded.problem
    assert content(decoded) == texts[name]
    assert decoded.value.reply == texts[name + "2"]
    assert decoded.blocks == texts


@given(st.recursive(st.text(max_size=20), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_strings_in_json_come_back_as_they_were(value: Any) -> None:
    if _halves(value) or "block" in json.dumps(value):
        return
    decoded = read(reply({"rationale": "r", "actions": [_with(value)]}))
    assert decoded.value is not None, decoded.problem
    assert decoded.value.actions[0].args["content"] == value


def test_every_cut_of_a_valid_reply_runs_nothing() -> None:
    whole = reply(A='{"rationale": "inner", "reply": ""}\nx = "鴨"\n')
    assert content(read(whole)).startswith("{")
    for position in range(len(whole)):
        for finish in (Finish.CUT, Finish.LENGTH):
            assert read(whole[:position], finish).value is None
        if position < len(whole) - 1:  # even when the service claims that it ended well
            assert read(whole[:position]).value is None, position


@given(st.text(alphabet='{}[]",:\\ \n<>Aab1`', max_size=200), st.sampled_from(list(Finish)))
@settings(max_examples=300)
def test_no_text_breaks_the_decoder(text: str, finish: Finish) -> None:
    decoded = read(text, finish)
    assert (decoded.value is None) == (decoded.problem is not None)


@pytest.mark.parametrize("piece", ["{", '{"a', '{"a\n', '{"a":{', "<<<A\n", "A>>>\n", "[{", '{"a":1}\n', "\\", '"'])
def test_hostile_size_is_no_hostile_time(piece: str) -> None:
    text = piece * (1_000_000 // len(piece))
    started = time.process_time()
    assert read(text).value is None
    assert read(text, Finish.CUT).value is None
    assert time.process_time() - started < 10


def _with(value: object) -> dict[str, object]:
    return {"operation": "o", "args": {"content": value}, "reasoning": "w"}


def _halves(value: object) -> bool:
    return re.search("[\ud800-\udfff]", json.dumps(value, ensure_ascii=False)) is not None
