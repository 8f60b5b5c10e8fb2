"""Where a command would run: which paths are in the project, which programs are the system's, what holds it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from holdfast.config.protected import is_protected

NOWHERE: Final = "/dev/null"
BUILTINS: Final = frozenset({":", "cd", "echo", "false", "pwd", "true"})
"""What the shell does itself, whatever lies on the PATH."""
_MAX_FOLDERS: Final = 32


def never() -> bool:
    return False


class Place(Struct, frozen=True, kw_only=True):
    """The surroundings of one command."""

    root: str | None
    """The real path of the project."""
    folders: tuple[str, ...]
    """Real paths of every folder the command may be in."""
    contained: Callable[[], bool] = never
    """Whether a sandbox holds the command; asked only when that matters."""
    is_system_program: Callable[[str, str | None], bool]
    protected: tuple[str, ...] = ()
    """What the configuration protects beside the paths that always are."""

    @classmethod
    def at(
        cls,
        root: str | None,
        folders: Iterable[str],
        contained: Callable[[], bool] = never,
        protected: tuple[str, ...] = (),
    ) -> Place:
        return cls(
            root=None if root is None else os.path.realpath(root),
            folders=tuple(dict.fromkeys(map(os.path.realpath, folders))),
            contained=contained,
            is_system_program=is_system_program,
            protected=protected,
        )

    @property
    def in_project(self) -> bool:
        return all(map(self._within, self.folders))

    def holds(self, path: str) -> bool:
        """Whether a path lies in the project, symlinks followed, wherever the command may be by then."""
        return all(self._within(os.path.realpath(os.path.join(folder, path))) for folder in self.folders)  # noqa: PTH118

    def protects(self, path: str) -> bool:
        """Whether a path is a protected one, wherever the command may be by then."""
        root = None if self.root is None else Path(self.root)
        full = (Path(folder, path) for folder in self.folders)
        return any(is_protected(place, root=root, extra=self.protected) is not None for place in full)

    @property
    def is_protected(self) -> bool:
        """Whether the command may be in a protected folder below the top of the project."""
        inner = tuple(folder for folder in self.folders if folder != self.root)
        return bool(inner) and replace(self, folders=inner).protects(".")

    def after_cd(self, target: str) -> Place | None:
        """The place after `cd target`, which may have failed; None if it cannot be told or is not in the project."""
        if ".." in target.split("/") or target.startswith("-") or not target or len(self.folders) > _MAX_FOLDERS:
            return None
        joined = {os.path.normpath(os.path.join(folder, target)) for folder in self.folders}  # noqa: PTH118
        if not all(self._within(folder) and os.path.realpath(folder) == folder for folder in joined):
            return None
        return replace(self, folders=tuple(dict.fromkeys((*self.folders, *sorted(joined)))))

    def trusts(self, program: str, *, external: bool = False) -> bool:
        """Whether the bare name means a program of the system, not one of the project."""
        if program in BUILTINS and not external:
            return True
        return self.is_system_program(program, self.root)

    def _within(self, path: str) -> bool:
        return self.root is not None and (path == self.root or path.startswith(f"{self.root.rstrip('/')}/"))


def is_system_program(name: str, root: str | None) -> bool:
    """Whether the first program of that name on the PATH is outside the project."""
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        if not os.path.isabs(folder):  # noqa: PTH117
            return False
        found = os.path.join(folder, name)  # noqa: PTH118
        if os.path.isfile(found) and os.access(found, os.X_OK):  # noqa: PTH113
            real = os.path.realpath(found)
            places = (f"{os.path.realpath(folder)}/", real)
            return root is None or not any(path.startswith(f"{root}/") for path in places)
    return False
