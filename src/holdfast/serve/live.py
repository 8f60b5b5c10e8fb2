"""The calls that run now, in all projects and processes, with their output."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import Final

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from holdfast.contract.call import ProcessIdentity
from holdfast.contract.errors import HoldfastError
from holdfast.serve import html
from holdfast.serve.events import HEARTBEAT_SECONDS, STREAM_SECONDS, event
from holdfast.serve.history_query import HistoryRow
from holdfast.serve.inbox import call_address
from holdfast.serve.live_output import CallKey, LiveOutput, Tail
from holdfast.serve.projects import Projects
from holdfast.serve.requests import person_of, still_allowed, stream_reply
from holdfast.store.process_identity import this_process
from holdfast.text.escape import escape, escape_block

POLL_SECONDS: Final = 0.25
"""How often the output of other processes is read."""
BATCH_SECONDS: Final = 0.05
"""Output is collected for this long, so that a call that prints much makes few events."""


class RunningCall(HistoryRow, frozen=True, kw_only=True):
    """A call that runs, as the page shows it."""

    process: ProcessIdentity | None
    tail: Tail | None

    @property
    def runs_elsewhere(self) -> bool:
        """Whether another process runs it."""
        return self.process != this_process()

    @property
    def since(self) -> float:
        return self.record.began_at or self.record.received_at

    @property
    def cancel_address(self) -> str:
        return f"{call_address(self.project.key, self.record.call.id)}/cancel"

    @property
    def output(self) -> str:
        """The end of its output, escaped."""
        return "" if self.tail is None else escape_block(self.tail.since(0)[0])

    @property
    def progress(self) -> str:
        return "" if self.tail is None else escape(self.tail.progress)


class OutputEvent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The data of an event `output`."""

    project: str
    call_id: str
    text: str = ""
    """What was printed since the last event, escaped."""
    dropped: int = 0
    """Characters before it that this reader missed."""
    reset: bool = False
    """Whether the text replaces what the reader has: the first event of a call on this stream."""
    progress: str = ""
    state: str = ""
    """The final state of a call that has ended."""


class Live:
    """The page of running calls, and the stream of their output."""

    def __init__(self, projects: Projects) -> None:
        self._projects = projects
        self.output = LiveOutput()
        self._readers = 0
        self._following: asyncio.Task[None] | None = None
        projects.on_added(self.output.follow)
        projects.on_stop(self.output.stop)

    def routes(self) -> list[Route]:
        return [Route("/live", self.page), Route("/live/events", self.events)]

    async def _follow_others(self) -> None:
        while True:
            self._read_others()
            await asyncio.sleep(POLL_SECONDS)

    def _read_others(self) -> None:
        for project in self._projects:
            with suppress(HoldfastError):  # a damaged ledger is reported where it is shown
                self.output.read_others(project)

    async def page(self, request: Request) -> Response:
        self._read_others()
        calls = await asyncio.to_thread(self._running)
        return html.page(
            request,
            "live.html",
            calls=calls,
            several=len(list(self._projects)) > 1,
            may_answer=person_of(request).may_answer,
        )

    async def events(self, request: Request) -> Response:
        body = self._read(output_stream(self.output, still_allowed(request)))
        return stream_reply(request, body)

    async def _read(self, stream: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
        """The stream. While there is a reader, the output of other processes is followed too."""
        self._readers += 1
        if self._following is None:
            self._following = asyncio.create_task(self._follow_others())
        try:
            async for block in stream:
                yield block
        finally:
            self._readers -= 1
            if self._readers == 0:
                self._following.cancel()
                self._following = None

    def _running(self) -> list[RunningCall]:
        found = [
            RunningCall(
                project=project,
                record=record,
                process=process,
                tail=self.output.tail((project.key, record.call.id)),
            )
            for project in self._projects
            for record, process in project.ledger.running()
        ]
        return sorted(found, key=lambda call: call.since)


async def output_stream(
    output: LiveOutput, allowed: Callable[[], bool], *, seconds: float = STREAM_SECONDS
) -> AsyncGenerator[bytes]:
    """Yield the output of all running calls as it appears, until the reader is not `allowed` to read it."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    told: dict[CallKey, tuple[int, str, str]] = {}
    """The position, the progress and the state that the reader knows."""
    yield b"retry: 1000\n\n"
    beat = loop.time()
    while loop.time() < end and not output.stopped and allowed():
        count = output.count
        tails = output.tails()
        for key, tail in tails.items():
            known = told.get(key)
            if known is None and tail.state:
                continue  # it ended before this reader came
            now = (tail.end, tail.progress, tail.state)
            if known == now:
                continue
            text, dropped = tail.since(0 if known is None else known[0])
            told[key] = now
            data = OutputEvent(
                project=key[0],
                call_id=key[1],
                text=escape_block(text),
                dropped=dropped,
                reset=known is None,
                progress=escape(tail.progress),
                state=tail.state,
            )
            yield event("output", data, str(count))
            beat = loop.time()
        told = {key: known for key, known in told.items() if key in tails}
        if loop.time() - beat >= HEARTBEAT_SECONDS:
            yield b": still here\n\n"
            beat = loop.time()
        await asyncio.sleep(BATCH_SECONDS)
        await output.wait(count, min(HEARTBEAT_SECONDS, max(0.0, end - loop.time())))
