"""The process itself: signals until the event loop brings its own, and streams whose reader may be gone."""

from __future__ import annotations

import errno
import os
import sys


def hold_descriptors() -> None:
    """A standard stream that was closed (`2>&-`) leaves its number free: no file of ours may get it."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number


def print_version(line: str) -> int:
    """The one answer that loads nothing else, unless it cannot be written."""
    try:
        if sys.stdout is not None:
            sys.stdout.write(line + "\n")
            sys.stdout.flush()
    except OSError as error:
        close_streams()
        if error.errno == errno.EPIPE:
            return 0
        from duckflow.i18n import detect, set_language
        from duckflow.ui.out import cannot_write
        from duckflow.ui.trouble import explain_error

        set_language(detect(os.environ.get("DUCKFLOW_LANG", "auto")))
        explain_error(cannot_write(error))
        return 1
    return 0


def catch_signals() -> None:
    """SIGTERM has an exit code of its own (the event loop brings its own way there). A closed terminal is the same."""
    import signal  # not for `--version`

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:  # not under nohup
        signal.signal(signal.SIGHUP, lambda *_: os.kill(os.getpid(), signal.SIGTERM))


def close_streams() -> None:
    """Whoever read our output may be gone: that is no error of ours, and was told if it is one for somebody."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
