"""A DNS server on loopback with scripted answers, and a resolver that asks only this server.

`answers` maps a name to what its resolutions return, one after the other: first a public address, then 127.0.0.1 (DNS
rebinding). The last answer repeats, or all of them in turn with `cycle`. An answer holds addresses of both families and
aliases (`CNAME other.test`). A name like `10.0.0.1.nip.test` resolves to the address it contains.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from ipaddress import ip_address
from typing import Any, Final, Self

Answers = Sequence[Sequence[str]]

SECONDS: Final = 60.0
_NIP: Final = re.compile(r"(?:.*\.)?(\d+\.\d+\.\d+\.\d+)\.nip\.test")
_dnslib: Any = import_module("dnslib")  # has no types


class DnsServer(asyncio.DatagramProtocol):
    def __init__(self, answers: Mapping[str, Answers] | None = None) -> None:
        self.answers: dict[str, Answers] = dict(answers or {})
        self.cycle: set[str] = set()
        """Names whose answers alternate for ever."""
        self.asked: list[str] = []
        """The names that were resolved, in order."""
        self._turns: dict[str, int] = {}

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_datagram_endpoint(lambda: self, local_addr=("127.0.0.1", 0))
        self.port: int = self._transport.get_extra_info("sockname")[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._transport.close()

    def reset(self, answers: Mapping[str, Answers]) -> None:
        self.answers = dict(answers)
        self.cycle.clear()
        self.asked.clear()
        self._turns.clear()

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        """Satisfies `Resolver`."""
        found = [*await self._ask(host, "A"), *await self._ask(host, "AAAA")]
        if not found:
            raise OSError(f"{host} is unknown")
        return found

    async def _ask(self, host: str, kind: str) -> list[str]:
        loop = asyncio.get_running_loop()
        reply: asyncio.Future[bytes] = loop.create_future()
        transport, _ = await loop.create_datagram_endpoint(lambda: _Client(reply), remote_addr=("127.0.0.1", self.port))
        try:
            question = _dnslib.DNSRecord.question(host, kind)
            transport.sendto(bytes(question.pack()))
            record = _dnslib.DNSRecord.parse(await asyncio.wait_for(reply, SECONDS))
        finally:
            transport.close()
        if record.header.id != question.header.id:
            raise OSError("the answer belongs to another question")
        wanted = getattr(_dnslib.QTYPE, kind)
        return [str(ip_address(bytes(row.rdata.data))) for row in record.rr if row.rtype == wanted]

    def datagram_received(self, data: bytes, addr: Any) -> None:
        query = _dnslib.DNSRecord.parse(data)
        name, kind = str(query.q.qname).rstrip(".").lower(), query.q.qtype
        reply = query.reply()
        if kind == _dnslib.QTYPE.A:  # asked first, so that both families are from one answer
            self.asked.append(name)
            self._turns[name] = self._turns.get(name, -1) + 1
        self._add_rows(reply, name, kind)
        self._transport.sendto(bytes(reply.pack()), addr)

    def _add_rows(self, reply: Any, name: str, kind: int) -> None:
        for value in self._answer(name):
            row = {"rname": name, "ttl": 0, "rclass": 1}
            if value.startswith("CNAME "):
                alias = value.removeprefix("CNAME ")
                reply.add_answer(_dnslib.RR(rtype=_dnslib.QTYPE.CNAME, rdata=_dnslib.CNAME(alias), **row))
                self._add_rows(reply, alias, kind)
            elif kind == _dnslib.QTYPE.A and ":" not in value:
                reply.add_answer(_dnslib.RR(rtype=kind, rdata=_dnslib.A(value), **row))
            elif kind == _dnslib.QTYPE.AAAA and ":" in value:
                reply.add_answer(_dnslib.RR(rtype=kind, rdata=_dnslib.AAAA(tuple(ip_address(value).packed)), **row))

    def _answer(self, name: str) -> Sequence[str]:
        script = self.answers.get(name)
        if not script:
            inside = _NIP.fullmatch(name)
            return () if inside is None else (inside[1],)
        turn = max(0, self._turns.get(name, 0))
        return script[turn % len(script) if name in self.cycle else min(turn, len(script) - 1)]


class _Client(asyncio.DatagramProtocol):
    def __init__(self, reply: asyncio.Future[bytes]) -> None:
        self._reply = reply

    def datagram_received(self, data: bytes, addr: Any) -> None:
        with suppress(asyncio.InvalidStateError):
            self._reply.set_result(data)
