"""Opens the project around the current directory: configuration, ledger, grants, runtime and tool sources."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncGenerator, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from getpass import getuser
from typing import TYPE_CHECKING, Any

from holdfast.cli import console
from holdfast.cli.errors import UsageProblem
from holdfast.cli.layout import print_message
from holdfast.config.config import McpServer
from holdfast.contract.errors import BadJson, HoldfastError, LedgerError, LedgerUnavailable
from holdfast.contract.json import Json, parse_json
from holdfast.contract.names import from_api_name, mcp_server_name
from holdfast.contract.tool import Tool
from holdfast.contract.tool_finder import TOOL_SEARCH
from holdfast.factory.runtime import Project, build_registry, build_runtime, config_warnings, load_project, open_ledger
from holdfast.runtime.interfaces import Nobody
from holdfast.runtime.pending import PendingExpiry
from holdfast.runtime.runtime import Runtime
from holdfast.store.ledger import Grants, Ledger
from holdfast.text.escape import escape, escape_block_once

if TYPE_CHECKING:
    from holdfast.mcp.client.bridge import Bridge
    from holdfast.mcp.client.connection import ServerStatus

Flags = Mapping[str, Json]


def read_flags(settings: Sequence[str]) -> Flags:
    """Parse `--set OPTION=VALUE`; a value that is not JSON is text."""
    flags: dict[str, Json] = {}
    for setting in settings:
        key, sign, value = setting.partition("=")
        if not sign or not key:
            raise UsageProblem(f"Cannot read --set '{escape(setting)}'. Use OPTION=VALUE, such as tools.profile=full.")
        try:
            flags[key] = parse_json(value)
        except BadJson:
            flags[key] = value
    return flags


def project_here(flags: Flags) -> Project:
    """Load the configuration that applies here, and print its notices and warnings on standard error."""
    project = load_project(flags=flags or None)
    for notice in project.loaded.notices:
        print_message(escape_block_once(notice), "Note:")
    warn_about_config(project)
    return project


def warn_about_config(project: Project) -> None:
    """Warn about names in the configuration that match no tool."""
    install_warning_handler()
    for warning in config_warnings(project):
        if warning not in _shown_warnings:
            _warn(warning)
            _shown_warnings.add(warning)


_shown_warnings: set[str] = set()
"""Warnings that were printed; the runtime finds the same ones again when its sources are ready."""


def _warn(message: str) -> None:
    if message in _shown_warnings:
        return
    print_message(escape_block_once(message), "Warning:")
    if message not in console.unreported_warnings:
        console.unreported_warnings.append(message)


@contextmanager
def read_ledger(flags: Flags, *, expire: bool = False) -> Generator[Ledger]:
    """Open the project's ledger read-only; an empty one if nothing was recorded yet.

    With `expire`, pending calls whose time is up are ended first.
    """
    project = project_here(flags)
    if expire and project.ledger_path.exists():
        _expire_calls(project)
    with _read_only_ledger(project) as ledger:
        yield ledger


def _expire_calls(project: Project) -> None:
    with suppress(LedgerError), open_ledger(project) as ledger:  # `_read_only_ledger` reports a damaged ledger
        PendingExpiry(project.loaded.config).expire(ledger)


@contextmanager
def open_runtime(
    flags: Flags,
    *,
    entry_points: bool = True,
    read_only: bool = False,
    servers: Collection[str] | None = (),
    nobody: Nobody = "pending",
) -> Generator[Runtime]:
    """Build the runtime of this project. With `read_only` nothing is written and no ledger is created.

    Only the MCP servers in `servers` are used; None means all of them.
    """
    project = project_here(flags)
    with open_runtime_for(
        project, entry_points=entry_points, read_only=read_only, servers=servers, nobody=nobody
    ) as runtime:
        yield runtime


@contextmanager
def open_runtime_for(
    project: Project,
    *,
    entry_points: bool = True,
    read_only: bool = False,
    servers: Collection[str] | None = (),
    nobody: Nobody = "pending",
) -> Generator[Runtime]:
    install_warning_handler()
    keeps = project.loaded.config.ledger.enabled
    runtime = build_runtime(
        project,
        ledger=_read_only_ledger(project) if read_only and keeps else None,
        nobody=nobody if keeps else "deny",
        interface="cli",
        entry_points=entry_points,
        servers=servers,
    )
    try:
        yield runtime
    finally:
        if runtime.ledger is not None:
            runtime.ledger.close()


def is_builtin(name: str) -> bool:
    """Return whether holdfast has a tool of this name, so that entry points need not be searched."""
    from holdfast.tools import builtin_tools

    return any(name in (*tool.names, tool.api_name) for tool in builtin_tools())


def tools_by_name(flags: Flags, names: Iterable[str]) -> dict[str, Tool]:
    """Return the tools that need no server. Entry points are loaded only if a name is not built in."""
    from holdfast.tools import builtin_tools

    found = {tool.name: tool for tool in builtin_tools()}
    others = {name for name in names if name not in found and mcp_server_name(name) is None}
    if others:
        install_warning_handler()
        with suppress(HoldfastError):
            registry = build_registry(load_project(flags=flags or None, checked=False))
            found |= {name: tool for name in others if (tool := registry.get(name)) is not None}
    return found


def servers_for(tool: str) -> Collection[str] | None:
    """Return the MCP servers that a tool of this name may come from; None means any."""
    name = tool if ":" in tool else from_api_name(tool)
    if TOOL_SEARCH in (tool, name):
        return None
    if is_builtin(tool):
        return ()
    if name is None:
        return None
    server = mcp_server_name(name)
    return () if server is None else (server,)


@contextmanager
def open_grants(flags: Flags, *, read_only: bool = False) -> Generator[Grants]:
    """Open the grants of this project and of the user."""
    project = project_here(flags)
    with _read_only_ledger(project) if read_only else open_ledger(project) as ledger:
        grants = ledger.grants.with_user(project.user_db)
        try:
            yield grants
        finally:
            grants.close()


def require_ledger(runtime: Runtime) -> Ledger:
    if runtime.ledger is None:
        raise LedgerUnavailable("The ledger is disabled (ledger.enabled = false), so no call can be pending here.")
    return runtime.ledger


def whoami(name: str | None = None) -> str:
    """Return the name under which the ledger records an answer."""
    if name is None:
        try:
            name = getuser()
        except (KeyError, OSError):
            name = f"uid {os.getuid()}"
    return f"cli:{name}"


def _read_only_ledger(project: Project) -> Ledger:
    return open_ledger(project, read_only=True) if project.ledger_path.exists() else Ledger.in_memory()


def install_warning_handler() -> None:
    """Print the log warnings of holdfast on standard error, escaped."""

    class Printer(logging.Handler):
        def emit(self, record: Any) -> None:
            if not hasattr(record, "call_id"):  # an exception of a tool: the result of its call reports it
                _warn(record.getMessage())

    logger = logging.getLogger("holdfast")
    if not logger.handlers:
        logger.addHandler(Printer())
        logger.propagate = False


class ServerAway(HoldfastError):
    """The MCP server that a tool belongs to is disabled or unreachable."""


@asynccontextmanager
async def sources_started(runtime: Runtime) -> AsyncGenerator[None]:
    """Start the tool sources and wait until each is ready or timed out. Approved calls are not resumed."""
    async with AsyncExitStack() as stack:
        runtime.events.use_running_loop()
        stack.push_async_exit(runtime.__aexit__)
        await runtime.registry.start()
        await wait_for_sources(runtime)
        yield


def mute_source_warnings() -> None:
    """Suppress log warnings about unreachable MCP servers, for commands that report them themselves."""
    logging.getLogger("holdfast").addFilter(lambda record: not record.getMessage().startswith("Tool source 'mcp."))


def require_server(runtime: Runtime, tool: str) -> None:
    """Raise `ServerAway` if the tool is missing because its MCP server is disabled or unreachable."""
    if runtime.registry.find(tool) is not None:
        return
    server = mcp_server_name(tool if ":" in tool else from_api_name(tool) or "")
    named = runtime.config.mcp.servers
    if server is None or server not in named:
        return
    if not named[server].enabled:
        raise ServerAway(f"There is no tool '{tool}': its server '{server}' is disabled.")
    status = next((each for each in _statuses(runtime) if each.name == server), None)
    if status is not None and status.state != "ready":
        reason = unready_reason(status, named[server])
        raise ServerAway(
            f"There is no tool '{tool}': its server '{server}' is {status.state} ({reason}). "
            f"See `holdfast mcp servers {server}`."
        )


def unready_reason(status: ServerStatus, server: McpServer) -> str:
    """Return why a server is not ready; empty if it is."""
    if status.state == "starting" and not status.reason:
        return f"not ready after {server.start_timeout:g} s"
    has_space = server.command is not None and " " in server.command and status.state == "away"
    hint = "; `command` is only the program, put its arguments into `args`" if has_space else ""
    return f"{status.reason}{hint}"


def bridge_of(runtime: Runtime) -> Bridge | None:
    """Return the MCP bridge; None if all servers are disabled."""
    from holdfast.mcp.client.bridge import Bridge

    try:
        return runtime.services.get(Bridge)
    except HoldfastError:
        return None


def _statuses(runtime: Runtime) -> Sequence[ServerStatus]:
    bridge = bridge_of(runtime)
    return () if bridge is None else bridge.status()


async def wait_for_sources(runtime: Runtime) -> None:
    if not runtime.registry.ready:
        with console.progress() as progress:
            progress("waiting for MCP servers and other tool sources…")
            await runtime.registry.wait_ready()
