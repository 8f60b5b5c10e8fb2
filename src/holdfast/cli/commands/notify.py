"""`holdfast notify`: show how you are notified of pending calls, and try it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

import click

from holdfast.cli import console
from holdfast.cli.layout import print_message, print_table
from holdfast.cli.project_context import Flags, open_runtime_for, project_here
from holdfast.cli.root import DefaultGroup, with_flags
from holdfast.json_output import NotifyChannelOutput
from holdfast.notify.channel import Channel
from holdfast.notify.from_config import Channels, open_channels
from holdfast.notify.message import trial_message
from holdfast.notify.notifier import Delivery, send_to

_ORDER: Final = ("terminal", "desktop", "webhook", "ntfy")


@click.group(cls=DefaultGroup)
def notify() -> None:
    """Show and test how you are notified of pending calls."""


@notify.command()
@with_flags
def status(flags: Flags, as_json: bool) -> int:
    """Show the channels, and why one is off. Nothing is sent.

    The daemon sends the notifications.

    \b
    Example:
      holdfast notify
    """
    with _channels(flags) as (channels, _):
        _print([_on(channel) for channel in channels.opened], channels, as_json=as_json)
    return 0


@notify.command()
@with_flags
def test(flags: Flags, as_json: bool) -> int:
    """Send a test message through every channel that is on, also in quiet hours.

    The exit code is 1 if a channel fails.

    \b
    Example:
      holdfast notify test
    """
    with _channels(flags) as (channels, redact):
        deliveries = asyncio.run(_send(channels))
        sent = [_delivered(delivery, redact) for delivery in deliveries]
        _print(sent, channels, as_json=as_json)
    if not sent and not as_json:
        print_message("No channel is on. `holdfast help notify` says how to configure one.")
    return 1 if any(each.state == "failed" for each in sent) else 0


async def _send(channels: Channels) -> list[Delivery]:
    message = trial_message()
    return list(await asyncio.gather(*(send_to(channel, message) for channel in channels.opened)))


@contextmanager
def _channels(flags: Flags) -> Generator[tuple[Channels, Callable[[str], str]]]:
    """Open the channels with the network log and the secrets of a runtime; also return what redacts a text."""
    project = project_here(flags)
    with open_runtime_for(project, entry_points=False, read_only=True) as runtime:
        network = runtime.network
        try:
            yield (
                open_channels(
                    project.loaded.config.notify,
                    network,
                    runtime.secrets.get,
                    terminal=console.terminal(),
                    environment=os.environ,
                    project=project.root or project.cwd,
                ),
                runtime.redactor,
            )
        finally:
            network.close()


def _on(channel: Channel) -> NotifyChannelOutput:
    return NotifyChannelOutput(channel=channel.name, state="on", target=channel.target, reason="")


def _delivered(delivery: Delivery, redact: Callable[[str], str]) -> NotifyChannelOutput:
    return NotifyChannelOutput(
        channel=delivery.channel, state=delivery.outcome, target=delivery.target, reason=redact(delivery.reason)
    )


def _print(found: list[NotifyChannelOutput], channels: Channels, *, as_json: bool) -> None:
    off = [
        NotifyChannelOutput(channel=name, state="off", target="", reason=reason)
        for name, reason in channels.off.items()
    ]
    rows = sorted([*found, *off], key=lambda each: _ORDER.index(each.channel))
    if as_json:
        for each in rows:
            console.print_json(each)
    else:
        table = [[each.channel, each.state, each.target, each.reason] for each in rows]
        print_table(["channel", "state", "target", "reason"], table)
