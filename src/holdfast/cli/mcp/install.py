"""`holdfast mcp install`: an entry for holdfast in the configuration of an MCP client, shown before it is written."""

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

from msgspec import Struct

from holdfast.cli import console
from holdfast.cli.errors import REJECTED, USAGE, UsageProblem
from holdfast.cli.json_output import InstalledOutput
from holdfast.cli.layout import print_message, quote
from holdfast.cli.mcp.client_file import ClientFile, NotJsonc, get_entry, read_client_file, set_entry, write_client_file
from holdfast.cli.mcp.serve import read_token, token_file
from holdfast.cli.pending_view import diff_style
from holdfast.cli.project_context import Flags, project_here
from holdfast.cli.prompt import confirm
from holdfast.contract.json import Json
from holdfast.factory.runtime import Project
from holdfast.helper_process import holdfast_module
from holdfast.text.diff import unified_diff
from holdfast.text.escape import escape

ENTRY: Final = "holdfast"
"""Our name among a client's servers."""
OURS: Final = frozenset(("type", "command", "args", "url", "headers"))
"""What of an entry is ours to write; whatever else people have put into their own files stays."""
_PLACES: Final = ("XDG_CONFIG_HOME", "XDG_STATE_HOME")
"""Clients start servers with an environment of their own; without these another configuration would count there."""
WORKSPACE: Final = "${workspaceFolder}"


class Client(Struct, frozen=True, kw_only=True):
    """A program that starts MCP servers by a configuration file."""

    title: str
    section: str
    user: Callable[[], Path]
    project: str
    """From the project's root."""
    typed: bool = True
    """Whether an entry says what kind of server it is."""
    folder: str | None = None
    """What stands for the folder that is open; None: it starts servers there by itself."""

    def entry(self, command: list[str], root: Path | None) -> dict[str, Json]:
        """For a server it starts itself; `root`: for this project alone."""
        folder = self.folder or (None if root is None else str(root))
        program, *words = command
        args: list[Json] = [*words, *(() if folder is None else ("-C", folder)), "mcp"]
        kind: dict[str, Json] = {"type": "stdio"} if self.typed else {}
        env: dict[str, Json] = {name: os.environ[name] for name in _PLACES if _folder_from_environment(name)}
        return {**kind, "command": program, "args": args, **({"env": env} if env else {})}

    def remote_entry(self, url: str, token: str) -> dict[str, Json]:
        """For one that runs already."""
        kind: dict[str, Json] = {"type": "http"} if self.typed else {}
        return {**kind, "url": url, "headers": {"Authorization": f"Bearer {token}"}}


def _claude() -> Path:
    return (_folder_from_environment("CLAUDE_CONFIG_DIR") or Path.home()) / ".claude.json"


def user_folders() -> list[Path]:
    """Where a person's own files may be: links that lead out of these are not followed."""
    given = (_folder_from_environment("XDG_CONFIG_HOME"), _folder_from_environment("CLAUDE_CONFIG_DIR"))
    return [Path.home(), *(folder for folder in given if folder is not None)]


def _config_home() -> Path:
    return _folder_from_environment("XDG_CONFIG_HOME") or Path.home() / ".config"


def _folder_from_environment(variable: str) -> Path | None:
    """A folder the environment names; a relative one would depend on where this is run."""
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
    """How this very program is started: by its path, and with nothing from the project that a client has open."""
    return list(holdfast_module("holdfast"))


_TOKEN: Final = re.compile(r"(Bearer )[^\"\s\\]+")


class InstallOptions(Struct, frozen=True, kw_only=True):
    """What the command line asks for."""

    client: str
    user: bool
    url: str | None = None
    """Of a server that runs already; None: the client starts one."""
    token_file: str | None = None
    yes: bool = False
    only_print: bool = False
    show_token: bool = False
    as_json: bool = False


def install_entry(flags: Flags, wish: InstallOptions) -> int:
    project = project_here(flags)
    client = CLIENTS[wish.client]
    path, inside = _place(project, wish)
    entry = _entry(project, wish)
    if wish.only_print:
        return _print(wish, path, entry)
    found = read_client_file(path, inside, root=None if wish.user else project.root)
    try:
        entry |= _env(entry, get_entry(found.text or "", client.section, ENTRY) if wish.user else None)
        # a project's file may be from somebody else, and `env` can act
        text = set_entry(found.text or "", client.section, ENTRY, entry, ours=OURS if wish.user else None)
    except NotJsonc as error:
        _print(wish, path, entry, to_error=True)
        raise UsageProblem(f"{escape(str(path))} cannot be edited ({error}); put the entry in yourself.") from None
    diff = _masked(unified_diff(found.text, text, str(found.real)), wish)
    if diff:
        refused = _confirm_write(project, wish, found, entry, diff)
        if refused is not None:
            return refused
        write_client_file(found, text, private=wish.url is not None)
    _report(wish, path, entry, diff, changed=bool(diff))
    return 0


