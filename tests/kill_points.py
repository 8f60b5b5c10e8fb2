"""Kills a process before each change to the file system, and checks what is left.

`python -m tests.kill_points SCENARIO FOLDER [POINTS]`: one run counts the changes; then for each of them, or for an
even sample, a fork is killed just before it. After the next start no temporary file may be left.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast import Answer, PendingCall, Runtime
from holdfast.chat import document_file
from holdfast.cli import prompt
from holdfast.cli.mcp import client_file
from holdfast.config.config import McpServer
from holdfast.factory.runtime import build_runtime, load_project
from holdfast.mcp.client.oauth_store import StoredLogin, login_file
from holdfast.sandbox.sandbox import Sandbox

CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.chmod", "os.truncate"}
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
PR_SET_CHILD_SUBREAPER = 36
EXPECTED = {"holdfast.toml", "notes.txt", "new.txt", "doc.chat", "sub", "made", "client.json"}
"""Names that may be in the project at any time."""


async def _approve(held: PendingCall) -> Answer:
    return Answer(kind="approve", by="test")


def _runtime(project: Path, **options: Any) -> Runtime:
    return build_runtime(load_project(project, options), asker=_approve)


def _calls(*calls: tuple[str, dict[str, Any]], **options: Any) -> Callable[[Path], None]:
    def scenario(project: Path) -> None:
        async def main() -> None:
            async with _runtime(project, **options) as runtime:
                for name, args in calls:
                    result = await runtime.call(name, args)
                    assert result.success, result.error

        asyncio.run(main())

    return scenario


def document(project: Path) -> None:
    load_project(project)
    path = project / "doc.chat"
    for text in (b"@You:\none\n", b"@You:\ntwo\n"):
        document_file.replace(path, document_file.read(path), text)
    document_file.write_conflict_copy(project.parent / "outside" / "doc.chat", project.parent, b"kept")


def settings(project: Path) -> None:
    setting = load_project(project)
    for text in ("{}\n", '{"a": 1}\n'):
        client_file.write_client_file(
            client_file.read_client_file(project / "client.json", [project], root=project), text, private=False
        )
    login = login_file("server", McpServer(url="https://example.org"), setting.state)
    for token in ("one", "two"):
        login.write(StoredLogin(authorisation={"token": token}))


def editor(project: Path) -> None:
    load_project(project)
    os.environ["EDITOR"] = "/bin/true"
    asyncio.run(prompt.edit_text("text", ".json"))


def probe(project: Path) -> None:
    _probe(project, "auto")


def _probe(project: Path, backend: str) -> None:
    config = load_project(project, {"sandbox.backend": backend}).loaded.config
    sandbox = Sandbox(config.sandbox, root=project)
    assert sandbox.backend() is not None
    sandbox.overlay_works(project)


LONG = "for i in $(seq 40000); do echo line $i; done"
COMMAND = {"command": "echo x > made && mkdir -p sub && echo y > sub/z"}
SCENARIOS: dict[str, Callable[[Path], None]] = {
    "file tools": _calls(
        ("file.write", {"path": "new.txt", "content": "new\n" * 1000}),
        ("file.write", {"path": "notes.txt", "content": "replaced\n"}),
        ("file.edit", {"path": "notes.txt", "search": "replaced", "replace": "edited"}),
        ("file.write", {"path": "sub/deep/new.txt", "content": "x", "create_parents": True}),
    ),
    "commands, recorded": _calls(("shell.exec", COMMAND), ("shell.exec", {"command": LONG})),
    "commands, copied": _calls(("shell.exec", COMMAND), **{"sandbox.undo": "copy"}),
    "commands, in place": _calls(("shell.exec", COMMAND), **{"sandbox.undo": "off"}),
    "commands, landlock": _calls(("shell.exec", COMMAND), **{"sandbox.backend": "landlock", "sandbox.undo": "off"}),
    "commands, bare": _calls(("shell.exec", COMMAND), ("shell.exec", {"command": LONG}), **{"sandbox.mode": "off"}),
    "document": document,
    "settings": settings,
    "editor": editor,
    "probe": probe,
}  # fmt: skip

BACKENDS = {
    "commands, recorded": "auto",
    "commands, copied": "auto",
    "commands, in place": "auto",
    "commands, landlock": "landlock",
}


class Place:
    """A project, a state folder and a folder for temporary files, created anew for each run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.project = folder / "project"
        for name in ("project", "state", "config", "tmp", "outside", "home"):
            shutil.rmtree(folder / name, ignore_errors=True)
            (folder / name).mkdir(parents=True, mode=0o700)
        if (folder / "probes").exists():
            shutil.copytree(folder / "probes", folder / "state" / "holdfast" / "probes")
        (self.project / "holdfast.toml").touch()
        (self.project / "notes.txt").write_text("one\n")
        (self.project / "doc.chat").write_text("@You:\nzero\n")
        state, config = str(folder / "state"), str(folder / "config")
        temporary, home = str(folder / "tmp"), str(folder / "home")
        os.environ.update(XDG_STATE_HOME=state, XDG_CONFIG_HOME=config, TMPDIR=temporary, HOME=home)

    def left(self) -> list[str]:
        """Return the paths that should not exist."""
        names = [path.relative_to(self.project) for path in self.project.rglob("*")]
        found = [f"project/{path}" for path in names if path.parts[0] not in EXPECTED or _is_temporary(path.name)]
        found += [f"tmp/{path.name}" for path in (self.folder / "tmp").iterdir()]
        state = (self.folder / "state").rglob("*")
        return found + [str(path.relative_to(self.folder)) for path in state if _is_temporary(path.name)]


