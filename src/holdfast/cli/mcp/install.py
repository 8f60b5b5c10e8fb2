"""`holdfast mcp install`: add holdfast to the configuration file of an MCP client, after showing the diff."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, cast

import click
from msgspec import Struct

from holdfast.cli import console
from holdfast.cli.errors import REJECTED, USAGE, UsageProblem
from holdfast.cli.layout import print_message, quote
from holdfast.cli.mcp.client_file import ClientFile, NotJsonc, get_entry, read_client_file, set_entry, write_client_file
from holdfast.cli.mcp.connection import reporting_interrupt
from holdfast.cli.mcp.serve import (
    port_option,
    read_token,
    require_http,
    show_token_option,
    token_file_option,
    token_path,
)
from holdfast.cli.pending_view import diff_style
from holdfast.cli.project_context import Flags, project_here
from holdfast.cli.prompt import confirm
from holdfast.cli.root import json_option
from holdfast.contract.json import Json
from holdfast.factory.runtime import Project
from holdfast.helper_process import holdfast_module
from holdfast.json_output import InstalledOutput
from holdfast.text.diff import unified_diff
from holdfast.text.escape import escape

ENTRY: Final = "holdfast"
"""The name of our entry among a client's servers."""
OUR_KEYS: Final = frozenset(("type", "command", "args", "url", "headers"))
"""The keys of the entry that holdfast writes. Other keys in the user's own files stay."""
_VARIABLES: Final = ("XDG_CONFIG_HOME", "XDG_STATE_HOME")
"""Passed on in the entry: clients start servers in their own environment, where other paths would apply."""
WORKSPACE: Final = "${workspaceFolder}"


class Client(Struct, frozen=True, kw_only=True):
    """An MCP client, and the format of its configuration file."""

    title: str
    section: str
    user: Callable[[], Path]
    project: str
    """The project's configuration file, relative to the root."""
    typed: bool = True
    """Whether an entry has a `type`."""
    folder: str | None = None
    """The client's variable for the open folder; None if it starts servers in that folder anyway."""

    def entry(self, command: list[str], root: Path | None) -> dict[str, Json]:
        """Return the entry of a server that the client starts; with `root`, for that project only."""
        folder = self.folder or (None if root is None else str(root))
        program, *words = command
        args: list[Json] = [*words, *(() if folder is None else ("-C", folder)), "mcp"]
        kind: dict[str, Json] = {"type": "stdio"} if self.typed else {}
        env: dict[str, Json] = {name: os.environ[name] for name in _VARIABLES if _folder_from_environment(name)}
        return {**kind, "command": program, "args": args, **({"env": env} if env else {})}

    def remote_entry(self, url: str, token: str) -> dict[str, Json]:
        """Return the entry of a server that is already running."""
        kind: dict[str, Json] = {"type": "http"} if self.typed else {}
        return {**kind, "url": url, "headers": {"Authorization": f"Bearer {token}"}}


def _claude() -> Path:
    return (_folder_from_environment("CLAUDE_CONFIG_DIR") or Path.home()) / ".claude.json"


def user_folders() -> list[Path]:
    """Return the folders of the user's own files; symlinks that lead out of them are not followed."""
    given = (_folder_from_environment("XDG_CONFIG_HOME"), _folder_from_environment("CLAUDE_CONFIG_DIR"))
    return [Path.home(), *(folder for folder in given if folder is not None)]


def _config_home() -> Path:
    return _folder_from_environment("XDG_CONFIG_HOME") or Path.home() / ".config"


def _folder_from_environment(variable: str) -> Path | None:
    """Return the folder that a variable names; a relative one is ignored, since it depends on the current directory."""
    folder = Path(os.environ.get(variable, ""))
    return folder if folder.is_absolute() else None


def _code() -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "Code" / "User" / "mcp.json"
    return _config_home() / "Code" / "User" / "mcp.json"


def _zed() -> Path:
    home = Path.home() / ".config" if sys.platform == "darwin" else _config_home()
    return home / "zed" / "settings.json"


CLIENTS: Final[Mapping[str, Client]] = {
    "claude": Client(title="Claude Code", section="mcpServers", user=_claude, project=".mcp.json"),
    "cursor": Client(
        title="Cursor",
        section="mcpServers",
        user=lambda: Path.home() / ".cursor" / "mcp.json",
        project=".cursor/mcp.json",
        folder=WORKSPACE,
    ),
    "vscode": Client(title="VS Code", section="servers", user=_code, project=".vscode/mcp.json", folder=WORKSPACE),
    "zed": Client(title="Zed", section="context_servers", user=_zed, project=".zed/settings.json", typed=False),
}


