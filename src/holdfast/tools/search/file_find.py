"""`file.find`: files whose name or path matches a glob."""

from __future__ import annotations

from typing import Final, cast

from holdfast.contract.context import Context
from holdfast.contract.result import Result
from holdfast.contract.tool import Tool
from holdfast.contract.values import Args
from holdfast.contract.vocabulary import CHECKS_IN_DRY_RUN, Risk
from holdfast.text.preview import with_label
from holdfast.tools.schemas import LABEL, optional, strict_object, text

LIMIT: Final = 500


async def _execute(args: Args, ctx: Context) -> Result:
    from holdfast.tools.search.finding import find

    return await find(args, ctx, LIMIT)


def _preview(args: Args, width: int) -> str:
    body = str(args.get("pattern", ""))
    return with_label(f"{body}  in {args['path']}" if args.get("path") else body, args)


def _touches(args: Args) -> list[str]:
    return [cast(str, args.get("path") or ".")]


FILE_FIND: Final = Tool(
    name="file.find",
    description=(
        "Find files by a glob such as *.py or src/**/test_*.py. Without a slash it is about the name at any depth. "
        "Hidden files and files that git ignores are left out."
    ),
    input_schema=strict_object(
        pattern=text("The glob: *, ?, **, [abc], {a,b}."),
        path=optional("string", "Folder to look in (default: the whole project)."),
        limit=optional("integer", f"How many files to list (default {LIMIT}).", minimum=1, maximum=10_000),
        label=LABEL,
    ),
    output_schema={
        "type": "object",
        "properties": {
            "files": {"type": "array", "items": {"type": "string"}},
            "truncated": {"type": "boolean"},
            "unreadable_folders": {"type": "integer"},
        },
        "required": ["files", "truncated", "unreadable_folders"],
        "additionalProperties": False,
    },
    execute=_execute,
    strict=True,
    risk=Risk.LOW,
    effects=frozenset({"fs.read"}),
    capabilities=frozenset({CHECKS_IN_DRY_RUN}),
    touches=_touches,
    format_preview=_preview,
    aliases=("find", "glob", "find_files"),
    groups=("fs",),
    needs_root=True,
    source="builtin",
)
