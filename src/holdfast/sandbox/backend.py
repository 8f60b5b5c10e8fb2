"""What a backend is; `conformance` proves one."""

from __future__ import annotations

from typing import Final, Protocol

from msgspec import Struct

from holdfast.contract.command import Command
from holdfast.sandbox.launch import Launch, Overlay
from holdfast.sandbox.policy import Policy

PRIORITY: Final = 50


class Held(Struct, frozen=True, kw_only=True):
    """One attack of the escape battery, and whether it was contained."""

    name: str
    held: bool
    detail: str = ""


class Backend(Protocol):
    """A way to contain commands."""

    @property
    def name(self) -> str: ...
    @property
    def priority(self) -> int:
        """Higher is tried first; ties go by name, then by `identity`."""
        ...

    @property
    def title(self) -> str:
        """Its name and version, for people."""
        ...

    @property
    def identity(self) -> str:
        """What a remembered probe is good for: the program's path, size, date and version."""
        ...

    @property
    def guarantees(self) -> frozenset[str]:
        """Cases of the escape battery it claims to hold."""
        ...

    def available(self) -> str | None:
        """Why it cannot even be tried here; None if it can. Whether it holds is for the probe to say."""
        ...

    def launch(self, policy: Policy, command: Command, overlays: tuple[Overlay, ...]) -> Launch:
        """The command as a process to start. `SandboxRefused` where this backend cannot do what the policy says."""
        ...
