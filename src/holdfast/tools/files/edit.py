"""`file.edit`: replace an exact text in a file. Proposes a diff, and applies only what was shown."""

from __future__ import annotations

from typing import Final, Literal, cast

from msgspec import Struct

from holdfast.contract.call import Proposal
from holdfast.contract.context import Context
from holdfast.contract.enums import Risk
from holdfast.contract.errors import PathRefused
from holdfast.contract.json import Args
from holdfast.contract.result import Result, fail, ok
from holdfast.fs.beneath import NotRegular
from holdfast.text.preview import with_label
from holdfast.tools.files.changed_lines import CHANGES, render_changes, target_changes
from holdfast.tools.files.file_state import (
    TooLarge,
    apply_change,
    file_changed_result,
    os_error_reason,
    path_to_change,
    propose_change,
    read_state,
)
from holdfast.tools.schemas import LABEL, builtin_tool, strict_object, text

Mode = Literal["unique", "first", "all"]

_MAX_COUNTED: Final = 1_000_000
_MAX_COMPARED: Final = 100_000_000


class Replacement(Struct, frozen=True):
    content: bytes
    count: int
    """Number of replacements."""
    lines: int
    """Lines of the replaced text, over all replacements."""
    crlf: bool
    """The edit was converted to CRLF to match the file."""


class TextNotFound(Exception):
    pass


class TextNotUnique(Exception):
    def __init__(self, count: int) -> None:
        self.count = count
        super().__init__(count)


def replace_text(content: bytes, search: str, replace: str, mode: Mode = "unique") -> Replacement:
    """Replace `search` in the content. Raises `TextNotFound`, or `TextNotUnique` in mode `unique`."""
    old, new = search.encode(), replace.encode()
    crlf = _wants_crlf(content, old, new)
    if crlf:
        old, new = _to_crlf(old), _to_crlf(new)
    count = occurrences(content, old) if mode == "unique" else content.count(old)
    if not count:
        raise TextNotFound
    if mode == "unique" and count > 1:
        raise TextNotUnique(count)
    done = 1 if mode == "first" else count
    lines = (old.count(b"\n") + (not old.endswith(b"\n"))) * done
    return Replacement(content.replace(old, new, done), done, lines, crlf)


def occurrences(content: bytes, wanted: bytes) -> int:
    """Count occurrences, including overlapping ones; stops early where counting would take too long."""
    maximum = max(2, min(_MAX_COUNTED, _MAX_COMPARED // len(wanted)))
    count, at = 0, content.find(wanted)
    while at >= 0 and count < maximum:
        count, at = count + 1, content.find(wanted, at + 1)
    return count


def _wants_crlf(content: bytes, old: bytes, new: bytes) -> bool:
    """Whether to convert the edit to CRLF, because models write LF: in a file with only CRLF always, in a mixed file if
    the LF text is not found."""
    if b"\r" in old or b"\r" in new or b"\n" not in old + new:
        return False
    ends = content.count(b"\r\n")
    if ends and ends == content.count(b"\n"):
        return True
    return bool(ends) and b"\n" in old and old not in content


def _to_crlf(text: bytes) -> bytes:
    return text.replace(b"\n", b"\r\n")


def _propose(args: Args, ctx: Context) -> Proposal | Result:
    given = cast(str, args["path"])
    if not args["search"]:
        return fail("The search text is empty. Give the exact text to replace.")
    try:
        target = path_to_change(ctx, given)
        state = read_state(target.root, target.path)
        if state.content is None:
            return fail(f"File not found: {given}")
        edited = _replace(state.content, args)
    except PathRefused as error:
        return fail(str(error))
    except (NotRegular, TooLarge) as error:
        return fail(f"{given} {error}.")
    except TextNotFound:
        return fail(
            f"Could not find the exact text in {given}. "
            "The old text must match exactly including all whitespace and newlines."
        )
    except TextNotUnique as error:
        return fail(
            f"Found {error.count} occurrences of the text in {given}. The text must be unique. "
            "Please provide more context to make it unique."
        )
    except OSError as error:
        return fail(f"{given} cannot be edited: {os_error_reason(error)}.")
    if edited.content == state.content:
        return fail(f"No changes made to {given}. The replacement produced identical content.")
    return propose_change(
        "file.edit",
        target,
        f"edit {target.relative}: replace {edited.lines} line(s)",
        Risk.MEDIUM,
        state,
        edited.content,
        {name: args[name] for name in ("search", "replace", "mode")},
        (cast(str, args["search"]).encode(), cast(str, args["replace"]).encode()),
    )


def _apply(payload: Args, ctx: Context) -> Result:
    try:
        target = path_to_change(ctx, cast(str, payload["path"]))
    except PathRefused as error:
        return fail(str(error))
    try:
        state = read_state(target.root, target.path)
        edited = _replace(state.content or b"", payload)
    except (TextNotFound, TextNotUnique, NotRegular, TooLarge):
        return file_changed_result(target)
    except OSError as error:
        return fail(f"{target.relative} was not edited: {os_error_reason(error)}.")
    before = apply_change(ctx, target, edited.content, cast(str, payload["seen"]))
    if isinstance(before, Result):
        return before
    done: Args = {
        "path": target.relative,
        "replacements": edited.count,
        "lines": edited.lines,
        "bytes": len(edited.content),
        "line_endings": "crlf" if edited.crlf else "as given",
        "changes": target_changes(target, before.content, edited.content),
    }
    return ok(_text(done), structured=done)


def _replace(content: bytes, args: Args) -> Replacement:
    mode = cast(Mode, args["mode"] or "unique")
    return replace_text(content, cast(str, args["search"]), cast(str, args["replace"]), mode)


def _text(done: Args) -> str:
    places = f" in {done['replacements']} places" if done["replacements"] != 1 else ""
    ends = " Its CRLF line endings were kept." if done["line_endings"] == "crlf" else ""
    first = f"Successfully replaced text in {done['path']}{places}.{ends}"
    return "\n".join([first, *render_changes(cast(Args, done["changes"]))])


def _preview(args: Args, width: int) -> str:
    return with_label(str(args.get("path", "")), args)


def _touches(args: Args) -> list[str]:
    return [cast(str, args["path"])]


FILE_EDIT: Final = builtin_tool(
    name="file.edit",
    description=(
        "Replace an exact text in a file. It must match including whitespace and newlines, and occur once, "
        "unless mode says otherwise."
    ),
    input_schema=strict_object(
        path=text("The file, relative to the project root."),
        search=text("The exact text to replace."),
        replace=text("The replacement; empty to delete the text."),
        mode={
            "type": ["string", "null"],
            "enum": ["unique", "first", "all", None],
            "description": "unique (default): the text must occur once. first: replace the first. all: replace all.",
        },
        label=LABEL,
    ),
    output_schema=strict_object(
        path=text("Relative to the project root."),
        replacements={"type": "integer"},
        lines={"type": "integer", "description": "Lines of the replaced text."},
        bytes={"type": "integer", "description": "New size of the file."},
        line_endings={"enum": ["as given", "crlf"]},
        changes=CHANGES,
    ),
    propose=_propose,
    apply=_apply,
    risk=Risk.MEDIUM,
    effects=frozenset({"fs.read", "fs.write"}),
    touches=_touches,
    format_preview=_preview,
    aliases=("edit", "edit_file"),
    argument_aliases={"oldText": "search", "newText": "replace", "old_text": "search", "new_text": "replace"},
    groups=("fs",),
    profiles=("coding",),
    presets=("$default",),
    needs_root=True,
)
