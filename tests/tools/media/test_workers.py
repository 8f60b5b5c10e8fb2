"""Media processes are killed when they take too long or their call ends, and start anew when they are gone."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast import seccomp
from holdfast.privileges import landlock_abi
from holdfast.tools import worker_process
from holdfast.tools.media import workers
from holdfast.tools.media.workers import Recognition, decode
from holdfast.tools.worker_process import WorkerFailed
from tests.runtime.support import run
from tests.tools.media.samples import image


def script(code: str, *words: str) -> Callable[..., tuple[str, ...]]:
    """A function that returns the argv of this program, in place of the decoder's."""

    def argv(*_: str) -> tuple[str, ...]:
        return (sys.executable, "-c", code, *words)

    return argv


asleep = script("import time; time.sleep(600)")
"""A process that does nothing."""


async def ask(recognition: Recognition, seconds: float = 60) -> str:
    """Ask for speech with a model that does not exist, which needs no model: the reason why it fails."""
    with pytest.raises(WorkerFailed) as failed:
        await recognition.ask({"language": None}, b"", seconds=seconds, on_progress=lambda share: None)
    return str(failed.value)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - nothing else tells that a process has started or ended
        await asyncio.sleep(0.01)


async def gone(pid: int) -> None:
    """Wait until a child of this process has ended."""
    await until(lambda: not Path(f"/proc/{pid}").exists())


@pytest.mark.spec("B11e")
def test_a_decoder_that_hangs_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "holdfast_module", asleep)
    with pytest.raises(WorkerFailed, match="it takes too long"):
        run(decode({}, image(), max_reply=0, seconds=0.2))


@pytest.mark.spec("B11e")
def test_a_cancelled_call_ends_its_decoder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "holdfast_module", asleep)
    started: list[int] = []
    start = worker_process.start

    def recorded(*args: object, **options: object) -> object:
        child = start(*args, **options)  # pyright: ignore[reportArgumentType]
        started.append(child.pid)
        return child

    monkeypatch.setattr(worker_process, "start", recorded)

    async def main() -> None:
        task = asyncio.create_task(decode({}, image(), max_reply=0, seconds=600))
        await until(lambda: bool(started))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await gone(started[0])

    run(main())


ATTEMPTS = """
import os, socket, subprocess, sys, threading

def succeeds(action):
    try:
        action()
    except OSError:
        return False
    return True

def attempts(*_):
    file = sys.argv[-1]
    actions = {
        "read": lambda: open(file).close(),
        "write": lambda: open(file, "r+").close(),
        "create": lambda: open(file + ".new", "w").close(),
        "delete": lambda: os.unlink(file),
        "run": lambda: os.posix_spawn("/bin/true", ["true"], {}),
        "tcp": lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM),
        "udp": lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM),
        "unix": lambda: socket.socket(socket.AF_UNIX),
    }
    return {"done": [name for name, action in actions.items() if succeeds(action)]}
"""
DECODER = """
from holdfast.tools.media import decoder_process
decoder_process.decode_image = decoder_process.decode_audio = lambda *_: (attempts(), b"")
decoder_process.main()
"""
RECOGNITION = """
from holdfast.tools.media import recognition_process

def in_a_thread(*_):
    found = []
    thread = threading.Thread(target=lambda: found.append(attempts()))
    thread.start()
    thread.join()
    return found[0]

recognition_process.load_reader = lambda: in_a_thread
recognition_process.main()
"""
needs_landlock = pytest.mark.skipif(
    not landlock_abi() or not seccomp.supported(), reason="this machine has no Landlock, or no seccomp filter"
)


@pytest.mark.spec("B11k")
@needs_landlock
@pytest.mark.parametrize("kind", ["image", "audio"])
def test_a_decoder_has_no_files_no_programs_and_no_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    file = tmp_path / "file"
    file.write_text("secret")
    monkeypatch.setattr(workers, "holdfast_module", script(ATTEMPTS + DECODER, str(file)))
    found, _ = run(decode({"do": kind}, b"", max_reply=0, seconds=60))
    assert found == {"done": []}


