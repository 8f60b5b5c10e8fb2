"""`file.write`: create or overwrite a file. Proposes a diff, and writes only what was proposed, over what was seen."""

from __future__ import annotations

from typing import Final, cast

from holdfast.contract.call import Proposal
from holdfast.contract.context import Context
from holdfast.contract.enums import Risk
from holdfast.contract.errors import PathRefused
from holdfast.contract.json import Args
from holdfast.contract.result import Result, fail, ok
from holdfast.fs.beneath import NotRegular
from holdfast.text.preview import with_label
from holdfast.text.truncate import format_size
from holdfast.tools.files.changed_lines import CHANGES, render_changes, target_changes
from holdfast.tools.files.file_state import (
    ConfinedPath,
    TooLarge,
    apply_change,
    line_count,
    os_error_reason,
    path_to_change,
    propose_change,
    read_state,
)
from holdfast.tools.schemas import LABEL, builtin_tool, nullable, strict_object, text


def _propose(args: Args, ctx: Context) -> Proposal | Result:
    given = cast(str, args["path"])
    content = cast(str, args["content"]).encode()
    try:
        target = path_to_change(ctx, given)
        state = read_state(target.root, target.path)
    except PathRefused as error:
        return fail(str(error))
    except (NotRegular, TooLarge) as error:
        return fail(f"{given} {error}.")
    except OSError as error:
        return fail(f"{given} cannot be written: {os_error_reason(error)}.")
    if not target.path.parent.is_dir() and not args.get("create_parents"):
        return fail(f"The folder of {given} does not exist. Create it first, or set create_parents.")
    if state.content == content:
        return ok(f"{given} already has exactly this content.", structured=_output(target, content, content))
    lines = line_count(content)
    return propose_change(
        "file.write",
        target,
        f"{'overwrite' if state.exists else 'create'} {target.relative} ({lines} line{'' if lines == 1 else 's'})",
        Risk.HIGH if state.exists else Risk.MEDIUM,
        state,
        content,
        {"content": cast(str, args["content"]), "create_parents": bool(args.get("create_parents"))},
        (None, content),
    )


def _apply(payload: Args, ctx: Context) -> Result:
    try:
        target = path_to_change(ctx, cast(str, payload["path"]))
    except PathRefused as error:
        return fail(str(error))
    content = cast(str, payload["content"]).encode()
    seen, create_parents = cast(str, payload["seen"]), bool(payload["create_parents"])
    before = apply_change(ctx, target, content, seen, create_parents=create_parents)
    if isinstance(before, Result):
        return before
    done = _output(target, before.content, content)
    return ok(_text(done), structured=done)


def _output(target: ConfinedPath, before: bytes | None, content: bytes) -> Args:
    outcome = "created" if before is None else "unchanged" if before == content else "overwritten"
    changes = target_changes(target, before, content)
    return {"path": target.relative, "bytes": len(content), "outcome": outcome, "changes": changes}


def _text(done: Args) -> str:
    size = "1 byte" if done["bytes"] == 1 else f"{done['bytes']} bytes"
    first = f"Successfully wrote {size} to {done['path']} ({done['outcome']})."
    return "\n".join([first, *render_changes(cast(Args, done["changes"]))])


def _preview(args: Args, width: int) -> str:
    size = len(str(args.get("content", "")).encode(errors="replace"))
    return with_label(f"{args.get('path', '')}  ({format_size(size)})", args)


def _touches(args: Args) -> list[str]:
    return [cast(str, args["path"])]


FILE_WRITE: Final = builtin_tool(
    name="file.write",
    description="Create a file, or replace its whole content.",
    input_schema=strict_object(
        path=text("The file, relative to the project root."),
        content=text("The new content."),
        create_parents=nullable("boolean", "Create missing folders (default false)."),
        label=LABEL,
    ),
    output_schema=strict_object(
        path=text("Relative to the project root."),
        bytes={"type": "integer"},
        outcome={"enum": ["created", "overwritten", "unchanged"]},
        changes=CHANGES,
    ),
    propose=_propose,
    apply=_apply,
    risk=Risk.MEDIUM,
    effects=frozenset({"fs.write"}),
    touches=_touches,
    format_preview=_preview,
    aliases=("write", "write_file"),
    groups=("fs",),
    profiles=("coding",),
    presets=("$default",),
    needs_root=True,
)
