"""The installed command as a process, in a workspace of its own, pointed at a model server on loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COMMAND = Path(sys.executable).with_name("duckflow")


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def events(self) -> list[dict[str, Any]]:
        """The lines of --output-format stream-json."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def result(self) -> dict[str, Any]:
        last: dict[str, Any] = json.loads(self.out.splitlines()[-1])
        assert last["type"] == "result"
        return last

    def of(self, *types: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["type"] in types]


class Duck:
    """One user on one machine: home, settings, a project."""

    def __init__(self, home: Path, url: str = "", kind: str = "openai", extra: str = "") -> None:
        self.home = home
        self.project = home / "project"
        self.project.mkdir(parents=True, exist_ok=True)
        folder = home / "config" / "duckflow"
        folder.mkdir(parents=True, exist_ok=True)
        if url:
            address = url if kind == "openai" else url.removesuffix("/v1")
            (folder / "config.toml").write_text(
                f'{extra}\n[providers.local]\nkind = "{kind}"\nbase_url = "{address}"\n'
                '[models.main]\nprovider = "local"\nmodel = "tester"\nwindow = 64000\n'
                "price = { input = 1.0, cached_input = 0.1, output = 2.0 }\n",
                encoding="utf-8",
            )
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "XDG_CONFIG_HOME": str(home / "config"),
            "DUCKFLOW_HOME": str(home / "data"),
            "TERM": "xterm-256color",
        }

    def start(self, *args: str, **rest: Any) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [str(COMMAND), *args],
            cwd=self.project,
            env=self.env,
            stdin=rest.pop("stdin", subprocess.DEVNULL),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            **rest,
        )

    def __call__(self, *args: str, data: str | None = None) -> Ran:
        process = self.start(*args, stdin=subprocess.DEVNULL if data is None else subprocess.PIPE)
        try:
            out, err = process.communicate(data, timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            raise AssertionError(f"still running after 60 s\n{out}\n{err}") from None
        assert "Traceback" not in out + err, err
        return Ran(process.returncode, out, err)

    def run(self, *args: str, data: str | None = None) -> Ran:
        """`run` with every event on stdout."""
        return self("run", "--output-format", "stream-json", *args, data=data)

    def files(self) -> dict[str, bytes]:
        return {
            str(path.relative_to(self.project)): path.read_bytes()
            for path in sorted(self.project.rglob("*"))
            if path.is_file()
        }
