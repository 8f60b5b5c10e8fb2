"""Keeps one server connected while the runtime lives: starts it, lists its tools, follows changes, restarts it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import cached_property
from importlib.metadata import version
from math import ceil
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, cast

from msgspec import Struct

from holdfast.config.config import McpServer
from holdfast.contract.errors import HoldfastError
from holdfast.contract.event import ServerLogged
from holdfast.contract.json import Args, encode_json
from holdfast.contract.result import Result, fail
from holdfast.mcp.client.active_calls import ActiveCalls
from holdfast.mcp.client.definitions import source_of
from holdfast.mcp.client.tool_catalog import ToolCatalog
from holdfast.text.escape import escape

if TYPE_CHECKING:
    import mcp_types
    from mcp import Client

    from holdfast.mcp.client.http_transport import HttpTransport
    from holdfast.mcp.client.server_requests import ServerRequests
    from holdfast.runtime.context import RunContext
    from holdfast.runtime.runtime import Runtime
    from holdfast.store.pins import ToolPins


class Clock(Protocol):
    """The clock for restarts and back-off; tests replace it."""

    def now(self) -> float: ...
    async def sleep(self, seconds: float) -> None: ...


class LoopClock:
    def now(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class ServerSession:
    """One session with a server, from start to end."""

    def __init__(self) -> None:
        self.client: Client | None = None
        self.gone = False
        self.reason = ""
        self.stale = False
        self.wake = asyncio.Event()
        self.over = asyncio.Event()
        self.loop = asyncio.get_running_loop()

    def lose(self, reason: str) -> None:
        """End the session: nothing more will come from the server."""
        self.reason = self.reason or reason
        self.gone = True
        self.over.set()
        self.wake.set()

    def refresh(self) -> None:
        """Request a new list of tools."""
        self.stale = True
        self.wake.set()

    async def rest(self, clock: Clock, seconds: float) -> None:
        """Sleep, or return early when the server is gone."""
        waits = [asyncio.ensure_future(wait) for wait in (clock.sleep(seconds), self.over.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()


class StartTimer:
    """The start timeout. It is paused while a user logs in."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.limit: asyncio.Timeout | None = None
        self._left = 0.0
        self._waiting = 0

    @asynccontextmanager
    async def bounded(self) -> AsyncGenerator[None]:
        try:
            async with asyncio.timeout(self._seconds) as self.limit:
                yield
        except TimeoutError:
            raise HoldfastError(f"it was not ready after {self._seconds:g} s") from None
        finally:
            self.limit = None

    def hold(self, waiting: bool) -> None:
        """Pause the timeout while a user is waited for, and resume it."""
        limit, self._waiting = self.limit, self._waiting + (1 if waiting else -1)
        if limit is None:
            return
        now = asyncio.get_running_loop().time()
        with suppress(RuntimeError):  # the timeout has already fired
            if waiting and (when := limit.when()) is not None:
                self._left = max(0.0, when - now)
                limit.reschedule(None)
            elif not self._waiting:
                limit.reschedule(now + self._left)


FIRST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 30.0
HEALTHY: Final = 60.0
CALM: Final = 0.5
"""Seconds between two readings of the list, growing for a list that keeps changing (debounce with back-off)."""
_MAX_REASON: Final = 1_000


ServerState = Literal["starting", "ready", "away", "off"]


class ServerStatus(Struct, frozen=True, kw_only=True):
    """The state of a server."""

    name: str
    state: ServerState
    tools: int = 0
    """Number of registered tools."""
    changed: int = 0
    """Number of tools that wait for a review of their definition."""
    reason: str = ""
    """Why the server is not connected."""
    title: str = ""
    """The name the server gives itself."""
    version: str = ""
    protocol: str = ""


