"""Policy functions named by import path: told apart from tool names, loaded on first use."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from typing import Final, cast

from holdfast.contract.errors import ConfigError
from holdfast.rules.chain import RAISED, Resolve, describe
from holdfast.rules.policy import GROUP_PREFIX, PLANNED

_MODULE: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+", re.ASCII)
_FUNCTION: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)


def is_module_path(entry: str, is_tool: Callable[[str], bool]) -> bool:
    """Whether a list entry is an import path. Tool names are dotted too, so a name some tool has never is."""
    if entry in PLANNED or entry.startswith(GROUP_PREFIX) or is_tool(entry):
        return False
    return _MODULE.fullmatch(entry) is not None or _FUNCTION.fullmatch(entry) is not None


def load(path: str) -> Resolve | None:
    """The function behind `pkg.mod:func`, `pkg.mod.func`, or `pkg.mod` with a `resolve`; None if there is none."""
    module_name, colon, attribute = path.partition(":")
    found = _imported(module_name)
    if found is None and not colon:
        module_name, _, attribute = path.rpartition(".")
        found = _imported(module_name) if module_name else None
    if found is not None and attribute:
        found = cast(object, getattr(found, attribute, None))
    candidate = cast(object, getattr(found, "resolve", found))
    return cast(Resolve, candidate) if callable(candidate) else None


def lazily(path: str) -> Callable[[], Resolve | None]:
    """Loads once. A module that is there but breaks is broken each time it is asked."""
    outcome: list[Resolve | BaseException | None] = []

    def loaded() -> Resolve | None:
        if not outcome:
            try:
                outcome.append(load(path))
            except RAISED as error:
                outcome.append(error)
        if isinstance(outcome[0], BaseException):
            raise ConfigError(f"The policy '{path}' cannot be loaded: {describe(outcome[0])}.")
        return outcome[0]

    return loaded


def _imported(name: str) -> object | None:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            return None
        raise
