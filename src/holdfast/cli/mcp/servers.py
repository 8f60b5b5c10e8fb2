"""The MCP servers of this place: how they are, logging in to them, and definitions of theirs that have changed."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from holdfast.cli import console
from holdfast.cli.elicitation import TerminalElicitor, attach_silent_elicitor
from holdfast.cli.errors import FAILED, PENDING, REJECTED, UsageProblem
from holdfast.cli.json_output import DefinitionOutput, ForgottenOutput, LoginOutput, ServerOutput
from holdfast.cli.layout import print_table, quote, wrap_sentence
from holdfast.cli.pending_view import diff_style
from holdfast.cli.project_context import (
    Flags,
    bridge_of,
    mute_source_warnings,
    open_runtime_for,
    project_here,
    sources_started,
    unready_reason,
)
from holdfast.cli.prompt import confirm
from holdfast.config.config import McpServer
from holdfast.contract.names import mcp_server_name
from holdfast.factory.runtime import Project
from holdfast.fs.own_paths import user_state_dir
from holdfast.runtime.runtime import Runtime
from holdfast.store.pins import ToolPins
from holdfast.text.escape import escape
from holdfast.text.suggest import did_you_mean

if TYPE_CHECKING:
    from holdfast.mcp.client.bridge import Bridge
    from holdfast.mcp.client.connection import ServerStatus
    from holdfast.mcp.client.tool_catalog import ChangedTool

_NONE: Final = (
    "No MCP server is configured. In your configuration (`holdfast config path`):\n\n"
    '[mcp.servers.files]\ncommand = "mcp-server-filesystem"\nargs = ["/home/ann/notes"]\n\n'
    "The program has to be installed. `holdfast help mcp` says what one needs that npx or uvx fetches."
)
_TICK: Final = 0.1
_GRACE: Final = 30
"""How many ticks a server whose time is up has to say what it died of."""


def need_sdk() -> None:
    if find_spec("mcp") is None:
        raise UsageProblem("The MCP SDK is not installed; run `pip install 'holdfast[mcp]'`.")


def show_servers(flags: Flags, names: Sequence[str], *, as_json: bool) -> int:
    """The exit code is 1 when one that is switched on could not be reached."""
    project = project_here(flags)
    servers = select_servers(project, names)
    if not servers:
        if not as_json:
            console.print_out(_NONE)
        return 0
    mute_source_warnings()
    statuses = asyncio.run(_statuses(project, servers))
    if as_json:
        for name, server in servers.items():
            console.print_json(_output(name, server, statuses.get(name)))
    else:
        rows = [_row(name, server, statuses.get(name)) for name, server in servers.items()]
        print_table(["server", "state", "transport", "tools", "what to know"], rows)
    away = [name for name, server in servers.items() if server.enabled and not is_ready(statuses.get(name))]
    return FAILED if away else 0


async def _statuses(project: Project, servers: Collection[str]) -> dict[str, ServerStatus]:
    async with connected_bridge(project, servers) as (_runtime, bridge):
        if bridge is None:
            return {}
        for _ in range(_GRACE):
            if all(status.state != "starting" for status in bridge.status()):
                break
            await asyncio.sleep(_TICK)
        return {status.name: status for status in bridge.status()}


def log_in(flags: Flags, name: str, *, as_json: bool) -> int:
    """Reach the server; where it wants a login, the person gives it."""
    project = project_here(flags)
    server = _remote(project, name)
    if not server.enabled:
        raise UsageProblem(f"The MCP server '{name}' is switched off; set mcp.servers.{name}.enabled = true first.")
    if not console.can_ask():
        raise UsageProblem(f"A login needs a person at a terminal; run `holdfast mcp login {name}` there.")
    mute_source_warnings()
    status = asyncio.run(_reached(project, name))
    ready = is_ready(status)
    if as_json:
        reason = "" if status is None else unready_reason(status, server)
        console.print_json(LoginOutput(server=name, logged_in=ready, reason=reason))
    elif ready:
        console.print_err(f"'{name}' lets us in: {status.tools if status else 0} tools.")
    else:
        reason = "it did not start" if status is None else status.reason or "it did not answer"
        console.print_err(f"'{name}' could not be reached: {console.shown(reason)}")
    return 0 if ready else FAILED


async def _reached(project: Project, name: str) -> ServerStatus | None:
    async with connected_bridge(project, (name,), asks=True) as (_, bridge):
        while bridge is not None:  # a login takes as long as the person does, and the sources waited no longer
            (status,) = [status for status in bridge.status() if status.name == name]
            if status.state != "starting":
                return status
            await asyncio.sleep(_TICK)
    return None


def log_out(flags: Flags, name: str, *, as_json: bool) -> int:
    from holdfast.mcp.client.oauth_store import forget_login

    project = project_here(flags)
    server = _remote(project, name)
    forgotten = forget_login(name, server, user_state_dir())
    if as_json:
        console.print_json(LoginOutput(server=name, logged_in=False, reason="" if forgotten else "there was no login"))
    elif forgotten:
        console.print_err("Forgotten here. What the server gave stays valid until it expires; revoke it there too.")
    else:
        console.print_err(f"There is no login for '{name}'.")
    return 0


def _remote(project: Project, name: str) -> McpServer:
    server = select_servers(project, (name,))[name]
    if server.url is None:
        raise UsageProblem(f"The MCP server '{name}' is a command; only servers with a url have logins.")
    return server


def select_servers(project: Project, names: Sequence[str]) -> dict[str, McpServer]:
    servers = project.loaded.config.mcp.servers
    for name in names:
        if name not in servers:
            meant = did_you_mean(name, servers)
            hint = f"did you mean '{meant}'?" if meant else "`holdfast mcp servers` lists those there are."
            raise UsageProblem(f"There is no MCP server '{escape(name)}'; {hint}")
    return {name: server for name, server in servers.items() if not names or name in names}


@asynccontextmanager
async def connected_bridge(
    project: Project, servers: Collection[str], *, asks: bool = False
) -> AsyncGenerator[tuple[Runtime, Bridge | None]]:
    """The servers, started and asked for their tools; no other part of the runtime is set to work.

    There is no bridge where every server is switched off.
    """
    need_sdk()
    with open_runtime_for(project, entry_points=False, read_only=True, servers=servers) as runtime:
        attach_silent_elicitor(runtime, servers)
        if asks:
            runtime.attach(elicitor=TerminalElicitor(runtime))
        async with sources_started(runtime):
            yield runtime, bridge_of(runtime)


def is_ready(status: ServerStatus | None) -> bool:
    return status is not None and status.state == "ready"


def _transport(server: McpServer) -> str:
    if server.command is not None:
        return "stdio"
    return {"auto": "http", "http": "http", "sse": "sse"}[server.transport]


def _row(name: str, server: McpServer, status: ServerStatus | None) -> list[str]:
    if status is None or not server.enabled:
        return [name, "off" if not server.enabled else "away", _transport(server), "", ""]
    itself = " ".join(part for part in (status.title, status.version) if part)
    facts = [itself, f"protocol {status.protocol}" if status.protocol else ""]
    if status.changed:
        facts.append(f"{status.changed} changed or new and held, see `holdfast mcp review {name}`")
    facts.append(unready_reason(status, server))
    tools = str(status.tools) if status.state == "ready" else ""
    return [name, status.state, _transport(server), tools, "; ".join(fact for fact in facts if fact)]


def _output(name: str, server: McpServer, status: ServerStatus | None) -> ServerOutput:
    command = None if server.command is None else [server.command, *server.args]
    state = "off" if not server.enabled else "away" if status is None else status.state
    found = ServerOutput(name=name, state=state, transport=_transport(server), command=command, url=server.url)
    if status is None or not server.enabled:
        return found
    return replace(
        found,
        tools=status.tools,
        changed=status.changed,
        reason=unready_reason(status, server),
        title=status.title,
        version=status.version,
        protocol=status.protocol,
    )


def review_changes(flags: Flags, server: str | None, tool: str | None, *, yes: bool, as_json: bool) -> int:
    """The exit code is 4 while a definition is left that nobody has accepted."""
    if yes and tool is None:
        raise UsageProblem("--yes accepts one definition: name its SERVER and TOOL; without --yes you are shown each.")
    project = project_here(flags)
    servers = select_servers(project, () if server is None else (server,))
    if not servers and not as_json:
        console.print_err("No MCP server is configured.")
    left = asyncio.run(_review(project, servers, tool, yes=yes, as_json=as_json)) if servers else 0
    return PENDING if left else 0


async def _review(project: Project, servers: Collection[str], tool: str | None, *, yes: bool, as_json: bool) -> int:
    """How many are left."""
    async with connected_bridge(project, servers) as (runtime, bridge):
        if bridge is None:
            return 0
        away = [status.name for status in bridge.status() if not is_ready(status)]
        if away and not as_json:
            console.print_err(
                f"Not reached, so not looked at: {', '.join(map(escape, away))}; see `holdfast mcp servers`."
            )
        found = [change for change in bridge.changed() if tool is None or change.tool == tool]
        if tool is not None and not found:
            _need_tool(runtime, next(iter(servers)), tool, away)
        if not found and not as_json and not away:
            console.print_err("No definition has changed." if tool is None else f"'{escape(tool)}' has not changed.")
        left = 0
        for change in found:
            accepted = await _settled(bridge, change, yes=yes, as_json=as_json)
            left += not accepted
            if as_json:
                console.print_json(
                    DefinitionOutput(
                        server=change.server,
                        tool=change.tool,
                        new=change.new,
                        difference=change.difference,
                        accepted=accepted,
                    )
                )
        if left and not as_json and not console.can_ask():
            console.print_err("Accept them at a terminal, or one by one: `holdfast mcp review SERVER TOOL --yes`.")
        return left


def _need_tool(runtime: Runtime, server: str, tool: str, away: Collection[str]) -> None:
    """Raises `UsageProblem` where there is no such tool, or it cannot be known."""
    if server in away:
        raise UsageProblem(f"'{server}' is away, so its tools cannot be seen; see `holdfast mcp servers {server}`.")
    own = [found.name for found in runtime.registry.list() if mcp_server_name(found.name) == server]
    names = [name.removeprefix(f"mcp:{server}:") for name in own]
    if tool not in names:
        meant = did_you_mean(tool, names)
        hint = f"did you mean '{escape(meant)}'?" if meant else "`holdfast tools` lists those there are."
        raise UsageProblem(f"The MCP server '{server}' has no tool '{escape(tool)}'; {hint}")


async def _settled(bridge: Bridge, change: ChangedTool, *, yes: bool, as_json: bool) -> bool:
    if not as_json:
        _show(change)
    if not yes:
        if as_json or not console.can_ask():
            return False
        if not await confirm("Is this what it should be from now on? [y/N] "):
            console.print_err("It stays held.")
            return False
    if not bridge.accept(change):
        console.print_err(f"{escape(change.tool)} has changed again meanwhile; look at it anew.")
        return False
    if not as_json:
        console.print_err("Accepted.")
    return True


def _show(change: ChangedTool) -> None:
    new = " (new)" if change.new else ""
    name = f"mcp:{escape(change.server)}:{escape(change.tool)}{new}"
    difference = quote(change.difference.rstrip("\n"), sys.stdout, style=_style, show=console.shown)
    console.print_out_lines((*wrap_sentence(name, sys.stdout, "bold"), *difference.lines))
    sys.stdout.flush()


def _style(line: str, place: int) -> tuple[str, ...]:
    return diff_style(line, place + 2)


def forget_definitions(flags: Flags, name: str, *, yes: bool, as_json: bool) -> int:
    """What the server says next counts as seen, whatever it is."""
    from holdfast.mcp.client.definitions import pin_name

    project = project_here(flags)
    server = select_servers(project, (name,))[name]
    if not yes:
        if as_json or not console.can_ask():
            raise UsageProblem(f"What was seen of '{name}' was not forgotten; say --yes, or run it at a terminal.")
        console.print_err("The definitions it has the next time are taken for seen without anybody looking at them.")
        if not asyncio.run(confirm(f"Forget what was seen of '{name}'? [y/N] ")):
            console.print_err("Nothing was forgotten.")
            return REJECTED
    pins = ToolPins(project.user_db)
    try:
        forgotten = pins.forget(pin_name(name, server))
    finally:
        pins.close()
    if as_json:
        console.print_json(ForgottenOutput(server=name, forgotten=forgotten))
    else:
        seen = "Forgotten; its next definitions are the ones that count."
        console.print_err(seen if forgotten else f"Nothing was remembered of '{name}'.")
    return 0
