"""Removes the project from `sys.path`, so that only installed modules are imported.

A project gets on `sys.path` through `PYTHONPATH` or an editable installation. Moving it to the end is not enough: the
standard library tries to import modules of other systems (`msvcrt`, `_winapi`), and packages provide entry points. The
command imports this module first, so it uses only modules that Python has already imported.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

MARKERS = ("holdfast.toml", ".git")
"""Names that mark the root of a project."""
PACKAGE_PARENT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
"""The folder that contains the package."""


def installed_folders() -> frozenset[str]:
    """Return the folders of the standard library, installed packages and holdfast, even if they are in the project."""
    import site

    library = os.path.dirname(os.__file__)  # noqa: PTH120 - `pathlib` is slow at every start of the command
    archive = f"{os.path.dirname(library)}/python{sys.version_info[0]}{sys.version_info[1]}.zip"  # noqa: PTH120
    user = (site.getusersitepackages(),) if site.ENABLE_USER_SITE else ()
    return frozenset({archive, library, f"{library}/lib-dynload", *site.getsitepackages(), *user, PACKAGE_PARENT})


def import_order(entries: Iterable[str]) -> list[str]:
    """Return a `sys.path` with installed folders first and without relative entries (the working directory)."""
    installed = installed_folders()
    entries = dict.fromkeys(entry for entry in entries if entry.startswith(os.sep))
    return sorted(entries, key=lambda entry: entry not in installed)  # stable: otherwise they keep their order


def without_projects(entries: Iterable[str], folders: Iterable[str]) -> list[str]:
    """Like `import_order`, without entries in the projects that contain `folders`."""
    installed, projects = installed_folders(), [enclosing_project(folder) for folder in folders]
    return [
        entry
        for entry in import_order(entries)
        if entry in installed or not any(is_inside(entry, project) for project in projects)
    ]


def remove_projects(words: Iterable[str] = ()) -> None:
    """Remove the current project, and any project named on the command line, from `sys.path`."""
    named = (word.removeprefix("-C") for word in words)
    sys.path[:] = without_projects(sys.path, [os.curdir, *(word for word in named if word and os.path.lexists(word))])


def find_project_root(folder: str) -> str | None:
    """Return the nearest project root at or above a folder, or None."""
    here = os.path.realpath(folder)
    while not any(os.path.lexists(os.path.join(here, marker)) for marker in MARKERS):  # noqa: PTH118
        above = os.path.dirname(here)  # noqa: PTH120
        if above == here:
            return None
        here = above
    return here


def enclosing_project(folder: str) -> str | None:
    """Return the project that contains a folder; without a marker the folder itself, but never the file-system root."""
    found = find_project_root(folder) or os.path.realpath(folder)
    return None if found == os.path.dirname(found) else found  # noqa: PTH120


def is_inside(path: str, folder: str | None) -> bool:
    """Whether a path is in a folder, as written or with symlinks resolved."""
    if not folder:
        return False
    spelt = {os.path.abspath(path), os.path.realpath(path)}  # noqa: PTH100
    places = {os.path.abspath(folder), os.path.realpath(folder)}  # noqa: PTH100
    return any(one == place or one.startswith(f"{place.rstrip(os.sep)}{os.sep}") for one in spelt for place in places)
