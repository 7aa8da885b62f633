"""Which names are protected or secret, whatever their spelling. Knows names only, never the disk."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import lru_cache

TEMP_PREFIX = ".duckflow-tmp-"
"""Of the file that a write in progress makes beside its target; one that stays is from a killed process."""

_TREES = frozenset({".git", "git~1", ".duckflow", ".ssh", ".gnupg", ".emacs.d"})
_START_UP = frozenset((
    ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".login",
    ".cshrc", ".tcshrc", ".kshrc", ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".inputrc",
    ".vimrc", ".gvimrc", ".exrc", ".nvimrc", ".nvim.lua", ".emacs", ".dir-locals.el", ".gitconfig",
    ".pythonstartup", ".pdbrc", ".gdbinit", ".lldbinit", ".screenrc", ".tmux.conf"
))  # fmt: skip
_PLAIN_ENV = frozenset({".env.example", ".env.sample", ".env.template"})
_SECRET_NAMES = frozenset((
    "credentials", "credentials.json", "credentials.yml", "credentials.yaml", "credentials.toml",
    ".credentials", ".credentials.json", "secrets.json", "secrets.yml", "secrets.yaml", "secrets.toml",
    ".netrc", "_netrc", ".npmrc", ".pypirc", ".pgpass", ".my.cnf", ".htpasswd", ".git-credentials",
    ".dockercfg", ".s3cfg", ".boto", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "id_ecdsa_sk",
    "id_ed25519_sk", "application_default_credentials.json"
))  # fmt: skip
_SECRET_SUFFIXES = (
    *(".pem", ".key", ".p12", ".pfx", ".p8", ".jks", ".keystore", ".kdbx", ".ppk", ".ovpn"),
    *(".env", ".tfstate", ".tfvars"),
)
_SECRET_TREES = frozenset({".ssh", ".aws", ".gnupg", ".azure", ".gcloud"})
_SECRET_PAIRS = frozenset({(".docker", "config.json"), (".kube", "config"), ("gh", "hosts.yml")})


@lru_cache(maxsize=4096)
def canonical(name: str) -> str:
    """One spelling for names that file systems or readers may take for the same: `.GIT`, `.git.`, `.git `."""
    if name.isascii():
        return name.lower().strip().rstrip(". ") or name
    shown = "".join(ch for ch in name if unicodedata.category(ch) != "Cf")
    folded = unicodedata.normalize("NFKC", shown).casefold()
    return unicodedata.normalize("NFKC", folded).strip().rstrip(". ") or name


def is_protected(parts: Sequence[str]) -> bool:
    """Repository and Duckflow internals at any depth, and what a shell or an editor runs at its start."""
    names = [canonical(part) for part in parts]
    return any(name in _TREES for name in names) or any(name in _START_UP for name in names[-1:])


def is_secret(parts: Sequence[str]) -> bool:
    """Files that usually hold keys or passwords."""
    if not parts:
        return False
    names = [canonical(part) for part in parts]
    name = names[-1]
    if name.endswith(".pub") or name in _PLAIN_ENV:
        return False
    if name.startswith(".env") or name in _SECRET_NAMES or name.endswith(_SECRET_SUFFIXES):
        return True
    if name.startswith(("client_secret", "service-account", "service_account")) and name.endswith(".json"):
        return True
    if any(part in _SECRET_TREES for part in names[:-1]) or tuple(names[-2:]) in _SECRET_PAIRS:
        return True
    return names[0] == "proc" and name in ("environ", "mem", "auxv")
