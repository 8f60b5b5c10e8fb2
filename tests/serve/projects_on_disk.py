"""Projects in a folder of the test, served inside its process."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from holdfast.contract.call import PendingCall
from holdfast.contract.result import Result
from holdfast.factory.runtime import build_runtime, load_project
from holdfast.serve.projects import Projects

ASKING = '[approval]\nauto_approve = ["$readonly"]\n'
WRITE = {"path": "notes.txt", "content": "hello"}


class Disk:
    """The state and configuration of a user, and their projects."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        for name in ("STATE", "CONFIG"):
            monkeypatch.setenv(f"XDG_{name}_HOME", str(folder / name.lower()))
        self.configure(ASKING)

    def configure(self, text: str) -> None:
        path = self.folder / "config" / "holdfast" / "config.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def project(self, name: str = "project") -> Path:
        path = self.folder / name
        (path / ".git").mkdir(parents=True, exist_ok=True)
        return path

    def serve(self, *, every: bool = False) -> Projects:
        projects = Projects(load_project(self.project()), every=every, flags={})
        projects.refresh()
        return projects

    def hold(self, name: str = "project", **args: str) -> str:
        """Leave a call pending, as another process would; returns its id."""

        async def call() -> Result:
            runtime = build_runtime(load_project(self.project(name)), nobody="pending", interface="cli")
            async with runtime:
                return await runtime.call("file.write", {**WRITE, **args})

        return asyncio.run(call()).call_id


def only(projects: Projects) -> PendingCall:
    """The only pending call of the only project."""
    (project,) = projects
    (pending,) = project.ledger.pending()
    return pending
