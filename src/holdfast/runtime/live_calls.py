"""Running calls of any process, for the daemon's live page: the end of their output, and requests to cancel them.

While a daemon serves a project, it touches the file `live/watched` in the project's state folder. Every runtime of the
project looks at it a few times a second. As long as it is recent, the runtime keeps the end of the output of its calls
in one file each, and stops a call for which a request to cancel lies beside it. Otherwise nothing is written.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from holdfast.contract.event import Event, Output, Progress
from holdfast.contract.json import encode_json
from holdfast.fs.replace import make_private_folder, read_private, write_private
from holdfast.runtime.events import Events

POLL_SECONDS: Final = 0.25
WATCH_SECONDS: Final = 30.0
"""A mark that no daemon has touched for this long is left over."""
MAX_CHARS: Final = 64 * 1024
_MAX_FILE: Final = 8 * MAX_CHARS
_FOLDER: Final = "live"
_MARK: Final = "watched"
_LOG: Final = logging.getLogger("holdfast")


class LiveOutput(Struct, frozen=True, kw_only=True):
    """What a running call has written."""

    call_id: str
    total: int = 0
    """Characters in all; `text` is the end of them."""
    text: str = ""
    progress: str = ""
    """The last progress message."""


class LiveCalls:
    """Publishes the running calls of one runtime while a daemon looks at them."""

    def __init__(
        self,
        state: Path,
        events: Events,
        running: Callable[[], Collection[str]],
        cancel: Callable[[str], bool],
    ) -> None:
        self._folder = state / _FOLDER
        self._events = events
        self._running = running
        self._cancel = cancel
        self._outputs: dict[str, LiveOutput] = {}
        self._unwritten: set[str] = set()
        self._stop_listening: Callable[[], None] | None = None

    async def run(self) -> None:
        try:
            while True:
                try:
                    self.poll()
                except Exception:  # a view: whatever fails here must disturb neither the calls nor the next look
                    _LOG.debug("live calls", exc_info=True)
                await asyncio.sleep(POLL_SECONDS)
        finally:
            self._leave()

    def poll(self) -> None:
        """Look for a daemon, write what is new, and stop the calls that are to be cancelled."""
        if not _is_watched(self._folder):
            self._leave()
            return
        if self._stop_listening is None:
            self._stop_listening = self._events.listen(self._hear)
        running = set(self._running())
        for call_id in running:
            if _request_file(self._folder, call_id).exists() and self._cancel(call_id):
                _request_file(self._folder, call_id).unlink(missing_ok=True)
        for call_id in [each for each in self._outputs if each not in running]:
            self._forget(call_id)
        for call_id in tuple(self._unwritten):
            write_private(_output_file(self._folder, call_id), encode_json(self._outputs[call_id]))
            self._unwritten.discard(call_id)

    def _hear(self, event: Event) -> None:
        if not isinstance(event, Output | Progress):
            return
        known = self._outputs.get(event.call_id) or LiveOutput(call_id=event.call_id)
        if isinstance(event, Output):
            text = (known.text + _encodable(event.text))[-MAX_CHARS:]
            known = msgspec.structs.replace(known, total=known.total + len(event.text), text=text)
        else:
            known = msgspec.structs.replace(known, progress=_encodable(event.message))
        self._outputs[event.call_id] = known
        self._unwritten.add(event.call_id)

    def _forget(self, call_id: str) -> None:
        self._outputs.pop(call_id, None)
        self._unwritten.discard(call_id)
        for path in (_output_file(self._folder, call_id), _request_file(self._folder, call_id)):
            with suppress(OSError):
                path.unlink(missing_ok=True)

    def _leave(self) -> None:
        if self._stop_listening is not None:
            self._stop_listening()
            self._stop_listening = None
        for call_id in tuple(self._outputs):
            self._forget(call_id)


def watch_live_calls(state: Path) -> None:
    """Ask every runtime of the project to publish its running calls. To be repeated within `WATCH_SECONDS`."""
    make_private_folder(state / _FOLDER)
    (state / _FOLDER / _MARK).touch(mode=0o600)


def unwatch_live_calls(state: Path) -> None:
    """End what `watch_live_calls` began. Another daemon that still watches asks again, and its requests stay."""
    folder = state / _FOLDER
    with suppress(OSError):
        for path in (folder / _MARK, *folder.glob("*.json")):
            path.unlink(missing_ok=True)
        folder.rmdir()


def _is_watched(folder: Path) -> bool:
    """Whether a daemon watches. One that was killed leaves its mark, but does not touch it any more."""
    try:
        return time.time() - (folder / _MARK).stat().st_mtime < WATCH_SECONDS
    except OSError:
        return False


def live_output(state: Path, call_id: str) -> LiveOutput | None:
    """What a running call has written, as far as its process has published it."""
    try:
        return msgspec.json.decode(read_private(_output_file(state / _FOLDER, call_id), _MAX_FILE), type=LiveOutput)
    except (OSError, ValueError):
        return None


def request_cancel(state: Path, call_id: str) -> None:
    """Ask the process that runs the call to stop it."""
    write_private(_request_file(state / _FOLDER, call_id), b"")


def _output_file(folder: Path, call_id: str) -> Path:
    return folder / f"{_name(call_id)}.json"


def _request_file(folder: Path, call_id: str) -> Path:
    return folder / f"{_name(call_id)}.cancel"


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _name(call_id: str) -> str:
    # Callers may choose ids, and an id is not a file name.
    return sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:32]
