"""Importing this layer is cheap: what is heavy waits for its first use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import duckflow.llm

HEAVY = ("httpx2", "httpcore2", "pydantic", "pydantic_core", "splintr", "json_repair", "pydantic_ai", "ssl")
LIGHT = sorted(path.stem for path in Path(duckflow.llm.__file__).parent.glob("*.py") if path.stem != "schema")


def test_no_module_of_the_layer_imports_anything_heavy() -> None:
    """`schema` is the exception: it is imported when pydantic has already found something wrong."""
    code = "import sys\n"
    code += "".join(f"import duckflow.llm.{name}\n" for name in LIGHT if name != "__init__")
    code += f"print([name for name in {HEAVY} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    allowed = "[]\n", "['ssl']\n"  # asyncio brings ssl with it
    assert run.stdout in allowed


def test_a_key_is_in_no_representation() -> None:
    from duckflow.llm.providers import build
    from tests.llm.helpers import KEY, WIRES, Spec

    for kind in WIRES:
        model = build(Spec("https://models.example/v1", kind), None, {"TEST_KEY": KEY})
        assert KEY not in repr(model) + str(model)
