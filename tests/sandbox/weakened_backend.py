"""A bubblewrap backend with a defence removed."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.contract.command import Command
from holdfast.sandbox.bubblewrap import Bubblewrap
from holdfast.sandbox.launch import Launch, Overlay
from holdfast.sandbox.policy import SandboxPolicy
from tests.sandbox.sandboxed_commands import bubblewraps

Weaken = Callable[[Launch], Launch]


class Weakened:
    """Bubblewrap with something removed from its launches or its policy."""

    def __init__(
        self,
        launch: Weaken = lambda launch: launch,
        policy: Callable[[SandboxPolicy], SandboxPolicy] = lambda policy: policy,
    ) -> None:
        self._inner: Bubblewrap = bubblewraps()[0]
        self._launch = launch
        self._policy = policy
        self.name, self.title, self.priority = "weakened", "weakened", 0
        self.identity, self.guarantees = "weakened", frozenset[str]()

    def available(self) -> str | None:
        return None

    def launch(self, policy: SandboxPolicy, command: Command, overlays: tuple[Overlay, ...]) -> Launch:
        return self._launch(self._inner.launch(self._policy(policy), command, overlays))
