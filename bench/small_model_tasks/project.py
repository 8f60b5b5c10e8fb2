"""Writes a project and its git history, with the same bytes every time.

`NAME_project.txt` holds the files of a project. A line `=== STAGE PATH` starts a file: stages 1 to 4 are the commits,
`work` is the state of the working tree after the last commit.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

import msgspec

SetName = Literal["dev", "held_out"]


class Commit(msgspec.Struct, frozen=True):
    author: str
    email: str
    date: str
    subject: str


COMMITS: Final[Mapping[str, tuple[Commit, ...]]] = {
    "dev": (
        Commit("Lena Okafor", "lena@parcelhub.example", "2024-03-04T09:12:00+0000", "Track parcels of two carriers"),
        Commit("Tomas Brandt", "tomas@parcelhub.example", "2024-03-11T15:40:00+0000", "Poll carriers through a cache"),
        Commit("Lena Okafor", "lena@parcelhub.example", "2024-03-19T10:05:00+0000", "Show the timeline in the browser"),
        Commit("Priya Nair", "priya@parcelhub.example", "2024-04-02T08:31:00+0000", "Poll Swiftline less often"),
    ),
    "held_out": (
        Commit("Marek Dvorak", "marek@velodock.example", "2023-09-05T07:50:00+0000", "Rent bikes from docks"),
        Commit("Aisha Bello", "aisha@velodock.example", "2023-09-14T13:22:00+0000", "Plan moves between stations"),
        Commit("Jonas Lind", "jonas@velodock.example", "2023-09-28T16:03:00+0000", "Reject short frames from docks"),
        Commit("Aisha Bello", "aisha@velodock.example", "2023-10-09T11:47:00+0000", "Add the ferry terminal station"),
    ),
}

_HEADER: Final = re.compile(r"^=== (\d|work) (\S+)\n", re.MULTILINE)
_UNCOUNTED: Final = frozenset({".git", ".holdfast", "__pycache__"})


def _stages(name: str) -> dict[str, dict[str, str]]:
    text = (Path(__file__).parent / f"{name}_project.txt").read_text(encoding="utf-8")
    _, *parts = _HEADER.split(text)
    stages: dict[str, dict[str, str]] = {}
    for stage, path, content in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        stages.setdefault(stage, {})[path] = content
    return stages


def final_files(name: SetName) -> dict[str, str]:
    """Return the files of the working tree, by path."""
    stages = _stages(name)
    return {path: content for stage in sorted(stages) for path, content in stages[stage].items()}


def build_project(root: Path, name: SetName) -> None:
    """Write the project into the empty folder `root`, with four commits, a modified and an untracked file."""
    stages = _stages(name)
    _git(root, "init", "-q", "-b", "main", "--template=")
    for stage, commit in enumerate(COMMITS[name], start=1):
        _write(root, stages[str(stage)])
        _git(root, "add", "--all")
        _git(root, "commit", "-q", "-m", commit.subject, commit=commit)
    _write(root, stages["work"])


def snapshot(root: Path) -> dict[str, bytes]:
    """Return the content of every file below `root`, without git's own files."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and _UNCOUNTED.isdisjoint(path.relative_to(root).parts)
    }


def _write(root: Path, files: Mapping[str, str]) -> None:
    for path, content in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content, encoding="utf-8", newline="\n")


def _git(root: Path, *arguments: str, commit: Commit | None = None) -> None:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    environment |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    options = ["-c", "commit.gpgsign=false", "-c", "gc.auto=0", "-c", "core.autocrlf=false"]
    if commit is not None:
        environment |= {"GIT_AUTHOR_DATE": commit.date, "GIT_COMMITTER_DATE": commit.date}
        options += ["-c", f"user.name={commit.author}", "-c", f"user.email={commit.email}"]
    subprocess.run(["git", *options, *arguments], cwd=root, env=environment, check=True, capture_output=True)
