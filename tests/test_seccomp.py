"""The seccomp filter, as a command sees it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from holdfast import seccomp
from holdfast.sandbox.landlock import Landlock
from holdfast.sandbox.launch import Backend
from tests.sandbox.sandboxed_commands import bubblewraps, policy, run

backends: list[Backend] = [*bubblewraps()[:1], Landlock()]
each = pytest.mark.parametrize("backend", backends, ids=lambda one: one.name)

_PAIRS = """
import socket
for kind in range(16):
    for flags in (0, socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK):
        try:
            one, other = socket.socketpair(socket.AF_UNIX, kind | flags)
        except PermissionError:
            continue
        print(kind, flags > 0)
"""


@each
@pytest.mark.spec("N1")
def test_only_connected_socket_pairs_can_be_created(tmp_path: Path, backend: Backend) -> None:
    done = run(backend, policy(tmp_path), sys.executable, "-I", "-S", "-c", _PAIRS, cwd=tmp_path)
    assert done.out.splitlines() == ["1 False", "1 True", "5 False", "5 True"], done


_MODES = """
import os
def attempt(name, act):
    try:
        act()
    except PermissionError:
        return
    print(name)
open("f", "w").close()
for mode in (0o755, 0o1777, 0o4755, 0o2755, 0o6711):
    attempt(f"chmod {mode:o}", lambda: os.chmod("f", mode))
    attempt(f"open {mode:o}", lambda: os.open(f"o{mode:o}", os.O_CREAT | os.O_WRONLY, mode))
    attempt(f"reopen {mode:o}", lambda: os.open("f", os.O_RDONLY, mode))
    attempt(f"mkdir {mode:o}", lambda: os.mkdir(f"d{mode:o}", mode & 0o777))
"""


@each
@pytest.mark.spec("N1")
def test_no_file_gets_set_user_id_or_set_group_id_bits(tmp_path: Path, backend: Backend) -> None:
    done = run(backend, policy(tmp_path), sys.executable, "-I", "-S", "-c", _MODES, cwd=tmp_path)
    everywhere = {f"{what} {mode}" for what in ("reopen", "mkdir") for mode in ("755", "1777", "4755", "2755", "6711")}
    assert set(done.out.splitlines()) == everywhere | {"chmod 755", "chmod 1777", "open 755", "open 1777"}, done
    assert not [path for path in tmp_path.iterdir() if path.stat().st_mode & 0o6000]


@pytest.mark.spec("N1")
@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize("sockets", [True, False])
def test_every_jump_lands_in_the_filter_and_the_default_is_allow(machine: str, sockets: bool) -> None:
    import struct

    code = seccomp.filter_program(sockets=sockets, machine=machine)
    steps = list(struct.iter_unpack("=HBBI", code))
    assert all(index + 1 + max(yes, no) < len(steps) for index, (_, yes, no, _) in enumerate(steps[:-1]))
    assert steps[-1] == (0x06, 0, 0, 0x7FFF0000)


@pytest.mark.spec("N1")
@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize("sockets", [True, False])
def test_every_jump_of_the_filter_stays_in_bounds(machine: str, sockets: bool) -> None:
    import struct

    program = seccomp.filter_program(sockets=sockets, machine=machine)
    steps = list(struct.iter_unpack("=HBBI", program))
    for index, (code, yes, no, _value) in enumerate(steps):
        if code & 0x07 == 0x05:
            assert index + 1 + max(yes, no) < len(steps)
    assert steps[-1] == (0x06, 0, 0, 0x7FFF0000)
    assert len(steps) < 4096
