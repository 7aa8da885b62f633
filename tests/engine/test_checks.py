"""Checks a machine can make come before any opinion: files, their form, the user's commands, the project's tests."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from duckflow.config import Overrides
from duckflow.engine.proofs import _are_same_tests, syntax_problem
from duckflow.human import Request
from duckflow.llm.base import ModelRequest
from tests.engine.workbench import Bench, act, by_node, check_transitions, decision, verdict, yes

GLOWING = verdict(1.0, {f"R{n}": [f"E{m}" for m in range(1, 40)] for n in range(1, 5)})
ONCE = "[objective]\nmax_attempts = 1\n"


def done(*actions: dict[str, Any], **fields: Any) -> str:
    given = {"profile": "creation", "confidence": 0.9, "next_step": "done", "requirements": ["it works"]}
    return decision(*actions, **{**given, **fields})


def write(path: str, content: str) -> dict[str, Any]:
    return act("file_ops.write_file", path=path, content=content)


def checks(bench: Bench, verdict_number: int = -1) -> list[tuple[str, bool | None]]:
    return [(c["text"], c["passed"]) for c in bench.events("verdict")[verdict_number].checks]


async def judged(tmp_path: Path, *actions: dict[str, Any], files: dict[str, str] | None = None, **more: Any) -> Bench:
    """One attempt with these actions and a glowing evaluator."""
    settings = more.pop("settings", ONCE)
    bench = Bench(tmp_path, by_node(understand=done(*actions), evaluate=GLOWING), yes, settings=settings, **more)
    for path, text in (files or {}).items():
        bench.write(path, text)
    await bench.chat.turn("do it")
    return bench


def status(bench: Bench) -> str:
    return str(bench.session.run("run1").outcome or "escalated")


# --- files -----------------------------------------------------------------------------------------------------------


async def test_what_was_written_must_exist_and_it_is_said_whether_it_is_new(tmp_path: Path) -> None:
    bench = await judged(tmp_path, write("a.txt", "x"), write("b.txt", "new\n"), files={"b.txt": "old\n"})
    assert checks(bench) == [("a.txt exists, new", True), ("b.txt exists, changed", True)]
    assert status(bench) == "satisfied"
    shown = bench.asked[-1].messages[-1].text
    assert "C1 a.txt exists, new: passed" in shown and "Files changed since the request: a.txt, b.txt" in shown


async def test_a_file_that_is_gone_again_fails_whatever_the_verdict_says(tmp_path: Path) -> None:
    bench = await judged(tmp_path, write("a.txt", "x"), act("shell.run", command="rm a.txt"))
    assert ("a.txt exists, new", False) in checks(bench) and status(bench) == "escalated"
    assert bench.events("verdict")[0].overall <= 1.0 and "a.txt exists" in bench.events("verdict")[0].problem


async def test_what_was_deleted_must_be_gone(tmp_path: Path) -> None:
    bench = await judged(tmp_path, act("file_ops.delete_file", path="a.txt"), files={"a.txt": "x"})
    assert checks(bench) == [("a.txt is gone", True)] and status(bench) == "satisfied"


async def test_a_deleted_file_that_came_back_fails(tmp_path: Path) -> None:
    bench = await judged(
        tmp_path,
        act("file_ops.delete_file", path="a.txt"),
        act("shell.run", command="touch a.txt"),
        files={"a.txt": "x"},
    )
    assert checks(bench) == [("a.txt is gone", False)] and status(bench) == "escalated"


async def test_a_change_that_was_taken_back_is_told_to_the_evaluator(tmp_path: Path) -> None:
    edits = [
        act("file_ops.edit_file", path="a.txt", search="one", replace="two"),
        act("file_ops.edit_file", path="a.txt", search="two", replace="one"),
    ]
    bench = await judged(tmp_path, *edits, files={"a.txt": "one\n"})
    assert checks(bench) == [("a.txt exists, as it was before", True)]
    assert "Files changed since the request: none" in bench.asked[-1].messages[-1].text


@pytest.mark.parametrize(
    ("requirement", "satisfied"),
    [
        ("out.txt exists", False),
        ("`out.txt` exists.", False),
        ("the file out.txt exists", False),
        ("a.txt and out.txt exist", False),
        ("out.txtが存在する", False),
        ("a.txt exists", True),
        ("other.txt exists", True),  # nobody but the model spoke of it: the evaluator judges
        ("out.txt is mentioned nowhere", True),  # not for a machine
    ],
)
@pytest.mark.parametrize("action", [act("file_ops.list_dir", path="."), write("a.txt", "x"), write("a.txt", "y")])
async def test_a_file_that_the_person_named_and_that_should_exist_must_be_there(
    tmp_path: Path, requirement: str, satisfied: bool, action: dict[str, Any]
) -> None:
    look = decision(action, profile="creation", requirements=[requirement], confidence=0.9)
    claim = decision(profile="creation", next_step="done", reply="Everything is in place.", actions=[])
    bench = Bench(tmp_path, by_node(understand=look, execute=claim, evaluate=GLOWING), yes, settings=ONCE)
    bench.write("a.txt", "x")
    ending = await bench.chat.turn("create out.txt")
    assert (ending.status == "satisfied") is satisfied
    if not satisfied:
        assert ("out.txt exists", False) in checks(bench)


async def test_a_named_file_may_lie_deeper(tmp_path: Path) -> None:
    model = by_node(understand=done(write("src/out.txt", "x"), requirements=["out.txt exists"]), evaluate=GLOWING)
    bench = Bench(tmp_path, model, yes, settings=ONCE)
    assert (await bench.chat.turn("create out.txt in src")).status == "satisfied"


async def test_what_the_person_refused_is_not_demanded(tmp_path: Path) -> None:
    first = done(write("out.txt", "x"), requirements=["out.txt exists"])
    model = by_node(understand=first, execute=done(write("b.txt", "x"), requirements=[]), evaluate=GLOWING)
    said = iter([("no", "b.txt is enough"), ("yes", "")])
    bench = Bench(tmp_path, model, lambda _r: next(said), settings=ONCE)
    assert (await bench.chat.turn("create out.txt or so")).status == "satisfied"


# --- the form of files -----------------------------------------------------------------------------------------------

BROKEN = {"a.py": "def f(:\n", "a.json": '{"a": 1,}', "a.toml": "a = \n"}
FINE = {"a.py": "def f(): ...\n", "a.json": '{"a": 1}', "a.toml": "a = 1\n"}
LANGUAGE = {"a.py": "Python", "a.json": "JSON", "a.toml": "TOML"}


@pytest.mark.parametrize("path", BROKEN)
async def test_a_parse_failure_overrules_a_glowing_verdict(tmp_path: Path, path: str) -> None:
    bench = await judged(tmp_path, write(path, BROKEN[path]))
    assert (f"{path} parses as {LANGUAGE[path]}", False) in checks(bench) and status(bench) == "escalated"
    given = bench.events("verdict")[0]
    assert given.overall == 1.0 and given.next == "escalate" and given.failed_checks


@pytest.mark.parametrize("path", FINE)
async def test_a_file_that_parses_passes(tmp_path: Path, path: str) -> None:
    bench = await judged(tmp_path, write(path, FINE[path]))
    assert (f"{path} parses as {LANGUAGE[path]}", True) in checks(bench) and status(bench) == "satisfied"


async def test_the_reason_reaches_the_next_attempt(tmp_path: Path) -> None:
    model = by_node(
        understand=[done(write("a.py", BROKEN["a.py"])), done(write("a.py", FINE["a.py"]))], evaluate=GLOWING
    )
    bench = Bench(tmp_path, model, yes)
    assert (await bench.chat.turn("do it")).status == "satisfied"
    assert "a.py parses as Python: line 1: invalid syntax" in bench.asked[2].messages[-1].text


@pytest.mark.parametrize("path", BROKEN)
async def test_a_file_that_did_not_parse_before_is_not_judged(tmp_path: Path, path: str) -> None:
    bench = await judged(tmp_path, write(path, BROKEN[path] + "\n"), files={path: BROKEN[path]})
    assert checks(bench) == [(f"{path} exists, changed", True)] and status(bench) == "satisfied"


@pytest.mark.parametrize("path", BROKEN)
async def test_a_broken_file_that_was_mended_passes(tmp_path: Path, path: str) -> None:
    bench = await judged(tmp_path, write(path, FINE[path]), files={path: BROKEN[path]})
    assert (f"{path} parses as {LANGUAGE[path]}", True) in checks(bench)


NEWER = f'[project]\nrequires-python = ">=3.{sys.version_info.minor + 1}"\n'
SAME = f'[project]\nrequires-python = ">=3.{sys.version_info.minor}"\n'


@pytest.mark.parametrize(("project", "passed"), [(NEWER, None), (SAME, False), ("", False)])
async def test_a_newer_python_makes_it_undecided_instead_of_failed(
    tmp_path: Path, project: str, passed: bool | None
) -> None:
    bench = await judged(tmp_path, write("a.py", BROKEN["a.py"]), files={"pyproject.toml": project})
    assert ("a.py parses as Python", passed) in checks(bench)
    assert status(bench) == ("satisfied" if passed is None else "escalated")


@pytest.mark.parametrize(
    "path", ["tsconfig.json", "tsconfig.app.json", "jsconfig.json", ".vscode/settings.json", "a.jsonc"]
)
async def test_json_with_comments_is_not_judged(tmp_path: Path, path: str) -> None:
    assert syntax_problem(path, b'// a comment\n{"a": 1,}\n', tmp_path) is None


@pytest.mark.parametrize("path", ["a.rs", "README.md", "data.csv", "a.pyi.txt"])
def test_what_nobody_here_can_parse_is_not_judged(tmp_path: Path, path: str) -> None:
    assert syntax_problem(path, b"{{{", tmp_path) is None


def test_odd_bytes_are_a_problem_not_a_crash(tmp_path: Path) -> None:
    for path, data in (
        ("a.py", b"\0"),
        ("a.py", b"\xff\xfe"),
        ("a.json", b"\xff"),
        ("a.toml", b"\xff"),
        ("a.json", b"[" * 99999),
    ):
        found = syntax_problem(path, data, tmp_path)
        assert found is not None and found.text, (path, data[:10])
    assert syntax_problem("a.json", "\ufeff{}".encode(), tmp_path) == syntax_problem("a.json", b"{}", tmp_path)


# --- configured checks and those of requirements ---------------------------------------------------------------------


async def test_configured_checks_come_first_then_those_of_requirements_then_the_projects_tests(tmp_path: Path) -> None:
    wish = {"text": "b", "check": "test -f a.py # mine"}
    model = by_node(understand=done(write("a.py", "x = 1\n"), requirements=[wish]), evaluate=GLOWING)
    settings = '[checks]\ncommands = ["test -f a.py", "test -d ."]\n' + ONCE
    bench = Bench(tmp_path, model, yes, settings=settings)
    bench.write("Makefile", "test:\n\ttrue\n")
    await bench.chat.turn("do it")
    ran = [text for text, _passed in checks(bench) if " exists" not in text and "parses" not in text]
    assert ran == ["test -f a.py", "test -d .", "test -f a.py # mine", "make test"]


async def test_a_failing_configured_check_overrules_and_its_output_reaches_the_next_attempt(tmp_path: Path) -> None:
    model = by_node(understand=[done(write("a.txt", "1")), done(write("a.txt", "2"))], evaluate=GLOWING)
    bench = Bench(tmp_path, model, yes, settings='[checks]\ncommands = ["grep 2 a.txt || (echo no two; exit 3)"]\n')
    assert (await bench.chat.turn("do it")).status == "satisfied"
    first = bench.events("verdict")[0]
    assert first.overall == 1.0 and first.next == "retry" and "exit 3" in first.problem
    assert "no two" in "\n".join(m.text for m in bench.asked[2].messages)


async def test_a_check_that_may_not_run_blocks_unless_evidence_covers_its_requirement(tmp_path: Path) -> None:
    wishes = [{"text": "a", "check": "true"}, "b"]
    model = by_node(understand=done(write("a.txt", "x"), requirements=wishes), evaluate=verdict(1.0, {"R2": ["E1"]}))
    bench = Bench(tmp_path, model, overrides=Overrides(mode="auto-edit"), settings=ONCE)
    await bench.chat.turn("do it")
    assert ("true", None) in checks(bench) and "a check did not run: true" in bench.events("verdict")[0].problem

    covered = by_node(understand=done(write("b.txt", "x"), requirements=wishes), evaluate=GLOWING)
    other = Bench(tmp_path / "other", covered, overrides=Overrides(mode="auto-edit"), settings=ONCE)
    assert (await other.chat.turn("do it")).status == "satisfied" and ("true", None) in checks(other)


async def test_a_command_that_ran_after_the_last_change_is_not_run_again(tmp_path: Path) -> None:
    actions = [write("a.txt", "x"), act("shell.run", command="test -f a.txt")]
    bench = await judged(tmp_path, *actions, settings='[checks]\ncommands = ["test -f a.txt"]\n' + ONCE)
    ran = [a.action for a in bench.events("action.finished") if a.operation == "shell.run"]
    assert ran == ["A2"] and ("test -f a.txt", True) in checks(bench)


async def test_a_command_from_before_the_last_change_is_run_again(tmp_path: Path) -> None:
    actions = [act("shell.run", command="test -d ."), write("a.txt", "x")]
    bench = await judged(tmp_path, *actions, settings='[checks]\ncommands = ["test -d ."]\n' + ONCE)
    assert len([a for a in bench.events("action.finished") if a.operation == "shell.run"]) == 2


# --- the project's own tests -----------------------------------------------------------------------------------------

OFFER = "Run the project's tests as a proof"
PASSES, FAILS = "test:\n\t@test -f a.py\n", "test:\n\t@echo three failed; false\n"


def offers(bench: Bench) -> list[Request]:
    assert bench.person is not None
    return [request for request in bench.person.seen if request.card.title.startswith(OFFER)]


def runs_of(bench: Bench, command: str = "run make test") -> int:
    return sum(a.summary == command for a in bench.events("action.finished"))


def attempts(*contents: str) -> Any:
    texts = iter(contents)
    return by_node(understand=lambda _r: done(write("a.py", next(texts))), evaluate=GLOWING)


def answering(tests: str) -> Any:
    return lambda request: tests if request.card.title.startswith(OFFER) else "yes"


async def test_the_projects_tests_are_offered_once_and_then_run_unasked(tmp_path: Path) -> None:
    bench = Bench(tmp_path, attempts("x = 1\n", "x = 2\n"), yes)
    bench.write("Makefile", PASSES)
    assert (await bench.chat.turn("do it")).status == "satisfied"
    assert [r.card.preview for r in offers(bench)] == ["make test"] and ("make test", True) in checks(bench)
    seen = len(bench.person.seen) if bench.person else 0
    assert (await bench.chat.turn("and now the other")).status == "satisfied"
    assert len(offers(bench)) == 1 and runs_of(bench) == 2 and ("make test", True) in checks(bench)
    assert bench.person is not None and len(bench.person.seen) == seen + 1  # the write, not the tests
    check_transitions(bench)


async def test_a_no_is_never_asked_about_again(tmp_path: Path) -> None:
    bench = Bench(tmp_path, attempts("x = 1\n", "x = 2\n"), answering("no"))
    bench.write("Makefile", FAILS)
    assert (await bench.chat.turn("do it")).status == "satisfied"
    assert (await bench.chat.turn("and now the other")).status == "satisfied"
    assert len(offers(bench)) == 1 and runs_of(bench) == 0 and not any("make" in text for text, _ in checks(bench))


async def test_the_answer_survives_a_restart(tmp_path: Path) -> None:
    before = Bench(tmp_path, attempts("x = 1\n"), answering("no"))
    before.write("Makefile", FAILS)
    await before.chat.turn("do it")
    before.store.close()
    bench = Bench(tmp_path, attempts("x = 2\n"), yes, resume=True)
    assert (await bench.chat.turn("and now the other")).status == "satisfied" and not offers(bench)


async def test_failing_tests_overrule_a_glowing_verdict(tmp_path: Path) -> None:
    bench = Bench(tmp_path, attempts("x = 1\n"), yes, settings=ONCE)
    bench.write("Makefile", FAILS)
    assert (await bench.chat.turn("do it")).status == "escalated"
    assert ("make test", False) in checks(bench) and bench.events("verdict")[0].overall == 1.0


async def test_tests_that_cannot_be_started_are_undecided_not_failed(tmp_path: Path) -> None:
    bench = Bench(tmp_path, attempts("x = 1\n"), yes, settings=ONCE)
    bench.write("test_a.py", "def test_a(): ...\n")  # no pytest on the path of the bench
    assert (await bench.chat.turn("do it")).status == "satisfied"
    assert ("pytest -q", None) in checks(bench)


async def test_a_change_that_no_test_is_about_offers_nothing(tmp_path: Path) -> None:
    model = by_node(understand=done(write("README.md", "hello\n")), evaluate=GLOWING)
    bench = Bench(tmp_path, model, yes)
    bench.write("Makefile", FAILS)
    assert (await bench.chat.turn("do it")).status == "satisfied" and not offers(bench) and runs_of(bench) == 0


async def test_without_a_person_they_are_not_run_unasked(tmp_path: Path) -> None:
    bench = Bench(tmp_path, attempts("x = 1\n"), overrides=Overrides(mode="auto"))
    bench.write("Makefile", FAILS)
    assert (await bench.chat.turn("do it")).status == "satisfied" and runs_of(bench) == 0
    assert not bench.events("checks.offered")


@pytest.mark.parametrize(
    ("allow", "deny", "ran"), [("make test", "", 1), ("make*", "", 1), ("", "", 0), ("make*", "make*", 0)]
)
async def test_without_a_person_a_rule_lets_them_run(tmp_path: Path, allow: str, deny: str, ran: int) -> None:
    rules = Overrides(
        mode="auto-edit",
        allow=(f"shell.run:{allow}",) if allow else (),
        deny=(f"shell.run:{deny}",) if deny else (),
    )
    bench = Bench(tmp_path, attempts("x = 1\n"), overrides=rules)
    bench.write("Makefile", PASSES)
    assert (await bench.chat.turn("do it")).status == "satisfied" and runs_of(bench) == ran


async def test_what_a_rule_forbids_is_not_even_offered(tmp_path: Path) -> None:
    bench = Bench(tmp_path, attempts("x = 1\n"), yes, overrides=Overrides(deny=("shell.run:make*",)))
    bench.write("Makefile", PASSES)
    assert (await bench.chat.turn("do it")).status == "satisfied" and not offers(bench)


async def test_what_ran_after_the_last_change_is_neither_offered_nor_run_again(tmp_path: Path) -> None:
    actions = [write("a.py", "x = 1\n"), act("shell.run", command="make test")]
    bench = await judged(tmp_path, *actions, files={"Makefile": PASSES})
    assert not offers(bench) and runs_of(bench) == 1 and ("make test", True) in checks(bench)


@pytest.mark.parametrize(
    ("other", "same"),
    [
        ("python3 -B -m unittest", True),
        ("python -m unittest discover -v", True),
        ("python -m unittest tests.test_a", False),
        ("pytest -q", True),
        ("pytest", True),
        ("python -m pytest -q", True),
        ("python3.11 -m pytest", True),
        (".venv/bin/pytest -x -q", True),
        ("PYTHONPATH=src pytest -q", True),
        ("uv run pytest", True),
        ("pytest tests/test_a.py", False),  # a part of them
        ("pytest -q | tail", False),  # the exit code of something else
        ("cat pytest.ini", False),
        ("pip install pytest", False),
    ],
)
def test_the_same_tests_may_be_spelt_differently(other: str, same: bool) -> None:
    assert _are_same_tests("pytest -q", other) is same


async def test_the_proof_itself_is_not_the_work(tmp_path: Path) -> None:
    """Tests that pass prove nothing when nothing was done."""

    def model(request: ModelRequest) -> str:
        if request.node == "evaluate":
            return GLOWING
        return decision(profile="creation", next_step="done", reply="Everything is in place.", actions=[])

    bench = Bench(tmp_path, model, settings='[checks]\ncommands = ["true"]\n')
    ending = await bench.chat.turn("create the parser")
    assert ending.status == "escalated" and ("true", True) in checks(bench)
    assert all(v.problem == "nothing was read or done: there is no evidence" for v in bench.events("verdict"))