class Connection:
    def __init__(
        self,
        runtime: Runtime,
        name: str,
        server: McpServer,
        *,
        pins: ToolPins | None,
        state: Path | None,
        clock: Clock | None = None,
    ) -> None:
        self.name = name
        self.catalog = ToolCatalog(runtime, name, server, pins, self.call)
        self.first: asyncio.Future[str] | None = None
        """Resolved after the first attempt: empty, or why it failed."""
        self._runtime = runtime
        self._server = server
        self._state_folder = state
        self._clock = clock or LoopClock()
        self._start = StartTimer(server.start_timeout)
        self._active_calls = ActiveCalls()
        self._log = ServerLog(runtime, name, self._active_calls)
        self._state: ServerState = "off"
        self._session: ServerSession | None = None
        self._about: tuple[str, str, str] = ("", "", "")
        self._reason = ""
        self._again_at = 0.0
        self._http: HttpTransport | None = None
        self._legacy = False

    @property
    def status(self) -> ServerStatus:
        title, version, protocol = self._about
        return ServerStatus(
            name=self.name,
            state=self._state,
            tools=len(self.catalog),
            changed=self.catalog.changed,
            reason=self._reason,
            title=title,
            version=version,
            protocol=protocol,
        )

    # Living

    async def run(self) -> None:
        """Keep the server running until cancelled."""
        pause = FIRST_PAUSE
        try:
            while True:
                self._state = "starting"
                began = self._clock.now()
                reason = await self._live()
                self._state, self._reason = "away", reason
                if self._session is None:
                    if self._http is not None and self._http.falls_back():
                        continue
                    self.catalog.clear()
                    self._legacy = not self._legacy  # some servers fail when they are asked for their protocol version
                self._session = None
                if self._clock.now() - began >= HEALTHY:
                    pause = FIRST_PAUSE
                self._again_at = self._clock.now() + pause
                self._tell_first(reason)
                await self._clock.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
        finally:
            self._session = None
            self._state = "off"
            self.catalog.clear()

    async def _live(self) -> str:
        """Run one session and return why it ended. `self._session` stays None if it never listed its tools."""
        self._session = None
        session = ServerSession()
        await _load()
        try:
            async with AsyncExitStack() as stack:
                async with self._start.bounded():
                    client = session.client = await stack.enter_async_context(self._client(session))
                    client.session.validate_tool_result = _leave_to_the_runtime
                    self._about = _about(client)
                    await self.catalog.put(await self._list(client))
                self._session = session
                self._state, self._reason = "ready", ""
                self._tell_first("")
                stack.push_async_callback(_ended, asyncio.create_task(self._listen(session, client)))
                await self._follow(session, client)
        except Exception as error:
            session.reason = session.reason or self._words(error)
        finally:
            session.gone = True
        return self._told(session.reason) or "it ended"

    async def _follow(self, session: ServerSession, client: Client) -> None:
        """Read the list again whenever it changes, until the server is gone."""
        pause = CALM
        while True:
            await session.wake.wait()
            session.wake.clear()
            if session.gone:
                self._state, self._reason = "away", self._told(session.reason) or "it ended"
                self._again_at = self._clock.now() + FIRST_PAUSE
                return
            session.stale = False
            try:
                async with asyncio.timeout(self._server.start_timeout):
                    await self.catalog.put(await self._list(client))
            except Exception as error:
                why = self._told(self._words(error))
                self._runtime.events.warn(f"The tools of {self._named} could not be read again: {why}")
            await session.rest(self._clock, pause)
            pause = min(2 * pause, LONGEST_PAUSE) if session.stale else CALM

    async def _listen(self, session: ServerSession, client: Client) -> None:
        """Subscribe to list changes. Servers with the handshake protocol notify without a subscription."""
        from holdfast.mcp.client import sdk

        tools = client.server_capabilities.tools
        if client.protocol_version not in sdk.MODERN_PROTOCOL_VERSIONS or tools is None or not tools.list_changed:
            return
        pause = FIRST_PAUSE
        while not session.gone:
            began = self._clock.now()
            try:
                async with client.listen(tools_list_changed=True) as subscription:
                    if not subscription.honored.tools_list_changed:
                        return
                    session.refresh()  # catches changes from before the subscription
                    async for _ in subscription:
                        session.refresh()
            except Exception as error:
                self._runtime.events.log(f"{self._named} does not report changes: {self._told(self._words(error))}")
            if self._clock.now() - began >= HEALTHY:
                pause = FIRST_PAUSE
            await self._clock.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _list(self, client: Client) -> list[mcp_types.Tool]:
        from holdfast.mcp.client import sdk

        tools, complete = await sdk.list_tools(client)
        if not complete:
            told = f"its first {len(tools):,} tools are used"
            self._runtime.registry.warn(f"The list of {self._named} is too long: {told}.")
        return tools

    # Starting

    def _client(self, session: ServerSession) -> Client:
        from holdfast.mcp.client import sdk

        person = self._runtime.interfaces.can_elicit

        def sift(page: dict[str, Any]) -> None:
            protocol = "" if session.client is None else session.client.protocol_version
            for name, why in sdk.drop_malformed(page, protocol):
                self.catalog.leave_out(name, why)

        def lose(reason: str) -> None:
            session.lose(reason or ("" if self._http is None else self._http.fault))

        async def handle(message: Any) -> None:
            if getattr(message, "method", "") == "notifications/tools/list_changed":
                session.refresh()

        return sdk.Client(
            sdk.flow_controlled(self._transport(), lose, sift),
            mode="legacy" if self._legacy or self._server.protocol == "handshake" else "auto",
            client_info=sdk.Implementation(name="holdfast", version=version("holdfast")),
            elicitation_callback=self._requests.elicit if person else None,
            sampling_callback=self._requests.sample if person else None,
            list_roots_callback=self._requests.roots if self._runtime.workspace.root is not None else None,
            logging_callback=self._log.log,
            log_level="info",
            message_handler=handle,
            cache=None,
        )

    def _transport(self) -> Any:
        from holdfast.mcp.client import sdk

        if self._server.url is None:
            return sdk.StdioTransport(self._runtime, self.name, self._server)
        if self._http is None:
            self._http = sdk.HttpTransport(self._runtime, self.name, self._server, self._state_folder, self._start.hold)
        return self._http.transport()

    # Calling

    async def call(self, tool: str, args: Args, ctx: RunContext) -> Result:
        """Call a tool by its MCP name. Raises `OutcomeUnknown` if the outcome is not known."""
        session = self._session
        if session is None or session.gone or session.client is None:
            return fail(self._absence())
        if asyncio.get_running_loop() is not session.loop:
            return fail(f"MCP server '{self.name}' belongs to another event loop. The call was not sent.")
        from holdfast.mcp.client import sdk

        with self._active_calls.begin(ctx):
            return await sdk.call_tool(session.client, tool, args, ctx, self._runtime, self)

    def fate_of(self, client: Client) -> str:
        """Why nothing more will come from this client; empty if something may."""
        session = self._session
        if session is None or session.client is not client:
            return self._reason or "it ended"
        return (self._told(session.reason) or "it ended") if session.gone else ""

    def end_session(self, reason: str) -> None:
        """Start a new session: the server has forgotten this one."""
        if self._session is not None:
            self._session.lose(reason)

    def refresh(self) -> None:
        """List the tools again."""
        if self._session is not None:
            self._session.refresh()

    @cached_property
    def _requests(self) -> ServerRequests:
        from holdfast.mcp.client import sdk

        return sdk.ServerRequests(self._runtime, self.name, self._active_calls)

    async def visit(self, elicitations: Any) -> str:
        return await self._requests.visit(elicitations)

    def _absence(self) -> str:
        said = f"MCP server '{self.name}' is not running ({self._reason or 'it has just ended'})"
        if self._state != "away":
            return f"{said} and is being started. The call was not sent."
        left = max(0.0, self._again_at - self._clock.now())
        return f"{said} and is restarted in {ceil(left) or 1} s. The call was not sent."

    # Telling

    @property
    def _named(self) -> str:
        return f"the MCP server '{self.name}'"

    def _tell_first(self, reason: str) -> None:
        if self.first is not None and not self.first.done():
            self.first.set_result(reason)

    def _words(self, error: BaseException) -> str:
        while isinstance(error, BaseExceptionGroup):
            error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
        said = str(error) or type(error).__name__
        if self._http is None or isinstance(error, HoldfastError):
            return said
        said, why = said.partition("\n")[0], self._http.why
        return f"{said} ({why})" if why else said

    def _told(self, reason: str) -> str:
        opening = f"The MCP server '{self.name}' "
        said = f"it {reason.removeprefix(opening)}" if reason.startswith(opening) else reason
        return escape(self._runtime.redactor(said)[:_MAX_REASON].rstrip(".\n"))


