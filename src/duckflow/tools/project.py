"""A first look at a workspace, within a few milliseconds and without running anything: what the model is told once."""

from __future__ import annotations

import os
import re
import struct
import time
from collections import Counter
from datetime import date
from pathlib import Path

from duckflow.prompts.sections import ProjectFacts
from duckflow.safety.manifest import SKIPPED

RULES = ("AGENTS.md", "CLAUDE.md")
RULES_CHARACTERS = 6000
_INVISIBLE = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]")
_LANGUAGES = {
    ".py": "Python", ".js": "JavaScript", ".ts": "TypeScript", ".tsx": "TypeScript", ".jsx": "JavaScript",
    ".go": "Go", ".rs": "Rust", ".java": "Java", ".kt": "Kotlin", ".c": "C", ".h": "C", ".cpp": "C++", ".hpp": "C++",
    ".cs": "C#", ".rb": "Ruby", ".php": "PHP", ".swift": "Swift", ".sh": "Shell", ".html": "HTML", ".css": "CSS",
    ".sql": "SQL", ".md": "Markdown", ".vue": "Vue", ".dart": "Dart", ".scala": "Scala", ".lua": "Lua",
}  # fmt: skip


def look(root: Path, seconds: float = 0.02) -> ProjectFacts:
    """Facts about the workspace as it is now; what does not fit into the time is left out."""
    end = time.monotonic() + seconds
    top, counts, tests = _walk(root, end)
    rules_from, rules = _rules(root)
    return ProjectFacts(
        workspace=str(root),
        system=f"{os.uname().sysname} {os.uname().machine}",
        date=date.today().isoformat(),
        branch=_branch(root),
        dirty=_dirty(root, end),
        languages=", ".join(f"{name} {n}" for name, n in counts.most_common(4)),
        test_command=_test_command(root, top, tests),
        tree=_tree(top),
        rules=rules,
        rules_from=rules_from,
    )


def _walk(root: Path, end: float) -> tuple[dict[str, list[str]], Counter[str], bool]:
    """The names of the top two levels, files by language, and whether there are Python tests."""
    top: dict[str, list[str]] = {}
    counts: Counter[str] = Counter()
    tests = False
    stack = [(str(root), 0, "")]
    while stack and time.monotonic() < end:
        directory, depth, parent = stack.pop(0)
        try:
            with os.scandir(directory) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            is_dir = entry.is_dir(follow_symlinks=False)
            if entry.name in SKIPPED or (entry.name.startswith(".") and is_dir):
                continue
            name = entry.name + ("/" if is_dir else "")
            if depth == 0:
                top[name] = []
            elif depth == 1:
                top[parent].append(name)
            if is_dir:
                stack.append((entry.path, depth + 1, name if depth == 0 else parent))
            else:
                counts.update([language] if (language := _LANGUAGES.get(os.path.splitext(name)[1])) else [])
                tests = tests or (name.startswith("test_") and name.endswith(".py"))
    return top, counts, tests


def _tree(top: dict[str, list[str]]) -> str:
    """One line per directory of the first level, then the files beside them."""
    lines = []
    for name, inside in top.items():
        if name.endswith("/"):
            shown = " ".join(_printable(n) for n in inside[:8]) + (f" +{len(inside) - 8}" if len(inside) > 8 else "")
            lines.append(f"{_printable(name)} {shown}".rstrip())
    files = [_printable(name) for name in top if not name.endswith("/")]
    more = f" +{len(files) - 15}" if len(files) > 15 else ""
    return "\n".join([*([" ".join(files[:15]) + more] if files else []), *lines[:12]])


def _printable(name: str) -> str:
    """File names are data: nothing in them may look like another line of the prompt."""
    return "".join(c if c.isprintable() else "�" for c in name)[:60]


def _test_command(root: Path, top: dict[str, list[str]], tests: bool) -> str:
    if "package.json" in top and '"test"' in _text(root / "package.json"):
        return "npm test"
    if "Cargo.toml" in top:
        return "cargo test"
    if "go.mod" in top:
        return "go test ./..."
    if tests or "pytest" in _text(root / "pyproject.toml") or "pytest.ini" in top:
        return "pytest -q"
    return "make test" if re.search(r"^test:", _text(root / "Makefile"), re.M) else ""


def _rules(root: Path) -> tuple[str, str]:
    """The project's own wishes to whoever works in it, without characters nobody can see."""
    for name in RULES:
        text = _text(root / name, RULES_CHARACTERS + 1)
        if text.strip():
            cut = "\n[cut]" if len(text) > RULES_CHARACTERS else ""
            return name, _INVISIBLE.sub("", text[:RULES_CHARACTERS]).strip() + cut
    return "", ""


def _text(path: Path, most: int = 20_000) -> str:
    try:
        if path.is_symlink() or not path.is_file():
            return ""
        with path.open("rb") as file:
            return file.read(most * 4).decode("utf-8", "replace")[:most]
    except OSError:
        return ""


def _branch(root: Path) -> str:
    """Read from the file itself: running git would run what a hostile repository configures."""
    head = _text(root / ".git" / "HEAD", 300).strip()
    name = head.removeprefix("ref: refs/heads/") if head.startswith("ref: ") else head[:10]
    return _printable(name)


def _dirty(root: Path, end: float) -> int | None:
    """How many tracked files differ in size or time from git's index. None: not known in time."""
    try:
        data = (root / ".git" / "index").read_bytes()
    except OSError:
        return None
    if data[:4] != b"DIRC" or struct.unpack(">I", data[4:8])[0] not in (2, 3):
        return None
    count, at, changed = struct.unpack(">I", data[8:12])[0], 12, 0
    prefix = str(root) + os.sep
    for n in range(count):
        if n % 256 == 0 and time.monotonic() > end:
            return None
        seconds, nano = struct.unpack(">II", data[at + 8 : at + 16])
        size, flags = (
            struct.unpack(">I", data[at + 36 : at + 40])[0],
            struct.unpack(">H", data[at + 60 : at + 62])[0],
        )
        begin = at + 62 + (2 if flags & 0x4000 else 0)
        stop = data.index(b"\0", begin)
        at += (stop - at + 8) & ~7
        try:
            stat = os.lstat(prefix + os.fsdecode(data[begin:stop]))
        except OSError:
            changed += 1
            continue
        same = stat.st_size & 0xFFFFFFFF == size and int(stat.st_mtime) & 0xFFFFFFFF == seconds
        changed += not (same and (not nano or stat.st_mtime_ns % 1_000_000_000 == nano))
    return changed
