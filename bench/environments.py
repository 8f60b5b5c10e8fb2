"""Virtual environments in bench/.envs, one per contender; created once, holdfast's again when its sources change."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tomllib
import venv
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
ENVS = HERE / ".envs"
SCRATCH = ENVS / "scratch"
"""Where measured programs keep their state: on the same disk as the repository, never in the user's own folders."""


@dataclass(frozen=True)
class Contender:
    name: str
    install: list[str]
    by_name: str = ""
    direct: str = ""
    checks: str = ""
    module: str = ""
    version: tuple[str, ...] = ()

    @property
    def package(self) -> str:
        return "holdfast" if self.install == ["."] else self.install[0].split("==")[0].split("[")[0]

    @property
    def folder(self) -> Path:
        return ENVS / self.name

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    def command(self, *argv: str) -> list[str]:
        """A command this contender installed, by its place in the environment."""
        return [str(self.folder / "bin" / argv[0]), *argv[1:]]


def load() -> dict[str, Contender]:
    entries = tomllib.loads((HERE / "contenders.toml").read_text())
    return {
        name: Contender(name=name, **{**entry, "version": tuple(entry.get("version", ()))})
        for name, entry in entries.items()
    }


def prepare(contender: Contender) -> None:
    """Make or renew the environment, unless it already holds exactly what is wanted."""
    stamp, wanted = contender.folder / "installed", _wanted(contender)
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    print(f"installing {contender.name} …", file=sys.stderr)
    if not contender.python.exists():
        venv.create(contender.folder, with_pip=True)
    ours = contender.install == ["."]
    pip = [str(contender.python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    targets = [str(ROOT)] if ours else contender.install
    if ours:
        _run([*pip, "--force-reinstall", "--no-deps", *targets])
    _run([*pip, *targets])
    stamp.write_text(wanted)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if "ERROR" in line] or ["pip failed."]
        raise SystemExit("\n".join(line[:300] for line in errors))


def _wanted(contender: Contender) -> str:
    if contender.install != ["."]:
        return "\n".join(contender.install)
    digest = hashlib.sha256((ROOT / "pyproject.toml").read_bytes())
    for path in sorted((ROOT / "src").rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def clean_environ() -> dict[str, str]:
    """What measured programs see: nothing of the user's configuration."""
    home = SCRATCH / "home"
    home.mkdir(parents=True, exist_ok=True)
    return {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": str(home), "LANG": "C.UTF-8"}


def project() -> Path:
    """An empty project beside that home, with a root of its own: this repository would be found otherwise."""
    place = SCRATCH / "project"
    (place / ".git").mkdir(parents=True, exist_ok=True)
    return place
