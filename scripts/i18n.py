"""Keeps the translations in step with the sources: finds message ids, updates the .po, compiles the .mo file.

Run it (make i18n) after changing a message; both files are committed. The same input gives the same bytes.
"""

from __future__ import annotations

import io
import sys
from datetime import UTC, datetime
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_dir
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "duckflow"
LOCALE = SOURCE / "locale"
LANGUAGES = ("ja",)
KEYWORDS = {"_": None, "N_": None, "ngettext": (1, 2)}
WHEN = datetime(2026, 1, 1, tzinfo=UTC)  # never the clock


def po_file(language: str) -> Path:
    return LOCALE / language / "LC_MESSAGES" / "duckflow.po"


def extract() -> Catalog:
    """Every message id in the sources, with the files it stands in."""
    catalog = _empty(None)
    found = extract_from_dir(SOURCE, method_map=[("**.py", "python")], keywords=KEYWORDS)
    for name, _line, message, _comments, _context in sorted(found, key=lambda item: item[:2]):
        if message:
            catalog.add(message, locations=[(f"src/duckflow/{name}", 1)])
    return catalog


def read(language: str) -> Catalog:
    path = po_file(language)
    if not path.exists():
        return _empty(language)
    with path.open("rb") as file:
        return _settled(read_po(file, locale=language))


def update(language: str) -> Catalog:
    """The translations there are, for the message ids there are now. New ones are empty, old ones go."""
    catalog = read(language)
    catalog.update(extract(), no_fuzzy_matching=True)
    catalog.obsolete.clear()
    return _settled(catalog)


def as_po(catalog: Catalog) -> bytes:
    out = io.BytesIO()
    write_po(out, catalog, width=110, sort_output=True, ignore_obsolete=True, include_lineno=False)
    return out.getvalue()


def as_mo(catalog: Catalog) -> bytes:
    out = io.BytesIO()
    write_mo(out, catalog)
    return out.getvalue()


def _empty(language: str | None) -> Catalog:
    return _settled(Catalog(language, project="duckflow", header_comment="# Duckflow"))


def _settled(catalog: Catalog) -> Catalog:
    """A header that says nothing about when, where and by whom it was written."""
    catalog.creation_date = catalog.revision_date = WHEN
    catalog.version = "0"
    catalog.last_translator = catalog.language_team = catalog.msgid_bugs_address = "duckflow"
    catalog.fuzzy = False
    return catalog


def main() -> int:
    missing = 0
    for language in LANGUAGES:
        catalog = update(language)
        path = po_file(language)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(as_po(catalog))
        path.with_suffix(".mo").write_bytes(as_mo(catalog))
        empty = [message.id for message in catalog if message.id and not any(message.string or ())]
        missing += len(empty)
        print(f"{language}: {len(catalog)} messages, {len(empty)} without a translation")
        for message in empty:
            print(f"  {message}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
