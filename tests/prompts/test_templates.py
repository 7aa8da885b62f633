"""Every template renders, empty and full, in both languages; every example in it is a valid answer."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from duckflow.errors import ConfigError
from duckflow.llm.base import Finish
from duckflow.llm.decode import decode
from duckflow.llm.tokens import count
from duckflow.prompts.library import SHIPPED, Library
from duckflow.prompts.replies import Decision, VerdictReply

EMPTY: dict[str, dict[str, Any]] = {
    "base": {"session": "s", "memory": [], "conversations": []},
    "contract": {"operations": "", "rules": "", "rules_from": ""},
    "project": {
        "workspace": "", "system": "", "date": "", "branch": "", "dirty": None, "languages": "", "test_command": "",
        "sandbox": "", "tree": "",
    },
    "main": {
        "node": "understand", "step": "PLANNING", "status": "IN_PROGRESS", "mode": "ask", "off": "", "attempt": 1,
        "max_attempts": 3, "decision": 1, "max_turns": 40, "cost": "$0", "goal": "", "why_now": "", "constraints": "",
        "plan_brief": "", "open_questions": "", "requirements": "", "exchanges": [], "notes": [], "reminder": False,
        "progress": "", "running": [], "vitals": "",
    },
    "understand": {"clarify_below": "0.5"},
    "understand_retry": {
        "attempt": 2, "max_attempts": 3, "overall": "0.4", "threshold": "0.8", "blocked": "", "missing": [],
        "scores": [], "lessons": [], "said": "",
    },
    "gather": {"needs": []},
    "execute": {},
    "evaluate": {"request": "", "requirements": [], "checks": [], "files": "", "evidence": [], "notes": []},
    "reask": {"problem": "", "shape": ""},
    "plan": {"goal": "", "requirements": [], "constraints": []},
    "tasks": {
        "goal": "", "step": "", "description": "", "files": "", "done_when": [], "earlier": [], "conversation": "",
    },
    "brief": {
        "request": "", "goal": "", "plan": "", "steps": [], "step": "", "description": "", "files": "",
        "commands": "", "done_when": [], "constraints": [], "requirements": [], "said": [],
    },
    "resumed": {"request": "", "requirements": [], "constraints": []},
    "report": {
        "request": "", "status": "", "succeeded": 1, "failed": 0, "unit": "steps", "total": 1, "satisfaction": "",
        "causes": [], "log": [],
    },
    "summarize": {"conversation": ""},
    "analyse": {
        "request": "", "requirements": [], "missing": [], "lessons": [], "failures": [], "files": "", "evidence": [],
    },
}  # fmt: skip
MARK = "⟦filled⟧"


def full(values: dict[str, Any]) -> dict[str, Any]:
    return {
        k: [MARK, MARK] if isinstance(v, list) else 3 if v is None else True if v is False else MARK
        for k, v in values.items()
    }


@pytest.mark.parametrize("lang", ["en", "ja"])
def test_the_shipped_templates_are_exactly_these(lang: str) -> None:
    assert {path.stem for path in (SHIPPED / lang).iterdir()} == set(EMPTY)


@pytest.mark.parametrize("lang", ["en", "ja"])
@pytest.mark.parametrize("name", sorted(EMPTY))
def test_a_template_renders_empty_and_full(lang: str, name: str) -> None:
    library = Library(lang)
    template = library.template(name)
    assert template["role"] and template["focus"]
    empty, filled = library.render(name, **EMPTY[name]), library.render(name, **full(EMPTY[name]))
    assert "{{" not in empty + filled and "{%" not in empty + filled
    assert "None" not in empty and "\n\n\n" not in filled
    wanted = [key for key, value in EMPTY[name].items() if value is not None and value is not False]
    assert filled.count(MARK) >= len(wanted)


@pytest.mark.parametrize("lang", ["en", "ja"])
def test_the_examples_in_the_prompts_are_valid_answers(lang: str) -> None:
    library = Library(lang)
    contract = library.render("contract", **EMPTY["contract"])
    start = contract.index('{"rationale"')
    end = contract.index("HELLO>>>") + len("HELLO>>>\n")
    read = decode(contract[start:end], Finish.STOP, Decision)
    assert read.problem is None and read.value is not None and not read.notes
    assert read.value.actions[0].args["content"] == 'print("Hello")\n'
    VerdictReply.model_validate(json.loads(library.template("evaluate")["example"]))


def test_an_undefined_variable_is_an_error_that_names_the_template() -> None:
    with pytest.raises(ConfigError, match="base"):
        Library("en").render("base", session="s", memory=[])


def test_a_users_own_template_wins_and_a_broken_one_is_explained(tmp_path: Path) -> None:
    own = tmp_path / "en"
    own.mkdir()
    (own / "execute.toml").write_text('role="r"\nfocus="f"\nbody="mine: {{ role }}"\n', encoding="utf-8")
    library = Library("en", (tmp_path,))
    assert library.render("execute") == "mine: r"
    assert "Procedure" in library.render("understand", clarify_below="0.5")
    (own / "gather.toml").write_text("role = ", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"gather\.toml"):
        library.render("gather", needs=[])


@pytest.mark.parametrize("lang", ["en", "ja"])
def test_base_is_short_and_procedures_keep_their_budget(lang: str) -> None:
    library = Library(lang)
    assert len(library.render("base", **EMPTY["base"])) <= (1200 if lang == "en" else 1000)
    for name in set(EMPTY) - {"base", "contract", "project", "main"}:
        assert count(library.render(name, **EMPTY[name])) <= 1200


def test_both_languages_use_the_same_variables() -> None:
    for name in EMPTY:
        used = [
            set(re.findall(r"\{[{%][^}]*?\b(\w+)\b", Library(lang).template(name)["body"])) for lang in ("en", "ja")
        ]
        assert used[0] == used[1], name
