"""The gateway: decides whether a host is allowed, resolves it once, and connects only to the checked addresses.

Resolving once prevents DNS rebinding.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from ipaddress import ip_address
from typing import Any, Final, Literal, TypeVar

from msgspec import Struct

from holdfast.contract.errors import NetworkRefused
from holdfast.net.addresses import AddressKind, address_kind, parse_address
from holdfast.net.hosts import AllowList, normalize_host, parse_origin

HEAD_START: Final = 0.25
"""Seconds before the next address is tried in parallel (happy eyeballs, RFC 8305)."""

Connection = TypeVar("Connection")
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Resolver = Callable[[str, int], Awaitable[Sequence[str]]]


class AllowedHost(Struct, frozen=True):
    """A host that is allowed by name; its addresses are not checked yet."""

    host: str
    port: int
    blocked_kinds: frozenset[AddressKind] = frozenset()
    """The address kinds it must not resolve to."""


class RefusedHost(Struct, frozen=True):
    reason: str
    """A sentence that names the host."""


async def resolve_by_system(host: str, port: int) -> Sequence[str]:
    """Return all addresses of a name in the order of the system resolver."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    # A link-local address needs its interface.
    return list(dict.fromkeys(f"{at[0]}%{at[3]}" if len(at) == 4 and at[3] else str(at[0]) for *_, at in found))


class Gateway:
    """Controls outgoing connections. Hosts in `listed` are allowed with any address, because the user chose them.

    `others` is "refused", or the address kinds that any other host must not resolve to. `name` is the name of the list
    in refusals.
    """

    def __init__(
        self,
        listed: AllowList,
        *,
        others: frozenset[AddressKind] | Literal["refused"] = "refused",
        name: str = "the configuration",
        resolver: Resolver = resolve_by_system,
    ) -> None:
        self._listed = listed
        self._others: Final = others
        self._name = name
        self._resolver = resolver

    @classmethod
    def for_origin(cls, url: str, *, others: frozenset[AddressKind] | Literal["refused"] = "refused") -> Gateway:
        """Make a gateway that allows the host and port of a configured URL, and other hosts according to `others`."""
        _, name, port = parse_origin(url)
        host = normalize_host(name)
        address = f"[{host}]" if host is not None and ":" in host else host
        return cls(AllowList([f"{address}:{port}"] if address is not None else []), others=others)

    def decide(self, host: str, port: int) -> AllowedHost | RefusedHost:
        spelled = normalize_host(host)
        if spelled is None:
            return RefusedHost(f"{host!r} is not an unambiguous host name, so the connection is refused.")
        if self._listed.allows(spelled, port):
            return AllowedHost(spelled, port)
        if self._others == "refused":
            return RefusedHost(f"{spelled}:{port} is not in {self._name}, so the connection is refused.")
        address = parse_address(spelled)
        if address is not None and (kind := address_kind(address)) in self._others:
            return RefusedHost(f"{spelled} is {kind}, so the connection is refused.")
        return AllowedHost(spelled, port, self._others)

    async def resolve(self, admitted: AllowedHost) -> Sequence[str]:
        """Return the addresses to dial. Raises `NetworkRefused` for a blocked one, `OSError` if there are none."""
        if parse_address(admitted.host) is not None:
            return (admitted.host,)  # checked by `decide`; the resolver would need one of the loop's few threads
        found = await self._resolver(admitted.host, admitted.port)
        for address in found:
            if (kind := address_kind(ip_address(address))) in admitted.blocked_kinds:
                raise NetworkRefused(
                    f"{admitted.host} resolves to {address}, which is {kind}, so the connection is refused."
                )
        if not found:
            raise OSError(f"{admitted.host} has no address")
        return found

    async def connect(self, host: str, port: int) -> Streams:
        """Open a TCP connection to the first checked address that answers. Raises `NetworkRefused` or `OSError`."""
        return await self.connect_with(host, port, lambda address: asyncio.open_connection(address, port), _close)

    async def connect_with(
        self,
        host: str,
        port: int,
        dial: Callable[[str], Coroutine[Any, Any, Connection]],
        close: Callable[[Connection], Coroutine[Any, Any, None]],
    ) -> Connection:
        """Return the first connection that `dial` makes to a checked address; `close` closes the slower ones.

        Raises `NetworkRefused`, or the error of the first address.
        """
        decision = self.decide(host, port)
        if isinstance(decision, RefusedHost):
            raise NetworkRefused(decision.reason)
        left = list(await self.resolve(decision))
        dials: list[asyncio.Task[Connection]] = []
        try:
            while left or not all(task.done() for task in dials):
                if left:
                    dials.append(asyncio.create_task(dial(left.pop(0))))
                waiting = [task for task in dials if not task.done()]
                seconds = HEAD_START if left else None
                await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
                winner = next((task for task in dials if task.done() and task.exception() is None), None)
                if winner is not None:
                    await _close_all([task for task in dials if task is not winner], close)
                    return winner.result()
            return dials[0].result()  # raises
        except BaseException:
            # Also closes the winner, since the caller gets none. Shielded against a second cancellation of the caller.
            await asyncio.shield(_close_all(dials, close))
            raise


async def _close_all(
    dials: list[asyncio.Task[Connection]], close: Callable[[Connection], Coroutine[Any, Any, None]]
) -> None:
    for task in dials:
        task.cancel()
    for end in await asyncio.gather(*dials, return_exceptions=True):
        if not isinstance(end, BaseException):
            await close(end)


async def _close(streams: Streams) -> None:
    streams[1].close()
