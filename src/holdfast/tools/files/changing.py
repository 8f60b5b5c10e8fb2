"""What `file.write` and `file.edit` share: the proposal that shows a change, and making it."""

from __future__ import annotations

from typing import Final

from holdfast.contract.call import Precondition, Proposal
from holdfast.contract.context import Context
from holdfast.contract.result import Result, fail
from holdfast.contract.values import Args
from holdfast.contract.vocabulary import Risk
from holdfast.text.truncate import format_size
from holdfast.tools.files.atomic import FileState, Stale, TooLarge, replace_file
from holdfast.tools.files.beneath import NotRegular
from holdfast.tools.files.place import Place, reason

MAX_DIFFED: Final = 2 * 1024 * 1024
"""Bytes up to which a change is shown line by line."""


def proposal(
    tool: str, place: Place, summary: str, risk: Risk, state: FileState, after: bytes, payload: Args
) -> Proposal:
    return Proposal(
        tool_name=tool,
        summary=summary,
        risk=risk,
        payload={"path": str(place.path), "seen": state.digest, **payload},
        preview=_diff(state.content, after, place.shown),
        preconditions=(Precondition(kind="file", subject=str(place.path), value=state.digest),),
    )


def change(ctx: Context, place: Place, after: bytes, seen: str, *, create_parents: bool = False) -> FileState | Result:
    """What was there before the change, or why it was not made."""
    try:
        return replace_file(
            place.root,
            place.path,
            after,
            seen=seen,
            keep_before=ctx.keep.before_image,
            keep_after=ctx.keep.after_image,
            create_parents=create_parents,
        )
    except Stale:
        return stale(place)
    except (NotRegular, TooLarge) as error:
        return fail(f"{place.shown} {error}, so nothing was written.")
    except OSError as error:
        return fail(f"{place.shown} was not written: {reason(error)}.")


def stale(place: Place) -> Result:
    return fail(f"{place.shown} has changed since this was proposed, so nothing was written; propose it again.")


def line_count(content: bytes) -> int:
    return content.count(b"\n") + (0 if content.endswith(b"\n") or not content else 1)


def _diff(before: bytes | None, after: bytes, path: str) -> str:
    from holdfast.text.diff import unified_diff

    if max(len(before or b""), len(after)) > MAX_DIFFED:
        was = "nothing" if before is None else format_size(len(before))
        return f"[{path}: {was} becomes {format_size(len(after))}, too large to show line by line]"
    old = None if before is None else before.decode(errors="replace")
    return unified_diff(old, after.decode(errors="replace"), path)
