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
MAX_SHOWN: Final = 256 * 1024
"""Characters up to which a diff is kept whole, to be shown whole."""
MAX_DIFF_LINES: Final = 2000
"""Lines of a longer one."""


def proposal(
    tool: str, place: Place, summary: str, risk: Risk, state: FileState, after: bytes, payload: Args
) -> Proposal:
    diff = _diff(state.content, after, place.shown, None)
    cut = len(diff) > MAX_SHOWN or _is_large(state.content, after)
    return Proposal(
        tool_name=tool,
        summary=summary,
        risk=risk,
        payload={"path": str(place.path), "seen": state.digest, **payload},
        preview=_diff(state.content, after, place.shown, MAX_DIFF_LINES) if cut else diff,
        preview_kind="diff",
        preview_cut=cut,
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


def _is_large(before: bytes | None, after: bytes) -> bool:
    return max(len(before or b""), len(after)) > MAX_DIFFED


def _diff(before: bytes | None, after: bytes, path: str, max_lines: int | None) -> str:
    from holdfast.text.diff import unified_diff

    if _is_large(before, after):
        was = "nothing" if before is None else format_size(len(before))
        return f"[{path}: {was} becomes {format_size(len(after))}, too large to show line by line]"
    old = None if before is None else before.decode(errors="replace")
    return unified_diff(old, after.decode(errors="replace"), path, max_lines=max_lines)
