"""The projects that the daemon serves: their ledgers, and a runtime for each that is built when it is needed.

A ledger is enough to list and to show. A runtime is needed to run an approved call, to check an edit or to explain a
decision; it is rebuilt when the configuration on disk changes, so that the daemon never decides by old rules.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeVar

from holdfast.config.roots import find_root, state_dir
from holdfast.contract.call import PendingCall
from holdfast.contract.errors import CallError, ConfigError, HoldfastError, LedgerError, UnknownCall
from holdfast.factory.chat import open_chat
from holdfast.factory.runtime import Project, build_runtime, load_project, open_ledger
from holdfast.fs.own_paths import user_state_dir
from holdfast.runtime.live_calls import unwatch_live_calls
from holdfast.runtime.pending import PendingExpiry
from holdfast.runtime.results import cancelled
from holdfast.runtime.runtime import Runtime
from holdfast.runtime.undo.restore import Undo
from holdfast.store.ledger import Grants, Ledger
from holdfast.store.redact import Redactor

INTERFACE: Final = "page"
RESUME_SECONDS: Final = 5.0
"""How long an approval may be unused before the daemon runs the call."""
RETRY_SECONDS: Final = 60.0
"""After this time the daemon tries again to run an approved call that it could not run."""
_KEY_CHARS: Final = 16
_LOG: Final = logging.getLogger("holdfast")

Flags = dict[str, Any]
T = TypeVar("T")


class ServedProject:
    """One project: its ledger, its runtime, and the work that the daemon does in it."""

    def __init__(self, project: Project, flags: Flags) -> None:
        self.project = project
        self.key = project_key(project.state)
        self.folder = project.root or project.cwd
        self.name = self.folder.name or str(self.folder)
        self.ledger: Ledger = open_ledger(project)
        self.flags = flags
        self._lock = asyncio.Lock()
        self._runtime: Runtime | None = None
        self._stack = AsyncExitStack()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._lasting: set[asyncio.Task[Any]] = set()
        """Work that goes on until the daemon ends, such as the scheduler."""
        self._resumed: dict[str, float] = {}
        """When this process last tried to run a call that was approved elsewhere."""
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
        """Withdraw a pending call or stop one that runs here; False if it does neither.

        The rules are not read: a call can also be stopped while a configuration file is broken.
        """
        if any(runtime.cancel(call_id) for runtime in self._runtimes):
            return True
        return self.ledger.end_now(call_id, cancelled(call_id), unless_running=True)

    async def open_runtime(self) -> Runtime:
        """A runtime that is open already, by whatever rules, or a new one. To answer no, the rules do not matter."""
        return await self.runtime() if self._runtime is None else self._runtime

    async def runtime(self) -> Runtime:
        """The runtime by the rules that are on disk now. Raises `ConfigError` if they cannot be read."""
        async with self._lock:
            project = await asyncio.to_thread(load_project, self.folder, self.flags or None)
            _check_ledger(project)
            if self._runtime is None or _rules(project) != _rules(self.project):
                self._runtime = await self._replace_runtime(project)
            return self._runtime

    async def _replace_runtime(self, project: Project) -> Runtime:
        runtime = await asyncio.to_thread(
            build_runtime, project, ledger=self.ledger, nobody="pending", interface=INTERFACE
        )
        stack = AsyncExitStack()
        stack.push_async_exit(runtime.__aexit__)
        try:
            await runtime.start()
        except BaseException:
            await stack.aclose()
            raise
        stack.enter_context(self.opened(runtime))
        if self._runtime is not None:
            self.start(self._close_idle(self._stack))
        self._stack, self.project = stack, project
        return runtime

    def resume_approved(self) -> None:
        """Run calls that were approved and that no process runs, such as those of a daemon that was killed."""
        now = time.time()
        for (call_id,) in self.ledger.rows("SELECT call FROM open_calls WHERE state = 'approved'"):
            pending = self.ledger.find_pending(call_id)
            if pending is None or pending.call.caller.document is not None or pending.definition_only:
                continue
            answered = self.ledger.approved_at(call_id) or 0.0
            # Who approves a call usually runs it at once: give them the time.
            if now - answered >= RESUME_SECONDS and now - self._resumed.get(call_id, 0.0) >= RETRY_SECONDS:
                self._resumed[call_id] = now
                self.start(self.run_approved(pending))

    async def _close_idle(self, stack: AsyncExitStack) -> None:
        """Close a replaced runtime when the calls that it runs have ended."""
        others = {task for task in self._tasks if task is not asyncio.current_task()}
        try:
            if others:
                await asyncio.wait(others)
        finally:
            await stack.aclose()

    async def run_approved(self, answered: PendingCall) -> None:
        """Run an approved call, unless its own program or document runs it."""
        runtime = await self.runtime()
        if runtime.registry.find(answered.call.tool) is None:
            await runtime.pipeline.wait_for_sources()
        await runtime.lifecycle.resume(answered)

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
            async with open_chat(Path(pending.call.caller.document), flags=self.flags or None) as chat:
                yield chat.runtime

    def start(self, work: Coroutine[Any, Any, T], *, lasting: bool = False) -> asyncio.Task[T]:
        """Run work beside the requests; a failure is logged. `lasting` work ends with the daemon."""
        task = asyncio.create_task(work)
        (self._lasting if lasting else self._tasks).add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        self._lasting.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            unexpected = None if isinstance(error, HoldfastError) else error
            _LOG.error("Work in the project %s failed: %s", self.name, error, exc_info=unexpected)

    async def close(self) -> None:
        tasks = (*self._tasks, *self._lasting)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=5)
        await self._stack.aclose()
        unwatch_live_calls(self.project.state)
        self.ledger.close()


class Projects:
    """The served projects by key: one, or with `every` all that this user has a ledger for."""

    def __init__(self, here: Project, *, every: bool, flags: Flags) -> None:
        self._flags = flags
        self._every = every
        self._here = here
        self._found: dict[str, ServedProject] = {}
        self._ignored: dict[Path, tuple[int, ...]] = {}
        self._on_added: list[Callable[[ServedProject], None]] = []
        self._on_stop: list[Callable[[], None]] = []
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
            with suppress(OSError):  # it was removed
                if path.parent.name[-_KEY_CHARS:] not in self._found and self._ignored.get(path) != _changed_at(path):
                    self._discover(path)

    def _discover(self, path: Path) -> None:
        """Serve the project of a ledger. Where the project is, only its calls tell."""
        seen, name = _changed_at(path), path.parent.name
        folder = _folder_of(path)
        try:
            if folder is None:
                raise HoldfastError("no call in it names a folder that exists")
            self._add(load_project(folder, self._flags or None))
            self.problems.pop(name, None)
        except (HoldfastError, OSError) as error:
            self._ignored[path] = seen  # until it changes: a ledger is created before its first call is written
            self.problems[name] = str(error)

    def _add(self, project: Project) -> None:
        _check_ledger(project)
        served = ServedProject(project, self._flags)
        self._found[served.key] = served
        for added in self._on_added:
            added(served)

    def on_added(self, added: Callable[[ServedProject], None]) -> None:
        """Call a function with every project that is served now or later."""
        self._on_added.append(added)
        for project in self:
            added(project)

    def on_stop(self, stop: Callable[[], None]) -> None:
        """Call a function when the daemon ends, before its replies have to."""
        self._on_stop.append(stop)

    def stop(self) -> None:
        for stop in self._on_stop:
            stop()

    def named(self, key: str) -> ServedProject:
        """The project with this key; without a key, the only one. Raises `CallError` if it must be named."""
        if key:
            return self.get(key)
        found = list(self)
        if len(found) != 1:
            raise CallError(f"Name the project: {len(found)} are served here (GET /api/projects).")
        return found[0]

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


def _check_ledger(project: Project) -> None:
    if not project.loaded.config.ledger.enabled:
        raise ConfigError("The page shows the ledger, which is disabled here. Remove `ledger.enabled = false`.")


def _changed_at(ledger_path: Path) -> tuple[int, ...]:
    """When the ledger or its write-ahead log changed."""
    files = (ledger_path, ledger_path.with_name("ledger.db-wal"))
    return tuple(file.stat().st_mtime_ns for file in files if file.exists())


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