def own_command() -> list[str]:
    """Return the command that starts this installation, importing nothing from the project the client has open."""
    return list(holdfast_module("holdfast"))


_TOKEN: Final = re.compile(r"(Bearer )[^\"\s\\]+")


class InstallOptions(Struct, frozen=True, kw_only=True):
    """The options of `holdfast mcp install`."""

    client: str
    user: bool
    url: str | None = None
    """The address of a running server; None if the client starts one."""
    token_file: str | None = None
    yes: bool = False
    only_print: bool = False
    show_token: bool = False
    as_json: bool = False


@click.command()
@click.argument("client", type=click.Choice(["claude", "cursor", "vscode", "zed"]))
@click.option("--project", "scope", flag_value="project", default="project", help="In this project only (the default).")
@click.option("--user", "scope", flag_value="user", help="For all your projects.")
@click.option("--http", is_flag=True, help="Connect to a running server; its token goes into the file.")
@port_option
@token_file_option
@show_token_option
@click.option("-y", "--yes", is_flag=True, help="Do not ask; needed without a terminal.")
@click.option("--print", "only_print", is_flag=True, help="Print the entry instead of writing it.")
@json_option
@click.pass_context
def install(
    ctx: click.Context,
    client: str,
    scope: str,
    http: bool,
    port: int,
    token_file: str | None,
    show_token: bool,
    yes: bool,
    only_print: bool,
    as_json: bool,
) -> int:
    """Set up an MCP client to use holdfast.

    You see the change to its configuration file and confirm it. Nothing else in
    the file is touched.

    \b
    Example:
      holdfast mcp install claude --user
    """
    from holdfast.mcp.server import HOST, PATH  # needs the optional MCP SDK

    require_http(ctx, http)
    if http and port == 0:
        raise click.UsageError("With --http the client needs a fixed port. Set one with --port.")
    options = InstallOptions(
        client=client,
        user=scope == "user",
        url=f"http://{HOST}:{port}{PATH}" if http else None,
        token_file=token_file,
        yes=yes,
        only_print=only_print,
        show_token=show_token,
        as_json=as_json,
    )
    with reporting_interrupt(as_json):
        return _install(ctx.obj, options)


def _install(flags: Flags, options: InstallOptions) -> int:
    project = project_here(flags)
    client = CLIENTS[options.client]
    path, inside = _place(project, options)
    entry = _entry(project, options)
    if options.only_print:
        return _print(options, path, entry)
    found = read_client_file(path, inside, root=None if options.user else project.root)
    try:
        entry |= _env(entry, get_entry(found.text or "", client.section, ENTRY) if options.user else None)
        # In a project's file no other key of the entry stays: a checkout may bring an `env` that runs code.
        text = set_entry(found.text or "", client.section, ENTRY, entry, ours=OUR_KEYS if options.user else None)
    except NotJsonc as error:
        _print(options, path, entry, to_error=True)
        raise UsageProblem(f"Cannot edit {escape(str(path))}: {error}. Add the entry yourself.") from None
    diff = _masked(unified_diff(found.text, text, str(found.real)), options)
    if diff:
        refused = _confirm_write(project, options, found, entry, diff)
        if refused is not None:
            return refused
        write_client_file(found, text, private=options.url is not None)
    _report(options, path, entry, diff, changed=bool(diff))
    return 0


def _env(entry: dict[str, Json], old: Json) -> dict[str, Json]:
    """Merge our variables into the entry's `env`. Raise `NotJsonc` if that cannot be written back unchanged."""
    ours, theirs = entry.get("env"), old.get("env") if isinstance(old, dict) else None
    if not isinstance(ours, dict) or theirs is None:
        return {}
    plain = isinstance(theirs, dict) and all(isinstance(value, str) for value in theirs.values())
    if not plain or _unwritable(theirs):
        raise NotJsonc('the "env" of its entry has values that are not plain strings')
    return {"env": {**cast(dict[str, Json], theirs), **ours}}


