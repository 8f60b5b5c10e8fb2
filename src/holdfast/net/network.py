"""`Network`: the rules and the log for everything that tools send over the network. One per runtime."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.net.addresses import NOT_PUBLIC
from holdfast.net.gateway import Gateway, Resolver, resolve_by_system
from holdfast.net.hosts import AllowList


class Network:
    """What web and browser tools can reach: public addresses, and what `network.private` names."""

    def __init__(
        self, *, hosts: Iterable[str] = (), private: Iterable[str] = (), resolver: Resolver = resolve_by_system
    ) -> None:
        """`hosts` are reached without asking (`network.hosts`), `private` although they are not public."""
        self.hosts = tuple(hosts)
        self._private = AllowList(private, option="network.private")
        self._resolver = resolver

    def gateway(self, by: str) -> Gateway:
        """The gateway for requests of a tool; `by` names the tool and the call in the log."""
        return Gateway(self._private, others=NOT_PUBLIC, name="network.private", resolver=self._resolver)
