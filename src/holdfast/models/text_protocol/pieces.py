"""What a reply is made of once it is read: text, calls, and what is wrong with it."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from holdfast.contract.values import Args


class Said(Struct, frozen=True):
    """Text that is no call."""

    text: str


class Asked(Struct, frozen=True):
    """A call."""

    name: str
    """The tool's own name for the small names, else what `[call: NAME]` says."""
    args: Args
    text: str
    """As it was written."""


class Fault(StrEnum):
    UNOPENED = "unopened"
    UNCLOSED = "unclosed"
    UNREADABLE = "unreadable"
    """A block of which it is not clear what was meant."""
    UNREADABLE_EDIT = "unreadable_edit"
    OPEN_FENCE = "open_fence"
    """A fence that is never closed, and holds a tag or comes after a call."""
    FABRICATED = "fabricated"
    """A result the model wrote itself."""


class Flaw(Struct, frozen=True):
    fault: Fault
    tag: str
    line: int
    """Where the tag is, or the fence; from 1."""
