"""What a person lets one call reach beyond the sandbox's policy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

WideningKind = Literal["hosts", "network", "read", "write", "outside"]


class Widening(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """For one call only. It comes from the answer of a person, or from a command rule they wrote."""

    hosts: tuple[str, ...] = ()
    """`host`, `*.host` or `host:port`, by HTTP and HTTPS."""
    network: bool = False
    """Every host, by any protocol."""
    read: tuple[str, ...] = ()
    """Paths that `sandbox.read_deny` or the sandbox hides."""
    write: tuple[str, ...] = ()
    """Folders outside `sandbox.writable`."""
    outside: bool = False
    """It runs without a sandbox."""

    def __bool__(self) -> bool:
        return bool(self.kinds)

    def __or__(self, other: Widening) -> Widening:
        return Widening(
            hosts=_merged(self.hosts, other.hosts),
            network=self.network or other.network,
            read=_merged(self.read, other.read),
            write=_merged(self.write, other.write),
            outside=self.outside or other.outside,
        )

    @property
    def description(self) -> str:
        """For a person: what a call with this reaches."""
        parts = ["outside the sandbox"] if self.outside else []
        parts += ["reaches every host"] if self.network else [f"reaches {host}" for host in self.hosts]
        parts += [f"reads {path}" for path in self.read]
        return "; ".join((*parts, *(f"changes {path}" for path in self.write)))

    @property
    def kinds(self) -> tuple[WideningKind, ...]:
        """What it adds to."""
        given: dict[WideningKind, object] = {
            "hosts": self.hosts,
            "network": self.network,
            "read": self.read,
            "write": self.write,
            "outside": self.outside,
        }
        return tuple(kind for kind, value in given.items() if value)


def merge_widenings(some: Iterable[Widening | None]) -> Widening:
    """Everything that any of them gives."""
    whole = Widening()
    for one in some:
        whole = whole if one is None else whole | one
    return whole


def _merged(some: tuple[str, ...], others: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted({*some, *others}))
