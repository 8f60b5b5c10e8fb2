"""`Channel`: one way to notify a person."""

from __future__ import annotations

from typing import Final, Protocol

from holdfast.contract.errors import HoldfastError
from holdfast.notify.message import Message

SEND_SECONDS: Final = 10.0
"""The time for one message on one channel, with fetching its secret."""


class ChannelFailed(HoldfastError):
    """A message was not sent; the text is a sentence without addresses' paths and without secrets."""


class Channel(Protocol):
    @property
    def name(self) -> str:
        """terminal, desktop, webhook or ntfy."""
        ...

    @property
    def target(self) -> str:
        """Where messages go, for a person: the program, the sequence or the origin of an address."""
        ...

    async def send(self, message: Message) -> None:
        """Send one message. Raises `ChannelFailed`. The caller bounds the time."""
        ...
