"""A program that has imported all of holdfast and forks for each command line it receives.

A command takes a fifth of a second to import its modules, and a test run has more than a thousand commands. Tests of
imports and of variables that affect the interpreter start a new interpreter instead.
"""

from __future__ import annotations

import faulthandler
import fcntl
import importlib
import json
import os
import pkgutil
import random
import signal
import socket
import sys
import termios
from typing import Any

import holdfast

HEAVY = ("asyncio", "click", "httpx", "mcp", "mcp.client.session", "mcp.client.stdio", "sqlite3", "watchdog.observers")
"""Packages that commands import lazily."""
MAX_REQUEST = 1 << 20


def import_everything() -> None:
    names = [module.name for module in pkgutil.walk_packages(holdfast.__path__, "holdfast.")]
    for name in (*HEAVY, *names):
        try:
            importlib.import_module(name)
        except ImportError:
            continue  # an extra that is not installed


def try_sandboxes() -> None:
    """Run the escape tests once, which every command without state would run itself."""
    from holdfast.sandbox.limits import Limits
    from holdfast.sandbox.policy import SandboxPolicy
    from holdfast.sandbox.probe import BackendSelector

    nothing = SandboxPolicy(
        root=None, writable=(), read_deny=(), installation=(), network="off", environment=(), limits=Limits()
    )
    probing = BackendSelector("auto", nothing, None)
    backend = probing.select()
    if backend is not None:
        probing.run_escape_tests(backend)


def become_command(request: dict[str, Any], streams: list[int]) -> None:
    """Run the command in this process; never returns."""
    from holdfast import __main__ as program

    code = 1
    try:
        if request.get("session"):
            os.setsid()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        if request.get("terminal"):
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # Ctrl-C reaches only the foreground group of a controlling terminal
        os.closerange(3, 256)
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["env"])
        sys.argv[:] = [str(program.__file__), *request["args"]]
        random.seed()
        faulthandler.enable()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        code = program.main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def serve(control: socket.socket) -> None:
    """Fork for each request: a JSON object, with the three streams and a socket for the pid and the wait status."""
    while True:
        data, fds, _, _ = socket.recv_fds(control, MAX_REQUEST, 4)
        if not data:
            return
        if os.fork() == 0:
            control.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            command = os.fork()
            if command == 0:
                become_command(json.loads(data), fds[:3])
            for fd in fds[:3]:
                os.close(fd)
            os.write(fds[3], f"{command}\n".encode())
            os.write(fds[3], f"{os.waitpid(command, 0)[1]}\n".encode())
            os._exit(0)
        for fd in fds:
            os.close(fd)


if __name__ == "__main__":
    del sys.path[0]  # the folder of the tests, which is not on the path of a command
    import_everything()
    try_sandboxes()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the intermediate forks are reaped automatically
    serve(socket.socket(fileno=int(sys.argv[1])))
