"""What holds a call while it runs: a grant is good only where that is at least as strict as when it was given."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

from msgspec import Struct

Network = Literal["off", "on"] | tuple[str, ...]
"""Or the hosts that can be reached."""


class Confinement(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The sandbox and the network of a call. The defaults are none: everything can be read, written and reached."""

    backend: str | None = None
    """What contains its commands; None where nothing does, or where it runs none."""
    guarantees: tuple[str, ...] = ()
    """What that backend holds, by the names of the escape tests."""
    network: Network = "on"
    writable: tuple[str, ...] = ("/",)
    hidden: tuple[str, ...] = ()
    """What cannot be read."""
    protected: tuple[str, ...] = ()
    """Patterns of what cannot be changed in a writable folder, beside those that always hold."""
    environment: tuple[str, ...] = ()
    """Patterns of the variables it gets."""
    settings: str | None = None
    """Digest of the shell and of all the tool's configuration, the values of variables among it; None for tools that
    run no commands. It is compared as it is: no other shell or value is stricter."""

    def is_within(self, given: Confinement) -> bool:
        """Whether nothing is possible here that was not possible there."""
        return (
            set(given.guarantees) <= set(self.guarantees)
            and _reaches_no_more(self.network, given.network)
            and _all_inside(self.writable, given.writable)
            and _all_inside(given.hidden, self.hidden)
            and set(given.protected) <= set(self.protected)
            and set(self.environment) <= set(given.environment)
            and self.settings == given.settings
        )

    def __str__(self) -> str:
        """For a person; empty for a tool that runs no commands where the sandbox is on."""
        if self.backend is None:
            return "with or without a sandbox" if self.writable == UNCONFINED.writable else ""
        network = self.network if isinstance(self.network, str) else ", ".join(self.network) or "off"
        return f"contained by {self.backend} with network {network}, or stricter"


UNCONFINED: Final = Confinement()


def unconfined() -> Confinement:
    return UNCONFINED


def _reaches_no_more(now: Network, given: Network) -> bool:
    if now == "off" or given == "on":
        return True
    return isinstance(now, tuple) and isinstance(given, tuple) and set(now) <= set(given)


def _all_inside(paths: Iterable[str], folders: Iterable[str]) -> bool:
    return all(any(path == one or path.startswith(f"{one.rstrip('/')}/") for one in folders) for path in paths)
