"""Run a launch to its end, synchronously: for the probe, the battery and `enter`. Tools go through the warden."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from holdfast import helper_process
from holdfast.sandbox import confine
from holdfast.sandbox.launch import Launch


def run_launch(launch: Launch, timeout: float, stdin: bytes = b"") -> tuple[int, bytes, bytes]:
    """(exit code, stdout, stderr); -9 when the time was up. Cleans up either way."""
    try:
        with started(launch, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            try:
                out, err = process.communicate(stdin, timeout=timeout)
            except subprocess.TimeoutExpired:
                stop(process)
                out, err = process.communicate()
                return -signal.SIGKILL, out, err
            return process.returncode, out, err
    finally:
        finish(launch)


@contextmanager
def started(
    launch: Launch, *, stdin: int | None = None, stdout: int | None = None, stderr: int | None = None
) -> Generator[subprocess.Popen[bytes]]:
    """The process of a launch. A small parent applies what the launch says and, where the backend has no process
    namespace of its own, ends whatever the command leaves behind."""
    plain = msgspec.to_builtins(
        {
            "argv": launch.argv,
            "cwd": launch.cwd,
            "env": launch.env,
            "rlimits": launch.rlimits,
            "cgroups": launch.cgroups,
            "landlock": launch.landlock,
            "landlock_net": launch.landlock_net,
            "seccomp": launch.seccomp.hex(),
            "files": [content.hex() for content in launch.files],
            "opened": launch.opened.fds,
            "own_pids": launch.own_pids,
        }
    )
    told = confine.open_file(msgspec.json.encode(plain))
    argv = helper_process.isolated_python(str(Path(__file__).with_name("starter.py")), str(told))
    try:
        process = helper_process.start(
            argv, pass_fds=[told, *launch.opened.fds], stdin=stdin, stdout=stdout, stderr=stderr
        )
    finally:
        os.close(told)
        launch.opened()
    try:
        yield process
    finally:
        stop(process)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def stop(process: subprocess.Popen[bytes]) -> None:
    """End it and everything it started: the starter does so on SIGTERM, whatever its children do."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def finish(launch: Launch) -> tuple[str, ...]:
    """Do what a launch leaves to be done; the protected paths that had to be put right."""
    found: list[str] = []
    failed: BaseException | None = None
    for step in launch.cleanup:
        try:
            step()
        except BaseException as error:  # the other steps must be done all the same
            failed = failed or error
        found += getattr(step, "violations", ())
    if failed is not None:
        raise failed
    return tuple(found)


def told(launch: Launch) -> tuple[str, ...]:
    """What a person should know of how a launch was finished: what was taken away, and where it is kept."""
    return tuple(note for step in launch.cleanup for note in getattr(step, "notes", ()))
