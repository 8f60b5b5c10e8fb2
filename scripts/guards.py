"""Finds the function that a requirement names as its guard, behind methods, properties and decorators.

Programs under test import it too, when a guard is disabled, so it must not import anything heavy.
"""

from __future__ import annotations

from importlib import import_module
from types import FunctionType, ModuleType
from typing import Any


def find_guard(module: ModuleType, qualname: str) -> tuple[FunctionType, bool]:
    """Return the plain function of a name, and whether its first argument is `self` or `cls`. Raises `LookupError`."""
    holder: Any = module
    found: Any = module
    for name in qualname.split("."):
        holder = found
        found = _attribute(holder, name)
        if found is None:
            raise LookupError(f"which {module.__name__} does not have")
    function = _unwrap(found)
    if function is None:
        raise LookupError(f"which is not a function but {type(found).__name__}")
    return function, isinstance(holder, type) and not _is_static(found)


def _attribute(holder: Any, name: str) -> Any:
    """Return the attribute as it was defined, without invoking descriptors."""
    for place in holder.__mro__ if isinstance(holder, type) else (holder,):
        if name in vars(place):
            return vars(place)[name]
    return None


def _unwrap(found: Any) -> FunctionType | None:
    for attribute in ("__func__", "fget", "func", "__wrapped__"):
        if isinstance(found, FunctionType):
            return found
        found = getattr(found, attribute, found)
    return found if isinstance(found, FunctionType) else None


def _is_static(found: object) -> bool:
    return isinstance(found, staticmethod)


def guard_problem(guard: str) -> str | None:
    """Return why a guard cannot be used, or None."""
    module, _, qualname = guard.partition(":")
    try:
        find_guard(import_module(module), qualname)
    except ImportError as error:
        return f"which cannot be imported ({error})"
    except LookupError as error:
        return str(error)
    return None