def _env(entry: dict[str, Json], old: Json) -> dict[str, Json]:
    """Ours beside what a person has put there. Raises `NotJsonc` for what cannot be written as it was."""
    ours, theirs = entry.get("env"), old.get("env") if isinstance(old, dict) else None
    if not isinstance(ours, dict) or theirs is None:
        return {}
    plain = isinstance(theirs, dict) and all(isinstance(value, str) for value in theirs.values())
    if not plain or _unwritable(theirs):
        raise NotJsonc('the "env" of its entry is not made of plain texts')
    return {"env": {**cast(dict[str, Json], theirs), **ours}}


def _unwritable(value: Json) -> bool:
    """Whether it holds bytes of a path, or halves of characters, that no UTF-8 can hold."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


def _place(project: Project, wish: InstallOptions) -> tuple[Path, list[Path]]:
    """The file, and the folders that links of it may lead to."""
    client = CLIENTS[wish.client]
    if wish.user:
        return client.user(), user_folders()
    if project.root is None:
        raise UsageProblem("There is no project here; `holdfast init` starts one, --user is for all your projects.")
    if wish.url is not None:
        raise UsageProblem("A project's file is shared, and the token would be in it; use --http with --user.")
    return project.root / client.project, [project.root]


def _entry(project: Project, wish: InstallOptions) -> dict[str, Json]:
    client = CLIENTS[wish.client]
    if wish.url is None:
        entry = client.entry(own_command(), None if wish.user else project.root)
        if _unwritable(entry):
            raise UsageProblem("A path that would have to be in it is not UTF-8, so no client could be told.")
        return entry
    return client.remote_entry(wish.url, read_token(token_file(project, wish.token_file)))


def _confirm_write(
    project: Project, wish: InstallOptions, found: ClientFile, entry: dict[str, Json], diff: str
) -> int | None:
    """Show what would be written, and have it agreed to; the exit code if it is not."""
    if not wish.as_json:
        console.print_out_lines(quote(diff.rstrip("\n"), sys.stdout, style=diff_style).lines)
        sys.stdout.flush()
        for note in _notes(project, wish, found, entry):
            print_message(escape(note), "Note:")
    if wish.yes:
        return None
    where = escape(str(found.real))
    if console.can_ask() and not wish.as_json:
        if asyncio.run(confirm(f"Write this into {where}? [y/N] ")):
            return None
        console.print_err(f"{where} was not changed.")
        return REJECTED
    if wish.as_json:
        _report(wish, found.path, entry, diff, changed=False)
    console.print_err(f"{where} was not changed; read the difference, then say --yes.")
    return USAGE


def _ungoverned(wish: InstallOptions) -> str:
    title = CLIENTS[wish.client].title
    return (
        f"{title}'s own tools (its shell, its file editing) stay ungoverned: holdfast checks and records only calls of "
        f"the tools it gives {title}. Switch {title}'s own off in its settings where you want every call checked."
    )


def _notes(project: Project, wish: InstallOptions, found: ClientFile, entry: dict[str, Json]) -> list[str]:
    notes: list[str] = [_ungoverned(wish)]
    if wish.url is None:
        command = Path(own_command()[0])
        words = [str(entry["command"]), *cast(list[str], entry["args"])]
        notes.append(f"{CLIENTS[wish.client].title} will start `{shlex.join(words)}`.")
        if found.real != found.path:
            notes.append(f"{found.path} is a link to {found.real}, which is what is changed.")
        if project.root is not None and command.is_relative_to(project.root):
            notes.append(f"{command} lies inside the project, where tools can write; install holdfast outside it.")
        if not wish.user:
            notes.append("The paths are those of this machine; others who get the file have to change them.")
    elif found.mode is not None and found.mode & 0o077:
        notes.append(f"It will hold a token, so others can no longer read it (mode {found.mode & 0o700:o}).")
    return notes


def _report(wish: InstallOptions, path: Path, entry: dict[str, Json], diff: str, *, changed: bool) -> None:
    if wish.as_json:
        shown = json.loads(_masked(json.dumps(entry), wish))
        own = _ungoverned(wish)
        console.print_json(
            InstalledOutput(client=wish.client, path=str(path), changed=changed, diff=diff, entry=shown, ungoverned=own)
        )
    elif diff:
        console.print_err(f"Written. Restart {CLIENTS[wish.client].title}, or have it read its servers anew.")
    else:
        console.print_err(f"Nothing to do: {escape(str(path))} has exactly this already.")


def _print(wish: InstallOptions, path: Path, entry: dict[str, Json], *, to_error: bool = False) -> int:
    """The entry alone, to be put in by hand."""
    client = CLIENTS[wish.client]
    snippet = _masked(json.dumps({client.section: {ENTRY: entry}}, indent=2, ensure_ascii=False), wish)
    if wish.as_json:
        if not to_error:
            _report(wish, path, entry, "", changed=False)
        return 0
    for line in snippet.splitlines():
        (console.print_err if to_error else console.print_out)(escape(line))
    if not to_error:
        console.print_err(f"This belongs into {escape(str(path))}.")
        print_message(_ungoverned(wish), "Note:")
        if wish.url is not None and not wish.show_token:
            console.print_err("The token is left out; --show-token fills it in.")
    return 0


def _masked(text: str, wish: InstallOptions) -> str:
    return text if wish.show_token else _TOKEN.sub(r"\1…", text)
