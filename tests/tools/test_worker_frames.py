"""The child's side of a media process: frames, failures as replies, and limits that hold."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

LIMITS = """
import json, signal, sys
from holdfast.tools.worker_frames import limit_resources

limit_resources(300 * 1024**2, threads=False)
held = []
try:
    bytearray(400 * 1024**2)
except MemoryError:
    held.append("memory")
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
try:
    with open(sys.argv[1], "w") as file:
        file.write("x")
except OSError:
    held.append("files")
print(json.dumps(held))
"""
ECHO = """
import sys
from holdfast.tools.worker_frames import Pipe, Unreadable, allow_cpu_time

pipe = Pipe()
print("noise of a library")

def handle(request, data):
    if request["do"] == "spin":
        allow_cpu_time(0)
        while True:
            pass
    pipe.write({"progress": 0.5})
    if request["do"] == "refuse":
        raise Unreadable("it is odd")
    if request["do"] == "fail":
        raise ZeroDivisionError
    if request["do"] == "fill":
        raise MemoryError
    return {"size": len(data)}, data[::-1]

while (found := pipe.read_request(float(sys.argv[1]))) is not None:
    pipe.answer(handle, *found)
"""


def frame(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content


def exchange(*requests: str, idle: float = 60) -> tuple[int, list[bytes]]:
    """Send requests with data, and return the exit code and all frames of the replies."""
    sent = b"".join(frame(json.dumps({"do": word}).encode()) + frame(b"abc") for word in requests)
    argv = [sys.executable, "-c", ECHO, str(idle)]
    done = subprocess.run(argv, input=sent, capture_output=True, timeout=60, check=False)
    found, rest = list[bytes](), done.stdout
    while rest:
        size = int.from_bytes(rest[:4], "big")
        found.append(rest[4 : 4 + size])
        rest = rest[4 + size :]
    return done.returncode, found


def test_a_reply_has_progress_facts_and_data_and_nothing_that_a_library_printed() -> None:
    code, found = exchange("echo", "echo")
    assert code == 0
    assert found == [b'{"progress": 0.5}', b'{"size": 3}', b"cba"] * 2


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("refuse", "it is odd"),
        ("fail", "the parser failed (ZeroDivisionError)"),
        ("fill", "it needs too much memory"),
    ],
)
def test_a_failure_is_a_reply_and_the_process_goes_on(word: str, told: str) -> None:
    code, found = exchange(word, "echo")
    assert code == 0
    assert json.loads(found[1]) == {"error": told}
    assert found[-1] == b"cba"


@pytest.mark.spec("B11b")
def test_an_endless_loop_is_ended_by_the_kernel() -> None:
    code, found = exchange("spin")
    assert code < 0 and found == []


@pytest.mark.spec("B11e")
def test_a_process_without_requests_ends_itself() -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb"), os.fdopen(reading, "rb") as kept_open:
        done = subprocess.run(
            [sys.executable, "-c", ECHO, "0.05"], stdin=kept_open, capture_output=True, timeout=60, check=False
        )
    assert (done.returncode, done.stdout) == (0, b"")


@pytest.mark.spec("B11b")
def test_memory_and_files_are_limited(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", LIMITS, str(tmp_path / "file")]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout) == ["memory", "files"]
