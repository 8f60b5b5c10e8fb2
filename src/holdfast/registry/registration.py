"""Parses what can be registered (tools, mappings, functions, modules, sources) into `Tool` and `ToolSource`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from math import isfinite
from os import PathLike
from types import ModuleType
from typing import Any, Final, cast

from msgspec import Struct

from holdfast.contract.errors import ToolError
from holdfast.contract.function_tool import ToolMethod, tool
from holdfast.contract.tool import Tool, define

Resolve = Callable[..., Any]
"""`resolve(register, done)`, sync or async."""

_SOURCE_FIELDS: Final = frozenset({"resolve", "timeout"})
_SOURCE_PARAMETERS: Final = ["register", "done"]


class ToolSource(Struct, frozen=True):
    """A function that registers tools asynchronously, for example after connecting to a server."""

    resolve: Resolve
    label: str
    timeout: float | None = None
    """Seconds; None means the registry's default."""


Part = Tool | ToolSource


def parse_registration(what: object, definition: object = None) -> list[Part]:
    """Return every tool and source in `what`. Raises `ToolError` for anything else."""
    if definition is not None:
        return [_named(what, definition)]
    if isinstance(what, Tool):
        return [what]
    if isinstance(what, str):
        return _from_module(_import(what))
    if isinstance(what, ModuleType):
        return _from_module(what)
    if isinstance(what, Mapping):
        return [_from_mapping(cast(Mapping[str, Any], what))]
    if isinstance(what, PathLike | bytes):
        raise _unusable(cast(object, what))
    if isinstance(what, type):
        raise ToolError(f"'{_label(what)}' is a class. Register a method of an instance, or a function.")
    if callable(resolve := getattr(what, "resolve", None)):
        if not _is_source(resolve):
            kind = type(what).__qualname__
            raise ToolError(
                f"The `resolve` of '{kind}' does not take (register, done), so '{kind}' is not a tool source. "
                "Register its methods one by one."
            )
        return [_source(resolve, type(what).__qualname__, getattr(what, "timeout", None))]
    if isinstance(what, Iterable):
        return [part for item in cast(Iterable[object], what) for part in parse_registration(item)]
    if callable(what):
        return [_from_function(what)]
    raise _unusable(what)


def _named(name: object, definition: object) -> Tool:
    if not isinstance(name, str):
        raise ToolError(f"The name of a definition must be a string, not {type(name).__name__}.")
    if isinstance(definition, Tool):
        tool = definition
    elif isinstance(definition, Mapping):
        tool = define({"name": name, **cast(Mapping[str, Any], definition)})
    else:
        raise ToolError(
            f"The definition of '{name}' must be a mapping or a tool, not {type(definition).__name__}. "
            "Use @tool to make a tool from a function."
        )
    if tool.name != name:
        raise ToolError(f"The definition registered as '{name}' has the name '{tool.name}'. Use the same name.")
    return tool


def _from_mapping(given: Mapping[str, Any]) -> Part:
    if "resolve" not in given:
        return define(given)
    if unknown := sorted(set(given) - _SOURCE_FIELDS):
        raise ToolError(f"A tool source has no field '{unknown[0]}', only `resolve` and `timeout`.")
    resolve = given["resolve"]
    if not callable(resolve):
        raise ToolError(f"The `resolve` of a tool source must be a function, not {type(resolve).__name__}.")
    return _source(resolve, _label(resolve), given.get("timeout"))


def _from_function(function: Callable[..., Any]) -> Part:
    """A function whose first parameters are (register, done) is a source; any other is a tool."""
    if _is_source(function):
        return _source(function, _label(function), None)
    if isinstance(function, ToolMethod):
        owner, _, name = function.__qualname__.rpartition(".")
        raise ToolError(f"'{function.__qualname__}' is a method. Register it on an instance: {owner}(...).{name}")
    if not inspect.isroutine(function):
        raise ToolError(
            f"'{_label(function)}' is a callable object. Register a function, a method, "
            "or a source that takes (register, done)."
        )
    return tool(function)


def _is_source(function: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(function).parameters
        inspect.signature(function).bind(None, None)
    except (TypeError, ValueError):
        return False
    return list(parameters)[:2] == _SOURCE_PARAMETERS


def _from_module(module: ModuleType) -> list[Part]:
    resolve: Any = getattr(module, "resolve", None)
    if callable(resolve) and _is_source(resolve):
        return [_source(resolve, module.__name__, getattr(module, "timeout", None))]
    definitions: Any = getattr(module, "definitions", None)
    if definitions is None or isinstance(definitions, Tool):
        definitions = [value for value in vars(module).values() if isinstance(value, Tool)]
        if not definitions:
            raise ToolError(
                f"The module '{module.__name__}' has no tools. Decorate a function in it with @tool, "
                "or export `definitions` or `resolve(register, done)`."
            )
    return parse_registration(definitions() if callable(definitions) else definitions)


def _import(path: str) -> ModuleType:
    try:
        return import_module(path)
    except Exception as error:
        raise ToolError(f"The tool module '{path}' cannot be imported: {type(error).__name__}: {error}.") from error


def _source(resolve: Resolve, label: str, timeout: Any) -> ToolSource:
    if timeout is not None and (
        isinstance(timeout, bool) or not isinstance(timeout, int | float) or not isfinite(timeout) or timeout <= 0
    ):
        raise ToolError(f"The timeout of tool source '{label}' must be a number of seconds above 0, not {timeout!r}.")
    return ToolSource(resolve, label, timeout)


def _label(function: object) -> str:
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return f"{getattr(function, '__module__', '?')}.{name}"


def _unusable(what: object) -> ToolError:
    return ToolError(
        f"{type(what).__name__} cannot be registered. Use a tool, a definition with a `name`, a list of them, "
        "a module path, or a source with `resolve`."
    )
