"""Finding the function a requirement names as its guard, through methods, properties and decorators.

Also imported by programs under test while a guard is switched off: nothing heavy may be imported here.
"""

from __future__ import annotations

from importlib import import_module
from types import FunctionType, ModuleType
from typing import Any


def find_guard(module: ModuleType, qualname: str) -> tuple[FunctionType, bool]:
    """The plain function behind a name, and whether its first argument is `self` or `cls`; else `LookupError`."""
    holder: Any = module
    found: Any = module
    for name in qualname.split("."):
        holder = found
        found = _attribute(holder, name)
        if found is None:
            raise LookupError(f"which {module.__name__} does not have")
    function = _behind(found)
    if function is None:
        raise LookupError(f"which is not a function but {type(found).__name__}")
    return function, isinstance(holder, type) and not _is_static(found)


def _attribute(holder: Any, name: str) -> Any:
    """As it was defined, before any descriptor acts."""
    for place in holder.__mro__ if isinstance(holder, type) else (holder,):
        if name in vars(place):
            return vars(place)[name]
    return None


def _behind(found: Any) -> FunctionType | None:
    for attribute in ("__func__", "fget", "func", "__wrapped__"):
        if isinstance(found, FunctionType):
            return found
        found = getattr(found, attribute, found)
    return found if isinstance(found, FunctionType) else None


def _is_static(found: object) -> bool:
    return isinstance(found, staticmethod)


def guard_problem(guard: str) -> str | None:
    """Why a guard cannot be used, or None."""
    module, _, qualname = guard.partition(":")
    try:
        find_guard(import_module(module), qualname)
    except ImportError as error:
        return f"which cannot be imported ({error})"
    except LookupError as error:
        return str(error)
    return None
