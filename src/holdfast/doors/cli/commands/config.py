"""`holdfast config`: the configuration in force, where it comes from, its schema, whether it is right."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click
from msgspec import to_builtins
from msgspec.structs import asdict

from holdfast.assemble import check_config, unknown_names
from holdfast.config.load import load
from holdfast.config.model import in_force
from holdfast.config.roots import PROJECT_FILE, find_root
from holdfast.config.schema import json_schema
from holdfast.contract.errors import ConfigError
from holdfast.doors.cli import screen
from holdfast.doors.cli.folding import sentence
from holdfast.doors.cli.outputs import Check, Configuration, Places
from holdfast.doors.cli.place import Flags, runtime_in, setting_here
from holdfast.doors.cli.root import DefaultGroup, common, json_option
from holdfast.fs.own_paths import user_config_file
from holdfast.runtime.runtime import Runtime
from holdfast.text.visible import visible


@click.group(cls=DefaultGroup)
def config() -> None:
    """The configuration: values, places, JSON Schema."""


@config.command()
@common
def show(flags: Flags, as_json: bool) -> int:
    """Show every option as it is in force. This is what `holdfast config` alone does."""
    setting = setting_here(flags)
    values = in_force(setting.loaded.config)
    if as_json:
        loaded = setting.loaded
        screen.put_json(Configuration(config=values, layers=loaded.layers, notices=loaded.notices))
        return 0
    for key, value in values.items():
        written = "(not set)" if value is None else json.dumps(to_builtins(value), ensure_ascii=False)
        screen.say(visible(f"{key} = {written}"))
    return 0


@config.command()
@common
def path(flags: Flags, as_json: bool) -> int:
    """Show where everything is kept."""
    setting = setting_here(flags)
    root = setting.root
    places = Places(
        user=str(user_config_file()), project=None if root is None else str(root / PROJECT_FILE),
        root=None if root is None else str(root), state=str(setting.state), ledger=str(setting.ledger_path),
    )
    if as_json:
        screen.put_json(places)
        return 0
    for name, place in asdict(places).items():
        words = visible(place or "none; `holdfast init` makes this directory a project")
        shown = "\n".join(sentence(words, sys.stdout, first=9))
        screen.say(f"{name:<8} {shown}")
    return 0


@config.command()
@json_option
def schema(as_json: bool) -> int:
    """Print the JSON Schema of holdfast.toml and of the user file.

    The output is JSON with and without --json.
    """
    made = json_schema()
    if as_json:
        screen.put_json(made)
    else:
        screen.say(json.dumps(made, indent=2))
    return 0


@config.command()
@common
def check(flags: Flags, as_json: bool) -> int:
    """Check the files for mistakes: options, values, and names no tool has."""
    whole = load(root=find_root(Path.cwd()), is_trusted=lambda path, digest: True, flags=flags or None)
    check_config(whole.config)
    setting = setting_here(flags)
    with runtime_in(setting, looking=True) as runtime:
        _check_servers(runtime)
    if as_json:
        screen.put_json(Check(ok=True, warnings=unknown_names(setting)))
    else:
        screen.say("Configuration OK.")
    return 0


def _check_servers(runtime: Runtime) -> None:
    """What would keep a server from being started. Raises `ConfigError`."""
    for name, server in runtime.config.mcp.servers.items():
        if server.enabled and server.command is not None:
            from holdfast.mcp.process import sandbox_for

            try:
                sandbox_for(runtime, server)
            except ConfigError as error:
                own = str(error).replace("sandbox.writable", f"mcp.servers.{name}.writable")
                raise ConfigError(own) from error
