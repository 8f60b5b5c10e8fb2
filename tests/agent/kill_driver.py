"""Kills a process with SIGKILL at each durable step in turn, and lets another one continue. Prints the kill count."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from tests.agent.crashing_process import CrashPoint
from tests.agent.test_loop_crashes import begin, check, finish

STRIDE = 4
"""Every step is tried in one process; here it is the kill itself that is tried."""


def forked(work: Callable[[], None]) -> int:
    """The exit code of a forked process that did the work, or minus the signal that killed it."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main(folder: Path) -> None:
    killed = 0
    step = 1
    while True:
        world = begin(folder / str(step))
        life = CrashPoint(step, lambda: os.kill(os.getpid(), signal.SIGKILL))
        code = forked(lambda world=world, life=life: None if finish(world, life) else sys.exit(2))
        if code == 0:
            break
        assert code == -signal.SIGKILL, code
        killed += 1
        assert forked(lambda world=world: None if finish(world) else sys.exit(2)) == 0, step
        check(world, step)
        step += STRIDE
    sys.stdout.write(str(killed))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
