"""Access that the user grants to one call beyond the sandbox policy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

WideningKind = Literal["hosts", "network", "read", "write", "outside"]


class Widening(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Additional access for one call, from the user's answer or from a command rule."""

    hosts: tuple[str, ...] = ()
    """`host`, `*.host` or `host:port`, over HTTP and HTTPS."""
    network: bool = False
    """Every host, over any protocol."""
    read: tuple[str, ...] = ()
    """Paths that `sandbox.read_deny` or the sandbox would hide."""
    write: tuple[str, ...] = ()
    """Folders outside `sandbox.writable`."""
    outside: bool = False
    """Run without a sandbox."""

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
        """The granted access in words, for the user."""
        parts = ["outside the sandbox"] if self.outside else []
        parts += ["reaches every host"] if self.network else [f"reaches {host}" for host in self.hosts]
        parts += [f"reads {path}" for path in self.read]
        return "; ".join((*parts, *(f"changes {path}" for path in self.write)))

    @property
    def kinds(self) -> tuple[WideningKind, ...]:
        """The kinds of access it grants."""
        given: dict[WideningKind, object] = {
            "hosts": self.hosts,
            "network": self.network,
            "read": self.read,
            "write": self.write,
            "outside": self.outside,
        }
        return tuple(kind for kind, value in given.items() if value)


def merge_widenings(some: Iterable[Widening | None]) -> Widening:
    """Return the union of all widenings."""
    whole = Widening()
    for one in some:
        whole = whole if one is None else whole | one
    return whole


def _merged(some: tuple[str, ...], others: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted({*some, *others}))
