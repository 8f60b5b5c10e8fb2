"""Runs the real `holdfast` command in a process, with its own home, configuration and state."""

from __future__ import annotations

import codecs
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

TIMEOUT = 300
INTERPRETER = ("PYTHON", "LANG", "LC_", "_HOLDFAST_COMPLETE")
"""Prefixes of variables that the interpreter or the completion reads before holdfast does."""
_TAKE_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execvp(sys.argv[1], sys.argv[1:])"
)
Json = dict[str, Any]


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Json:
        return cast(Json, json.loads(self.out))

    @property
    def lines(self) -> list[Json]:
        return [cast(Json, json.loads(line)) for line in self.out.splitlines()]

    @property
    def sentence(self) -> str:
        """The only line on standard error of a failed command."""
        lines = self.err.strip().splitlines()
        assert len(lines) == 1, self.err
        return lines[0]


@dataclass(frozen=True)
class Cli:
    project: Path
    env: dict[str, str]

    @classmethod
    def in_folder(cls, folder: Path) -> Cli:
        kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "LC_ALL", "TMPDIR")}
        env = kept | {
            "HOME": str(folder / "home"),
            "XDG_STATE_HOME": str(folder / "state"),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "LOGNAME": "tester",
            "TERM": "xterm-256color",
        }
        project = folder / "project"
        project.mkdir()
        (project / ".git").mkdir()
        return cls(project, env)

    def configure(self, text: str) -> None:
        path = Path(self.env["XDG_CONFIG_HOME"], "holdfast", "config.toml")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def command(self, *args: str) -> list[str]:
        return [sys.executable, "-m", "holdfast", *args]

    def run(
        self, *args: str, stdin: str | bytes = b"", cwd: Path | None = None, env: Mapping[str, str] | None = None
    ) -> Done:
        """Run the command in a fork of the fork server, or in a new interpreter if a variable affects its start."""
        given = stdin.encode() if isinstance(stdin, str) else stdin
        variables = {**self.env, **(env or {})}
        if _needs_interpreter(variables):
            whole = subprocess.run(
                self.command(*args),
                input=given,
                capture_output=True,
                check=False,
                cwd=cwd or self.project,
                env=variables,
                timeout=TIMEOUT,
            )
            code, out, err = whole.returncode, whole.stdout, whole.stderr
        else:
            code, out, err = _forked({"args": args, "cwd": str(cwd or self.project), "env": variables}, given)
        return Done(code, out.decode("utf-8", "surrogateescape"), err.decode())

    def make_pending(self, *args: str) -> str:
        """Make a call that is left pending; return its id."""
        done = self.run("call", "--json", *args)
        assert done.code == 4, done
        return cast(str, done.json["call_id"])

    def forget_shown(self) -> None:
        """Forget which calls this user was shown."""
        shutil.rmtree(self.ledger_file.parent / "shown", ignore_errors=True)

    @property
    def ledger_file(self) -> Path:
        return Path(self.run("config", "path", "--json").json["ledger"])


@cache
def _forking(process: int) -> socket.socket:
    """Start the fork server, one for each test process; it ends with that process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    program = [sys.executable, str(Path(__file__).with_name("fork_server.py")), str(theirs.fileno())]
    _started.append(
        subprocess.Popen(program, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    )
    theirs.close()
    return ours


_started: list[subprocess.Popen[bytes]] = []


class Forked:
    """A command that runs in a fork, with the methods of `subprocess.Popen`."""

    def __init__(self, request: Json, streams: Sequence[int]) -> None:
        self._told, telling = socket.socketpair()
        socket.send_fds(_forking(os.getpid()), [json.dumps(request).encode()], [*streams, telling.fileno()])
        telling.close()
        self._told.settimeout(TIMEOUT)
        self._lines = self._told.makefile("r")
        self.pid = int(self._lines.readline())
        self._code: int | None = None

    def wait(self, timeout: float) -> int:
        if self._code is None:
            if not select.select([self._told], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(str(self.pid), timeout)
            self._code = os.waitstatus_to_exitcode(int(self._lines.readline()))
            self._lines.close()
            self._told.close()
        return self._code

    def poll(self) -> int | None:
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)


def start_command(
    cli: Cli,
    args: Sequence[str],
    streams: Sequence[int],
    *,
    terminal: bool = False,
    via: Sequence[str] = (),
    **env: str,
) -> Forked | subprocess.Popen[bytes]:
    """Start a command in a new session; with `terminal`, its input is its controlling terminal.

    `via` is an argv that starts the command line after it, such as a shell script that ends in `exec "$@"`.
    """
    variables = cli.env | env
    if not via and not _needs_interpreter(variables):
        request = {"args": args, "cwd": str(cli.project), "env": variables, "session": True, "terminal": terminal}
        return Forked(request, streams)
    command = [*([sys.executable, "-c", _TAKE_TERMINAL] if terminal else []), *via, *cli.command(*args)]
    stdin, stdout, stderr = streams
    return subprocess.Popen(
        command, stdin=stdin, stdout=stdout, stderr=stderr, cwd=cli.project, env=variables, start_new_session=True
    )


def utf8_decoder() -> codecs.IncrementalDecoder:
    """Return a decoder for output that is read in chunks, which may split a character."""
    return codecs.getincrementaldecoder("utf-8")("replace")


def _needs_interpreter(variables: Mapping[str, str]) -> bool:
    """Return whether a variable affects the interpreter's start, which a fork cannot repeat."""
    return any(name.startswith(INTERPRETER) and os.environ.get(name) != variables[name] for name in variables)


def _forked(request: Json, stdin: bytes) -> tuple[int, bytes, bytes]:
    """Return (exit code, stdout, stderr)."""
    pipes = [os.pipe() for _ in range(3)]
    theirs = [pipes[0][0], pipes[1][1], pipes[2][1]]
    process = Forked(request, theirs)
    for fd in theirs:
        os.close(fd)
    streams: dict[int, bytes] = {}

    def read(fd: int) -> None:
        with os.fdopen(fd, "rb") as file:
            streams[fd] = file.read()

    readers = [threading.Thread(target=read, args=(pipe[0],), daemon=True) for pipe in pipes[1:]]
    for reader in readers:
        reader.start()
    try:
        with os.fdopen(pipes[0][1], "wb") as file:
            file.write(stdin)
    except BrokenPipeError:
        pass  # it did not want it
    try:
        code = process.wait(TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    for reader in readers:
        reader.join(TIMEOUT)
        assert not reader.is_alive(), "something the command started holds its output open"
    return code, streams[pipes[1][0]], streams[pipes[2][0]]
