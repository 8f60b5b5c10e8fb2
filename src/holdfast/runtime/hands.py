"""What a runtime needs to run commands, each part made when it is first needed."""

from __future__ import annotations

import asyncio
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import to_builtins

from holdfast.config.protected import exact
from holdfast.contract.command import standard_shell
from holdfast.contract.errors import UndoRefused
from holdfast.contract.result import Result
from holdfast.contract.tool import Tool
from holdfast.contract.values import digest_of
from holdfast.contract.vocabulary import AUTO_APPROVED_IF_SANDBOXED, NEEDS_CONTAINMENT, RUNS_COMMANDS
from holdfast.rules.caps import Containment
from holdfast.rules.confinement import Confinement
from holdfast.rules.skills import MANIFEST
from holdfast.runtime.writers import wrote

if TYPE_CHECKING:
    from holdfast.runtime.background import Background
    from holdfast.runtime.runtime import Runtime
    from holdfast.runtime.undo.recorder import Recorder
    from holdfast.sandbox.sandbox import Sandbox
    from holdfast.sandbox.warden.client import Warden

PROCESSES: Final = "processes"
"""Where in the state folder processes in the background are remembered."""
_COMMANDS: Final = frozenset({AUTO_APPROVED_IF_SANDBOXED, NEEDS_CONTAINMENT, RUNS_COMMANDS})


class Hands:
    """The sandbox, the process that starts commands, and the recorder of what they change."""

    def __init__(self, runtime: Runtime, sandbox: Sandbox | None, state: Path | None) -> None:
        self._runtime = runtime
        self._given = sandbox
        self._tried = False
        kept = None if runtime.ledger is None or runtime.ledger.volatile else runtime.ledger.path.parent
        self.state = state or kept
        """Where the project's state is kept, outside the project; None: nothing is kept beyond the runtime."""

    @cached_property
    def protected(self) -> tuple[str, ...]:
        """What is protected beyond the built-in patterns: what the configuration names, the manifests of its skills,
        and the document that is driven, as they were named and where they are."""
        config, document = self._runtime.config, self._runtime.document
        folders = [each for folder in map(Path, config.tools.skills.values()) for each in (folder, folder.resolve())]
        # Patterns, as a single path would be taken for a document, which stays as it is whoever wrote it.
        manifests = (f"{exact(folder)}/{MANIFEST[:-1]}?" for folder in folders)
        own = () if document is None else (exact(document), exact(document.resolve()))
        return (*config.protected, *dict.fromkeys((*manifests, *own)))

    @cached_property
    def sandbox(self) -> Sandbox:
        """Nothing is tried out before a command is judged."""
        if self._given is not None:
            return self._given
        from holdfast.sandbox.sandbox import Sandbox

        runtime = self._runtime
        return Sandbox(
            runtime.config.sandbox,
            root=runtime.root,
            document_dir=None if runtime.document is None else runtime.document.parent,
            state=self.state,
            extra_protected=self.protected,
            cwd=Path(runtime.cwd),
        )

    @cached_property
    def recorder(self) -> Recorder:
        from holdfast.runtime.undo.recorder import Recorder

        runtime = self._runtime
        return Recorder(runtime.ledger, self.sandbox, runtime.config.sandbox, self.state)

    @cached_property
    def warden(self) -> Warden:
        from holdfast.sandbox.warden.client import Warden

        warden = Warden()
        self._runtime.on_close(warden.close)
        return warden

    @cached_property
    def processes(self) -> Background:
        from holdfast.runtime.background import Background

        _ = self.warden  # closed after the processes
        background = Background(self._runtime, self.state)
        self._runtime.on_close(background.close)
        return background

    def background_alive(self, since: float | None = None) -> bool:
        """Whether a process runs now that could write into the document and belongs to no call: one that
        `process.start` started in this project or in one around the document, in whatever runtime, or an MCP server
        with writable folders. With `since` (seconds since 1970), also one that ended after that. Makes nothing."""
        document = self._runtime.document
        if document is not None and wrote(document, since):
            return True
        if "processes" in vars(self) and self.processes.any_alive(since):
            return True
        if self.state is None:
            return False
        for folder in self.state.parent.glob(f"*/{PROCESSES}"):
            own = folder.parent == self.state
            if (own or document is not None) and any(folder.glob("*.json")):
                from holdfast.runtime.background import Background

                there = None if own else document
                if Background(self._runtime, folder.parent).any_alive(since, around=there):
                    return True
        return False

    def undo(self, call_id: str, *, by: str, partial: bool) -> Result:
        """Put back what a call changed; blocks."""
        from holdfast.runtime.undo.putting_back import Undo

        ledger, state = self._runtime.ledger, self.state
        if ledger is None or state is None:
            raise UndoRefused("This runtime keeps no ledger, so there is nothing to undo from.")
        roots = () if self._runtime.root is None else (self._runtime.root,)
        undo = Undo(ledger, roots, state)
        return undo.carry_out(undo.plan(call_id), by=by, partial=partial, door=self._runtime.caller.door)

    async def try_out(self, tool: Tool) -> None:
        """Before a tool that runs commands is judged: what must be tried first is tried, without holding up others."""
        if self._tried or _COMMANDS.isdisjoint(tool.capabilities):
            return
        self._tried = True
        await asyncio.to_thread(self.held if self._runtime.config.approval.auto_approve_set else self.containment)

    def held(self) -> bool:
        """Every guarantee of the sandbox was tried here and held."""
        return self.sandbox.mode != "off" and self.sandbox.held()

    def confinement(self, tool: Tool) -> Confinement:
        """What would hold a call of this tool: the sandbox's policy, and for one that may run commands its backend."""
        sandbox, policy = self.sandbox, self.sandbox.policy
        runs = tool.effects is None or "process" in tool.effects
        backend = sandbox.backend() if runs else None
        if sandbox.mode == "off" or (runs and backend is None):
            return Confinement(environment=policy.environment, settings=self._settings(tool) if runs else None)
        return Confinement(
            backend=None if backend is None else backend.name,
            guarantees=() if backend is None else tuple(sorted(backend.guarantees)),
            network=policy.network,
            writable=tuple(map(str, policy.writable)),
            hidden=tuple(map(str, policy.read_deny)),
            protected=policy.protected,
            environment=policy.environment,
            settings=self._settings(tool) if runs else None,
        )

    def _settings(self, tool: Tool) -> str:
        configured = to_builtins(self._runtime.config.tools.config.get(tool.name, {}))
        return digest_of([standard_shell(), configured])

    def containment(self) -> Containment:
        sandbox = self.sandbox
        if sandbox.mode == "off":
            return "off"
        if sandbox.backend() is not None:
            return "held"
        return "refused" if sandbox.mode == "required" else "missing"
