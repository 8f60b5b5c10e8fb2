"""Hooks around calls: `before` may replace the arguments or deny, `after` may replace the result."""

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
    """Returned by a `before` hook to stop the call; the model sees the reason."""

    reason: str = ""


Before = Callable[[Args, Context], Any]
"""Returns None, new arguments, `Deny` or `{"deny": True, "reason": ...}`; may be async."""
After = Callable[[Args, Context, Result], Any]
"""Returns None, a `Result` or a dict that `in_shape` reads as one; may be async."""


class _Entry(Struct, frozen=True, eq=False):
    tool: str
    before: Before | None
    after: After | None


class MiddlewareHandle:
    __slots__ = ("_entry", "_owner")

    def __init__(self, owner: Middleware, hook: _Entry) -> None:
        self._owner = owner
        self._entry = hook

    def remove(self) -> bool:
        return self._owner.remove(self._entry)


class Middleware:
    """Hooks in registration order; those for one tool and those for all (`""`) interleave."""

    def __init__(self) -> None:
        self._entries: list[_Entry] = []
        self._on_change: list[Callable[[], None]] = []

    def on_change(self, changed: Callable[[], None]) -> None:
        self._on_change.append(changed)

    def add(self, tool: str, *, before: Before | None = None, after: After | None = None) -> MiddlewareHandle:
        if before is None and after is None:
            raise HoldfastError("Middleware needs a `before` or an `after` function.")
        hook = _Entry(tool, before, after)
        self._entries.append(hook)
        self._changed()
        return MiddlewareHandle(self, hook)

    def remove(self, hook: _Entry) -> bool:
        if hook not in self._entries:
            return False
        self._entries.remove(hook)
        self._changed()
        return True

    def _changed(self) -> None:
        for changed in self._on_change:
            changed()

    def before(self, names: tuple[str, ...]) -> tuple[Before, ...]:
        return tuple(hook.before for hook in self._entries if hook.before and (not hook.tool or hook.tool in names))

    def after(self, names: tuple[str, ...]) -> tuple[After, ...]:
        return tuple(hook.after for hook in self._entries if hook.after and (not hook.tool or hook.tool in names))


async def run_before(
    hooks: tuple[Before, ...], args: Args, ctx: Context, seconds: float, *, has_deny: bool = False
) -> Args | Deny:
    """The arguments after all hooks. A hook that raises, hangs or returns something else denies.

    `has_deny` says that the tool itself has an argument `deny`.
    """
    for hook in hooks:
        name = getattr(hook, "__name__", "before")
        try:
            answer = await _with_timeout(hook(args, ctx), seconds)
        except asyncio.CancelledError:
            raise
        except TimeoutError:
            return Deny(f"the hook '{name}' did not answer within {seconds:g} s")
        except BaseException as error:
            return Deny(f"the hook '{name}' failed: {message_of(error, type(error).__name__)}")
        if isinstance(answer, Deny):
            return Deny(message_of(answer.reason, ""))
        if answer is None:
            continue
        if not isinstance(answer, dict):
            return Deny(f"the hook '{name}' returned {type(answer).__name__}. {_BEFORE_FIX}")
        args = cast(Args, answer)
        if "deny" in args and (not has_deny or args.keys() <= _DENIAL):
            if args["deny"] is True:
                return Deny(message_of(args.get("reason") or "", ""))
            return Deny(f"the hook '{name}' returned a dict with `deny` that is not True. {_BEFORE_FIX}")
    return args


_DENIAL: Final = frozenset({"deny", "reason"})
_BEFORE_FIX: Final = "Return None to change nothing, a dict to replace the arguments, or Deny(reason) to stop the call."


async def run_after(hooks: tuple[After, ...], args: Args, ctx: Context, result: Result, seconds: float) -> Result | str:
    """The result after all hooks, or why it is withheld: a hook that failed may have been there to hide something."""
    for hook in hooks:
        name = getattr(hook, "__name__", "after")
        try:
            answer = await _with_timeout(hook(args, ctx, result), seconds)
        except asyncio.CancelledError:
            raise
        except TimeoutError:
            return f"the hook '{name}' did not answer within {seconds:g} s"
        except BaseException as error:
            return f"the hook '{name}' failed: {message_of(error, type(error).__name__)}"
        if answer is None:
            continue
        replaced = _parse_result(answer)
        if replaced is None:
            return f"the hook '{name}' returned {type(answer).__name__}, not a Result"
        result = replaced
    return result


def _parse_result(answer: Any) -> Result | None:
    try:
        replaced = answer if isinstance(answer, Result) else parse_result_dict(answer)
    except Exception:
        return None
    return replaced if replaced is not None and is_well_formed(replaced) else None


async def _with_timeout(value: Any, seconds: float) -> Any:
    """Wait so long and no longer: one that swallows its cancellation is left behind."""
    if not inspect.isawaitable(value):
        return value
    work = asyncio.ensure_future(value)
    try:
        done, _ = await asyncio.wait({work}, timeout=seconds)
    except asyncio.CancelledError:
        work.cancel()
        raise
    if not done:
        work.cancel()
        raise TimeoutError
    return work.result()
