"""`file.write`: create or overwrite a file. Proposes a diff; writes only what was proposed, onto what was seen."""

from __future__ import annotations

from pathlib import Path
from typing import Final, cast

from holdfast.contract.call import Precondition, Proposal
from holdfast.contract.context import Context
from holdfast.contract.errors import PathRefused
from holdfast.contract.result import Result, fail, ok
from holdfast.contract.tool import Tool
from holdfast.contract.values import Args
from holdfast.contract.vocabulary import Risk
from holdfast.text.preview import with_label
from holdfast.text.truncate import format_size
from holdfast.tools.atomic import NotRegular, Stale, read_state, replace_file
from holdfast.tools.schemas import LABEL, optional, strict_object, text


def _propose(args: Args, ctx: Context) -> Proposal | Result:
    from holdfast.text.diff import unified_diff

    given = cast(str, args["path"])
    content = cast(str, args["content"]).encode()
    try:
        path = ctx.path.confine(given, mutating=True)
        if path == _root(ctx):
            return fail(f"{given} is the project root itself; name a file in it.")
        _check_writable(ctx, path, given)
        state = read_state(_root(ctx), path)
    except (PathRefused, NotRegular) as error:
        return fail(str(error))
    except OSError as error:
        return fail(f"{given} cannot be read: {error.strerror}.")
    if not path.parent.is_dir() and not args.get("create_parents"):
        return fail(f"The folder of {given} does not exist; make it first, or set create_parents.")
    if state.content == content:
        return ok(
            f"{given} already holds exactly this content.", structured=_output(path, ctx, len(content), "unchanged")
        )
    return Proposal(
        tool_name="file.write",
        summary=f"{'overwrite' if state.exists else 'create'} {_display(path, ctx)} ({_lines(content)})",
        risk=Risk.HIGH if state.exists else Risk.MEDIUM,
        payload={
            "path": str(path),
            "content": cast(str, args["content"]),
            "seen": state.digest,
            "create_parents": bool(args.get("create_parents")),
        },
        preview=unified_diff(_decoded(state.content), content.decode(), _display(path, ctx)),
        preconditions=(Precondition(kind="file", subject=str(path), value=state.digest),),
    )


def _apply(payload: Args, ctx: Context) -> Result:
    path = ctx.path.confine(cast(str, payload["path"]), mutating=True)
    content = cast(str, payload["content"]).encode()
    try:
        before = replace_file(
            _root(ctx),
            path,
            content,
            seen=cast(str, payload["seen"]),
            keep_before=ctx.keep.before_image,
            create_parents=bool(payload["create_parents"]),
        )
    except Stale:
        return fail(
            f"{_display(path, ctx)} has changed since this was proposed, so nothing was written; propose it again."
        )
    except (NotRegular, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return fail(f"{_display(path, ctx)} was not written: {reason}.")
    done = "overwritten" if before.exists else "created"
    return ok(
        f"Successfully wrote {len(content)} bytes to {_display(path, ctx)} ({done}).",
        structured=_output(path, ctx, len(content), done),
    )


def _check_writable(ctx: Context, path: Path, given: str) -> None:
    if not ctx.sandbox.is_path_writable(path):
        raise PathRefused(
            f"Sandbox: {given} is not writable; add its folder to sandbox.writable in your configuration."
        )


def _root(ctx: Context) -> Path:
    if ctx.root is None:
        raise PathRefused("There is no project root here, so no file can be written; run `holdfast init` first.")
    return ctx.root


def _output(path: Path, ctx: Context, size: int, outcome: str) -> Args:
    return {"path": _display(path, ctx), "bytes": size, "outcome": outcome}


def _display(path: Path, ctx: Context) -> str:
    return path.relative_to(ctx.root).as_posix() if ctx.root and path.is_relative_to(ctx.root) else str(path)


def _decoded(content: bytes | None) -> str | None:
    return None if content is None else content.decode(errors="replace")


def _lines(content: bytes) -> str:
    count = content.count(b"\n") + (0 if content.endswith(b"\n") or not content else 1)
    return "1 line" if count == 1 else f"{count} lines"


def _preview(args: Args, width: int) -> str:
    size = len(str(args.get("content", "")).encode(errors="replace"))
    return with_label(f"{args.get('path', '')}  ({format_size(size)})", args)


def _touches(args: Args) -> list[str]:
    return [cast(str, args["path"])]


FILE_WRITE: Final = Tool(
    name="file.write",
    description="Create a file, or replace everything in it.",
    input_schema=strict_object(
        path=text("The file, relative to the project root."),
        content=text("The whole new content."),
        create_parents=optional("boolean", "Make missing folders (default false)."),
        label=LABEL,
    ),
    output_schema={
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "bytes": {"type": "integer"},
            "outcome": {"enum": ["created", "overwritten", "unchanged"]},
        },
        "required": ["path", "bytes", "outcome"],
        "additionalProperties": False,
    },
    propose=_propose,
    apply=_apply,
    strict=True,
    risk=Risk.MEDIUM,
    effects=frozenset({"fs.write"}),
    touches=_touches,
    format_preview=_preview,
    aliases=("write", "write_file"),
    groups=("fs",),
    needs_root=True,
    source="builtin",
)
