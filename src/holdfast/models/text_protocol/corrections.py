"""The words a model is corrected with, and those a person reads when correcting did not help."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from holdfast.models.text_protocol.grammar import WRITE_EMPTY, Fault, Flaw
from holdfast.models.text_protocol.instructions import FORMS, shorten

MARK: Final = "[runtime:correction]"
_LONGEST_TAG: Final = 60


class Kind(StrEnum):
    """What a model is corrected for, once each."""

    FABRICATED = "fabricated"
    EDIT = "edit"
    MALFORMED = "malformed"


_OF_A_CUT: Final = frozenset({Fault.UNCLOSED, Fault.OPEN_FENCE})
_KINDS: Final = {Fault.FABRICATED: Kind.FABRICATED, Fault.UNREADABLE_EDIT: Kind.EDIT}
_WRONG: Final = {
    Kind.FABRICATED: "wrote the result of a tool itself",
    Kind.EDIT: "wrote an edit in a form that cannot be read",
    Kind.MALFORMED: "wrote a tool call in a form that cannot be read",
}


def worst(flaws: Sequence[Flaw], *, cut: bool) -> tuple[Kind, Flaw] | None:
    """What a reply is sent back for; None for nothing. `cut`: somebody else than the model ended it."""
    counted = [flaw for flaw in flaws if not (cut and flaw.fault in _OF_A_CUT)]
    found = {_KINDS.get(flaw.fault, Kind.MALFORMED): flaw for flaw in reversed(counted)}
    return next(((kind, found[kind]) for kind in Kind if kind in found), None)


def reason(kind: Kind) -> str:
    """For the person who watches."""
    return f"The model {_WRONG[kind]}; nothing was run, and it is told so."


def given_up(name: str, kind: Kind) -> str:
    return (
        f"{name} {_WRONG[kind]}, and again after it was corrected; nothing was run; "
        "ask for less at a time, or choose another model."
    )


def correction(kind: Kind, flaw: Flaw, *, failed_edit: str | None = None) -> str:
    """`failed_edit`: the path of the edit that failed just before, which this one was to repair."""
    if kind is Kind.FABRICATED:
        return (
            f"{MARK} Line {flaw.line} of your reply is a tool result that you wrote yourself. Only the runtime writes "
            "results. Nothing was run. Write the call alone, then stop and wait for its result."
        )
    if kind is Kind.EDIT and failed_edit is not None:
        return (
            f"{MARK} Your edit of {failed_edit} failed, and the [edit_file] block that was to repair it cannot be "
            "read. Nothing was changed. Copy OLD TEXT from the file as it is now, and write exactly:\n"
            f"{FORMS['edit_file'].replace('PATH', failed_edit, 1)}"
        )
    form = FORMS.get(flaw.tag.strip("[/]:"))
    shown = f" Write it exactly like this:\n{form}" if form else ""
    return f"{MARK} Nothing was run: {_what(flaw)}.{shown}"


def _what(flaw: Flaw) -> str:
    tag, where = shorten(flaw.tag, _LONGEST_TAG), f"on line {flaw.line}"
    match flaw.fault:
        case Fault.UNOPENED:
            return f"{tag} {where} closes nothing"
        case Fault.UNCLOSED:
            return f"{tag} {where} is not closed"
        case Fault.OPEN_FENCE if not tag.startswith("["):
            return f"the code fence {where} is not closed, so that nobody knows which of your calls are quoted"
        case Fault.OPEN_FENCE:
            return f"the code fence {where} is not closed, and {tag} in it does not count; write calls outside fences"
        case Fault.UNREADABLE if flaw.tag == WRITE_EMPTY:
            return f"{tag} PATH] {where} writes an empty file, and what was to be in it follows"
        case _:
            return f"the {tag} block {where} cannot be read"
