"""What calls print while they run: the end of the output of each, in memory only.

The calls of this process are heard as they print. Those of other processes are read from what their runtimes publish
while the daemon watches (`runtime.live_calls`), a few times a second and only while somebody reads.

It is a view: the ledger has the whole output when the call ends. Each reader has its own position in the output of a
call. A reader that is too slow misses the oldest part and is told how much, and nothing is queued for it.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from functools import partial
from typing import Final

from holdfast.contract.event import Event, Finished, Output, Progress, Started
from holdfast.runtime.live_calls import live_output
from holdfast.runtime.runtime import Runtime
from holdfast.serve.projects import ServedProject
from holdfast.serve.watch import ChangeCounter
from holdfast.store.process_identity import this_process

TAIL_CHARS: Final = 64 * 1024
MAX_ENDED: Final = 32
"""Calls that have ended whose last output is kept for readers that are behind."""

CallKey = tuple[str, str]
"""The key of a project and the id of a call."""


class Tail:
    """The end of the output of one call."""

    def __init__(self) -> None:
        self.progress = ""
        self.state = ""
        """The final state, when it has ended."""
        self._chunks: deque[str] = deque()
        self._size = 0
        self.end = 0
        """How many characters were printed in all."""

    @property
    def start(self) -> int:
        """The position of the first character that is kept."""
        return self.end - self._size

    def add(self, text: str) -> None:
        kept = text[-TAIL_CHARS:]
        if len(kept) < len(text):
            self._chunks.clear()
            self._size = 0
        self._chunks.append(kept)
        self._size += len(kept)
        self.end += len(text)
        while self._size - len(self._chunks[0]) >= TAIL_CHARS:
            self._size -= len(self._chunks.popleft())

    def update(self, total: int, text: str) -> bool:
        """Take over what another process published: the end of `total` characters. Returns whether it is new."""
        new = total - self.end
        if new <= 0:
            return False
        self.end += max(0, new - len(text))  # what was printed and dropped before it was published
        if new > len(text):
            self._chunks.clear()
            self._size = 0
        self.add(text[-new:])
        return True

    def since(self, position: int) -> tuple[str, int]:
        """The text after a position, and how many characters of it are gone."""
        text = "".join(self._chunks)
        dropped = max(0, self.start - position)
        return text[max(0, position - self.start) :], dropped


class LiveOutput(ChangeCounter):
    """The tails of all running calls."""

    def __init__(self) -> None:
        super().__init__()
        self._running: dict[CallKey, Tail] = {}
        self._others: dict[CallKey, Tail] = {}
        """Of other processes."""
        self._ended: OrderedDict[CallKey, Tail] = OrderedDict()

    def follow(self, project: ServedProject) -> None:
        """Listen to every runtime that the project opens."""
        project.on_runtime(partial(self.listen, project.key))

    def listen(self, project: str, runtime: Runtime) -> None:
        runtime.events.listen(partial(self._heard, project))

    def tail(self, key: CallKey) -> Tail | None:
        return self._running.get(key) or self._others.get(key) or self._ended.get(key)

    def tails(self) -> dict[CallKey, Tail]:
        """The tails of the calls that run, and of those that ended last."""
        return {**self._ended, **self._others, **self._running}

    def read_others(self, project: ServedProject) -> None:
        """Read what other processes published about their running calls, and notice which of them have ended."""
        mine = this_process()
        found = {
            (project.key, record.call.id) for record, process in project.ledger.running() if process not in (mine, None)
        }
        for key in found:
            tail = self._others.setdefault(key, Tail())
            published = live_output(project.project.state, key[1])
            if published is None:
                continue
            changed = tail.update(published.total, published.text) or tail.progress != published.progress
            tail.progress = published.progress
            if changed:
                self.notify()
        for key in [key for key in self._others if key[0] == project.key and key not in found]:
            self._end(key, self._others.pop(key), project.ledger.record(key[1]).state)

    def _end(self, key: CallKey, tail: Tail, state: str) -> None:
        tail.state = state
        self._ended[key] = tail
        if len(self._ended) > MAX_ENDED:
            self._ended.popitem(last=False)
        self.notify()

    def _heard(self, project: str, event: Event) -> None:
        key = (project, event.call_id)
        match event:
            case Started():
                self._running[key] = Tail()
            case Output() if key in self._running:
                self._running[key].add(event.text)
            case Progress() if key in self._running:
                self._running[key].progress = event.message
            case Finished() if key in self._running:
                self._end(key, self._running.pop(key), event.state)
                return
            case _:
                return
        self.notify()
