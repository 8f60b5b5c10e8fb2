"""What a backend is, and which there are. Third parties register theirs here; `conformance` proves it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final, Protocol

from msgspec import Struct

from holdfast.contract.command import Command
from holdfast.contract.errors import ConfigError
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


_makers: dict[str, Callable[[], list[Backend]]] = {}


def register(name: str, make: Callable[[], list[Backend]]) -> Callable[[], None]:
    """Add backends under a name, made when they are first needed; the answer takes them away again."""
    if name in _makers or name in (*_built_in(), "auto"):
        raise ConfigError(f"There is a sandbox backend {name!r} already; choose another name.")
    _makers[name] = make

    def remove() -> None:
        _makers.pop(name, None)

    return remove


def backends(wanted: str = "auto") -> list[Backend]:
    """Those to try, best first: all of them, or those of one name."""
    every = {**_built_in(), **_makers}
    if wanted != "auto" and wanted not in every:
        known = ", ".join(sorted(every))
        raise ConfigError(f'sandbox.backend is {wanted!r}, which is not known; use "auto" or one of: {known}.')
    chosen = every if wanted == "auto" else {wanted: every[wanted]}
    found = [backend for make in chosen.values() for backend in make()]
    return sorted(found, key=lambda backend: (-backend.priority, backend.name))


def _built_in() -> dict[str, Callable[[], list[Backend]]]:
    return {"bubblewrap": _bubblewraps, "landlock": _landlock} if sys.platform.startswith("linux") else {}


def _bubblewraps() -> list[Backend]:
    from holdfast.sandbox.bubblewrap import installed

    return list(installed())


def _landlock() -> list[Backend]:
    from holdfast.sandbox.landlock import Landlock

    return [Landlock()]
