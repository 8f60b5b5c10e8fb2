"""Opens the channels that `[notify]` configures, and says why the others are off."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

from msgspec import Struct

from holdfast.config.config import NotifyConfig
from holdfast.contract.errors import ConfigError
from holdfast.net.network import Network
from holdfast.notify.channel import Channel
from holdfast.notify.desktop import DesktopChannel, missing_desktop
from holdfast.notify.remote import GetSecret, NtfyChannel, WebhookChannel, parse_ntfy, parse_webhook
from holdfast.notify.terminal import Sequence, TerminalChannel, detect_sequence


class Channels(Struct, frozen=True):
    opened: tuple[Channel, ...]
    off: Mapping[str, str]
    """The other channels by name, with the reason."""


def check_addresses(config: NotifyConfig) -> None:
    """Raise `ConfigError` for an address that cannot be used, or one that needs a secret and names none."""
    if config.webhook is not None:
        parse_webhook(config.webhook)
        if config.webhook_secret is None:
            raise ConfigError(
                "notify.webhook needs notify.webhook_secret, with which the receiver checks that a request is yours. "
                "Add a table [secrets.NAME], and write its NAME there."
            )
    if config.ntfy is not None:
        parse_ntfy(config.ntfy, has_token=config.ntfy_token is not None)


def open_channels(
    config: NotifyConfig,
    network: Network,
    secret: GetSecret,
    *,
    terminal: TextIO | None,
    environment: Mapping[str, str],
    project: Path,
) -> Channels:
    """Return the channels. Nothing is sent and no secret is fetched yet.

    `terminal` is the stream whose terminal is notified; `project` the folder whose programs are never run.
    """
    check_addresses(config)
    opened: list[Channel] = []
    off: dict[str, str] = {}
    sequence = _terminal_sequence(config, terminal, environment)
    if isinstance(sequence, TerminalChannel):
        opened.append(sequence)
    else:
        off["terminal"] = sequence
    if problem := missing_desktop(environment, project) if config.desktop else "notify.desktop is false":
        off["desktop"] = problem
    else:
        opened.append(DesktopChannel(project))
    if config.webhook is None or config.webhook_secret is None:
        off["webhook"] = "notify.webhook is not set"
    else:
        opened.append(WebhookChannel(network, config.webhook, config.webhook_secret, secret))
    if config.ntfy is None:
        off["ntfy"] = "notify.ntfy is not set"
    else:
        opened.append(NtfyChannel(network, config.ntfy, config.ntfy_token, secret))
    return Channels(tuple(opened), off)


def _terminal_sequence(
    config: NotifyConfig, terminal: TextIO | None, environment: Mapping[str, str]
) -> TerminalChannel | str:
    """Return the channel, or why there is none."""
    if config.terminal is False:
        return "notify.terminal is false"
    if terminal is None or terminal.closed or not terminal.isatty():
        return "there is no terminal"
    kind: Sequence | None = detect_sequence(environment) if config.terminal is True else config.terminal
    return "this terminal has no bell" if kind is None else TerminalChannel(terminal.fileno(), kind)
