"""`Network`: the rules and the log for everything that holdfast sends over the network. One per runtime."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.net.addresses import NOT_PUBLIC
from holdfast.net.gateway import Gateway, Others, Resolver, resolve_by_system
from holdfast.net.hosts import AllowList, PrivateList
from holdfast.net.network_log import NetworkLog


class Network:
    """Makes the gateways. `by` names the tool and the call, the server or the model in the log."""

    def __init__(
        self,
        *,
        hosts: Iterable[str] = (),
        private: Iterable[str] = (),
        resolver: Resolver = resolve_by_system,
        log: NetworkLog | None = None,
    ) -> None:
        """`hosts` are reached without asking (`network.hosts`), `private` although they are not public.

        Without a log, decisions are not recorded.
        """
        self.hosts = tuple(hosts)
        self._private = PrivateList(private)
        self._resolver = resolver
        self._log = log

    def gateway(
        self, by: str, *, hosts: Iterable[str] | None = None, private_for: Iterable[str] | None = None
    ) -> Gateway:
        """The gateway for URLs that a model or a page chooses: public addresses, and what `network.private` names.

        With `hosts`, only these and `network.hosts` can be reached. With `private_for`, `network.private` counts only
        for these hosts.
        """
        only = None if hosts is None else AllowList((*hosts, *self.hosts), option="hosts")
        return Gateway(
            AllowList(),
            others=NOT_PUBLIC,
            only=only,
            private=self._private,
            private_for=None if private_for is None else AllowList(private_for, option="hosts"),
            resolver=self._resolver,
            by=by,
            log=self._log,
        )

    def gateway_to_listed(self, by: str, hosts: Iterable[str], *, name: str) -> Gateway:
        """The gateway to hosts that the user listed, with any address. `name` is the name of the list in refusals."""
        return Gateway(AllowList(hosts, option=name), name=name, resolver=self._resolver, by=by, log=self._log)

    def gateway_to_origin(self, by: str, url: str, *, others: Others = "refused") -> Gateway:
        """The gateway to the host and port of a configured URL, and to other hosts according to `others`."""
        return Gateway.for_origin(url, others=others, resolver=self._resolver, by=by, log=self._log)

    def close(self) -> None:
        """Write what the log has only counted so far."""
        if self._log is not None:
            self._log.close()
