"""A file's new content, whole or not at all. Where the kernel can, it has no name until it is complete and synced."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from duckflow.safety.descriptors import rename_new
from duckflow.safety.names import TEMP_PREFIX

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK = 1 << 20


class Content:
    """What a file in the directory `fd` is to hold. `mode` None: as the umask says."""

    def __init__(self, fd: int, data: bytes, mode: int | None, owner: tuple[int, int] | None) -> None:
        self._fd, self._data, self._mode, self._owner = fd, data, mode, owner

    def create(self, name: str) -> None:
        """Under a name that is still free; FileExistsError when it is not."""
        with self._nameless() as opened:
            if opened is not None and self._linked(opened, name):
                return
        with self._temporary() as temp:
            rename_new(self._fd, temp, self._fd, name)

    def replace(self, name: str, check: Callable[[], None]) -> None:
        """In place of a file that is there. `check` is asked when all is written, just before."""
        with self._nameless() as opened:
            if opened is not None:
                check()
                temp = _temporary_name()
                try:
                    if self._linked(opened, temp):
                        os.replace(temp, name, src_dir_fd=self._fd, dst_dir_fd=self._fd)
                        return
                except BaseException:
                    with suppress(OSError):
                        os.unlink(temp, dir_fd=self._fd)
                    raise
        with self._temporary() as temp:
            check()
            os.replace(temp, name, src_dir_fd=self._fd, dst_dir_fd=self._fd)

    def _linked(self, opened: int, name: str) -> bool:
        """Give the nameless file a name. False: not here (no /proc, a file system that cannot)."""
        try:
            os.link(f"/proc/self/fd/{opened}", name, dst_dir_fd=self._fd, follow_symlinks=True)
        except FileExistsError:
            raise
        except OSError:
            return False
        return True

    @contextmanager
    def _nameless(self) -> Iterator[int | None]:
        opened = open_nameless(self._fd, self._bits())
        try:
            if opened is not None:
                self._fill(opened)
            yield opened
        finally:
            if opened is not None:
                os.close(opened)

    @contextmanager
    def _temporary(self) -> Iterator[str]:
        """The name of a complete, synced file in the directory; gone afterwards unless it was renamed."""
        name = _temporary_name()
        opened = os.open(name, _NEW, self._bits(), dir_fd=self._fd)
        try:
            try:
                self._fill(opened)
            finally:
                os.close(opened)
            yield name
        finally:
            with suppress(OSError):
                os.unlink(name, dir_fd=self._fd)

    def _bits(self) -> int:
        return 0o666 if self._mode is None else 0o600

    def _fill(self, opened: int) -> None:
        view = memoryview(self._data)
        while view:
            view = view[os.write(opened, view[:_CHUNK]) :]
        if self._owner is not None:
            with suppress(OSError):
                os.fchown(opened, *self._owner)
        if self._mode is not None:
            os.fchmod(opened, self._mode)
        os.fsync(opened)


def open_nameless(fd: int, bits: int) -> int | None:
    """A file without a name in the directory; None where there is no such thing."""
    flag = getattr(os, "O_TMPFILE", 0)
    if not flag:
        return None
    try:
        return os.open(".", flag | os.O_WRONLY | os.O_CLOEXEC, bits, dir_fd=fd)
    except OSError:  # whatever it is, the visible way meets it too and says it
        return None


def _temporary_name() -> str:
    return TEMP_PREFIX + secrets.token_hex(8)
