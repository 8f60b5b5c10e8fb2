"""The tools of one server in the registry: what is new, gone or changed, and which definitions a person has seen."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final, cast

from msgspec import Struct
from msgspec.structs import replace

from holdfast.config.model import McpServer
from holdfast.contract.call import Proposal
from holdfast.contract.context import Context
from holdfast.contract.errors import BadJson, InvalidArguments, ToolError
from holdfast.contract.result import Result, fail
from holdfast.contract.tool import Tool
from holdfast.contract.values import Args, Json, canonical_json, digest_of
from holdfast.contract.vocabulary import CHANGED_DEFINITION, Risk
from holdfast.mcp.definitions import is_wanted, source_of, tool_from
from holdfast.mcp.pinning import definition_of, difference, pinned_as, same
from holdfast.mcp.records import Changed
from holdfast.text.preview import generic_body
from holdfast.text.visible import visible

if TYPE_CHECKING:
    import mcp_types

    from holdfast.registry.handle import Handle
    from holdfast.runtime.context import RunContext
    from holdfast.runtime.runtime import Runtime
    from holdfast.store.pins import Pins

MAX_WARNINGS: Final = 20
Send = Callable[[str, Args, "RunContext"], Awaitable[Result]]
"""Calls a tool of the server by its MCP name."""


class _Listed(Struct, frozen=True):
    """One tool as the server has it now."""

    name: str
    definition: Json
    pinned: Json
    """What a person has seen; the same as `definition` unless it has changed."""
    changed: bool
    key: bytes
    """Of all that its `Tool` is made from."""


class _Stock(Struct, frozen=True):
    """What is to stand on the shelf."""

    listed: dict[str, _Listed]
    stays: dict[str, Tool]
    fresh: list[Tool]
    left_out: tuple[tuple[str, str], ...]
    """Names, and why."""


class Shelf:
    def __init__(self, runtime: Runtime, name: str, server: McpServer, pins: Pins | None, send: Send) -> None:
        self._runtime = runtime
        self._name = name
        self._server = server
        self._pins = pins if server.trust == "pinned" else None
        self._identity = pinned_as(name, server)
        self._send = send
        self._listed: dict[str, _Listed] = {}
        self._tools: dict[str, Tool] = {}
        self._handles: list[Handle] = []
        self._warned = 0
        self._age = 0
        """Goes up when a person accepts something, and when everything is taken away."""

    def __len__(self) -> int:
        return len(self._tools)

    @property
    def changed(self) -> int:
        return sum(item.changed for item in self._listed.values())

    def differences(self) -> tuple[Changed, ...]:
        return tuple(
            Changed(
                server=self._name,
                tool=item.name,
                difference=difference(item.pinned, item.definition),
                digest=digest_of(item.definition),
            )
            for item in self._listed.values()
            if item.changed
        )

    async def put(self, tools: Sequence[mcp_types.Tool]) -> None:
        """Make the registry hold exactly these; a tool that stays is never missing in between.

        The work is done in a thread, so that a long list, or one that changes all the time, holds up nobody.
        """
        while True:
            age = self._age
            stock = await asyncio.to_thread(self._stock, tools)
            if age == self._age:  # or a definition was accepted meanwhile
                self._show(stock)
                return

    def clear(self) -> None:
        """Take everything out of the registry."""
        self._age += 1
        self._listed = {}
        self._tools = {}
        handles, self._handles = self._handles, []
        for handle in handles:
            handle.remove()

    def accept(self, tool: str, digest: str) -> bool:
        """Take a changed definition for seen, if it still is the one with this digest."""
        item = self._listed.get(tool)
        if item is None or not item.changed or digest_of(item.definition) != digest:
            return False
        if self._pins is not None:
            self._pins.pin(self._identity, item.name, item.definition)
        self._age += 1
        self._show(self._made({**self._listed, tool: _as_it_is(tool, item.definition)}))
        return True

    def _stock(self, tools: Sequence[mcp_types.Tool]) -> _Stock:
        """In a thread. What cannot be kept, or not be pinned, is not used."""
        wanted: dict[str, Json] = {}
        left_out: list[tuple[str, str]] = []
        for tool in tools:
            if tool.name in wanted:
                left_out.append((tool.name, "there are two of that name"))
            elif is_wanted(tool.name, self._server):
                try:
                    wanted[tool.name] = definition_of(tool)
                except BadJson as error:
                    left_out.append((tool.name, str(error)))
        pinned = wanted if self._pins is None else self._pins.first_seen(self._identity, wanted)
        left_out += ((name, "no more of its definitions can be kept") for name in wanted if name not in pinned)
        listed = {name: _against(pinned[name], name, said) for name, said in wanted.items() if name in pinned}
        made = self._made(listed)
        return replace(made, left_out=(*left_out, *made.left_out))

    def _made(self, listed: dict[str, _Listed]) -> _Stock:
        """The tools of a list: those there are already, and the others."""
        stays: dict[str, Tool] = {}
        fresh: list[Tool] = []
        left_out: list[tuple[str, str]] = []
        known, tools = self._listed, self._tools
        for name, item in listed.items():
            if name in tools and name in known and known[name].key == item.key:
                stays[name] = tools[name]
                continue
            try:
                fresh.append(self._held(item) if item.changed else self._plain(item))
            except ToolError as error:
                why = f"what was known of it cannot be used any more, see `holdfast mcp review`: {error}"
                left_out.append((name, why if item.changed else str(error)))
        return _Stock(listed, stays, fresh, tuple(left_out))

    def _show(self, stock: _Stock) -> None:
        before, self._listed = self._tools, stock.listed
        self._tools = stock.stays | self._registered(stock.fresh)
        registry = self._runtime.registry
        for name, tool in before.items():
            if name not in self._tools and registry.get(tool.name) is tool:
                registry.unregister(tool.name)
        for name, why in stock.left_out:
            self._warn(name, why)

    def _registered(self, tools: list[Tool]) -> dict[str, Tool]:
        """All at once; if one of them is in the way of another tool, one by one, so that only that one is left out."""
        prefix = len(source_of(self._name)) + 1
        try:
            self._register(tools)
        except ToolError:
            kept: dict[str, Tool] = {}
            for tool in tools:
                try:
                    self._register([tool])
                except ToolError as error:
                    self._warn(tool.name[prefix:], str(error))
                else:
                    kept[tool.name[prefix:]] = tool
            return kept
        return {tool.name[prefix:]: tool for tool in tools}

    def _register(self, tools: list[Tool]) -> None:
        if tools:
            self._handles.append(self._runtime.registry.register(tools, replace=True, source=source_of(self._name)))

    def _plain(self, item: _Listed) -> Tool:
        name = item.name

        async def execute(args: Args, ctx: Context) -> Result:
            now = self._listed.get(name)
            if now is not None and now.changed:
                return fail(
                    f"Its definition has changed since the call was asked for, so that it was not sent. Call "
                    f"'{source_of(self._name)}:{name}' again to see the difference."
                )
            return await self._send(name, args, cast("RunContext", ctx))

        return tool_from(self._name, item.definition, timeout=self._server.timeout, execute=execute)

    def _held(self, item: _Listed) -> Tool:
        """What the tool was when a person saw it; calling it shows what has changed, and a yes accepts that."""
        name = item.name

        async def propose(args: Args, ctx: Context) -> Proposal | Result:
            now = self._listed.get(name)
            if now is None or not now.changed:
                return fail(f"'{source_of(self._name)}:{name}' has changed meanwhile; call it again.")
            return Proposal(
                tool_name=f"{source_of(self._name)}:{name}",
                summary=f"Accept the changed definition and call it with {generic_body(args) or 'no arguments'}",
                risk=Risk.HIGH,
                payload={"arguments": args, "definition": digest_of(now.definition)},
                preview=difference(now.pinned, now.definition),
            )

        async def apply(payload: Args, ctx: Context) -> Result:
            if not self.accept(name, str(payload.get("definition"))):
                return fail("Its definition has changed once more, so that the call was not sent. Call it again.")
            tool, args = self._tools.get(name), payload.get("arguments")
            if tool is None or not isinstance(args, dict):
                return fail("Its new definition cannot be used, so that the call was not sent.")
            judged = tool.schema.judge(args)
            if isinstance(judged, InvalidArguments):
                return fail(f"Its new definition is accepted, but does not take these arguments: {judged}")
            return await self._send(name, judged, cast("RunContext", ctx))

        return tool_from(
            self._name,
            item.pinned,
            timeout=self._server.timeout,
            propose=propose,
            apply=apply,
            capabilities=frozenset({CHANGED_DEFINITION}),
        )

    def _warn(self, tool: str, why: str) -> None:
        """A server that keeps changing its list must not fill the list of warnings."""
        self._warned += 1
        if self._warned > MAX_WARNINGS:
            return
        server = f"MCP server '{self._name}'"
        if self._warned == MAX_WARNINGS:
            self._runtime.registry.warn(f"More tools of the {server} are left out, which are not named any more.")
        else:
            told = self._runtime.redact(visible(f"{tool[:80]}': {why[:400]}"))
            self._runtime.registry.warn(f"The {server} has a tool that is left out, '{told}")


def _as_it_is(name: str, definition: Json) -> _Listed:
    return _Listed(name, definition, definition, changed=False, key=canonical_json(definition))


def _against(pinned: Json, name: str, definition: Json) -> _Listed:
    if same(pinned, definition):
        return _as_it_is(name, definition)
    return _Listed(name, definition, pinned, changed=True, key=canonical_json([pinned, definition]))
