"""Disables one function when its module is imported, in every Python process that has this folder on its path.

`SPEC_MUTANT` is `module:qualname=mutant`. The code object of the function is replaced in place, so that every reference
to it (an import, a table, a subclass, a bound method) calls the mutant. Child processes get the same variables, even if
a test passes them an environment of its own. Nothing is imported that Python has not loaded anyway, because some tests
count imports.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, FunctionType, ModuleType
    from typing import Any

GUARD, _, MUTANT = os.environ.get("SPEC_MUTANT", "").partition("=")
MODULE, _, QUALNAME = GUARD.partition(":")
CARRIED = {name: os.environ[name] for name in ("SPEC_MUTANT", "SPEC_MUTANT_LOG") if name in os.environ}
PATHS = os.environ.get("PYTHONPATH", "")
"""Read at start-up, because a test may change the environment later."""

_VARARGS, _VARKEYWORDS, _GENERATOR, _COROUTINE, _ASYNC_GENERATOR = 0x04, 0x08, 0x20, 0x80, 0x200
"""The flags of code objects, as `inspect` names them."""


class MutantDisabled(Exception):
    """Raised by a function that is disabled with the mutant `raise`."""


class _Finder:
    """An import hook that calls `after` when a module is first imported."""

    def __init__(self, module: str, after: Any) -> None:
        self.module = module
        self.after = after

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> Any:
        if fullname != self.module:
            return None
        sys.meta_path.remove(self)
        for finder in sys.meta_path:
            if (spec := finder.find_spec(fullname, path, target)) is not None:
                break
        else:
            return None
        if spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                self.after(module)

            spec.loader.exec_module = exec_module
        return spec


def _disable(module: ModuleType) -> None:
    from scripts.guards import find_guard

    try:
        function, bound = find_guard(module, QUALNAME)
        function.__code__ = mutant_code(function, bound, MUTANT)
    except LookupError as error:
        _log(f"{GUARD}, {error}")
    else:
        _log("applied")


def _pass_to_children(subprocess: ModuleType) -> None:
    start = subprocess.Popen.__init__

    def start_with_variables(self: Any, *args: Any, **options: Any) -> None:
        if options.get("env") is not None:
            paths = filter(None, [PATHS, options["env"].get("PYTHONPATH")])
            options["env"] = {**options["env"], **CARRIED, "PYTHONPATH": os.pathsep.join(paths)}
        start(self, *args, **options)

    subprocess.Popen.__init__ = start_with_variables


def mutant_code(function: FunctionType, bound: bool, mutant: str) -> CodeType:
    """Return code with the function's signature, closure and kind (async, generator), and the mutant's body."""
    code = function.__code__
    names = list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    positional, keyword_only = names[: code.co_argcount], names[code.co_argcount :]
    rest = list(code.co_varnames[len(names) :])
    signature = list(positional)
    if code.co_posonlyargcount:
        signature.insert(code.co_posonlyargcount, "/")
    if code.co_flags & _VARARGS:
        signature.append(f"*{rest.pop(0)}")
    elif keyword_only:
        signature.append("*")
    signature += keyword_only
    if code.co_flags & _VARKEYWORDS:
        signature.append(f"**{rest.pop(0)}")
    body = _body(mutant, names[1:] if bound else names)
    if code.co_flags & (_GENERATOR | _ASYNC_GENERATOR):
        body = f"{body if body.startswith('raise') else 'return'}\n  yield"
    prefix = "async " if code.co_flags & (_COROUTINE | _ASYNC_GENERATOR) else ""
    free = "".join(f"{name}, " for name in code.co_freevars)
    source = (
        f"def outer():\n {free + '= ' + repr((None,) * len(code.co_freevars)) if free else 'pass'}\n"
        f" {prefix}def mutant({', '.join(signature)}):\n  ({free})\n  {body}\n"
    )
    outer = compile(source, "<mutant>", "exec").co_consts[0]
    return next(item for item in outer.co_consts if isinstance(item, type(code)))


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
    if path := CARRIED.get("SPEC_MUTANT_LOG"):
        with open(path, "a") as log:  # noqa: PTH123
            log.write(f"{line}\n")


if CARRIED:
    sys.meta_path.insert(0, _Finder("subprocess", _pass_to_children))
if MODULE:
    sys.meta_path.insert(0, _Finder(MODULE, _disable))
