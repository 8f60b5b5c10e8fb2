"""Kills a process at every step, or every few, of applying a command's changes, and of undoing them.

Usage: kill_driver.py FOLDER MECHANISM STRIDE. For each step a child is forked that counts its changes to the
tree and kills itself right before, or right after, one of them. The tree is compared with the states before and after.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from holdfast.runtime.undo.tree import Tree
from tests.runtime.undo.support import Mechanism, RecordedProject, Snapshot, snapshot

STEPS = ("move_in", "copy_in", "remove", "make_folder", "make_link", "make_fifo", "set_mode", "set_times")
SCRIPT = """
echo more >> a; rm b; chmod 600 c; touch -d 2001-01-01 d; ln -sfn there link; chmod 755 shut
mkdir -p new/deep; echo x > new/deep/x; chmod 500 new/deep
rm -r tree; echo was-a-folder > tree; rm flat; mkdir flat; echo in > flat/in
"""


class KillAtStep:
    """Counts steps and kills the process at one of them."""

    def __init__(self, at: int, *, after: bool) -> None:
        self.left = at
        self.after = after

    def arm(self) -> None:
        for name in STEPS:
            setattr(Tree, name, self._wrapped(cast(Callable[..., Any], getattr(Tree, name))))

    def _wrapped(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any, **options: Any) -> Any:
            self.left -= 1
            if self.left == 0 and not self.after:
                os.kill(os.getpid(), signal.SIGKILL)
            outcome = real(*args, **options)
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return outcome

        return step


def fill(root: Path) -> None:
    for name in "abcd":
        (root / name).write_text(f"{name}\n")
    (root / "flat").write_text("was a file\n")
    (root / "link").symlink_to("here")
    (root / "tree" / "inner").mkdir(parents=True)
    (root / "tree" / "inner" / "leaf").write_text("leaf\n")
    (root / "shut").mkdir(mode=0o555)


def in_child(work: Callable[[], object]) -> bool:
    """Run a function in a forked child; returns whether it was not killed."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException as error:
            sys.stderr.write(f"{error!r}\n")
            os._exit(1)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, status
    return not os.WIFSIGNALED(status)


def halves(now: Snapshot, before: Snapshot, after: Snapshot) -> list[str]:
    """Paths that are neither as before nor as after; between a folder and a file, nothing is allowed, too."""
    found: list[str] = []
    for path in now.keys() | before.keys() | after.keys():
        states = [before.get(path), after.get(path)]
        kinds = {None if state is None else state[0] for state in states}
        allowed = [*states, *([None] if "directory" in kinds else [])]
        loose = [(kind, mode | 0o700, content) for kind, mode, content in filter(None, states) if kind == "directory"]
        if now.get(path) not in allowed and now.get(path) not in loose:
            found.append(path)
    return found


def kill_once(folder: Path, mechanism: Mechanism, at: int, *, after: bool, what: str) -> bool:
    """Kill one process at this step; returns whether it got that far."""
    folder.mkdir()
    project = RecordedProject(folder, mechanism)
    fill(project.root)
    before = snapshot(project.root)
    project.ledger.close()

    def command() -> None:
        mine = RecordedProject(folder, mechanism)
        KillAtStep(at if what == "command" else 0, after=after).arm()
        mine.shell(SCRIPT)
        mine.ledger.close()

    finished = in_child(command)
    then = reference_after(folder.parent, mechanism) if what == "command" else snapshot(project.root)
    if what == "undo":

        def undo() -> None:
            mine = RecordedProject(folder, mechanism)
            KillAtStep(at, after=after).arm()
            mine.undo_call("c1")
            mine.ledger.close()

        finished = in_child(undo)
    check(folder, mechanism, before, then)
    return not finished


def check(folder: Path, mechanism: Mechanism, before: Snapshot, after: Snapshot) -> None:
    project = RecordedProject(folder, mechanism)
    project.ledger.recover()
    verified = project.ledger.verify()
    assert verified.ok, verified
    now = snapshot(project.root)
    assert not (half := halves(now, before, after)), (half, now)
    plan = project.undo.plan("c1")
    assert not plan.refused, [(item.path, item.why) for item in plan.refused]
    if plan.to_put_back:
        result = project.undo_call("c1")
        assert result.success, result.error
    assert snapshot(project.root) == before
    recording = project.recorder.begin("last")
    assert recording is not None
    recording.discard()
    assert list((project.state / "undo" / "runs").iterdir()) == []
    assert project.ledger.verify().ok
    project.ledger.close()


_after: dict[str, Snapshot] = {}


def reference_after(folder: Path, mechanism: Mechanism) -> Snapshot:
    """The tree after the command, without a kill."""
    if mechanism not in _after:
        (folder / "reference").mkdir()
        project = RecordedProject(folder / "reference", mechanism)
        fill(project.root)
        project.shell(SCRIPT)
        project.ledger.close()
        _after[mechanism] = snapshot(project.root)
    return _after[mechanism]


def main(folder: Path, mechanism: Mechanism, stride: int) -> dict[str, int]:
    kills = {"command": 0, "undo": 0}
    for what in kills if mechanism == "overlay" else ("undo",):
        for number in range(1, 100, stride):
            after = bool(number % 2)
            if not kill_once(folder / f"{what}-{number}", mechanism, (number + 1) // 2, after=after, what=what):
                break
            kills[what] += 1
    return kills


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(Path(sys.argv[1]), cast(Mechanism, sys.argv[2]), int(sys.argv[3]))))
