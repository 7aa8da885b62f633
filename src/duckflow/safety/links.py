"""Whether a file is a second name (hard link) of one that holds secrets. Reads no contents."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from duckflow.safety.names import is_secret

_MAX_ENTRIES = 100_000
_SKIP = frozenset({".git", "node_modules", ".venv", "venv", "__pycache__", "site-packages"})
_HOME = (
    *(".netrc", ".npmrc", ".pypirc", ".pgpass", ".git-credentials", ".aws/credentials", ".kube/config"),
    *(
        ".docker/config.json",
        ".ssh/id_rsa",
        ".ssh/id_ed25519",
        ".ssh/id_ecdsa",
        ".ssh/id_dsa",
        ".config/gh/hosts.yml",
    ),
)


def shares_secret(found: os.stat_result, root: Path) -> bool:
    """Only files with several names cost anything here: their other names are looked for."""
    if found.st_nlink < 2 or not stat.S_ISREG(found.st_mode):
        return False
    return (found.st_dev, found.st_ino) in secret_inodes(root)


def secret_inodes(root: Path) -> frozenset[tuple[int, int]]:
    """Device and inode of files with secret names in the workspace, and of the usual ones at home."""
    out: set[tuple[int, int]] = set()
    for path in (*_named_secret(root), *(os.path.join(os.path.expanduser("~"), name) for name in _HOME)):
        try:
            found = os.stat(path, follow_symlinks=False)
        except OSError:
            continue
        out.add((found.st_dev, found.st_ino))
    return frozenset(out)


def _named_secret(root: Path) -> Iterator[str]:
    seen = 0
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name not in _SKIP]
        relative = Path(folder).relative_to(root).parts
        for name in names:
            seen += 1
            if is_secret((*relative, name)):
                yield os.path.join(folder, name)
        if seen > _MAX_ENTRIES:
            return
