"""The network relay is protected from the command it starts."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.sandbox import network_relay
from tests.sandbox.sandboxed_commands import bubblewraps, policy, run

_REACH = """
import os
for name in ("mem", "environ", "fd/0", "maps"):
    try:
        os.close(os.open(f"/proc/{os.getppid()}/{name}", os.O_RDWR if name == "mem" else os.O_RDONLY))
    except OSError as error:
        print(name, "refused")
    else:
        print(name, "reached")
"""


@pytest.mark.spec("N2")
def test_a_command_cannot_read_or_change_the_relay(tmp_path: Path) -> None:
    (tmp_path / "reach.py").write_text(_REACH)
    start = "import socket, sys; sys.argv[2] = str(socket.socketpair()[0].detach()); "
    load = f"import runpy; runpy.run_path({network_relay.__file__!r}, run_name='__main__')"
    argv = (sys.executable, "-I", "-S", "-c", start + load, "0", "-", sys.executable, "-I", "-S", "reach.py")
    done = run(bubblewraps()[0], policy(tmp_path), *argv, cwd=tmp_path)
    assert done.out.splitlines() == ["mem refused", "environ refused", "fd/0 refused", "maps refused"], done


@pytest.mark.spec("N2")
def test_the_relay_exits_with_the_code_of_its_command(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        argv = [
            sys.executable,
            "-I",
            "-S",
            network_relay.__file__,
            "0",
            str(theirs.fileno()),
            "/bin/sh",
            "-c",
            "exit 9",
        ]
        assert subprocess.run(argv, pass_fds=[theirs.fileno()], timeout=30, check=False, cwd=tmp_path).returncode == 9
