"""Checks of a program's input before it is used: arguments, ids, names, callers and answers.

Accepted values are well-formed (no lone surrogates), bounded in size and can be stored in the ledger and read back.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec
from msgspec.structs import asdict

from holdfast.contract.call import Answer, Caller, PendingCall
from holdfast.contract.coercion import to_json_value
from holdfast.contract.errors import BadJson, CallError, GrantRefused, LedgerError, UnknownCall
from holdfast.contract.json import MAX_ARGUMENT_BYTES, Args, encode_json, parse_json
from holdfast.runtime.results import message_of
from holdfast.text.times import MAX_TIME

if TYPE_CHECKING:
    from holdfast.store.entries import Grant
    from holdfast.store.ledger import Ledger

Arguments = str | bytes | Mapping[str, Any] | None
_RECORDED_CHARACTERS: Final = 4096


def read_arguments(arguments: Arguments) -> Args:
    """Return the arguments of a call as a dict, from JSON text, a mapping or None. Raises `BadJson`."""
    if type(arguments) is dict:
        args = cast(Args, arguments)
        for value in args.values():
            if type(value) is str and len(value) > MAX_ARGUMENT_BYTES:
                raise BadJson(
                    f"An argument is {len(value):,} characters long; at most {MAX_ARGUMENT_BYTES:,} are accepted."
                )
        return args
    if arguments is None:
        return {}
    if isinstance(arguments, str | bytes):
        return parse_object(_text(arguments))
    if isinstance(arguments, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - interfaces pass on what they get
        return dict(arguments)
    raise BadJson(f"The arguments must be a JSON object, not {type(arguments).__name__}.")


def parse_object(text: str, finite: bool = True) -> Args:
    """Parse JSON text that must be an object; for `finite` see `parse_json`."""
    value = parse_json(text, finite=finite)
    if type(value) is dict:
        return value
    raise BadJson(f"The arguments must be a JSON object, not {_json_kind(value)}.")


def _text(arguments: str | bytes) -> str:
    try:
        return str(arguments) if isinstance(arguments, str) else arguments.decode()
    except UnicodeDecodeError as error:
        raise BadJson(f"This is not valid JSON: it is not UTF-8 (byte {error.start}).") from None


def copy_json(args: Args, limit: int = sys.maxsize) -> Args:
    """Return a deep copy of JSON. Raises `BadJson` if nested JSON is longer than `limit` bytes."""
    for value in args.values():
        if type(value) is dict or type(value) is list:
            return cast(Args, parse_json(encode_json(args), limit=limit))
    return args.copy()


def recordable_arguments(given: Any) -> Any:
    """Return invalid arguments in a form that the ledger can store, shortened if they are long."""
    if isinstance(given, bytes):
        return given[:_RECORDED_CHARACTERS].decode(errors="replace")
    if isinstance(given, str):
        return given[:_RECORDED_CHARACTERS].encode(errors="replace").decode()
    try:
        encode_json(given)
    except Exception:
        return f"[{type(given).__name__} that cannot be encoded as JSON]"
    return given


def _json_kind(value: object) -> str:
    if value is None:
        return "null"
    return {"str": "a string", "list": "a list", "bool": "a boolean"}.get(type(value).__name__, "a number")


MAX_TEXT: Final = 65_536
"""Maximum length of a name or id from a caller. Some providers put kilobytes into a call id."""
MAX_CALL_ID: Final = 200
_CALL_ID: Final = re.compile(rf"[A-Za-z0-9._:][A-Za-z0-9._:-]{{0,{MAX_CALL_ID - 1}}}")
_IDS_KEPT: Final = 10_000
MAX_MESSAGE: Final = 16 * 1024 * 1024
MAX_IDENTITY: Final = 256


def check_text(value: object, what: str, most: int = MAX_TEXT) -> str:
    """Return the value as well-formed text. Integers are converted, because request ids are often integers."""
    if type(value) is int and abs(value) < 2**64:
        return str(value)
    if not isinstance(value, str):
        raise CallError(f"{what} must be text, not {type(value).__name__}.")
    if len(value) > most:
        raise CallError(f"{what} is {len(value):,} characters long; at most {most:,} are accepted.")
    return value.encode(errors="replace").decode()


def check_optional_text(value: object, what: str) -> str | None:
    return None if value is None else check_text(value, what)


class ChosenCallIds:
    """Call ids that callers chose themselves. Each can be used once."""

    def __init__(self, ledger: Ledger | None) -> None:
        self._ledger = ledger
        self._taken: dict[str, None] = {}
        """The newest ids, whose calls may not be in the ledger yet."""

    def claim(self, value: object) -> str | None:
        """Return the id if it is new; None if the caller gave none. Raises `CallError` if it is invalid or used."""
        call_id = check_new_call_id(value)
        if call_id is None:
            return None
        if call_id in self._taken or self._is_recorded(call_id):
            raise CallError(f"The call id '{call_id}' is already used by another call. Use a new one.")
        self._taken[call_id] = None
        if len(self._taken) > _IDS_KEPT:
            del self._taken[next(iter(self._taken))]
        return call_id

    def _is_recorded(self, call_id: str) -> bool:
        try:
            return self._ledger is not None and self._ledger.has_call(call_id)
        except LedgerError:
            return False  # recording the call reports what is wrong with the ledger


def check_new_call_id(value: object) -> str | None:
    """Check an id that a caller chose. People copy it into a shell, so it has no characters that are special there."""
    if value is None:
        return None
    if not isinstance(value, str) or not _CALL_ID.fullmatch(value):
        raise CallError(
            f"A call id must be 1 to {MAX_CALL_ID} characters of A-Z, a-z, 0-9 and . _ : - and not begin with a dash. "
            "Use one from `new_call_id`."
        )
    return value


def check_call_id(value: object) -> str:
    """Check the id of an existing call. An id that cannot be in the ledger raises `UnknownCall`."""
    try:
        if isinstance(value, str) and len(value) <= MAX_TEXT and value.encode():
            return value
    except UnicodeEncodeError:
        pass
    shown = message_of(value, type(value).__name__)[:80]
    raise UnknownCall(f"{shown!a} is not the id of a call; use the id of a pending call.")


def check_cwd(value: object, otherwise: str) -> str:
    if value is None or (isinstance(value, str) and not value):
        return otherwise
    try:
        path = os.fspath(cast("str | os.PathLike[str]", value))
        os.fsencode(path)
    except (TypeError, UnicodeEncodeError):
        path = None
    if not isinstance(path, str) or len(path) > MAX_TEXT or "\0" in path:
        raise CallError("The cwd of a call must be the path of a folder.")
    return path


def check_caller(given: object) -> Caller:
    """Check the type of every field of a caller."""
    if not isinstance(given, Caller):
        raise CallError(f"The caller of a call must be a Caller, not {type(given).__name__}.")
    fields: dict[str, Any] = asdict(given)
    try:
        checked = {
            name: check_text(value, f"The {name} of a caller") if isinstance(value, str | int) else value
            for name, value in fields.items()
        }
        return msgspec.convert(msgspec.to_builtins(checked), Caller)
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
        raise CallError(f"The caller of a call cannot be used: {str(error)[:200]}.") from None


def check_new_arguments(given: object) -> Args:
    """Return a copy of the arguments that replace those of a pending call."""
    if not isinstance(given, dict):
        raise CallError(f"The new arguments must be a JSON object, not {type(given).__name__}.")
    try:
        return to_json_value(cast(Args, given))
    except (ValueError, RecursionError) as error:
        raise CallError(f"The new arguments cannot be used: {str(error)[:200]}.") from None


def check_answer(given: object) -> Answer:
    """Check the type of every field of an answer."""
    if not isinstance(given, Answer):
        raise CallError(f"An answer must be an Answer, not {type(given).__name__}.")
    fields = {
        "kind": given.kind,
        "by": check_text(given.by, "The name of who answers"),
        "message": check_text(given.message, "The message of an answer", MAX_MESSAGE),
        "args": None if given.args is None else check_new_arguments(given.args),
        "success": given.success,
        "identity": check_text(given.identity, "The identity of who answers", MAX_IDENTITY),
    }
    try:
        fields["widen"] = None if given.widen is None else msgspec.to_builtins(given.widen)
        return msgspec.convert(fields, Answer)
    except (msgspec.MsgspecError, TypeError, ValueError) as error:
        raise CallError(f"The answer cannot be used: {str(error)[:200]}.") from None


def check_expiry(given: object) -> float | None:
    """Check the time at which a grant ends. Raises `GrantRefused` unless it is in the future."""
    if given is None:
        return None
    if type(given) not in (int, float) or not time.time() < cast(float, given) < MAX_TIME:
        raise GrantRefused("A grant ends at a time in the future, in seconds since 1970. Give a later one, or None.")
    return float(cast(float, given))


def check_grant(given: object) -> Grant:
    """Check the type of every field of a grant."""
    from holdfast.store.entries import Grant

    if not isinstance(given, Grant):
        raise CallError(f"A grant must be a Grant, not {type(given).__name__}.")
    try:
        return msgspec.convert(msgspec.to_builtins(given), Grant)
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise CallError(f"The grant cannot be used: {str(error)[:200]}.") from None


def check_pending(given: object) -> PendingCall:
    """Check the type of every field of a pending call."""
    if not isinstance(given, PendingCall):
        raise CallError(f"A pending call must be a PendingCall, not {type(given).__name__}.")
    try:
        return msgspec.convert(msgspec.to_builtins(given), PendingCall)
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise CallError(f"The pending call cannot be used: {str(error)[:200]}.") from None
