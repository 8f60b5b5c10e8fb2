"""The program that is killed, and the one that sees what is left: forks a process for each durable step in turn, which
kills itself there, and another that goes on. Prints how many died."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from tests.agent.mortal import Life
from tests.agent.test_crashes import begin, check, finish

STRIDE = 4
"""Every step is tried in one process; here it is the kill itself that is tried."""


def forked(work: Callable[[], None]) -> int:
    """The exit code of another process that did the work, or minus the signal that ended it."""
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
        life = Life(step, lambda: os.kill(os.getpid(), signal.SIGKILL))
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