def _about(client: Client) -> tuple[str, str, str]:
    info = client.server_info
    told: Callable[[str | None], str] = lambda text: escape((text or "")[:200])  # noqa: E731
    return told(info and (info.title or info.name)), told(info and info.version), client.protocol_version


async def _leave_to_the_runtime(name: str, result: mcp_types.CallToolResult) -> None:
    """Skip the SDK's output validation: the runtime validates against the reviewed definition."""


async def _load() -> None:
    """Import the SDK in a thread, because that is the slowest step of a start."""

    def work() -> None:
        from holdfast.mcp.client import sdk

        for name in (sdk.Client.__module__.partition(".")[0], "client"):
            # the SDK logs protocol errors of servers; they do not belong on the terminal
            logging.getLogger(name).addHandler(logging.NullHandler())

    await asyncio.to_thread(work)


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


MAX_BYTES: Final = 4 * 1024
PER_SECOND: Final = 100


class ServerLog:
    """Turns the log messages of a server into events: bounded, redacted, and attributed to their call."""

    def __init__(
        self, runtime: Runtime, name: str, active_calls: ActiveCalls, now: Callable[[], float] = monotonic
    ) -> None:
        self._runtime = runtime
        self._source = source_of(name)
        self._active_calls = active_calls
        self._now = now
        self._second = 0.0
        self._told = 0
        self._lost = 0

    async def log(self, params: mcp_types.LoggingMessageNotificationParams) -> None:
        if self._runtime.events.idle or not self._has_room():
            return
        said = params.data if isinstance(params.data, str) else encode_json(params.data).decode()
        text = f"{params.logger[:80]}: {said}" if params.logger else said
        self._tell(params.level, text)

    def _has_room(self) -> bool:
        now = self._now()
        if now - self._second >= 1.0:
            lost, self._lost = self._lost, 0
            self._second, self._told = now, 0
            if lost:
                self._told += 1
                self._tell("warning", f"{lost:,} log messages were dropped: more than {PER_SECOND} per second")
        self._told += 1
        if self._told <= PER_SECOND:
            return True
        self._lost += 1
        return False

    def _tell(self, level: str, text: str) -> None:
        active_call = self._active_calls.current()
        clean = self._runtime.redactor(text)
        raw = clean.encode("utf-8", "replace")
        if len(raw) > MAX_BYTES:
            clean = f"{raw[:MAX_BYTES].decode('utf-8', 'ignore')} […]"
        self._runtime.events.emit_from_anywhere(
            ServerLogged("" if active_call is None else active_call.ctx.call_id, self._source, level, clean)
        )