def _is_temporary(name: str) -> bool:
    return "holdfast-" in name or name.startswith((".new", "tmp")) or name.endswith((".tmp", ".new"))


def _forked(work: Callable[[], None]) -> int:
    """Run `work` in a fork. Returns the wait status when the fork and all its descendants are gone."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException as error:
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
        finally:
            os._exit(code)
    status = 0
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            pid, ended = os.waitpid(-1, 0)
        except ChildProcessError:
            return status
        status = ended if pid == child else status
    raise TimeoutError("a descendant is still running")


def run_to(point: int, scenario: Callable[[Path], None], place: Place, report: int | None = None) -> int:
    """Run the scenario in a fork that is killed just before change number `point`."""

    def work() -> None:
        seen = 0

        def watch(event: str, args: tuple[Any, ...]) -> None:
            nonlocal seen
            if event in CHANGES or (event == "open" and isinstance(args[2], int) and args[2] & WRITES):
                seen += 1
                if seen == point:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(watch)
        scenario(place.project)
        if report is not None:
            os.write(report, str(seen).encode())

    return _forked(work)


def next_start(project: Path) -> None:
    async def main() -> None:
        async with _runtime(project):
            pass

    asyncio.run(main())


def main(name: str, folder: Path, most: int) -> dict[str, Any]:
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    scenario = SCENARIOS[name]
    reading, writing_end = os.pipe()
    place = Place(folder)
    if backend := BACKENDS.get(name):  # probes are slow, so reuse their cached results
        assert _forked(lambda: _probe(place.project, backend)) == 0
        shutil.move(folder / "state" / "holdfast" / "probes", folder / "probes")
        place = Place(folder)
    if run_to(0, scenario, place, writing_end) != 0:
        return {"failed": "the scenario itself"}
    total = int(os.read(reading, 100))
    points = range(1, total + 1) if total <= most else [1 + total * n // most for n in range(most)]
    left: dict[int, list[str]] = {}
    for point in points:
        place = Place(folder)
        run_to(point, scenario, place)
        if _forked(lambda: next_start(place.project)) != 0:  # noqa: B023 - it is over before the next one
            left[point] = ["the next start failed"]
        elif found := place.left():
            left[point] = found
    return {"total": total, "tried": len(points), "left": left}


if __name__ == "__main__":
    points_wanted = int(sys.argv[3]) if len(sys.argv) > 3 else 1_000_000
    sys.stdout.write(json.dumps(main(sys.argv[1], Path(sys.argv[2]), points_wanted)) + "\n")
