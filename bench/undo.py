"""Measure the cost of undo for a command: `python undo.py [FILES] [--quick]` prints one JSON object.

One sandboxed command that changes ten files of a tree, unrecorded, recorded with an overlay, and recorded with a copy
(the first copies everything, the second only compares). The undo itself is measured, too.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Literal

from holdfast.config.config import SandboxConfig
from holdfast.contract.call import Call, Caller, Decision
from holdfast.contract.command import Command
from holdfast.contract.enums import Verdict
from holdfast.contract.result import Result
from holdfast.runtime.undo.recorder import Recorder
from holdfast.runtime.undo.restore import Undo
from holdfast.sandbox.launch import run_launch
from holdfast.sandbox.sandbox import Sandbox
from holdfast.store.ledger import Ledger

PER_FOLDER = 100
CHANGED = 10
SIZES = (1_000, 50_000)
Times = dict[str, float]


class Bench:
    def __init__(self, folder: Path, files: int) -> None:
        self.root = folder / "project"
        self.state = folder / "state"
        self.ledger = Ledger.open(self.state / "ledger.db")
        self._calls = 0
        for number in range(0, files, PER_FOLDER):
            here = self.root / f"d{number // PER_FOLDER}"
            here.mkdir(parents=True)
            for inside in range(min(PER_FOLDER, files - number)):
                (here / f"f{inside}").write_bytes(os.urandom(12).hex().encode() * 40)

    def sandbox(self, mechanism: Literal["overlay", "copy", "off"]) -> tuple[Sandbox, Recorder]:
        config = SandboxConfig(undo=mechanism, undo_max_files=200_000)
        sandbox = Sandbox(config, root=self.root, state=self.state, cwd=self.root)
        if mechanism == "overlay":
            assert sandbox.overlay_works(self.root), "No overlay can be made here."
        return sandbox, Recorder(self.ledger, sandbox, config, self.state)

    def command(self, mechanism: Literal["overlay", "copy", "off"]) -> tuple[float, str]:
        """Seconds of one command, from before it is recorded until it is taken over; and its call."""
        sandbox, recorder = self.sandbox(mechanism)
        sandbox.backend()
        script = f"for i in {' '.join(map(str, range(CHANGED)))}; do echo $$ >> d0/f$i; done"
        self._calls += 1
        call = Call(f"c{self._calls}", "shell.exec", "shell.exec", {}, Caller(), str(self.root))
        decision = Decision(Verdict.APPROVE, "urn:bench", "It is a benchmark.")
        self.ledger.begin_now(call, definition_digest="d", mutates=True, decision=decision)
        start = perf_counter()
        recording = recorder.begin(call.id)
        launch = sandbox.launch(
            Command(argv=("bash", "-c", script), cwd=self.root), overlays=recording.overlays if recording else ()
        )
        code, _, errors = run_launch(launch, 60)
        assert code == 0, errors
        if recording is not None:
            assert len(recording.finish().changes) == CHANGED
        taken = perf_counter() - start
        self.ledger.end_now(call.id, Result(True))
        return taken, call.id

    def undo(self, call_id: str) -> float:
        undo = Undo(self.ledger, [self.root], self.state)
        start = perf_counter()
        assert undo.run(undo.plan(call_id), by="bench").success
        return perf_counter() - start


def measure(files: int, rounds: int) -> Times:
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), files)
        bench.command("off")
        times: Times = {}
        undone: list[str] = []

        def best(name: str, once: Callable[[], float]) -> None:
            times[name] = min(times.get(name, float("inf")), once())

        def recorded(mechanism: Literal["overlay", "copy"]) -> float:
            taken, call_id = bench.command(mechanism)
            undone.append(call_id)
            return taken

        for _ in range(rounds):
            shutil.rmtree(bench.state / "undo", ignore_errors=True)
            best("plain", lambda: bench.command("off")[0])
            best("overlay", lambda: recorded("overlay"))
            best("overlay_undone", lambda: bench.undo(undone[-1]))
            best("copy_first", lambda: recorded("copy"))
            best("copy_again", lambda: recorded("copy"))
            best("copy_undone", lambda: bench.undo(undone[-1]))
        bench.ledger.close()
        return {f"{files}.{name}": taken for name, taken in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what undo costs a command.")
    parser.add_argument("files", type=int, nargs="?", help=f"files in the tree ({' and '.join(map(str, SIZES))})")
    parser.add_argument("--quick", action="store_true", help="one round")
    options = parser.parse_args()
    times: Times = {}
    for files in (options.files,) if options.files else SIZES:
        times |= measure(files, rounds=1 if options.quick else 3)
    for name, taken in times.items():
        plain = times[f"{name.partition('.')[0]}.plain"]
        print(f"{name:24} {taken * 1000:9.1f} ms  {taken / plain:7.2f} × plain", file=sys.stderr)
    print(json.dumps({"times": times}))


if __name__ == "__main__":
    main()