@pytest.mark.spec("B11k")
@needs_landlock
def test_recognition_can_read_its_models_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.write_text("weights")
    monkeypatch.setattr(workers, "holdfast_module", script(ATTEMPTS + RECOGNITION, "text", "", "60", str(file)))
    recognition = Recognition("text")
    found = run(recognition.ask({}, b"", seconds=60, on_progress=lambda share: None))
    recognition.close()
    assert found == {"done": ["read"]}


def test_a_reply_that_is_too_large_is_refused() -> None:
    request = {
        "do": "image", "mime_type": "image/png", "want": "pixels", "max_pixels": 10**6, "max_side": 64,
        "location": False,
    }  # fmt: skip
    with pytest.raises(WorkerFailed, match="too long"):
        run(decode(request, image(), max_reply=10, seconds=60))


@pytest.mark.spec("B11e")
def test_a_recognition_process_stays_for_the_next_request_and_ends_when_it_is_idle(tmp_path: Path) -> None:
    async def main() -> None:
        recognition = Recognition("speech", tmp_path, idle_seconds=600)
        assert "lacks config.json and model.bin and tokenizer.json" in await ask(recognition)
        first = recognition.pid
        assert first is not None
        await ask(recognition)
        assert recognition.pid == first
        recognition.close()
        assert recognition.pid is None
        short = Recognition("speech", tmp_path, idle_seconds=0.05)
        await ask(short)
        await until(lambda: short.pid is None)
        assert "lacks" in await ask(short)
        short.close()

    run(main())


@pytest.mark.spec("B11e")
def test_a_recognition_process_that_died_is_replaced(tmp_path: Path) -> None:
    async def main() -> None:
        recognition = Recognition("speech", tmp_path)
        await ask(recognition)
        first = recognition.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        assert "lacks" in await ask(recognition)
        assert recognition.pid not in (None, first)
        recognition.close()

    run(main())


@pytest.mark.spec("B11e")
def test_a_recognition_that_hangs_is_killed_and_the_next_one_works(tmp_path: Path) -> None:
    async def main() -> None:
        recognition = Recognition("speech", tmp_path)
        await ask(recognition)
        first = recognition.pid
        assert first is not None
        os.kill(first, signal.SIGSTOP)
        assert await ask(recognition, seconds=0.2) == "it takes too long"
        await gone(first)
        assert "lacks" in await ask(recognition)
        recognition.close()

    run(main())


SLOW = """
import time
from holdfast.tools.worker_frames import Pipe

pipe = Pipe()
pipe.read_request()
pipe.write({}, b"")
pipe.read_request()
pipe.write({"progress": 0.5})
time.sleep(600)
"""


@pytest.mark.spec("B11e")
def test_a_recognition_that_is_closed_during_a_request_starts_no_other_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "holdfast_module", script(SLOW))

    async def main() -> None:
        recognition = Recognition("text")
        assert await recognition.ask({}, b"", seconds=60, on_progress=lambda share: None) == {}
        with pytest.raises(WorkerFailed, match="its runtime was closed"):
            await recognition.ask({}, b"", seconds=60, on_progress=lambda share: recognition.close())
        assert recognition.pid is None
        assert await ask(recognition) == "its runtime was closed"
        assert recognition.pid is None

    run(main())


def test_calls_take_turns_and_one_that_waits_too_long_says_so(tmp_path: Path) -> None:
    async def main() -> None:
        recognition = Recognition("speech", tmp_path)
        await ask(recognition)
        assert recognition.pid is not None
        os.kill(recognition.pid, signal.SIGSTOP)
        first = asyncio.create_task(ask(recognition, seconds=600))
        await asyncio.sleep(0)
        assert await ask(recognition, seconds=0.2) == "another call uses the model. Try again later"
        assert recognition.pid is not None
        os.kill(recognition.pid, signal.SIGCONT)
        assert "lacks" in await first
        recognition.close()

    run(main())
