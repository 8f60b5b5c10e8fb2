"""A tool whose definition nobody has seen: every call of it shows the definition, and a yes accepts it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, cast

from holdfast.contract.call import Proposal
from holdfast.contract.context import Context
from holdfast.contract.errors import InvalidArguments
from holdfast.contract.result import Result, fail
from holdfast.contract.tool import Tool
from holdfast.contract.values import Args, Json, digest_of
from holdfast.contract.vocabulary import CHANGED_DEFINITION, Risk
from holdfast.mcp.definitions import source_of, tool_from
from holdfast.mcp.pinning import difference
from holdfast.runtime.outcome import checked
from holdfast.text.preview import generic_body

if TYPE_CHECKING:
    from holdfast.mcp.shelf import Listed, Shelf
    from holdfast.runtime.context import RunContext

MAX_LINES: Final = 30
MAX_CHARS: Final = 3_000
"""Of a preview: every door shows that much whole. What is longer cannot be accepted with a call, since a yes would pin
what was not shown."""


def held_tool(shelf: Shelf, item: Listed) -> Tool:
    """What the tool was when a person saw it, or what it is if nobody has, or what was seen cannot be read any more.

    Its output schema is left away: by the time there is an answer the new definition is the one that counts.
    """
    name, full_name = item.name, f"{source_of(shelf.name)}:{item.name}"

    async def propose(args: Args, ctx: Context) -> Proposal | Result:
        now = shelf.listed(name)
        if now is None or not now.held:
            return fail(f"'{full_name}' has changed meanwhile; call it again.")
        preview = await asyncio.to_thread(difference, now.pinned, now.definition)
        if preview.count("\n") >= MAX_LINES or len(preview) > MAX_CHARS:
            what = "is new, and has more to it" if now.pinned is None else "has changed by more"
            return fail(f"Its definition {what} than can be shown here: holdfast mcp review {shelf.name} {name}")
        which = "definition of a new tool" if now.pinned is None else "changed definition"
        return Proposal(
            tool_name=full_name,
            summary=f"Accept the {which} and call it with {generic_body(args) or 'no arguments'}",
            risk=Risk.HIGH,
            payload={"arguments": args, "definition": digest_of(now.definition)},
            preview=preview,
            preview_kind="diff",
        )

    async def apply(payload: Args, ctx: Context) -> Result:
        if not shelf.accept(name, str(payload.get("definition"))):
            return fail("Its definition has changed once more, so that the call was not sent. Call it again.")
        tool, args = shelf.tool(name), payload.get("arguments")
        if tool is None or not isinstance(args, dict):
            return fail("Its new definition cannot be used, so that the call was not sent.")
        judged = tool.schema.judge(args)
        if isinstance(judged, InvalidArguments):
            return fail(f"Its new definition is accepted, but does not take these arguments: {judged}")
        return checked(tool, await shelf.send(name, judged, cast("RunContext", ctx)))

    return tool_from(
        shelf.name,
        {**_shown(item), "outputSchema": None},
        timeout=shelf.timeout,
        propose=propose,
        apply=apply,
        capabilities=frozenset({CHANGED_DEFINITION}),
    )


def _shown(item: Listed) -> dict[str, Json]:
    said = item.pinned or item.definition
    return said if isinstance(said, dict) else {}
