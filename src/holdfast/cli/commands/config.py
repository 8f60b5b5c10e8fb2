"""`holdfast config`: show, locate, edit and check the configuration, and print its JSON Schema."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import click
from msgspec import to_builtins
from msgspec.structs import asdict

from holdfast.cli import console
from holdfast.cli.errors import UsageProblem
from holdfast.cli.layout import wrap_sentence
from holdfast.cli.project_context import Flags, open_runtime_for, project_here
from holdfast.cli.prompt import edit_text as edited
from holdfast.cli.root import DefaultGroup, json_option, with_flags
from holdfast.config.config import effective_options
from holdfast.config.json_schema import json_schema
from holdfast.config.layers import load
from holdfast.config.machine import MACHINE_FILE
from holdfast.config.roots import PROJECT_FILE, check_user_config, find_root, user_project_file
from holdfast.contract.errors import ConfigError
from holdfast.factory.runtime import check_config, config_warnings
from holdfast.fs.own_paths import user_config_file
from holdfast.fs.replace import write_private
from holdfast.json_output import CheckOutput, ConfigurationOutput, EditedOutput, PlacesOutput
from holdfast.runtime.runtime import Runtime
from holdfast.text.escape import escape


@click.group(cls=DefaultGroup)
def config() -> None:
    """Show, edit and check the configuration."""


@config.command()
@with_flags
def show(flags: Flags, as_json: bool) -> int:
    """Show every option with the value in force.

    \b
    Example:
      holdfast config
    """
    project = project_here(flags)
    values = effective_options(project.loaded.config)
    if as_json:
        loaded = project.loaded
        console.print_json(ConfigurationOutput(config=values, layers=loaded.layers, notices=loaded.notices))
        return 0
    for key, value in values.items():
        written = "(not set)" if value is None else json.dumps(to_builtins(value), ensure_ascii=False)
        console.print_out(escape(f"{key} = {written}"))
    return 0


@config.command()
@with_flags
def path(flags: Flags, as_json: bool) -> int:
    """Show the paths of the configuration files, the state and the ledger.

    \b
    Example:
      holdfast config path
    """
    project = project_here(flags)
    root = project.root
    places = PlacesOutput(
        machine=str(MACHINE_FILE.path),
        user=str(user_config_file()),
        own=None if root is None else str(user_project_file(root)),
        project=None if root is None else str(root / PROJECT_FILE),
        root=None if root is None else str(root),
        state=str(project.state),
        ledger=str(project.ledger_path),
    )
    if as_json:
        console.print_json(places)
        return 0
    for name, place in asdict(places).items():
        text = escape(place or "none; `holdfast init` makes this directory a project")
        lines = "\n".join(wrap_sentence(text, sys.stdout, first=9))
        console.print_out(f"{name:<8} {lines}")
    return 0


@config.command()
@json_option
def schema(as_json: bool) -> int:
    """Print the JSON Schema of holdfast.toml and the user file.

    The output is JSON with or without --json.

    \b
    Example:
      holdfast config schema
    """
    made = json_schema()
    if as_json:
        console.print_json(made)
    else:
        console.print_out(json.dumps(made, indent=2))
    return 0


@config.command()
@with_flags
def check(flags: Flags, as_json: bool) -> int:
    """Check the files for mistakes in options, values and tool names.

    \b
    Example:
      holdfast config check
    """
    whole = load(root=find_root(Path.cwd()), is_trusted=lambda path, digest: True, flags=flags or None)
    check_config(whole.config)
    project = project_here(flags)
    with open_runtime_for(project, read_only=True) as runtime:
        _check_servers(runtime)
    if as_json:
        console.print_json(CheckOutput(ok=True, warnings=config_warnings(project)))
        return 0
    console.print_out("Configuration OK.")
    for layer in project.loaded.layers:
        console.print_out(f"  {layer.name:<12} {escape(layer.path or 'command line')}")
    return 0


@config.command()
@click.option(
    "--project", "for_project", is_flag=True, help="Edit your own rules for this project, which need no trust."
)
@json_option
def edit(for_project: bool, as_json: bool) -> int:
    """Edit your configuration in your editor and check it before saving.

    A text with mistakes is kept as a draft, and the next edit starts from it.

    With --project you edit rules that apply to this project only. They are saved
    in your configuration directory, never in the project.

    \b
    Example:
      holdfast config edit
    """
    path = _to_edit(for_project)
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    draft = path.with_name(f"{path.name}.draft")
    begun = draft.read_text(encoding="utf-8") if draft.exists() else before or _HEAD.format(path=path)
    text = asyncio.run(edited(begun, ".toml"))
    if text is None:
        raise UsageProblem("Nothing changed: no editor was found, or it failed. Set VISUAL or EDITOR.")
    changed = text != before and bool(before or text != _HEAD.format(path=path))
    if changed:
        try:
            _check_text(text, path)
        except ConfigError:
            write_private(draft, text.encode())
            raise
        write_private(path, text.encode())
    draft.unlink(missing_ok=True)
    if as_json:
        console.print_json(EditedOutput(path=str(path), changed=changed))
    else:
        console.print_out(f"{'Saved' if changed else 'Nothing changed in'} {escape(str(path))}.")
    return 0


_HEAD: Final = "# {path}\n# `holdfast config show` lists every option.\n"


def _to_edit(for_project: bool) -> Path:
    root = find_root(Path.cwd())
    if for_project and root is None:
        raise UsageProblem("There is no project here. Create one with `holdfast init`, or leave out --project.")
    check_user_config(root)
    return user_project_file(root) if for_project and root is not None else user_config_file()


def _check_text(text: str, path: Path) -> None:
    """Raise `ConfigError` if the text could not be loaded from that path."""
    with TemporaryDirectory() as folder:
        file = Path(folder, path.name)
        file.write_text(text, encoding="utf-8")
        try:
            check_config(load(root=None, is_trusted=lambda path, digest: True, user_file=file).config)
        except ConfigError as error:
            message = str(error).replace(str(file), str(path)).replace("; correct it there.", ".")
            raise ConfigError(f"Nothing was saved. {message} Your text is kept; run this again to edit it.") from None


def _check_servers(runtime: Runtime) -> None:
    """Raise `ConfigError` for an MCP server that could not be started in its sandbox."""
    for name, server in runtime.config.mcp.servers.items():
        if server.enabled and server.command is not None:
            from holdfast.mcp.client.server_process import sandbox_for

            try:
                sandbox_for(runtime, server)
            except ConfigError as error:
                own = str(error).replace("sandbox.writable", f"mcp.servers.{name}.writable")
                raise ConfigError(own) from error
