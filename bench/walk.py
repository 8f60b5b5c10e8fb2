"""Counts the modules that a call passes through: `holdfast call file.write`, and a turn with one write.

A module counts when one of its functions is called, not when it is only imported. Each count runs in a process of its
own, in an empty project.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

PACKAGE = "holdfast"
FUNCTION = 0x01
"""The flag of code that belongs to a function, and not to the body of a module or a class."""

CALL = ["call", "file.write", "path=a.txt", "content=b"]
TURN = ["chat", "notes.chat"]
DOCUMENT = '@You:\ncreate b9.txt with the content "hello"\n'


class Walk:
    """Counts the functions that are called, by module, in all threads."""

    def __init__(self, folder: str) -> None:
        self._prefix = folder + os.sep
        self.functions: set[tuple[str, int]] = set()
        self.inside: set[str] = set()

    def start(self) -> None:
        import threading

        threading.setprofile(self)
        sys.setprofile(self)

    def __call__(self, frame: Any, event: str, _: object) -> None:
        if event != "call":
            return
        code = frame.f_code
        name: str = code.co_filename
        if not name.startswith(self._prefix) or not code.co_flags & FUNCTION:
            return
        module = name[len(self._prefix) :]
        self.functions.add((module, code.co_firstlineno))
        if _inside(frame):
            self.inside.add(module)

    def report(self) -> dict[str, Any]:
        modules = {module for module, _ in self.functions}
        return {
            "modules": len(modules),
            "functions": len(self.functions),
            "inside": len(self.inside),
            "names": sorted(modules),
            "inside_names": sorted(self.inside),
        }


def _inside(frame: Any) -> bool:
    """Whether the pipeline is somewhere above this frame."""
    while frame is not None:
        if frame.f_code.co_filename.endswith("runtime/pipeline.py"):
            return True
        frame = frame.f_back
    return False


def walk(arguments: list[str], report: Path) -> None:
    """In a process of its own: run a command of holdfast and write down where it went."""
    import importlib.util

    spec = importlib.util.find_spec(PACKAGE)
    assert spec is not None
    assert spec.submodule_search_locations
    counting = Walk(spec.submodule_search_locations[0])
    sys.argv = [PACKAGE, *arguments]
    atexit.register(lambda: report.write_text(json.dumps(counting.report())))  # the command ends the process itself
    counting.start()
    from holdfast.__main__ import main

    main()


def measure(arguments: list[str]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="holdfast-walk-") as folder:
        project, state = Path(folder, "project"), Path(folder, "state")
        project.mkdir()
        (project / "holdfast.toml").touch()
        (project / "notes.chat").write_text(DOCUMENT)
        environment = {
            **os.environ,
            "HOME": folder,
            "XDG_STATE_HOME": str(state),
            "XDG_CONFIG_HOME": str(Path(folder, "config")),
        }
        report = Path(folder, "report.json")
        command = [sys.executable, __file__, "--walk", str(report), *arguments]
        subprocess.run(command, cwd=project, env=environment, check=True, capture_output=True, stdin=subprocess.DEVNULL)
        return json.loads(report.read_text())


def main() -> None:
    if sys.argv[1:2] == ["--walk"]:
        walk(sys.argv[3:], Path(sys.argv[2]))
        return
    for title, arguments in (("holdfast call file.write", CALL), ("one .chat turn with one write", TURN)):
        seen = measure(arguments)
        inside = f"{seen['inside']} inside the pipeline"
        print(f"{title}: {seen['modules']} modules, {seen['functions']} functions; {inside}")
        if "-v" in sys.argv:
            for name in seen["names"]:
                print(f"  {'*' if name in seen['inside_names'] else ' '} {name}")


if __name__ == "__main__":
    main()
