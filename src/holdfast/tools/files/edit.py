"""`file.edit`: replace an exact piece of text in a file. Proposes a diff; changes only what was shown."""

from __future__ import annotations

from typing import Final, cast

from holdfast.contract.call import Proposal
from holdfast.contract.context import Context
from holdfast.contract.errors import PathRefused
from holdfast.contract.result import Result, fail, ok
from holdfast.contract.tool import Tool
from holdfast.contract.values import Args
from holdfast.contract.vocabulary import Risk
from holdfast.fs.beneath import NotRegular
from holdfast.text.preview import with_label
from holdfast.tools.files.changing import change, changing, proposal, reason, stale
from holdfast.tools.files.replacing import Mode, NotFound, NotUnique, Replaced, replaced
from holdfast.tools.files.state import TooLarge, read_state
from holdfast.tools.schemas import LABEL, strict_object, text


def _propose(args: Args, ctx: Context) -> Proposal | Result:
    given = cast(str, args["path"])
    if not args["search"]:
        return fail("The search text is empty; give the exact text to replace.")
    try:
        place = changing(ctx, given)
        state = read_state(place.root, place.path)
        if state.content is None:
            return fail(f"File not found: {given}")
        edited = _replaced(state.content, args)
    except PathRefused as error:
        return fail(str(error))
    except (NotRegular, TooLarge) as error:
        return fail(f"{given} {error}.")
    except NotFound:
        return fail(
            f"Could not find the exact text in {given}. "
            "The old text must match exactly including all whitespace and newlines."
        )
    except NotUnique as error:
        return fail(
            f"Found {error.count} occurrences of the text in {given}. The text must be unique. "
            "Please provide more context to make it unique."
        )
    except OSError as error:
        return fail(f"{given} cannot be edited: {reason(error)}.")
    if edited.content == state.content:
        return fail(f"No changes made to {given}. The replacement produced identical content.")
    return proposal(
        "file.edit",
        place,
        f"edit {place.shown}: replace {edited.lines} line(s)",
        Risk.MEDIUM,
        state,
        edited.content,
        {name: args[name] for name in ("search", "replace", "mode")},
    )


def _apply(payload: Args, ctx: Context) -> Result:
    try:
        place = changing(ctx, cast(str, payload["path"]))
    except PathRefused as error:
        return fail(str(error))
    try:
        state = read_state(place.root, place.path)
        edited = _replaced(state.content or b"", payload)
    except (NotFound, NotUnique, NotRegular, TooLarge):
        return stale(place)
    except OSError as error:
        return fail(f"{place.shown} was not edited: {reason(error)}.")
    before = change(ctx, place, edited.content, cast(str, payload["seen"]))
    if isinstance(before, Result):
        return before
    done: Args = {
        "path": place.shown,
        "replacements": edited.count,
        "lines": edited.lines,
        "bytes": len(edited.content),
        "line_endings": "crlf" if edited.crlf else "as given",
    }
    return ok(_text(done), structured=done)


def _replaced(content: bytes, args: Args) -> Replaced:
    mode = cast(Mode, args["mode"] or "unique")
    return replaced(content, cast(str, args["search"]), cast(str, args["replace"]), mode)


def _text(done: Args) -> str:
    places = f" in {done['replacements']} places" if done["replacements"] != 1 else ""
    ends = " Its CRLF line endings were kept." if done["line_endings"] == "crlf" else ""
    return f"Successfully replaced text in {done['path']}{places}.{ends}"


def _preview(args: Args, width: int) -> str:
    return with_label(str(args.get("path", "")), args)


def _touches(args: Args) -> list[str]:
    return [cast(str, args["path"])]


FILE_EDIT: Final = Tool(
    name="file.edit",
    description=(
        "Replace an exact piece of text in a file. It must match in every space and newline, and occur once, "
        "unless mode says otherwise."
    ),
    input_schema=strict_object(
        path=text("The file, relative to the project root."),
        search=text("The exact text to replace."),
        replace=text("What to put in its place; empty to delete it."),
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
        lines={"type": "integer", "description": "Lines of the text that was replaced."},
        bytes={"type": "integer", "description": "Size of the file now."},
        line_endings={"enum": ["as given", "crlf"]},
    ),
    propose=_propose,
    apply=_apply,
    strict=True,
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
    source="builtin",
)
