"""The process itself: signals until the event loop brings its own, and streams whose reader may be gone."""

from __future__ import annotations

import os
import signal
import sys


def catch_signals() -> None:
    """SIGTERM has an exit code of its own (the event loop brings its own way there). A closed terminal is the same."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:  # not under nohup
        signal.signal(signal.SIGHUP, lambda *_: os.kill(os.getpid(), signal.SIGTERM))


def close_streams() -> None:
    """Whoever read our output may be gone: that is no error of ours."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
