"""Middleware around calls: `before` may replace the arguments or deny the call, `after` may replace the result.

Middleware fails closed: a function that raises, times out or returns something unexpected denies the call or withholds
its output.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any, Final, cast

from msgspec import Struct

from holdfast.contract.context import Context
from holdfast.contract.errors import HoldfastError
from holdfast.contract.json import Args
from holdfast.contract.result import Result
from holdfast.runtime.results import is_well_formed, message_of, parse_result_dict


class Deny(Struct, frozen=True):
    """Returned by `before` middleware to stop the call; the model sees the reason."""

    reason: str = ""


Before = Callable[[Args, Context], Any]
"""Returns None, new arguments, `Deny` or `{"deny": True, "reason": ...}`; may be async."""
After = Callable[[Args, Context, Result], Any]
"""Returns None, a `Result` or a dict that `parse_result_dict` accepts; may be async."""


class _Entry(Struct, frozen=True, eq=False):
    tool: str
    before: Before | None
    after: After | None


class MiddlewareHandle:
    __slots__ = ("_entry", "_owner")

    def __init__(self, owner: Middleware, entry: _Entry) -> None:
        self._owner = owner
        self._entry = entry

    def remove(self) -> bool:
        return self._owner.remove(self._entry)


class Middleware:
    """Middleware in order of registration, for one tool or for all (`""`)."""

    def __init__(self) -> None:
        self._entries: list[_Entry] = []
        self._on_change: list[Callable[[], None]] = []

    def on_change(self, changed: Callable[[], None]) -> None:
        self._on_change.append(changed)

    def add(self, tool: str, *, before: Before | None = None, after: After | None = None) -> MiddlewareHandle:
        if before is None and after is None:
            raise HoldfastError("Middleware needs a `before` or an `after` function.")
        entry = _Entry(tool, before, after)
        self._entries.append(entry)
        self._changed()
        return MiddlewareHandle(self, entry)

    def remove(self, entry: _Entry) -> bool:
        if entry not in self._entries:
            return False
        self._entries.remove(entry)
        self._changed()
        return True

    def _changed(self) -> None:
        for changed in self._on_change:
            changed()

    def before(self, names: tuple[str, ...]) -> tuple[Before, ...]:
        """The `before` functions for a tool with these names."""
        return tuple(entry.before for entry in self._entries if entry.before and _matches(entry, names))

    def after(self, names: tuple[str, ...]) -> tuple[After, ...]:
        """The `after` functions for a tool with these names."""
        return tuple(entry.after for entry in self._entries if entry.after and _matches(entry, names))


def _matches(entry: _Entry, names: tuple[str, ...]) -> bool:
    return not entry.tool or entry.tool in names


async def run_before(
    functions: tuple[Before, ...], args: Args, ctx: Context, seconds: float, *, has_deny: bool = False
) -> Args | Deny:
    """Return the arguments after all functions, or the denial of the first that denies or fails.

    `has_deny`: the tool itself has an argument `deny`, so a dict with that key may be arguments.
    """
    for function in functions:
        name = getattr(function, "__name__", "before")
        try:
            answer = await _with_timeout(function(args, ctx), seconds)
        except asyncio.CancelledError:
            raise
        except TimeoutError:
            return Deny(f"the middleware '{name}' did not return within {seconds:g} s")
        except BaseException as error:
            return Deny(f"the middleware '{name}' failed: {message_of(error, type(error).__name__)}")
        if isinstance(answer, Deny):
            return Deny(message_of(answer.reason, ""))
        if answer is None:
            continue
        if not isinstance(answer, dict):
            return Deny(f"the middleware '{name}' returned {type(answer).__name__}. {_BEFORE_FIX}")
        args = cast(Args, answer)
        if "deny" in args and (not has_deny or args.keys() <= _DENIAL_KEYS):
            if args["deny"] is True:
                return Deny(message_of(args.get("reason") or "", ""))
            return Deny(f"the middleware '{name}' returned a dict with `deny` that is not True. {_BEFORE_FIX}")
    return args


_DENIAL_KEYS: Final = frozenset({"deny", "reason"})
_BEFORE_FIX: Final = "Return None to change nothing, a dict to replace the arguments, or Deny(reason) to stop the call."


async def run_after(
    functions: tuple[After, ...], args: Args, ctx: Context, result: Result, seconds: float
) -> Result | str:
    """Return the result after all functions, or why it is withheld.

    If one fails, the result is withheld, because that function may have been there to hide something.
    """
    for function in functions:
        name = getattr(function, "__name__", "after")
        try:
            answer = await _with_timeout(function(args, ctx, result), seconds)
        except asyncio.CancelledError:
            raise
        except TimeoutError:
            return f"the middleware '{name}' did not return within {seconds:g} s"
        except BaseException as error:
            return f"the middleware '{name}' failed: {message_of(error, type(error).__name__)}"
        if answer is None:
            continue
        replaced = _parse_result(answer)
        if replaced is None:
            return f"the middleware '{name}' returned {type(answer).__name__}, not a Result"
        result = replaced
    return result


def _parse_result(answer: Any) -> Result | None:
    try:
        replaced = answer if isinstance(answer, Result) else parse_result_dict(answer)
    except Exception:
        return None
    return replaced if replaced is not None and is_well_formed(replaced) else None


async def _with_timeout(value: Any, seconds: float) -> Any:
    """Await `value` for at most `seconds`."""
    if not inspect.isawaitable(value):
        return value
    work = asyncio.ensure_future(value)
    try:
        # `asyncio.wait`, not `wait_for`: a function that swallows its cancellation is left behind, not waited for.
        done, _ = await asyncio.wait({work}, timeout=seconds)
    except asyncio.CancelledError:
        work.cancel()
        raise
    if not done:
        work.cancel()
        raise TimeoutError
    return work.result()
