"""The projects that the daemon serves: their ledgers, and a runtime for each that is built when it is needed.

A ledger is enough to list and to show. A runtime is needed to run an approved call, to check an edit or to explain a
decision; it is rebuilt when the configuration on disk changes, so that the daemon never decides by old rules.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from holdfast.config.roots import find_root, state_dir
from holdfast.contract.call import PendingCall
from holdfast.contract.errors import HoldfastError, LedgerError, UnknownCall
from holdfast.factory.chat import open_chat
from holdfast.factory.runtime import Project, build_runtime, load_project, open_ledger
from holdfast.fs.own_paths import user_state_dir
from holdfast.runtime.pending import PendingExpiry
from holdfast.runtime.runtime import Runtime
from holdfast.runtime.undo.restore import Undo
from holdfast.store.ledger import Grants, Ledger
from holdfast.store.redact import Redactor

INTERFACE: Final = "page"
CONFIG_SECONDS: Final = 2.0
"""How long a configuration is taken to be unchanged."""
_KEY_CHARS: Final = 16
_LOG: Final = logging.getLogger("holdfast")

Flags = dict[str, Any]


class ServedProject:
    """One project: its ledger, its runtime, and the work that the daemon does in it."""

    def __init__(self, project: Project, flags: Flags) -> None:
        self.project = project
        self.key = project_key(project.state)
        self.folder = project.root or project.cwd
        self.name = self.folder.name or str(self.folder)
        self.ledger: Ledger = open_ledger(project)
        self._flags = flags
        self._lock = asyncio.Lock()
        self._runtime: Runtime | None = None
        self._stack = AsyncExitStack()
        self._checked = 0.0
        self._tasks: set[asyncio.Task[Any]] = set()
        self._on_runtime: list[Callable[[Runtime], None]] = []
        self._runtimes: list[Runtime] = []
        """The open runtimes: the present one, those that it replaced while their calls run, and those of documents."""

    @property
    def expiry(self) -> PendingExpiry:
        return PendingExpiry(self.project.loaded.config)

    @property
    def redactor(self) -> Redactor | None:
        """What masks the secrets of the open runtime; None before it is opened."""
        return None if self._runtime is None else self._runtime.redactor

    def on_runtime(self, opened: Callable[[Runtime], None]) -> None:
        """Call a function with every runtime that is open now or opened later."""
        self._on_runtime.append(opened)
        for runtime in self._runtimes:
            opened(runtime)

    @contextmanager
    def opened(self, runtime: Runtime) -> Generator[None]:
        """Count a runtime among those of this project while it is open."""
        self._runtimes.append(runtime)
        for opened in self._on_runtime:
            opened(runtime)
        try:
            yield
        finally:
            self._runtimes.remove(runtime)

    async def cancel(self, call_id: str) -> bool:
        """Withdraw a pending call or stop one that runs here; False if it does neither."""
        await self.runtime()
        return any(runtime.cancel(call_id) for runtime in self._runtimes)

    async def runtime(self) -> Runtime:
        """The runtime by the rules that are on disk now. Raises `ConfigError` if they cannot be read."""
        async with self._lock:
            now = asyncio.get_running_loop().time()
            if self._runtime is not None and now - self._checked < CONFIG_SECONDS:
                return self._runtime
            project = await asyncio.to_thread(load_project, self.folder, self._flags or None)
            if self._runtime is None or _rules(project) != _rules(self.project):
                await self._replace_runtime(project)
            self._checked = asyncio.get_running_loop().time()
            assert self._runtime is not None
            return self._runtime

    async def _replace_runtime(self, project: Project) -> None:
        runtime = await asyncio.to_thread(
            build_runtime, project, ledger=self.ledger, nobody="pending", interface=INTERFACE
        )
        stack = AsyncExitStack()
        await runtime.start()
        stack.push_async_exit(runtime.__aexit__)
        stack.enter_context(self.opened(runtime))
        old, self._stack, self._runtime, self.project = self._stack, stack, runtime, project
        self.start(runtime.lifecycle.resume_all())
        if old is not stack:
            self.start(self._close_idle(old))

    async def _close_idle(self, stack: AsyncExitStack) -> None:
        """Close a replaced runtime when the calls that it runs have ended."""
        others = {task for task in self._tasks if task is not asyncio.current_task()}
        if others:
            await asyncio.wait(others)
        await stack.aclose()

    @contextmanager
    def grants(self) -> Generator[Grants]:
        """The grants of the project and of the user."""
        grants = self.ledger.grants.with_user(self.project.user_db)
        try:
            yield grants
        finally:
            grants.close()

    def undo(self) -> Undo:
        return Undo(self.ledger, [self.folder], self.project.state)

    @asynccontextmanager
    async def runtime_for(self, pending: PendingCall) -> AsyncGenerator[Runtime]:
        """The runtime that checks a call: of its document, whose rules apply to it, or of the project."""
        if pending.call.caller.document is None:
            yield await self.runtime()
        else:
            async with open_chat(Path(pending.call.caller.document), flags=self._flags or None) as chat:
                yield chat.runtime

    def start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run work beside the requests; a failure is logged."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _LOG.error("Work in the project %s failed: %s", self.name, error, exc_info=error)

    async def close(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(tuple(self._tasks), timeout=5)
        await self._stack.aclose()
        self.ledger.close()


class Projects:
    """The served projects by key: one, or with `every` all that this user has a ledger for."""

    def __init__(self, here: Project, *, every: bool, flags: Flags) -> None:
        self._flags = flags
        self._every = every
        self._here = here
        self._found: dict[str, ServedProject] = {}
        self._ignored: set[Path] = set()
        self._on_added: list[Callable[[ServedProject], None]] = []
        self.problems: dict[str, str] = {}
        """Ledgers that cannot be served, by folder, and why."""

    @property
    def every(self) -> bool:
        return self._every

    def __iter__(self) -> Iterator[ServedProject]:
        return iter(tuple(self._found.values()))

    def refresh(self) -> None:
        """Open the ledgers of projects that are new."""
        if not self._every:
            if not self._found:
                self._add(self._here)
            return
        for path in sorted((user_state_dir() / "projects").glob("*/ledger.db")):
            if path.parent.name[-_KEY_CHARS:] not in self._found and path not in self._ignored:
                self._discover(path)

    def _discover(self, path: Path) -> None:
        """Serve the project of a ledger. Where the project is, only its calls tell."""
        folder = _folder_of(path)
        try:
            if folder is None:
                raise HoldfastError("no call in it names a folder that exists")
            self._add(load_project(folder, self._flags or None))
        except (HoldfastError, OSError) as error:
            self._ignored.add(path)
            self.problems[path.parent.name] = str(error)

    def _add(self, project: Project) -> None:
        served = ServedProject(project, self._flags)
        self._found[served.key] = served
        for added in self._on_added:
            added(served)

    def on_added(self, added: Callable[[ServedProject], None]) -> None:
        """Call a function with every project that is served now or later."""
        self._on_added.append(added)
        for project in self:
            added(project)

    def get(self, key: str) -> ServedProject:
        """Raises `UnknownCall`, since a project is only ever named as part of a call's address."""
        found = self._found.get(key)
        if found is None:
            raise UnknownCall(f"No project '{key}' is served here.")
        return found

    async def close(self) -> None:
        for project in self:
            await project.close()


def project_key(state: Path) -> str:
    """The digits that end the name of a project's state folder, a hash of its path."""
    return state.name[-_KEY_CHARS:]


def _rules(project: Project) -> tuple[object, ...]:
    """What the rules of a project are read from: equal if nothing has changed."""
    return tuple((layer.path, layer.digest, layer.trusted) for layer in project.loaded.layers)


def _folder_of(ledger_path: Path) -> Path | None:
    try:
        with Ledger.open(ledger_path, read_only=True) as ledger:
            calls = [record.call for record in ledger.calls(20)]
            calls += [pending.call for pending in ledger.pending()]
    except LedgerError:
        return None
    for call in calls:
        folder = Path(call.cwd)
        with suppress(OSError):
            if folder.is_dir() and state_dir(find_root(folder) or folder) == ledger_path.parent:
                return folder
    return None
