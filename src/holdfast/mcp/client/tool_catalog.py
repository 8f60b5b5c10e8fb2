"""The tools of one server in the registry: what is new, removed or changed, and which definitions were reviewed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final, cast

from msgspec import Struct
from msgspec.structs import replace

from holdfast.config.config import McpServer
from holdfast.contract.call import Proposal
from holdfast.contract.context import Context
from holdfast.contract.enums import CHANGED_DEFINITION, Risk
from holdfast.contract.errors import BadJson, InvalidArguments, ToolError
from holdfast.contract.json import Args, Json, canonical_json, digest_of
from holdfast.contract.result import Result, fail
from holdfast.contract.tool import Tool
from holdfast.mcp.client.definitions import (
    definition_diff,
    definition_of,
    is_same_definition,
    is_wanted,
    pin_name,
    source_of,
    tool_from,
)
from holdfast.runtime.results import check_output
from holdfast.text.escape import escape
from holdfast.text.preview import arguments_preview

if TYPE_CHECKING:
    import mcp_types

    from holdfast.runtime.context import RunContext
    from holdfast.runtime.runtime import Runtime
    from holdfast.store.pins import ToolPins

MAX_LINES: Final = 30
MAX_CHARS: Final = 3_000
"""Limits of a preview that every interface shows whole. A longer difference cannot be accepted with a call: the
approval would pin text that was not shown."""


def unreviewed_tool(catalog: ToolCatalog, item: CatalogEntry) -> Tool:
    """The tool as it was reviewed; as it is now if it never was, or if the reviewed definition cannot be used any more.

    It has no output schema: by the time of the result the new definition applies.
    """
    name, full_name = item.name, f"{source_of(catalog.name)}:{item.name}"

    async def propose(args: Args, ctx: Context) -> Proposal | Result:
        now = catalog.listed(name)
        if now is None or not now.held:
            return fail(f"'{full_name}' changed meanwhile. Call it again.")
        preview = await asyncio.to_thread(definition_diff, now.pinned, now.definition)
        if preview.count("\n") >= MAX_LINES or len(preview) > MAX_CHARS:
            what = "is new and longer" if now.pinned is None else "changed by more"
            return fail(f"Its definition {what} than can be shown here: holdfast mcp review {catalog.name} {name}")
        which = "definition of a new tool" if now.pinned is None else "changed definition"
        return Proposal(
            tool_name=full_name,
            summary=f"Accept the {which} and call it with {arguments_preview(args) or 'no arguments'}",
            risk=Risk.HIGH,
            payload={"arguments": args, "definition": digest_of(now.definition)},
            preview=preview,
            preview_kind="diff",
        )

    async def apply(payload: Args, ctx: Context) -> Result:
        if not catalog.accept(name, str(payload.get("definition"))):
            return fail("Its definition changed again, so the call was not sent. Call it again.")
        tool, args = catalog.tool(name), payload.get("arguments")
        if tool is None or not isinstance(args, dict):
            return fail("Its new definition cannot be used, so the call was not sent.")
        judged = tool.schema.check(args)
        if isinstance(judged, InvalidArguments):
            return fail(f"Its new definition was accepted but does not allow these arguments: {judged}")
        return check_output(tool, await catalog.send(name, judged, cast("RunContext", ctx)))

    return tool_from(
        catalog.name,
        {**_shown(item), "outputSchema": None},
        timeout=catalog.timeout,
        propose=propose,
        apply=apply,
        capabilities=frozenset({CHANGED_DEFINITION}),
    )


def _shown(item: CatalogEntry) -> dict[str, Json]:
    said = item.pinned or item.definition
    return said if isinstance(said, dict) else {}


MAX_WARNINGS: Final = 20
Send = Callable[[str, Args, "RunContext"], Awaitable[Result]]
"""Calls a tool of the server by its MCP name."""


class CatalogEntry(Struct, frozen=True):
    """One tool as the server defines it now."""

    name: str
    definition: Json
    pinned: Json
    """The reviewed definition: equal to `definition` unless it changed; None for a new tool of a known server."""
    held: bool
    """Whether its definition needs a review."""
    key: bytes
    """Digest of everything that its `Tool` is made from."""


class ChangedTool(Struct, frozen=True, kw_only=True):
    """A tool whose definition is new or differs from the reviewed one."""

    server: str
    tool: str
    difference: str
    """The whole difference, as shown for review."""
    digest: str
    """Digest of the whole new definition."""
    new: bool = False
    """Whether it was never reviewed: everything is shown as added."""


class _Stock(Struct, frozen=True):
    """The intended content of the catalog."""

    listed: dict[str, CatalogEntry]
    stays: dict[str, Tool]
    fresh: dict[str, Tool]
    left_out: tuple[tuple[str, str], ...]
    """Names, with the reason."""


class ToolCatalog:
    def __init__(self, runtime: Runtime, name: str, server: McpServer, pins: ToolPins | None, send: Send) -> None:
        self.name = name
        self.timeout = server.timeout
        self.send = send
        self._runtime = runtime
        self._server = server
        self._pins = pins if server.trust == "pinned" else None
        self._identity = pin_name(name, server)
        self._listed: dict[str, CatalogEntry] = {}
        self._tools: dict[str, Tool] = {}
        self._warned = 0
        self._age = 0
        """Incremented when a definition is accepted and when the catalog is cleared."""

    def __len__(self) -> int:
        return len(self._tools)

    @property
    def changed(self) -> int:
        return sum(item.held for item in self._listed.values())

    def listed(self, tool: str) -> CatalogEntry | None:
        return self._listed.get(tool)

    def tool(self, tool: str) -> Tool | None:
        return self._tools.get(tool)

    def differences(self) -> tuple[ChangedTool, ...]:
        return tuple(
            ChangedTool(
                server=self.name,
                tool=item.name,
                difference=definition_diff(item.pinned, item.definition),
                digest=digest_of(item.definition),
                new=item.pinned is None,
            )
            for item in self._listed.values()
            if item.held
        )

    async def put(self, tools: Sequence[mcp_types.Tool]) -> None:
        """Make the registry hold exactly these tools. A tool that stays is never missing in between.

        Runs in a thread, so that a long or constantly changing list blocks nothing.
        """
        while True:
            age = self._age
            stock = await asyncio.to_thread(self._stock, tools)
            if age == self._age:  # or a definition was accepted meanwhile
                self._show(stock)
                return

    def clear(self) -> None:
        """Remove all tools from the registry."""
        self._age += 1
        tools, self._tools, self._listed = self._tools, {}, {}
        self._runtime.registry.swap((), tools.values(), source=source_of(self.name))

    def accept(self, tool: str, digest: str) -> bool:
        """Mark a definition as reviewed if it still has this digest."""
        item = self._listed.get(tool)
        if item is None or not item.held or digest_of(item.definition) != digest:
            return False
        if self._pins is not None:
            self._pins.pin(self._identity, item.name, item.definition)
        self._age += 1
        self._show(self._made({**self._listed, tool: _as_it_is(tool, item.definition)}))
        return True

    def _stock(self, tools: Sequence[mcp_types.Tool]) -> _Stock:
        """Runs in a thread. A definition that cannot be stored is not used."""
        wanted: dict[str, Json] = {}
        left_out: list[tuple[str, str]] = []
        for tool in tools:
            if tool.name in wanted:
                left_out.append((tool.name, "its name is used twice"))
            elif is_wanted(tool.name, self._server):
                try:
                    wanted[tool.name] = definition_of(tool)
                except BadJson as error:
                    left_out.append((tool.name, str(error)))
        pinned = wanted if self._pins is None else self._pins.first_seen(self._identity, wanted)
        made = self._made({name: _against(pinned.get(name), name, said) for name, said in wanted.items()})
        return replace(made, left_out=(*left_out, *made.left_out))

    def _made(self, listed: dict[str, CatalogEntry]) -> _Stock:
        """The tools of a list: existing ones and new ones."""
        known, tools = self._listed, self._tools
        stays = {
            name: tools[name]
            for name, item in listed.items()
            if name in tools and name in known and known[name].key == item.key
        }
        fresh: dict[str, Tool] = {}
        left_out: list[tuple[str, str]] = []
        taken = {spelling for tool in stays.values() for spelling in _spellings(tool)}
        for name, item in listed.items():
            if name in stays:
                continue
            try:
                tool = unreviewed_tool(self, item) if item.held else self._plain(item)
            except ToolError as error:
                why = f"its reviewed definition cannot be used any more, see `holdfast mcp review`: {error}"
                left_out.append((name, why if item.held and item.pinned else str(error)))
                continue
            if taken.isdisjoint(spellings := _spellings(tool)):
                taken.update(spellings)
                fresh[name] = tool
            else:
                left_out.append((name, "its name differs from another one only in case"))
        return _Stock(listed, stays, fresh, tuple(left_out))

    def _show(self, stock: _Stock) -> None:
        gone = [tool for name, tool in self._tools.items() if stock.stays.get(name) is not tool]
        self._listed = stock.listed
        self._tools = stock.stays | self._brought(stock.fresh, gone)
        for name, why in stock.left_out:
            self.leave_out(name, why)

    def _brought(self, tools: dict[str, Tool], gone: Sequence[Tool] = ()) -> dict[str, Tool]:
        """Register all at once; on a conflict with tools from elsewhere, by halves, so that only the conflicting ones
        are left out."""
        if not tools and not gone:
            return {}
        try:
            self._runtime.registry.swap(tuple(tools.values()), gone, source=source_of(self.name))
        except ToolError as error:
            if gone:
                return self._brought({}, gone) | self._brought(tools)
            if len(tools) == 1:
                self.leave_out(next(iter(tools)), str(error))
                return {}
            items = list(tools.items())
            middle = len(items) // 2
            return self._brought(dict(items[:middle])) | self._brought(dict(items[middle:]))
        return tools

    def _plain(self, item: CatalogEntry) -> Tool:
        name = item.name

        async def execute(args: Args, ctx: Context) -> Result:
            now = self._listed.get(name)
            if now is not None and now.held:
                return fail(
                    f"Its definition has changed since the call was asked for, so that it was not sent. Call "
                    f"'{source_of(self.name)}:{name}' again to see the difference."
                )
            return await self.send(name, args, cast("RunContext", ctx))

        return tool_from(self.name, item.definition, timeout=self.timeout, execute=execute)

    def leave_out(self, tool: str, why: str) -> None:
        """Warn about a tool that is left out. Bounded, so that a changing list cannot flood the warnings."""
        self._warned += 1
        if self._warned > MAX_WARNINGS:
            return
        server = f"MCP server '{self.name}'"
        if self._warned == MAX_WARNINGS:
            self._runtime.registry.warn(f"More tools of the {server} are left out; further names are not reported.")
        else:
            told = self._runtime.redactor(escape(f"{tool[:80]}': {why[:400]}"))
            self._runtime.registry.warn(f"The {server} has a tool that is left out, '{told}")


def _spellings(tool: Tool) -> tuple[str, ...]:
    return (tool.name.lower(), tool.api_name.lower())


def _as_it_is(name: str, definition: Json) -> CatalogEntry:
    return CatalogEntry(name, definition, definition, held=False, key=canonical_json(definition))


def _against(pinned: Json, name: str, definition: Json) -> CatalogEntry:
    if pinned is not None and is_same_definition(pinned, definition):
        return _as_it_is(name, definition)
    return CatalogEntry(name, definition, pinned, held=True, key=canonical_json([pinned, definition]))
