"""Process identity: PID reuse, zombies, containers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.contract.call import ProcessIdentity
from holdfast.store.process_identity import is_alive, this_process


@pytest.mark.spec("X10")
def test_a_reused_pid_is_another_process() -> None:
    me = this_process()
    boot, container, ticks = me.started.split(":")
    assert is_alive(me)
    assert not is_alive(ProcessIdentity(me.pid, f"{boot}:{container}:{int(ticks) - 1}"))
    assert not is_alive(ProcessIdentity(me.pid, f"another-boot:{container}:{ticks}"))


@pytest.mark.spec("X10")
def test_a_zombie_counts_as_dead() -> None:
    script = (
        "from holdfast.store.process_identity import this_process; print(this_process().started, flush=True); input()"
    )
    child = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with child:
        assert child.stdout is not None
        owner = ProcessIdentity(child.pid, child.stdout.readline().strip())
        assert is_alive(owner)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert Path(f"/proc/{child.pid}/stat").exists()
        assert not is_alive(owner)


@pytest.mark.spec("X10")
def test_a_process_of_another_container_counts_as_alive() -> None:
    me = this_process()
    boot, _, ticks = me.started.split(":")
    assert is_alive(ProcessIdentity(2**22 + 1, f"{boot}:another-container:{ticks}"))
    assert is_alive(ProcessIdentity(2**22 + 1, ""))
