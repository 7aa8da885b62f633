"""Shell commands as text: what is plainly destructive, what is simple, what its parts are.

This is no shell grammar: it only makes things stricter. What it does not recognise "cannot be inspected".
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from duckflow.safety.neutral import has_invisible

_COMPLEX = re.compile(r"[;&|<>$`(){}\n\r\\]|^\s*[A-Za-z_][A-Za-z0-9_]*\+?=")
_OPERATORS = re.compile(r"\|\||&&|[;&|\n\r(){}`]|\$\(")
_BEFORE_COMMAND = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=|[-<>]|[\d.]+[smhd]?$")  # X=1, -n, >f, 10s
_WRAPPERS = frozenset((
    "sudo", "doas", "env", "command", "builtin", "exec", "nohup", "nice", "ionice", "time", "timeout",
    "xargs", "stdbuf", "setsid", "busybox", "unshare", "chroot", "eval", "if", "then", "else", "do",
    "while", "until", "!", "watch", "strace", "bash", "sh", "zsh", "dash", "ksh"
))  # fmt: skip

_ROOT = (  # targets of rm that are never a project's business
    r"/\*?|~/?\*?|\$\{?HOME\}?/?\*?|/(?:bin|boot|dev|etc|home|lib\w*|opt|root|sbin|srv|sys|usr|var)/?\*?"
    r"|\.\./?\*?|\./?\*?|\*|\.git/?\*?"
)
_INSPECTED = 8_000  # characters: patterns over more would cost time, and it is HIGH anyway
_DESTRUCTIVE = (  # patterns as text: compiled when the first command comes
    ("deletes without the root safeguard", r"--no-preserve-root"),
    ("deletes everything it finds", r"\bfind\s+(?:/|~|\$HOME)\S*\s.*-(?:delete|exec\s+rm)\b"),
    ("formats a file system", r"\b(?:mkfs(?:\.\w+)?|mkswap|wipefs|fdisk|parted|sgdisk)\s"),
    ("overwrites a device", r"\bdd\b.*\bof=/dev/(?!null\b)|>\s*/dev/(?:sd|hd|vd|xvd|nvme|mmcblk|disk)"),
    ("is a fork bomb", r"(\S+)\s*\(\)\s*\{[^}]*\1\s*\|\s*\1\s*&|:\(\)\s*\{"),
    (
        "runs what it downloads",
        r"\b(?:curl|wget|fetch)\b[^;\n]*\|\s*(?:sudo\s+|env\s+)*(?:\S*/)?(?:ba|z|da|k|fi)?sh\b"
        r"|\b(?:curl|wget)\b[^;\n]*\|\s*(?:sudo\s+)*(?:\S*/)?(?:python[\d.]*|perl|ruby|node|php)\b"
        r"|\b(?:ba|z|da|k)?sh\s+(?:-c\s+)?[\"']?(?:<\(|\$\()\s*(?:curl|wget)\b|\beval\b.*\b(?:curl|wget)\b",
    ),
    ("opens a network connection to run what comes in", r"/dev/(?:tcp|udp)/"),
    ("changes permissions of the whole system", r"\bch(?:mod|own)\s+(?:-\S+\s+)*\S+\s+/(?:\s|$)"),
    (
        "stops the machine",
        r"(?:^|[;&|]\s*|sudo\s+)(?:shutdown|reboot|halt|poweroff)\b|\bkill\s+-9\s+-1\b",
    ),
    (
        "writes to a protected or start-up file",
        r">\|?\s*\S*(?:\.git/|\.duckflow/|\.ssh/|\.(?:ba|z)shrc|\.profile)",
    ),
)


def destructive(command: str) -> str:
    """What a plainly destructive command would do; empty when none of the known patterns is there."""
    flat = re.sub(r"\\\n", " ", command[:_INSPECTED])
    if any(_removes_root(part.split()) for part in parts(flat)):
        return "deletes a root, home or whole working directory"
    for text in {flat, unquoted(flat)}:
        for what, pattern in _DESTRUCTIVE:
            if re.search(pattern, text):
                return what
    return ""


def _removes_root(words: list[str]) -> bool:
    if not words or words[0] != "rm":
        return False
    recursive = any(re.match(r"-\w*[rR]|--recursive", word) for word in words[1:])
    return recursive and any(re.fullmatch(_ROOT, word.strip("\"'")) for word in words[1:])


def is_simple(command: str) -> bool:
    """One command and its words: nothing that joins, redirects, substitutes, assigns or hides."""
    return not _COMPLEX.search(command) and not has_invisible(command)


def unquoted(command: str) -> str:
    """Without quotes and backslashes: `"r"m` is rm."""
    return re.sub(r"[\"'\\]", "", command)


def parts(command: str) -> Iterator[str]:
    """The whole and everything in it that a rule which tightens should look at."""
    yield command
    yield command.strip()
    for text in (command, unquoted(command), re.sub(r"[\"']", "\n", command)):
        for segment in _OPERATORS.split(text):
            yield from _unwrapped(segment.split())


def _unwrapped(words: list[str]) -> Iterator[str]:
    """The command, then what is left when wrappers, options and assignments before it are taken away."""
    while words:
        yield " ".join(words)
        name = words[0].rsplit("/", 1)[-1]
        if name != words[0]:
            yield " ".join([name, *words[1:]])
        if name not in _WRAPPERS and not _BEFORE_COMMAND.match(words[0]):
            return
        words = words[1:]
