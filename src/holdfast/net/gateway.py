"""The gateway: decides whether a host is allowed, resolves it once, and connects only to the checked addresses.

Resolving once prevents DNS rebinding.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from ipaddress import ip_address
from typing import Any, Final, Literal, TypeVar

from msgspec import Struct

from holdfast.contract.errors import NetworkRefused
from holdfast.net.addresses import LOCALHOST, Address, AddressKind, address_kind, is_localhost, parse_address
from holdfast.net.hosts import AllowList, PrivateList, normalize_host, parse_origin, shown_host
from holdfast.net.network_log import NetworkEntry, NetworkLog, Outcome

HEAD_START: Final = 0.25
"""Seconds before the next address is tried in parallel (happy eyeballs, RFC 8305)."""

Connection = TypeVar("Connection")
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
Others = frozenset[AddressKind] | Literal["refused"]


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


def why_unreachable(error: OSError) -> str:
    """Return in plain words why a host cannot be reached, as the end of a sentence."""
    if isinstance(error, socket.gaierror):
        return "the name service did not answer" if error.errno == socket.EAI_AGAIN else "there is no such host"
    if isinstance(error, ConnectionRefusedError):
        return "it refused the connection"
    if isinstance(error, TimeoutError):
        return "it did not answer"
    # asyncio replaces the text of the system by the address it called.
    said = os.strerror(error.errno) if error.errno is not None else str(error)
    return f"{said[:1].lower()}{said[1:]}" or "the connection failed"


class Gateway:
    """Controls outgoing connections. Hosts in `listed` are allowed with any address, because the user chose them.

    `others` is "refused", or the address kinds that any other host must not resolve to, apart from those in `private`.
    `only` limits the other hosts by name, and `private_for` those for which `private` counts. `name` is the name of the
    list in refusals. Every decision of `connect`, and every refusal by `check`, is recorded in `log` before the
    connection is opened; if that fails, it is refused.
    """

    def __init__(
        self,
        listed: AllowList,
        *,
        others: Others = "refused",
        only: AllowList | None = None,
        private: PrivateList | None = None,
        private_for: AllowList | None = None,
        name: str = "the configuration",
        resolver: Resolver = resolve_by_system,
        by: str = "holdfast",
        log: NetworkLog | None = None,
    ) -> None:
        self._listed = listed
        self._others: Final = others
        self._only = only
        self._private = private
        self._private_for = private_for
        self._name = name
        self._resolver = resolver
        self._by = by
        self._log = log

    @classmethod
    def for_origin(
        cls,
        url: str,
        *,
        others: Others = "refused",
        resolver: Resolver = resolve_by_system,
        by: str = "holdfast",
        log: NetworkLog | None = None,
    ) -> Gateway:
        """Make a gateway that allows the host and port of a configured URL, and other hosts according to `others`."""
        _, name, port = parse_origin(url)
        host = normalize_host(name)
        address = f"[{host}]" if host is not None and ":" in host else host
        listed = AllowList([f"{address}:{port}"] if address is not None else [])
        return cls(listed, others=others, resolver=resolver, by=by, log=log)

    def decide(self, host: str, port: int) -> AllowedHost | RefusedHost:
        """Decide by name, or about a literal address, without network access."""
        spelled = normalize_host(host)
        if spelled is None:
            return RefusedHost(f"{shown_host(host)} is not an unambiguous host name, so the connection is refused.")
        if self._listed.allows(spelled, port):
            return AllowedHost(spelled, port)
        if self._others == "refused":
            return RefusedHost(f"{spelled}:{port} is not in {self._name}, so the connection is refused.")
        if self._only is not None and not self._only.allows(spelled, port):
            return RefusedHost(
                f"{spelled}:{port} is not a host that this call may reach, so the connection is refused."
            )
        private = self._private
        if private is not None and self._may_be_private(spelled, port) and private.allows_host(spelled, port):
            return AllowedHost(spelled, port)
        allowed = AllowedHost(spelled, port, self._others)
        address = LOCALHOST if is_localhost(spelled) else parse_address(spelled)
        problem = None if address is None else self._problem(allowed, address)
        return allowed if problem is None else RefusedHost(problem)

    def check(self, host: str, port: int) -> AllowedHost | RefusedHost:
        """Decide without network access, and record a refusal: nothing will connect that could record it."""
        decision = self.decide(host, port)
        if isinstance(decision, RefusedHost):
            try:
                self._record(normalize_host(host) or shown_host(host), port, "refused", reason=decision.reason)
            except NetworkRefused as unwritable:
                return RefusedHost(str(unwritable))
        return decision

    def _problem(self, allowed: AllowedHost, address: Address) -> str | None:
        """Return why an address of a host must not be dialled, or None."""
        kind = address_kind(address)
        if kind not in allowed.blocked_kinds:
            return None
        private = self._private
        listed = private is not None and (
            private.allows_host(allowed.host, allowed.port) or private.allows_address(address, allowed.port)
        )
        if listed and self._may_be_private(allowed.host, allowed.port):
            return None
        literal = allowed.host == str(address) or is_localhost(allowed.host)
        subject = allowed.host if literal else f"{allowed.host} resolves to {address}, which"
        refusal = f"{subject} is {kind}, so the connection is refused."
        entry = f"[{allowed.host}]:{allowed.port}" if ":" in allowed.host else f"{allowed.host}:{allowed.port}"
        if private is not None and listed:
            return f"{refusal} {private.option} allows it, but {entry} was not approved in this session."
        if private is None or kind is AddressKind.METADATA:
            return refusal
        how = f'add "{entry}" to {private.option} in their user configuration'
        return f"{refusal} To allow it, the user can {how}."

    def _may_be_private(self, host: str, port: int) -> bool:
        return self._private_for is None or self._private_for.allows(host, port)

    async def resolve(self, admitted: AllowedHost) -> Sequence[str]:
        """Return the addresses to dial. Raises `NetworkRefused` for a blocked one, `OSError` if there are none."""
        if parse_address(admitted.host) is not None:
            return (admitted.host,)  # checked by `decide`; the resolver would need one of the loop's few threads
        try:
            found = await self._resolver(admitted.host, admitted.port)
            if not found:
                raise OSError(f"{admitted.host} has no address")
        except OSError as error:
            self._record(admitted.host, admitted.port, "unresolved", reason=why_unreachable(error))
            raise
        for address in found:
            if (problem := self._problem(admitted, ip_address(address))) is not None:
                self._record(admitted.host, admitted.port, "refused", tuple(found), problem)
                raise NetworkRefused(problem)
        return found

    def _record(
        self, host: str, port: int, outcome: Outcome, addresses: tuple[str, ...] = (), reason: str = ""
    ) -> None:
        if self._log is None:
            return
        entry = NetworkEntry(
            at=time.time(),
            by=self._by,
            host=host,
            port=port,
            outcome=outcome,
            addresses=addresses,
            reason=reason,
        )
        try:
            self._log.record(entry)
        except OSError as error:
            raise NetworkRefused(
                f"The network log {self._log.path} cannot be written ({error.strerror or error}), so the connection to "
                f"{host}:{port} is refused. Free some space, or correct the permissions of its folder."
            ) from error

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
        decision = self.check(host, port)
        if isinstance(decision, RefusedHost):
            raise NetworkRefused(decision.reason)
        left = list(await self.resolve(decision))
        self._record(decision.host, port, "allowed", tuple(left))
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
