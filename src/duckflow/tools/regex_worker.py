"""A process of its own for regular expressions: one that never ends can be killed. Standard library only, no files.

Reads the pattern, then texts, from standard input, each as eight bytes of length and UTF-8; answers each text with
one line of JSON: the numbers (from 0) of the lines that match. Run as a script, never imported by the program.
"""

from __future__ import annotations

import json
import re
import sys

MOST = 101
LONGEST = 20_000  # characters of a line that are looked at


def main() -> None:
    source, sink = sys.stdin.buffer, sys.stdout.buffer

    def receive() -> str | None:
        size = source.read(8)
        return source.read(int.from_bytes(size, "big")).decode("utf-8", "replace") if len(size) == 8 else None

    pattern = receive()
    if pattern is None:
        return
    search = re.compile(pattern).search
    while (text := receive()) is not None:
        found: list[int] = []
        for number, line in enumerate(text.split("\n")):
            if search(line[:LONGEST]):
                found.append(number)
                if len(found) >= MOST:
                    break
        sink.write(json.dumps(found).encode("ascii") + b"\n")
        sink.flush()


if __name__ == "__main__":
    main()
