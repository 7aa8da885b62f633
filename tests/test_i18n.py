"""Everything people read exists in Japanese too."""

from __future__ import annotations

import gettext
import importlib.util
import re
import string
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from duckflow.i18n import clauses, listed, ngettext, set_language

SCRIPT = Path(__file__).resolve().parent.parent / "scripts" / "i18n.py"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("i18n_tool", SCRIPT)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def placeholders(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


def forms(text: str | tuple[str, ...]) -> Iterator[str]:
    yield from (text,) if isinstance(text, str) else text


def test_every_message_has_a_japanese_translation(tool: ModuleType) -> None:
    translations = tool.read("ja")
    wrong = []
    for message in tool.extract():
        if not message.id:
            continue
        translated = translations.get(message.id)
        if translated is None or not all(forms(translated.string)) or translated.fuzzy:
            wrong.append(message.id)
    assert not wrong, "run `make i18n` and fill in the empty ones"


def test_a_translation_has_the_placeholders_of_its_message(tool: ModuleType) -> None:
    for message in tool.read("ja"):
        for translated in filter(None, forms(message.string) if message.id else ()):
            assert placeholders(translated) == placeholders([*forms(message.id)][-1]), message.id


def test_a_translation_is_japanese_and_keeps_the_ends_of_its_message(tool: ModuleType) -> None:
    """Names of commands alone may stay as they are, punctuation may be all there is; a line end carries layout."""
    for message in tool.read("ja"):
        for translated in filter(None, forms(message.string) if message.id else ()):
            original = [*forms(message.id)][-1]
            assert translated.endswith("\n") == original.endswith("\n"), message.id
            assert translated == original or re.search(r"[\u3001-\u30ff\u4e00-\u9fff\uff01-\uff5e]", translated), (
                message.id
            )


def test_a_message_with_a_number_has_its_singular_and_lists_have_their_own_marks() -> None:
    forms = ("{n} file, +{added} −{removed} lines", "{n} files, +{added} −{removed} lines")
    try:
        set_language("en")
        assert [ngettext(*forms, n, added=1, removed=0)[:7] for n in (0, 1, 2)] == ["0 files", "1 file,", "2 files"]
        assert (listed(("a", "", "b")), clauses(("a", "b"))) == ("a, b", "a; b")
        set_language("ja")
        assert ngettext(*forms, 1, added=1, removed=0) == "1 ファイル、+1 −0 行"
        assert (listed(("a", "b")), clauses(("a", "b"))) == ("a、b", "a；b")
    finally:
        set_language("en")


def test_no_translation_is_left_over(tool: ModuleType) -> None:
    used = {message.id for message in tool.extract()}
    assert {message.id for message in tool.read("ja")} <= used


def test_the_compiled_file_is_the_one_the_translations_give(tool: ModuleType) -> None:
    path = tool.po_file("ja")
    assert path.read_bytes() == tool.as_po(tool.update("ja")), "run `make i18n`"
    assert path.with_suffix(".mo").read_bytes() == tool.as_mo(tool.read("ja")), "run `make i18n`"


def test_the_program_finds_the_compiled_file(tool: ModuleType) -> None:
    found = gettext.translation("duckflow", tool.LOCALE, ["ja"])
    assert found.gettext("Did you mean {nearest}?") != "Did you mean {nearest}?"
