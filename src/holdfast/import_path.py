"""Where modules are imported from: what is installed, and nothing of the project.

A project's folder gets on `sys.path` by `PYTHONPATH` or an editable installation. Last in the order is not enough: the
standard library tries names that exist on other systems only (`msvcrt`, `_winapi`), and packages offer entry points.
This module is what the command imports first, so it uses only modules that Python has imported by then.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

MARKERS = ("holdfast.toml", ".git")
"""What makes a folder the top of a project."""
PACKAGE_PARENT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
"""The folder that holds the package."""


def installed_folders() -> frozenset[str]:
    """Where the standard library, installed packages and holdfast itself are, also if that is in the project."""
    import site

    library = os.path.dirname(os.__file__)  # noqa: PTH120 - `pathlib` is slow at every start of the command
    archive = f"{os.path.dirname(library)}/python{sys.version_info[0]}{sys.version_info[1]}.zip"  # noqa: PTH120
    user = (site.getusersitepackages(),) if site.ENABLE_USER_SITE else ()
    return frozenset({archive, library, f"{library}/lib-dynload", *site.getsitepackages(), *user, PACKAGE_PARENT})


def import_order(entries: Iterable[str]) -> list[str]:
    """A `sys.path` in which whatever is not installed comes last, and nothing means the working directory."""
    installed = installed_folders()
    entries = dict.fromkeys(entry for entry in entries if entry.startswith(os.sep))
    return sorted(entries, key=lambda entry: entry not in installed)  # stable: otherwise they keep their order


def without_projects(entries: Iterable[str], folders: Iterable[str]) -> list[str]:
    """The same without what lies in the projects of some folders."""
    installed, projects = installed_folders(), [enclosing_project(folder) for folder in folders]
    return [
        entry
        for entry in import_order(entries)
        if entry in installed or not any(is_inside(entry, project) for project in projects)
    ]


def remove_projects(words: Iterable[str] = ()) -> None:
    """Import nothing of the project from here on, nor of one that a word of the command line leads into."""
    named = (word.removeprefix("-C") for word in words)
    sys.path[:] = without_projects(sys.path, [os.curdir, *(word for word in named if word and os.path.lexists(word))])


def find_project_root(folder: str) -> str | None:
    """The nearest folder at or above one that is the top of a project; None if there is none."""
    here = os.path.realpath(folder)
    while not any(os.path.lexists(os.path.join(here, marker)) for marker in MARKERS):  # noqa: PTH118
        above = os.path.dirname(here)  # noqa: PTH120
        if above == here:
            return None
        here = above
    return here


def enclosing_project(folder: str) -> str | None:
    """The project a folder lies in; without a marker that is the folder itself, unless it is the whole file system."""
    found = find_project_root(folder) or os.path.realpath(folder)
    return None if found == os.path.dirname(found) else found  # noqa: PTH120


def is_inside(path: str, folder: str | None) -> bool:
    """Whether a path lies in a folder, as it is written or where its links lead."""
    if not folder:
        return False
    spelt = {os.path.abspath(path), os.path.realpath(path)}  # noqa: PTH100
    places = {os.path.abspath(folder), os.path.realpath(folder)}  # noqa: PTH100
    return any(one == place or one.startswith(f"{place.rstrip(os.sep)}{os.sep}") for one in spelt for place in places)
