"""The boundary: where a path leads, and reading and writing there without check-then-open."""

from __future__ import annotations

import errno
import os
import stat
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from duckflow.errors import N_, UsageError
from duckflow.safety import descriptors as fds
from duckflow.safety.atomic import Content
from duckflow.safety.change import Place
from duckflow.safety.descriptors import PathChanged, PathMissing, PathRefused
from duckflow.safety.links import shares_secret
from duckflow.safety.names import TEMP_PREFIX, is_protected, is_secret

__all__ = ["OUTPUT", "PathChanged", "PathMissing", "PathRefused", "Workspace"]

OUTPUT = "out:"
_MAX_PATH = 4096
_LEFT_OVER = 60.0  # seconds after which a temporary file is of a killed process


class Workspace:
    """A directory. `locate` turns the model's path into a resolved one (`Place.path`), relative when inside.

    Every other method takes a resolved path (an absolute one only to read outside) and walks it from a
    descriptor, refusing any component that has become a link since. Blocking: big things belong in a thread.
    """

    def __init__(self, root: Path) -> None:
        try:
            self.root = root.resolve(strict=True)
        except FileNotFoundError as error:
            raise UsageError(N_("Cannot use {path} as the workspace: it does not exist."), path=root) from error
        except (OSError, RuntimeError) as error:
            why = getattr(error, "strerror", None) or error
            raise UsageError(N_("Cannot use {path} as the workspace: {why}"), path=root, why=why) from error
        if not self.root.is_dir():
            raise UsageError(N_("Cannot use {path} as the workspace: it is not a directory."), path=root)

    # --- locating ---

    def locate(self, path: str) -> Place:
        """Where a path leads right now, with links, `..` and spellings resolved. Raises PathRefused."""
        if path.startswith(OUTPUT):
            return Place(path, "output")
        _check_spelling(path)
        resolved = self._resolve(path)
        found = _lstat(resolved, path)
        linked = found is not None and shares_secret(found, self.root)
        if not resolved.is_relative_to(self.root):
            parts = resolved.parts[1:]
            return Place(str(resolved), "outside", is_protected(parts), is_secret(parts) or linked)
        parts = resolved.relative_to(self.root).parts
        return Place("/".join(parts) or ".", "inside", is_protected(parts), is_secret(parts) or linked)

    def _resolve(self, path: str) -> Path:
        resolved = Path(os.path.realpath(self.root / path))
        if path.isascii() or os.path.lexists(resolved):
            return resolved
        return Path(os.path.realpath(_as_spelt_on_disk(resolved)))

    def link_target(self, path: str) -> str | None:
        """Where the last component points when it is itself a symbolic link."""
        _check_spelling(path)
        whole = self.root / path
        try:
            return os.readlink(Path(os.path.realpath(whole.parent)) / whole.name)
        except OSError:
            return None

    # --- reading ---

    def stat(self, path: str) -> os.stat_result | None:
        """None: there is nothing. A parent that is not a directory is refused."""
        base, parts = self._split(path)
        if not parts:
            return os.stat(base)
        try:
            with fds.refusing(path), fds.directory(base, parts[:-1]) as fd:
                return fds.status(fd, parts[-1])
        except PathMissing:
            return None

    def open(self, path: str) -> BinaryIO:
        """A regular file for reading; the caller closes it."""
        base, parts = self._split(path)
        if not parts:
            raise PathRefused(f"{path} is a directory, not a file")
        with fds.refusing(path), fds.directory(base, parts[:-1]) as fd:
            return os.fdopen(fds.open_regular(fd, parts[-1], path), "rb")

    def read_bytes(self, path: str, limit: int) -> bytes:
        """The whole content; refused when it is larger than `limit`."""
        with self.open(path) as handle, fds.refusing(path):
            data = handle.read(limit + 1)
            if len(data) > limit:
                size = max(os.fstat(handle.fileno()).st_size, len(data))
                raise PathRefused(f"{path} has {size:,} bytes, more than the limit of {limit:,}")
        return data

    def entries(self, path: str) -> list[tuple[str, os.stat_result]]:
        """Names and facts of a directory's entries, links not followed, in no order."""
        base, parts = self._split(path)
        out: list[tuple[str, os.stat_result]] = []
        with fds.refusing(path), fds.directory(base, parts) as fd, os.scandir(fd) as found:
            for entry in found:
                try:
                    out.append((entry.name, entry.stat(follow_symlinks=False)))
                except FileNotFoundError:  # removed while we looked
                    continue
        return out

    # --- writing: always inside, never protected ---

    def write_atomic(self, path: str, data: bytes, mode: int | None, expect: str | None) -> None:
        """Put `data` at `path`, whole or not at all, if what is there has the hash `expect` (None: none)."""
        parts = self._writable(path)
        with fds.refusing(path), fds.directory(str(self.root), parts[:-1], create=True) as fd:
            name = parts[-1]
            _expect(fd, name, path, expect)
            old = fds.status(fd, name)
            owner = None if old is None else (old.st_uid, old.st_gid)
            if mode is None and old is not None:
                mode = stat.S_IMODE(old.st_mode) & 0o777
            content = Content(fd, data, mode, owner)
            if expect is None:
                with _still_free(path):
                    content.create(name)
            else:
                content.replace(name, lambda: _expect(fd, name, path, expect))
            fds.sync(fd)

    def remove(self, path: str, expect: str) -> None:
        """Delete the file if it still has the hash `expect`."""
        parts = self._writable(path)
        with fds.refusing(path), fds.directory(str(self.root), parts[:-1]) as fd:
            _expect(fd, parts[-1], path, expect)
            os.unlink(parts[-1], dir_fd=fd)
            fds.sync(fd)

    def rename(self, source: str, target: str, expect: str) -> None:
        """Move a file that still has the hash `expect` to a name that is still free."""
        from_parts, to_parts = self._writable(source), self._writable(target)
        root = str(self.root)
        with fds.refusing(source), fds.directory(root, from_parts[:-1]) as src:
            _expect(src, from_parts[-1], source, expect)
            with fds.refusing(target), fds.directory(root, to_parts[:-1], create=True) as dst:
                with _still_free(target):
                    fds.rename_new(src, from_parts[-1], dst, to_parts[-1])
                fds.sync(dst)
            fds.sync(src)

    def sweep(self, paths: Iterable[str], older_than: float = _LEFT_OVER) -> None:
        """Remove what killed writes left beside these resolved paths, once it is surely nobody's any more."""
        parents: set[tuple[str, ...]] = set()
        for path in paths:
            with suppress(PathRefused):
                parents.add(tuple(self._writable(path)[:-1]))
        for parent in parents:
            with suppress(PathRefused), fds.refusing("/".join(parent)), fds.directory(str(self.root), parent) as fd:
                fds.remove_old(fd, TEMP_PREFIX, older_than)

    # --- parts ---

    def _split(self, path: str) -> tuple[str, Sequence[str]]:
        """The directory to start from and the components to walk."""
        if path == ".":
            return str(self.root), ()
        base, parts = ("/", path.split("/")[1:]) if path.startswith("/") else (str(self.root), path.split("/"))
        if base == "/" and parts == [""]:
            return base, ()
        if any(part in ("", ".", "..") or "\0" in part for part in parts):
            raise PathRefused(f"{path}: not a resolved path")
        return base, parts

    def _writable(self, path: str) -> Sequence[str]:
        base, parts = self._split(path)
        if base != str(self.root) or path.startswith("/") or not parts:
            raise PathRefused(f"{path} is outside the workspace; nothing is ever written there")
        if is_protected(parts):
            raise PathRefused(f"{path} is protected; Duckflow does not change it")
        return parts


