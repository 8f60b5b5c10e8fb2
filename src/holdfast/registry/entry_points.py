"""Tools of installed packages, through the `holdfast.tools` entry-point group."""

from __future__ import annotations

import inspect
import os
from typing import TYPE_CHECKING, Final

from holdfast.contract.errors import ToolError
from holdfast.contract.tool import Tool
from holdfast.import_path import installed_folders, is_inside
from holdfast.registry.forms import takes
from holdfast.registry.registry import Registry
from holdfast.registry.sources import Handle

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint
    from pathlib import Path

GROUP: Final = "holdfast.tools"


def load_entry_points(registry: Registry, group: str = GROUP, *, project: Path | None = None) -> Handle:
    """Register what installed packages offer; a broken one is a warning that names the package.

    A package that lies in the project is not installed, only found there by way of `PYTHONPATH`: nobody chose to run
    it, so it is left out, with a warning. What is in the environment that holdfast runs in counts as installed.

    An entry point names a tool, a definition, a list, a factory without parameters that gives one of these, a module
    with `definitions` or `resolve`, or a source. Every tool is marked `package:NAME`, whatever it says of itself.
    """
    from importlib.metadata import entry_points

    points = sorted(entry_points(group=group), key=lambda point: (_package(point), point.name))
    return Handle.compose(*[_load(registry, point, project) for point in points])


def _load(registry: Registry, point: EntryPoint, project: Path | None) -> Handle | None:
    package = _package(point)
    if project is not None and _lies_in(point, project):
        registry.warn(
            f"The package '{package}' lies in the project and is not installed, so the tools it offers as "
            f"'{point.name}' are left out; install it, or name its module in tools.modules of your own configuration."
        )
        return None
    try:
        return registry.register(_made(point.load()), source=f"package:{package}")
    except (Exception, SystemExit) as error:
        registry.warn(
            f"The package '{package}' offers tools as '{point.name}' ({point.value}), but they cannot be loaded: "
            f"{type(error).__name__}: {error}"
        )
        return None


def _made(offered: object) -> object:
    """What a factory makes; anything else is taken as it is."""
    if isinstance(offered, Tool) or not callable(offered) or hasattr(offered, "resolve") or not takes(offered):
        return offered
    made = offered()
    if inspect.iscoroutine(made):
        made.close()
        raise ToolError("a factory of tools must not be async; offer a source (register, done) instead.")
    return made


def _lies_in(point: EntryPoint, project: Path) -> bool:
    if point.dist is None:
        return False
    folder = os.path.abspath(str(point.dist.locate_file("")))  # noqa: PTH100
    return folder not in installed_folders() and is_inside(folder, str(project))


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.module
