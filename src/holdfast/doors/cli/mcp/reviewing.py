"""`holdfast mcp review` and `forget`: definitions a server has changed or added, shown before they are accepted."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Collection
from typing import TYPE_CHECKING

from holdfast.contract.names import server_of
from holdfast.doors.cli import screen
from holdfast.doors.cli.failures import REJECTED, WAITING, UsageProblem
from holdfast.doors.cli.folding import quote, sentence
from holdfast.doors.cli.held import diff_style
from holdfast.doors.cli.mcp.looking import bridged, chosen, is_ready
from holdfast.doors.cli.outputs import Definition, Forgotten
from holdfast.doors.cli.place import Flags, setting_here
from holdfast.text.visible import visible

if TYPE_CHECKING:
    from holdfast.assemble import Setting
    from holdfast.mcp.bridge import Bridge
    from holdfast.mcp.shelf import Changed
    from holdfast.runtime.runtime import Runtime


def review_changes(flags: Flags, server: str | None, tool: str | None, *, yes: bool, as_json: bool) -> int:
    """The exit code is 4 while a definition is left that nobody has accepted."""
    if yes and tool is None:
        raise UsageProblem("--yes accepts one definition: name its SERVER and TOOL; without --yes you are shown each.")
    setting = setting_here(flags)
    servers = chosen(setting, () if server is None else (server,))
    left = asyncio.run(_review(setting, servers, tool, yes=yes, as_json=as_json)) if servers else 0
    return WAITING if left else 0


async def _review(
    setting: Setting, servers: Collection[str], tool: str | None, *, yes: bool, as_json: bool
) -> int:
    """How many are left."""
    async with bridged(setting, servers) as (runtime, bridge):
        if bridge is None:
            return 0
        away = [status.name for status in bridge.status() if not is_ready(status)]
        if away and not as_json:
            screen.note(f"Not reached, so not looked at: {', '.join(map(visible, away))}; see `holdfast mcp servers`.")
        found = [change for change in bridge.changed() if tool is None or change.tool == tool]
        if tool is not None and not found:
            _need_tool(runtime, next(iter(servers)), tool, away)
        if not found and not as_json and not away:
            screen.note("No definition has changed." if tool is None else f"'{visible(tool)}' has not changed.")
        left = 0
        for change in found:
            accepted = await _settled(bridge, change, yes=yes, as_json=as_json)
            left += not accepted
            if as_json:
                screen.put_json(
                    Definition(
                        server=change.server,
                        tool=change.tool,
                        new=change.new,
                        difference=change.difference,
                        accepted=accepted,
                    )
                )
        if left and not as_json and not screen.can_ask():
            screen.note("Accept them at a terminal, or one by one: `holdfast mcp review SERVER TOOL --yes`.")
        return left


def _need_tool(runtime: Runtime, server: str, tool: str, away: Collection[str]) -> None:
    """Raises `UsageProblem` where there is no such tool, or it cannot be known."""
    if server in away:
        raise UsageProblem(f"'{server}' is away, so its tools cannot be seen; see `holdfast mcp servers {server}`.")
    own = [found.name for found in runtime.registry.list() if server_of(found.name) == server]
    names = [name.removeprefix(f"mcp:{server}:") for name in own]
    if tool not in names:
        from holdfast.text.suggest import did_you_mean

        meant = did_you_mean(tool, names)
        hint = f"did you mean '{visible(meant)}'?" if meant else "`holdfast tools` lists those there are."
        raise UsageProblem(f"The MCP server '{server}' has no tool '{visible(tool)}'; {hint}")


async def _settled(bridge: Bridge, change: Changed, *, yes: bool, as_json: bool) -> bool:
    if not as_json:
        _show(change)
    if not yes:
        if as_json or not screen.can_ask():
            return False
        from holdfast.doors.cli.typing_in import forget_typed_ahead, read_line

        forget_typed_ahead()
        typed = await read_line("Is this what it should be from now on? [y/N] ")
        if (typed or "").strip().lower() not in ("y", "yes"):
            screen.note("It stays held.")
            return False
    if not bridge.accept(change):
        screen.note(f"{visible(change.tool)} has changed again meanwhile; look at it anew.")
        return False
    if not as_json:
        screen.note("Accepted.")
    return True


def _show(change: Changed) -> None:
    new = " (new)" if change.new else ""
    name = f"mcp:{visible(change.server)}:{visible(change.tool)}{new}"
    difference = quote(change.difference.rstrip("\n"), sys.stdout, style=_style, show=screen.shown)
    for line in (*sentence(name, sys.stdout, "bold"), *difference.lines):
        screen.say(line)
    sys.stdout.flush()


def _style(line: str, place: int) -> tuple[str, ...]:
    return diff_style(line, place + 2)


def forget_definitions(flags: Flags, name: str, *, yes: bool, as_json: bool) -> int:
    """What the server says next counts as seen, whatever it is."""
    from holdfast.mcp.definitions import pinned_as
    from holdfast.store.pins import Pins

    setting = setting_here(flags)
    server = chosen(setting, (name,))[name]
    if not yes:
        if as_json or not screen.can_ask():
            raise UsageProblem(f"What was seen of '{name}' was not forgotten; say --yes, or run it at a terminal.")
        screen.note("The definitions it has the next time are taken for seen without anybody looking at them.")
        from holdfast.doors.cli.typing_in import forget_typed_ahead, read_line

        forget_typed_ahead()
        typed = asyncio.run(read_line(f"Forget what was seen of '{name}'? [y/N] "))
        if (typed or "").strip().lower() not in ("y", "yes"):
            screen.note("Nothing was forgotten.")
            return REJECTED
    pins = Pins(setting.user_db)
    try:
        forgotten = pins.forget(pinned_as(name, server))
    finally:
        pins.close()
    if as_json:
        screen.put_json(Forgotten(server=name, forgotten=forgotten))
    else:
        seen = "Forgotten; its next definitions are the ones that count."
        screen.note(seen if forgotten else f"Nothing was remembered of '{name}'.")
    return 0
