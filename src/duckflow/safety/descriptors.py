"""Files through directory descriptors: no component may be a link, nothing special is opened."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

_DIR = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | getattr(os, "O_NOCTTY", 0)
_CHUNK = 1 << 20
_NO_REPLACE = 1  # RENAME_NOREPLACE
_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EINVAL})


class PathRefused(Exception):
    """This path cannot be used. The text is for the model: what is wrong and what to do instead."""


class PathChanged(PathRefused):
    """What is on the disk is not what the action was prepared for; nothing was written."""


class PathMissing(PathRefused):
    """There is no such file."""


_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def kind_of(mode: int) -> str:
    """`a file`, `a directory`, …: in words for a message."""
    return next((name for test, name in _KINDS if test(mode)), "a file")


@contextmanager
def refusing(path: str) -> Iterator[None]:
    """Operating system errors as refusals that name the path as it was given."""
    try:
        yield
    except FileNotFoundError as error:
        raise PathMissing(f"{path}: no such file or directory") from error
    except NotADirectoryError as error:
        raise PathRefused(f"{path}: a part of the path is not a directory, or became a link") from error
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise PathRefused(f"{path}: a part of the path is or became a symbolic link") from error
        raise PathRefused(f"{path}: {os.strerror(error.errno or 0)}") from error


@contextmanager
def directory(base: str, parts: Sequence[str], *, create: bool = False) -> Iterator[int]:
    """A descriptor of base/parts, no part followed if it is a link. Directories made go again on failure."""
    made: list[tuple[int, str]] = []
    fd = os.open(base, _DIR)
    try:
        for part in parts:
            following, new = _enter(fd, part, create)
            if new:
                made.append((os.dup(fd), part))
            os.close(fd)
            fd = following
        yield fd
    except BaseException:
        for parent, part in reversed(made):
            with suppress(OSError):
                os.rmdir(part, dir_fd=parent)
        raise
    finally:
        os.close(fd)
        for parent, _part in made:
            os.close(parent)


def sync(fd: int) -> None:
    """A directory's names to the disk. Some file systems cannot; what was renamed is renamed all the same."""
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP, errno.EBADF):
            raise


def _enter(fd: int, part: str, create: bool) -> tuple[int, bool]:
    try:
        return os.open(part, _DIR, dir_fd=fd), False
    except FileNotFoundError:
        if not create:
            raise
    try:
        os.mkdir(part, 0o777, dir_fd=fd)
    except FileExistsError:
        return os.open(part, _DIR, dir_fd=fd), False
    sync(fd)
    return os.open(part, _DIR, dir_fd=fd), True


def status(fd: int, name: str) -> os.stat_result | None:
    """Of the entry itself, not of what a link points to; None: there is none."""
    try:
        return os.stat(name, dir_fd=fd, follow_symlinks=False)
    except FileNotFoundError:
        return None


def open_regular(fd: int, name: str, shown: str) -> int:
    """A descriptor of a regular file. Pipes and devices are refused before they are opened."""
    found = os.stat(name, dir_fd=fd, follow_symlinks=False)
    if not stat.S_ISREG(found.st_mode):
        raise PathRefused(f"{shown} is {kind_of(found.st_mode)}, not a file")
    opened = os.open(name, _READ, dir_fd=fd)
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise PathRefused(f"{shown} is not a regular file")
    return opened


def hash_of(fd: int, name: str, shown: str) -> str | None:
    """The content's name; None when there is no such file."""
    try:
        opened = open_regular(fd, name, shown)
    except FileNotFoundError:
        return None
    digest = hashlib.sha256()
    try:
        while piece := os.read(opened, _CHUNK):
            digest.update(piece)
    finally:
        os.close(opened)
    return digest.hexdigest()


def remove_old(fd: int, prefix: str, seconds: float) -> None:
    """Remove the regular files of a directory whose names begin so and that nobody wrote to for so long."""
    with os.scandir(fd) as found:
        names = [entry.name for entry in found if entry.name.startswith(prefix)]
    for name in names:
        facts = status(fd, name)
        if facts is not None and stat.S_ISREG(facts.st_mode) and time.time() - facts.st_mtime > seconds:
            with suppress(OSError):
                os.unlink(name, dir_fd=fd)


def rename_new(src: int, name: str, dst: int, target: str) -> None:
    """Rename that never replaces: FileExistsError when the target is there."""
    code = _renameat2(src, name, dst, target)
    if code == 0:
        return
    if code not in (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP):
        raise OSError(code, os.strerror(code), target)
    try:
        os.link(name, target, src_dir_fd=src, dst_dir_fd=dst, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if status(dst, target) is not None:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target) from error
        os.rename(name, target, src_dir_fd=src, dst_dir_fd=dst)
        return
    os.unlink(name, dir_fd=src)


def _renameat2(src: int, name: str, dst: int, target: str) -> int:
    import ctypes

    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return errno.ENOSYS
    if call(src, os.fsencode(name), dst, os.fsencode(target), _NO_REPLACE) == 0:
        return 0
    return ctypes.get_errno()
