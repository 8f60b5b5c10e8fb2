"""How rules speak of what went wrong: bounded sentences, and one log."""

from __future__ import annotations

from typing import Final

RAISED: Final = (Exception, SystemExit)
"""What the code of others may raise without ending ours."""
_MAX_SHOWN: Final = 200


def describe(error: BaseException) -> str:
    """An exception on one bounded line; one that cannot even be printed is named only."""
    try:
        text = " ".join(str(error).split())[:_MAX_SHOWN]
    except RAISED:
        text = ""
    name = type(error).__name__
    return f"{name}: {text}" if text else name


def show(value: object) -> str:
    """A value that should not be there: text itself, anything else by its type."""
    if isinstance(value, str):
        return ascii(value[:_MAX_SHOWN])
    return "None" if value is None else f"a value of type {type(value).__name__}"


def reason_of(value: object) -> str:
    """The reason somebody else's code gives, which the ledger keeps as text."""
    return value if isinstance(value, str) else show(value)


def warn(message: str) -> None:
    import logging

    from holdfast.text.visible import visible

    logging.getLogger("holdfast").warning("%s", visible(message))
