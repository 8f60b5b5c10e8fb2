"""The real `holdfast` command in a subprocess, with a home, a configuration and a state of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

TIMEOUT = 60
Json = dict[str, Any]


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Json:
        return cast(Json, json.loads(self.out))

    @property
    def lines(self) -> list[Json]:
        return [cast(Json, json.loads(line)) for line in self.out.splitlines()]

    @property
    def sentence(self) -> str:
        """The one line on standard error of a command that could not do its work."""
        lines = self.err.strip().splitlines()
        assert len(lines) == 1, self.err
        return lines[0]


@dataclass(frozen=True)
class Cli:
    project: Path
    env: dict[str, str]

    @classmethod
    def in_folder(cls, folder: Path, compiled: Path) -> Cli:
        kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "LC_ALL", "TMPDIR")}
        env = kept | {
            "HOME": str(folder / "home"),
            "XDG_STATE_HOME": str(folder / "state"),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "PYTHONPYCACHEPREFIX": str(compiled),
            "LOGNAME": "tester",
            "TERM": "xterm-256color",
        }
        project = folder / "project"
        project.mkdir()
        (project / ".git").mkdir()
        return cls(project, env)

    def configure(self, text: str) -> None:
        path = Path(self.env["XDG_CONFIG_HOME"], "holdfast", "config.toml")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def command(self, *args: str) -> list[str]:
        return [sys.executable, "-m", "holdfast", *args]

    def run(
        self, *args: str, stdin: str | bytes = b"", cwd: Path | None = None, env: Mapping[str, str] | None = None
    ) -> Done:
        done = subprocess.run(
            self.command(*args),
            input=stdin.encode() if isinstance(stdin, str) else stdin,
            capture_output=True,
            check=False,
            cwd=cwd or self.project,
            env={**self.env, **(env or {})},
            timeout=TIMEOUT,
        )
        return Done(done.returncode, done.stdout.decode("utf-8", "surrogateescape"), done.stderr.decode())

    def park(self, *args: str) -> str:
        """Make a call that has to wait; its id."""
        done = self.run("call", "--json", *args)
        assert done.code == 4, done
        return cast(str, done.json["call_id"])

    def forget_shown(self) -> None:
        """As if this user had been shown no call."""
        shutil.rmtree(self.ledger_file.parent / "shown", ignore_errors=True)

    @property
    def ledger_file(self) -> Path:
        return Path(self.run("config", "path", "--json").json["ledger"])
