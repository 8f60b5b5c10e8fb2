"""`holdfast serve`: the approvals page and the HTTP API of this project, and who may use them."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING

import click

from holdfast.cli import console
from holdfast.cli.errors import UsageProblem
from holdfast.cli.layout import print_table
from holdfast.cli.pending_view import age
from holdfast.cli.project_context import Flags, install_warning_handler, project_here
from holdfast.cli.root import DefaultGroup, with_flags
from holdfast.contract.errors import ConfigError
from holdfast.fs.own_paths import user_state_dir
from holdfast.json_output import DaemonOutput, LinkOutput, PersonOutput
from holdfast.store.people import People, Right
from holdfast.text.escape import escape

if TYPE_CHECKING:
    from holdfast.serve.daemon import Address, Started

_PORT = 4632
port_option = click.option(
    "--port", type=click.IntRange(0, 65_535), default=_PORT, show_default=True, help="The port; 0 takes a free one."
)


@click.group(cls=DefaultGroup)
def serve() -> None:
    """Serve the approvals page, and say who may use it."""


@serve.command("run")
@click.option("--all", "every", is_flag=True, help="Show every project of yours in one inbox.")
@port_option
@click.option("--host", default="127.0.0.1", show_default=True, help="Listen on this address.")
@click.option("--origin", "origins", metavar="URL", multiple=True, help="Also allow https://HOST, of a TLS proxy.")
@with_flags
def run_daemon(flags: Flags, every: bool, port: int, host: str, origins: Sequence[str], as_json: bool) -> int:
    """Serve the approvals page on this machine until Ctrl-C.

    Prints a link that logs you in once. Calls that are pending in this project,
    whichever program asked, appear on the page, and an answer there counts like
    one on the terminal. Other machines can use it only with --origin and a token.

    \b
    Example:
      holdfast serve
      holdfast serve --all --port 4700
    """
    if find_spec("starlette") is None or find_spec("uvicorn") is None or find_spec("jinja2") is None:
        raise UsageProblem("The page needs more packages: pip install 'holdfast[serve]'")
    from holdfast.serve.daemon import Address

    address = Address(host=host, port=port, origins=tuple(origins), unix=user_state_dir() / "serve.sock")
    return _run(flags, address, every=every, as_json=as_json)


def _run(flags: Flags, address: Address, *, every: bool, as_json: bool) -> int:
    from holdfast.serve.daemon import people_file
    from holdfast.serve.daemon import serve as run_server

    project = project_here(flags)
    install_warning_handler()

    def started(daemon: Started) -> None:
        link = f"{daemon.url}/login#{People(people_file()).create_code()}"
        if as_json:
            socket = None if daemon.unix is None else str(daemon.unix)
            console.print_json(DaemonOutput(url=daemon.url, link=link, socket=socket))
        else:
            console.print_out(f"Serving {escape(daemon.url)}. Press Ctrl-C to end.")
            console.print_out(f"Open {escape(link)} (it logs you in once, within 10 minutes).")
        sys.stdout.flush()

    async def serve_until_stopped() -> None:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)  # a service manager stops it
        await run_server(project, address, every=every, flags=dict(flags), started=started, terminal=console.terminal())

    with suppress(KeyboardInterrupt, asyncio.CancelledError):
        try:
            asyncio.run(serve_until_stopped())
        except ConfigError as error:
            raise UsageProblem(str(error)) from error
    return 0


@serve.command()
@port_option
@click.option("--as", "name", metavar="NAME", help="Log in as this person instead of you.")
@click.option("--url", metavar="URL", help="The address in the browser, if it is not this machine.")
@with_flags
def link(flags: Flags, port: int, name: str | None, url: str | None, as_json: bool) -> int:
    """Print a link that logs in once, within 10 minutes.

    \b
    Example:
      holdfast serve link
      holdfast serve link --as ann --url https://box.example
    """
    code = _people().create_code(name)
    address = f"{(url or f'http://127.0.0.1:{port}').rstrip('/')}/login#{code}"
    if as_json:
        console.print_json(LinkOutput(link=address))
    else:
        console.print_out(escape(address))
    return 0


@serve.group(cls=DefaultGroup)
def people() -> None:
    """List, add and remove the people who have a token."""


@people.command("list")
@with_flags
def list_people(flags: Flags, as_json: bool) -> int:
    """List the people who have a token.

    \b
    Example:
      holdfast serve people
    """
    found = _people().list()
    if as_json:
        for person in found:
            console.print_json(PersonOutput.of(person))
    elif not found:
        console.print_out("Nobody has a token. You use the page with `holdfast serve link`.")
    else:
        print_table(["name", "may", "since"], [[item.name, item.right, age(item.created)] for item in found])
    return 0


@people.command()
@click.argument("name")
@click.option("--view", "view_only", is_flag=True, help="They may look, but not answer.")
@with_flags
def add(flags: Flags, name: str, view_only: bool, as_json: bool) -> int:
    """Add a person and print their token, which is shown only once.

    \b
    Example:
      holdfast serve people add ann
    """
    right: Right = "view" if view_only else "answer"
    token = _people().add(name, right)
    if as_json:
        console.print_json(PersonOutput(name=name, right=right, created=None, token=token))
    else:
        console.print_err(f"Added {escape(name)}, who may {right}. Their token, shown only now:")
        console.print_out(token)
    return 0


@people.command()
@click.argument("name")
@with_flags
def remove(flags: Flags, name: str, as_json: bool) -> int:
    """Remove a person: their token and their sessions end at once.

    \b
    Example:
      holdfast serve people remove ann
    """
    if not _people().remove(name):
        raise UsageProblem(f"There is no person '{escape(name)}'. `holdfast serve people` lists them.")
    if as_json:
        console.print_json(PersonOutput(name=name, right=None, created=None, token=None))
    else:
        console.print_err(f"Removed {escape(name)}.")
    return 0


def _people() -> People:
    return People(user_state_dir() / "people.db")
