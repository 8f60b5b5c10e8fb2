"""Imported by every Python that starts with this folder on its path: switches one function off as it is imported.

`HOLDFAST_MUTANT` is `module:qualname=mutant`. The function's code is replaced in place, so that whoever holds the
function (an import, a table, a subclass, a bound method) holds the mutant, in this process and in its children.
"""

from __future__ import annotations

import os
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from inspect import CO_VARARGS, CO_VARKEYWORDS, isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

GUARD, _, MUTANT = os.environ.get("HOLDFAST_MUTANT", "").partition("=")
MODULE, _, QUALNAME = GUARD.partition(":")


class MutantDisabled(Exception):
    """What a function that is switched off raises."""


class _Finder(MetaPathFinder):
    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname != MODULE:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            _switch_off(module)

        spec.loader.exec_module = exec_module
        return spec


def _switch_off(module: ModuleType) -> None:
    from scripts.guards import find_guard

    try:
        function, bound = find_guard(module, QUALNAME)
        function.__code__ = mutant_code(function, bound, MUTANT)
    except LookupError as error:
        _log(f"{GUARD}, {error}")
    else:
        _log("applied")


def mutant_code(function: FunctionType, bound: bool, mutant: str) -> CodeType:
    """Code with the function's own signature, closure and kind (async, generator), and the mutant's body."""
    code = function.__code__
    names = list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    positional, keyword_only = names[: code.co_argcount], names[code.co_argcount :]
    rest = list(code.co_varnames[len(names) :])
    signature = list(positional)
    if code.co_posonlyargcount:
        signature.insert(code.co_posonlyargcount, "/")
    if code.co_flags & CO_VARARGS:
        signature.append(f"*{rest.pop(0)}")
    elif keyword_only:
        signature.append("*")
    signature += keyword_only
    if code.co_flags & CO_VARKEYWORDS:
        signature.append(f"**{rest.pop(0)}")
    body = _body(mutant, names[1:] if bound else names)
    if isgeneratorfunction(function) or isasyncgenfunction(function):
        body = f"{body if body.startswith('raise') else 'return'}\n  yield"
    prefix = "async " if iscoroutinefunction(function) or isasyncgenfunction(function) else ""
    free = "".join(f"{name}, " for name in code.co_freevars)
    source = (
        f"def outer():\n {free + '= ' + repr((None,) * len(code.co_freevars)) if free else 'pass'}\n"
        f" {prefix}def mutant({', '.join(signature)}):\n  ({free})\n  {body}\n"
    )
    outer = compile(source, "<mutant>", "exec").co_consts[0]
    return next(item for item in outer.co_consts if isinstance(item, CodeType))


def _body(mutant: str, names: list[str]) -> str:
    kind, _, value = mutant.partition(":")
    if kind == "raise":
        return f'raise __import__("sitecustomize").MutantDisabled({GUARD!r})'
    if value.startswith("args"):
        index = int(value[4:])
        if index >= len(names):
            raise LookupError(f"which has no argument {index}")
        return f"return {names[index]}"
    return f"return {value}"


def _log(line: str) -> None:
    if path := os.environ.get("HOLDFAST_MUTANT_LOG"):
        with Path(path).open("a") as log:
            log.write(f"{line}\n")


if MODULE:
    sys.meta_path.insert(0, _Finder())
