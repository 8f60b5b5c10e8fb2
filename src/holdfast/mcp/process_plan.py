"""How a stdio server is to be started: its sandbox, its command, and its environment with the secrets filled in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from holdfast.config.model import McpServer
from holdfast.config.references import fill
from holdfast.contract.command import Command
from holdfast.contract.errors import SandboxRefused

if TYPE_CHECKING:
    from holdfast.runtime.runtime import Runtime
    from holdfast.sandbox.sandbox import Sandbox

_ROOT: Final = ("$root", "${root}")


def plan(runtime: Runtime, name: str, server: McpServer) -> tuple[Sandbox, Command]:
    """Blocks: a backend is tried out the first time, and secrets may come from programs.

    Raises `SandboxRefused`, `SecretUnavailable` or `ConfigError` if it cannot be started as it must be.
    """
    assert server.command is not None
    sandbox = sandbox_for(runtime, server)
    if sandbox.mode != "off" and sandbox.backend() is None:
        raise SandboxRefused(
            f"The MCP server '{name}' was not started, since it cannot be contained: {sandbox.why_not()}. "
            'Run `holdfast doctor`, or set sandbox.mode = "off" to start servers bare.'
        )
    cwd = folder_for(runtime, name, server)
    program = str(Path(server.command).expanduser()) if server.command.startswith("~/") else server.command
    if server.cwd is None and "/" in program and not program.startswith("/"):
        raise SandboxRefused(
            f"mcp.servers.{name}.command is {program!r}, which means another program in every folder; give its whole "
            f'path, or the folder as mcp.servers.{name}.cwd (cwd = "$root" is the project).'
        )
    return sandbox, Command(argv=(program, *server.args), cwd=cwd, env=environment_for(runtime, name, server))


def folder_for(runtime: Runtime, name: str, server: McpServer) -> Path:
    """Not the project unless the configuration says so: interpreters and launchers take programs from where they run.

    What a checkout calls `json.py` or `node_modules` would be started with the secrets of the server.
    """
    if server.cwd is None:
        return Path("/")
    first, _, rest = server.cwd.partition("/")
    if first not in _ROOT:
        cwd = Path(runtime.workspace.root or runtime.workspace.cwd) / Path(server.cwd).expanduser()
    elif runtime.workspace.root is not None:
        cwd = runtime.workspace.root / rest.lstrip("/")
    else:
        raise SandboxRefused(f"There is no project here, which mcp.servers.{name}.cwd = {server.cwd!r} stands for.")
    if not cwd.is_dir():
        raise SandboxRefused(f"There is no folder {str(cwd)!r}; correct mcp.servers.{name}.cwd.")
    return cwd


def sandbox_for(runtime: Runtime, server: McpServer) -> Sandbox:
    """A server runs all the time and not for one approved call, so it writes nowhere unless its configuration says so.

    Besides, where a contained process may write, whatever appears at a protected path while it runs counts as planted
    by it: a person who works in the project meanwhile would have their own files taken away.
    """
    from holdfast.sandbox.sandbox import Sandbox

    base = runtime.config.sandbox
    network = base.network if server.network is None else server.network
    return Sandbox(
        replace(base, mode=runtime.sandbox.mode, network=network, writable=server.writable),
        root=runtime.workspace.root,
        document_dir=runtime.workspace.document_dir,
        state=runtime.workspace.state,
        extra_protected=runtime.commands.protected,
        cwd=Path(runtime.workspace.cwd),
        foreign=runtime.sandbox.policy.writable,  # where commands write: they could have put an `uvx` there
    )


def environment_for(runtime: Runtime, name: str, server: McpServer) -> dict[str, str]:
    """What `env` adds, with its secrets; the redactor knows them from here on."""
    found = {key: fill(text, runtime.secrets.get) for key, text in server.env.items()}
    for key, value in found.items():
        if "=" in key or "\0" in key + value:
            raise SandboxRefused(
                f"mcp.servers.{name}.env holds {key!a}, with '=' in its name or a NUL character in its name or value; "
                "no program can be given that."
            )
    return found
