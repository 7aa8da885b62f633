"""What the bench works on: a small project, a large repository, and a job of twenty Decisions with its judge."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.e2e.server import Reply, Usage
from tests.engine.workbench import act, decision, verdict

from duckflow.llm import base, scripted

Json = dict[str, Any]
Headers = Mapping[str, str]
Answer = Callable[[Json, Headers], Reply]

DECISIONS = 20
REQUEST = "Give every total of the shop a currency, keep the rounding in one place, and say what changed."
ANSWER = decision(profile="guidance", confidence=0.9, reply="Use a **set**.", state_delta=None)

_NAMES = ("cart", "price", "stock", "order", "invoice", "customer", "discount", "shipping", "report", "store")
_MODULE = '''"""The {name} of the shop."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class {title}:
    """One {name}, with its lines and what they come to."""

    name: str
    lines: list[tuple[str, int]] = field(default_factory=list)
    total: float = 0.0

    def add(self, what: str, cents: int) -> None:
        if cents < 0:
            raise ValueError(f"{{what}}: a negative amount")
        self.lines.append((what, cents))
        self.total += cents / 100

    def remove(self, what: str) -> None:
        kept = [line for line in self.lines if line[0] != what]
        self.total = sum(cents for _, cents in kept) / 100
        self.lines = kept


def {name}_total(items: list[{title}]) -> float:
    return round(sum(item.total for item in items), 2)


def {name}_names(items: list[{title}]) -> list[str]:
    return sorted({{item.name for item in items}})
'''


def small_project(root: Path) -> None:
    """A package of ten modules, their tests, and the usual files beside them."""
    for folder in ("shop", "tests"):
        (root / folder).mkdir(parents=True, exist_ok=True)
        (root / folder / "__init__.py").write_text("", encoding="utf-8")
    for name in _NAMES:
        text = _MODULE.format(name=name, title=name.title())
        (root / "shop" / f"{name}.py").write_text(text, encoding="utf-8")
        test = (
            f"from shop.{name} import {name}_total\n\n\ndef test_total() -> None:\n    assert {name}_total([]) == 0\n"
        )
        (root / "tests" / f"test_{name}.py").write_text(test, encoding="utf-8")
    (root / "README.md").write_text("# Shop\n\nCarts, prices and orders.\n", encoding="utf-8")
    (root / "pyproject.toml").write_text('[project]\nname = "shop"\nversion = "0.1.0"\n', encoding="utf-8")


def large_repository(root: Path, packages: int = 20, parts: int = 10, modules: int = 35) -> int:
    """Nested packages, 7,000 files, in git's index when there is a git. Returns the number of files."""
    for package in range(packages):
        for part in range(parts):
            folder = root / f"package_{package:02}" / f"part_{part:02}"
            folder.mkdir(parents=True, exist_ok=True)
            for module in range(modules):
                text = f'"""Part {part}, module {module}."""\n\n\ndef value() -> int:\n    return {module}\n'
                (folder / f"module_{module:02}.py").write_text(text, encoding="utf-8")
    if git := shutil.which("git"):
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(root),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
        }
        for command in (["init", "-q"], ["add", "."]):
            subprocess.run([git, *command], cwd=root, env=env, check=True, stdin=subprocess.DEVNULL)
    return packages * parts * modules


def job() -> list[str]:
    """Twenty Decisions as a model would send them: half of them look, half of them edit."""
    first = decision(
        act("file_ops.list_dir", path=".", depth=2),
        act("file_ops.read_file", path="shop/cart.py"),
        act("search.text", query="def .*_total", regex=True),
        profile="modification",
        confidence=0.9,
        requirements=["every total names its currency", "rounding happens in one place"],
        state_delta={"goal": "totals with a currency", "plan_brief": ["look at all modules", "edit them one by one"]},
        strategy="module by module",
    )
    last = {"next_step": "done", "reply": "Every total names its currency now, and rounding happens in one place."}
    rest = [_look(n) if n % 2 else _edit(n, last if n == DECISIONS - 2 else {}) for n in range(DECISIONS - 1)]
    return [first, *rest]


def _edit(n: int, fields: dict[str, Any]) -> str:
    name = _NAMES[n // 2]
    blocks = (
        f"<<<OLD\ndef {name}_total(items: list[{name.title()}]) -> float:\n"
        "    return round(sum(item.total for item in items), 2)\nOLD>>>\n"
        f'<<<NEW\ndef {name}_total(items: list[{name.title()}], currency: str = "EUR") -> str:\n'
        f'    """What all of them come to, with the currency it is counted in."""\n'
        "    cents = sum(amount for item in items for _, amount in item.lines)\n"
        '    return f"{cents / 100:.2f} {currency}"\nNEW>>>'
    )
    action = act("file_ops.edit_file", path=f"shop/{name}.py", search={"block": "OLD"}, replace={"block": "NEW"})
    delta = {"decision": f"{name}: the total is counted in cents and shown with its currency"}
    return decision(action, blocks=blocks, **{"state_delta": delta, "next_step": "continue", **fields})


def _look(n: int) -> str:
    name = _NAMES[n // 2 + 1]
    read = act("file_ops.read_file", path=f"shop/{name}.py")
    beside = (
        act("search.text", query=f"{name}_total") if n % 4 == 1 else act("file_ops.find_files", pattern="tests/*.py")
    )
    return decision(read, beside, next_step="continue", state_delta=f"looking at {name}")


def judged(prompt: str) -> str:
    """A verdict that is content with every requirement shown and cites all evidence shown."""
    evidence = sorted(set(re.findall(r"\bE\d+\b", prompt)))
    return verdict(1.0, dict.fromkeys(sorted(set(re.findall(r"\bR\d+\b", prompt))), evidence))


# --- models; `on_request` is called while the client waits for the answer -------------------------------------------


def adviser(on_request: Callable[[], None]) -> Answer:
    """Answers everything at once: the shortest run there is."""

    def answer(body: Json, _headers: Headers) -> Reply:
        on_request()
        return _reply(ANSWER, _text(body))

    return answer


def worker(on_request: Callable[[], None]) -> Answer:
    """Does the job, and judges it."""
    decisions = iter(job())

    def answer(body: Json, headers: Headers) -> Reply:
        on_request()
        prompt = _text(body)
        judging = headers.get("x-duckflow-node") == "evaluate"
        text = judged(prompt) if judging else next(decisions, None)
        return Reply(status=400) if text is None else _reply(text, prompt)

    return answer


def _text(body: Json) -> str:
    return "\n".join(str(message["content"]) for message in body["messages"])


def _reply(text: str, prompt: str) -> Reply:
    """With a bill, as services send it; about four characters are a token."""
    return Reply(text, usage=Usage(len(prompt) // 4, 0, len(text) // 4))


def in_process_worker() -> scripted.FunctionModel:
    """The worker for a kit in this process."""
    decisions = iter(job())

    def answer(request: base.ModelRequest) -> scripted.Reply:
        prompt = "\n".join(message.text for message in request.messages)
        text = judged(prompt) if request.node == "evaluate" else next(decisions)
        return scripted.Reply(text, usage=base.Usage(len(prompt) // 4, 0, len(text) // 4))

    return scripted.FunctionModel(answer)
