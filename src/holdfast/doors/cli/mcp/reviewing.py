"""`holdfast mcp review`: definitions of tools that a server has changed, shown before they are accepted."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Collection
from typing import TYPE_CHECKING

from holdfast.doors.cli import screen
from holdfast.doors.cli.failures import WAITING, UsageProblem
from holdfast.doors.cli.held import diff_style
from holdfast.doors.cli.mcp.looking import bridged, chosen, is_ready
from holdfast.doors.cli.place import Flags, setting_here
from holdfast.doors.cli.shapes import Shape
from holdfast.text.visible import visible

if TYPE_CHECKING:
    from holdfast.assemble import Setting
    from holdfast.mcp.bridge import Bridge
    from holdfast.mcp.records import Changed


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
    async with bridged(setting, servers) as bridge:
        if bridge is None:
            return 0
        away = [status.name for status in bridge.status() if not is_ready(status)]
        if away and not as_json:
            screen.note(f"Not reached, so not looked at: {', '.join(map(visible, away))}; see `holdfast mcp servers`.")
        found = [change for change in bridge.changed() if tool is None or change.tool == tool]
        if not found and not as_json:
            screen.note("No definition has changed." if tool is None else f"'{visible(tool)}' has not changed.")
        left = 0
        for change in found:
            accepted = await _settled(bridge, change, yes=yes, as_json=as_json)
            left += not accepted
            if as_json:
                screen.put_json(_change_shape(change, accepted=accepted))
        return left


async def _settled(bridge: Bridge, change: Changed, *, yes: bool, as_json: bool) -> bool:
    if not as_json:
        _show(change)
    if not yes:
        if as_json or not screen.can_ask():
            return False
        from holdfast.doors.cli.typing_in import forget_typed_ahead, read_line

        forget_typed_ahead()
        typed = await read_line("Is this what it should be from now on? [y/n] ")
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
    screen.say(screen.paint(f"mcp:{visible(change.server)}:{visible(change.tool)}", "bold"))
    for number, line in enumerate(screen.shown_block(change.difference).split("\n")):
        screen.say(f"  {screen.paint(line, *diff_style(line, number + 2))}".rstrip())
    sys.stdout.flush()


def _change_shape(change: Changed, *, accepted: bool) -> Shape:
    return {
        "server": change.server,
        "tool": change.tool,
        "difference": change.difference,
        "accepted": accepted,
    }
