"""A project full of traps: modules, programs and start-up files that no holdfast process may load or run."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

MODULES = (
    "_posixsubprocess", "asyncio", "click", "codecs", "collections", "confine", "contextlib", "ctypes", "encodings",
    "enum", "fcntl", "functools", "gc", "holdfast", "importlib", "inspect", "io", "json", "lupa", "marshal", "msgspec",
    "msvcrt", "onlyhere", "os", "pathlib", "re", "resource", "runpy", "select", "signal", "site", "sitecustomize",
    "socket", "stat", "struct", "subprocess", "threading", "time", "types", "typing", "usercustomize", "warnings",
    "_winapi",
)  # fmt: skip
ONLY_HERE = ("msvcrt", "nt", "onlyhere", "winreg", "_scproxy", "_winapi", "orjson", "trio", "uvloop")
"""Modules that are not installed, so they would be imported even from the last folder on the path."""
PROGRAMS = (
    "bash", "bwrap", "cat", "editor", "git", "holdfast", "open", "ps", "python", "python3", "rg", "sh", "sleep", "vi",
    "x-www-browser", "xdg-open",
)  # fmt: skip


class HostileProject:
    """A trap that runs writes its name to `mark` and fails."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "project"
        self.mark = folder / "mark"
        self.root.mkdir(parents=True)
        (self.root / ".git").mkdir()
        trap = f"open({str(self.mark)!r}, 'a').write(f'{{__name__}} was imported\\n'); raise SystemExit(97)\n"
        (self.root / "src").mkdir()
        for name in MODULES:
            (self.root / f"{name}.py").write_text(trap)
        for name in ONLY_HERE:
            (self.root / "src" / f"{name}.py").write_text(trap)
        for package in ("holdfast", "holdfast/runtime", "holdfast/sandbox", "holdfast/cli"):
            (self.root / package).mkdir()
            (self.root / package / "__init__.py").write_text(trap)
        (self.root / "holdfast" / "runtime" / "child.py").write_text(trap)
        self._install_traps(trap)
        programs = self.root / "bin"
        programs.mkdir()
        for name in PROGRAMS:
            self._program(programs / name)
            self._program(self.root / name)
        startup = self.root / "startup"
        startup.write_text(f"echo {self.mark.name} >> {self.mark}; exit 97\n")

    def _install_traps(self, trap: str) -> None:
        """Add a package with entry points, and a user's site-packages with a .pth start-up line."""
        for folder in (self.root, self.root / "src"):
            offered = folder / "evil-1.dist-info"
            offered.mkdir()
            (offered / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1\n")
            (offered / "entry_points.txt").write_text("[holdfast.tools]\nevil = onlyhere\n")
        version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
        packages = self.root / "base" / "lib" / version / "site-packages"
        packages.mkdir(parents=True)
        (packages / "evil.pth").write_text(f"import os; open({str(self.mark)!r}, 'a').write('a .pth ran')\n")
        (packages / "usercustomize.py").write_text(trap)

    def _program(self, path: Path) -> None:
        if path.exists():
            return
        path.write_text(f"#!/bin/sh\necho \"$0 ran\" >> '{self.mark}'\nexit 97\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    @property
    def environment(self) -> dict[str, str]:
        """Variables that a shell or the project's `.envrc` might set, all pointing into the project."""
        startup = str(self.root / "startup")
        return {
            "PATH": f"bin:.::{self.root}/bin:{self.root}:{os.environ.get('PATH', os.defpath)}",
            "PYTHONPATH": f"{self.root}:.:",
            "PYTHONHOME": str(self.root),
            "PYTHONSTARTUP": startup,
            "PYTHONUSERBASE": str(self.root / "base"),
            "PYTHONINSPECT": "",
            "LD_LIBRARY_PATH": f":{self.root}",
            "RIPGREP_CONFIG_PATH": startup,
            "BASH_ENV": startup,
            "ENV": startup,
            "GIT_DIR": str(self.root / "gitdir"),
            "GIT_EXTERNAL_DIFF": str(self.root / "git"),
            "GIT_CONFIG_GLOBAL": startup,
            "EDITOR": "editor",
            "VISUAL": "",
            "DISPLAY": ":0",
            "BROWSER": "",
        }

    def check(self) -> None:
        assert not self.mark.exists(), self.mark.read_text()