def _check_spelling(path: str) -> None:
    if not path.strip():
        raise PathRefused("the path is empty")
    if "\0" in path:
        raise PathRefused("the path contains a NUL character")
    if odd := next((char for char in path if unicodedata.category(char) in ("Cc", "Zl", "Zp")), ""):
        what = "a line end; give one path on one line" if odd in "\r\n" else f"the control character {odd!a}"
        raise PathRefused(f"the path {path[:80]!a} contains {what}")
    if path.startswith("~"):
        raise PathRefused(f"{path[:80]}: ~ is not expanded; give a path relative to the workspace (./~name for a file)")
    try:
        size = len(path.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise PathRefused("the path is not valid Unicode") from error
    if size > _MAX_PATH:
        raise PathRefused(f"the path has {size:,} bytes, more than {_MAX_PATH:,}")


def _lstat(resolved: Path, shown: str) -> os.stat_result | None:
    try:
        found = os.lstat(resolved)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise PathRefused(f"{shown}: symbolic links go round in a circle") from error
        if error.errno == errno.ENAMETOOLONG:
            raise PathRefused(f"{shown[:80]}…: a name in the path is too long") from error
        return None
    if stat.S_ISLNK(found.st_mode):
        raise PathRefused(f"{shown}: symbolic links go round in a circle")
    return found


def _as_spelt_on_disk(path: Path) -> Path:
    """The same path with the composed or decomposed spelling (が, か+゛) that the directories really hold."""
    current = Path(path.anchor)
    for at, part in enumerate(path.parts[1:], start=1):
        if not os.path.lexists(current / part):
            wanted = unicodedata.normalize("NFC", part)
            try:
                same = [name for name in os.listdir(current) if unicodedata.normalize("NFC", name) == wanted]
            except OSError:
                same = []
            if len(same) != 1:
                return current.joinpath(*path.parts[at:])
            part = same[0]
        current /= part
    return current


def _expect(fd: int, name: str, shown: str, expect: str | None) -> None:
    found = fds.hash_of(fd, name, shown)
    if found == expect:
        return
    if expect is None:
        raise PathChanged(f"{shown} exists now, it did not when this was prepared; nothing was written")
    if found is None:
        raise PathChanged(f"{shown} is gone, it was there when this was prepared; nothing was written")
    raise PathChanged(f"{shown} changed after this was prepared; nothing was written")


@contextmanager
def _still_free(shown: str) -> Iterator[None]:
    try:
        yield
    except FileExistsError as error:
        raise PathChanged(f"{shown} exists now, it did not when this was prepared; nothing was written") from error
