"""What the commands have in common: `--json`, `--debug`, and the place they work in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

CONTEXT: Final = {"help_option_names": ["-h", "--help"]}


def common(function: F) -> F:
    """The options every command has."""
    debug = click.option("--debug", is_flag=True, expose_value=False, help="Show the traceback of an internal error.")
    as_json = click.option("--json", "as_json", is_flag=True, help="Write JSON: one object, or one per line.")
    return as_json(debug(function))


def complete_tool(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from holdfast.doors.cli.completing import tool_names

    return tool_names(incomplete)


def complete_pending(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from holdfast.doors.cli.completing import pending_ids

    return pending_ids(incomplete)


def complete_call(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from holdfast.doors.cli.completing import call_ids

    return call_ids(incomplete)


def complete_grant(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from holdfast.doors.cli.completing import grant_ids

    return grant_ids(incomplete)


def complete_server(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from holdfast.doors.cli.completing import server_names

    return server_names(incomplete)
