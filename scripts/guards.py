"""Finding the function a requirement names as its guard, through methods, properties and decorators."""

from __future__ import annotations

import inspect
from importlib import import_module
from types import FunctionType, ModuleType
from typing import Any


def find_guard(module: ModuleType, qualname: str) -> tuple[FunctionType, bool]:
    """The plain function behind a name, and whether its first argument is `self` or `cls`; else `LookupError`."""
    holder: Any = module
    found: Any = module
    for name in qualname.split("."):
        holder = found
        found = inspect.getattr_static(holder, name, None)
        if found is None:
            raise LookupError(f"which {module.__name__} does not have")
    bound = isinstance(holder, type) and not isinstance(found, staticmethod)
    for attribute in ("__func__", "fget", "func", "__wrapped__"):
        if not isinstance(found, FunctionType):
            found = getattr(found, attribute, found)
    if not isinstance(found, FunctionType):
        raise LookupError(f"which is not a function but {type(found).__name__}")
    return found, bound


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