def _unwritable(value: Json) -> bool:
    """Return whether the value contains lone surrogates, such as undecodable bytes of a path."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


def _place(project: Project, options: InstallOptions) -> tuple[Path, list[Path]]:
    """Return the file, and the folders that its symlinks may lead to."""
    client = CLIENTS[options.client]
    if options.user:
        return client.user(), user_folders()
    if project.root is None:
        raise UsageProblem("There is no project here. Create one with `holdfast init`, or use --user.")
    if options.url is not None:
        raise UsageProblem("A project's file is shared, and the token would be in it. Use --http with --user.")
    return project.root / client.project, [project.root]


def _entry(project: Project, options: InstallOptions) -> dict[str, Json]:
    client = CLIENTS[options.client]
    if options.url is None:
        entry = client.entry(own_command(), None if options.user else project.root)
        if _unwritable(entry):
            raise UsageProblem("The entry needs a path that is not UTF-8, so it cannot be written as JSON.")
        return entry
    return client.remote_entry(options.url, read_token(token_path(project, options.token_file)))


def _confirm_write(
    project: Project, options: InstallOptions, found: ClientFile, entry: dict[str, Json], diff: str
) -> int | None:
    """Show the diff and ask; return None if it may be written, else the exit code."""
    if not options.as_json:
        console.print_out_lines(quote(diff.rstrip("\n"), sys.stdout, style=diff_style).lines)
        sys.stdout.flush()
        for note in _notes(project, options, found, entry):
            print_message(escape(note), "Note:")
    if options.yes:
        return None
    where = escape(str(found.real))
    if console.can_ask() and not options.as_json:
        if asyncio.run(confirm(f"Write this into {where}? [y/N] ")):
            return None
        console.print_err(f"{where} was not changed.")
        return REJECTED
    if options.as_json:
        _report(options, found.path, entry, diff, changed=False)
    console.print_err(f"{where} was not changed. Read the diff, then add --yes.")
    return USAGE


def _ungoverned(options: InstallOptions) -> str:
    title = CLIENTS[options.client].title
    return (
        f"{title}'s own tools (its shell, its file editing) stay ungoverned: holdfast checks and records only calls of "
        f"the tools it gives {title}. To have every call checked, disable {title}'s own tools in its settings."
    )


def _notes(project: Project, options: InstallOptions, found: ClientFile, entry: dict[str, Json]) -> list[str]:
    notes: list[str] = [_ungoverned(options)]
    if options.url is None:
        command = Path(own_command()[0])
        words = [str(entry["command"]), *cast(list[str], entry["args"])]
        notes.append(f"{CLIENTS[options.client].title} will start `{shlex.join(words)}`.")
        if found.real != found.path:
            notes.append(f"{found.path} is a link to {found.real}, which is the file that changes.")
        if project.root is not None and command.is_relative_to(project.root):
            notes.append(f"{command} lies inside the project, where tools can write. Install holdfast outside it.")
        if not options.user:
            notes.append("The entry contains paths of this machine. On another machine they have to be changed.")
    elif found.mode is not None and found.mode & 0o077:
        notes.append(f"It will hold a token, so others can no longer read it (mode {found.mode & 0o700:o}).")
    return notes


def _report(options: InstallOptions, path: Path, entry: dict[str, Json], diff: str, *, changed: bool) -> None:
    if options.as_json:
        shown = json.loads(_masked(json.dumps(entry), options))
        own = _ungoverned(options)
        console.print_json(
            InstalledOutput(
                client=options.client, path=str(path), changed=changed, diff=diff, entry=shown, ungoverned=own
            )
        )
    elif diff:
        console.print_err(f"Done. Restart {CLIENTS[options.client].title}, or reload its MCP servers.")
    else:
        console.print_err(f"Nothing to do: {escape(str(path))} is already set up.")


def _print(options: InstallOptions, path: Path, entry: dict[str, Json], *, to_error: bool = False) -> int:
    """Print the entry, to be added by hand."""
    client = CLIENTS[options.client]
    snippet = _masked(json.dumps({client.section: {ENTRY: entry}}, indent=2, ensure_ascii=False), options)
    if options.as_json:
        if not to_error:
            _report(options, path, entry, "", changed=False)
        return 0
    for line in snippet.splitlines():
        (console.print_err if to_error else console.print_out)(escape(line))
    if not to_error:
        console.print_err(f"Add this to {escape(str(path))}.")
        print_message(_ungoverned(options), "Note:")
        if options.url is not None and not options.show_token:
            console.print_err("The token is left out. Use --show-token to include it.")
    return 0


def _masked(text: str, options: InstallOptions) -> str:
    return text if options.show_token else _TOKEN.sub(r"\1…", text)
