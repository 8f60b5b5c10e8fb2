"""A media tool whose work a provider does: it is approved per host, and only the file that was shown is sent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import cast

from msgspec import Struct

from holdfast.contract.call import Precondition, Proposal
from holdfast.contract.context import Context
from holdfast.contract.enums import Risk
from holdfast.contract.errors import HoldfastError
from holdfast.contract.json import Args
from holdfast.contract.result import Result, fail
from holdfast.contract.tool import Reach, Tool
from holdfast.text.escape import escape
from holdfast.tools.media.content import Media, read_media
from holdfast.tools.media.service import MediaService

Send = Callable[[Args, Context, Media], Awaitable[Result]]
"""Sends a file, and returns the result. It may raise `HoldfastError`."""


class RemoteEngine(Struct, frozen=True, kw_only=True):
    """A configured model that a tool sends its file to."""

    name: str
    """`provider:model`."""
    host: str
    """As `Reach.hosts` names it."""

    @property
    def reach(self) -> Reach:
        return Reach((self.host,))


def with_provider(tool: Tool, engine: RemoteEngine, accepted: Collection[str], send: Send) -> Tool:
    """Return the tool as one with two phases: it proposes to send a file of an accepted type, and then sends it."""

    def reaches(args: Args) -> Reach:
        return engine.reach

    async def read(args: Args, ctx: Context) -> Media:
        return await read_media(args, ctx, ctx.service(MediaService).settings.max_bytes, accepted)

    async def propose(args: Args, ctx: Context) -> Proposal | Result:
        try:
            media = await read(args, ctx)
        except HoldfastError as error:
            return fail(str(error))
        prompt = cast("str | None", args.get("prompt"))
        asked = f", and ask: «{escape(prompt)}»" if prompt else ""
        summary = f"send {media.shown} to {engine.name} at {engine.host}{asked}"
        return Proposal(
            tool_name=tool.name,
            summary=summary,
            risk=Risk.MEDIUM,
            payload={**args, "seen": media.digest},
            preview=summary,
            preconditions=(Precondition(kind="content", subject=media.name or "data", value=media.digest),),
        )

    async def apply(args: Args, ctx: Context) -> Result:
        try:
            media = await read(args, ctx)
            if media.digest != args["seen"]:
                return fail("The file changed after the call was proposed, so it was not sent. Call the tool again.")
            return await send(args, ctx, media)
        except HoldfastError as error:
            return fail(str(error))

    return tool.with_(
        execute=None,
        propose=propose,
        apply=apply,
        risk=Risk.MEDIUM,
        effects=frozenset({"fs.read", "network"}),
        reaches=reaches,
        sinks=("web",),
        presets=(),
    )
