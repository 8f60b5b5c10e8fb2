"""Measure `shell.exec` against a bare subprocess: `python shell.py [--quick]` prints one JSON object."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import sys
import tempfile
from pathlib import Path
from time import perf_counter

from measure import FULL, QUICK, Effort, Run, race

from holdfast import Config, Runtime
from holdfast.config.config import ApprovalConfig, OutputConfig, SandboxConfig
from holdfast.contract.command import Command
from holdfast.privileges import fill_descriptors, memory_file
from holdfast.store.ledger import Ledger
from holdfast.tools.shell import SHELL_EXEC

OUTPUT = 1 << 30
PRINTING = f"yes 'a line of output, about as long as lines of output are' | head -c {OUTPUT}"
APPROVED = ApprovalConfig(auto_approve=("shell.exec",))


async def plain(root: Path, effort: Effort) -> dict[str, float]:
    """`true` without a sandbox, against asyncio's own subprocess."""

    async def by_hand(n: int) -> None:
        for _ in range(n):
            process = await asyncio.create_subprocess_exec("bash", "-c", "true")
            await process.wait()

    async with _runtime(root, SandboxConfig(mode="off", undo="off")) as runtime:
        found = await race({"asyncio": by_hand, "shell": _shell(runtime)}, effort)
    return {f"plain.{name}": value for name, value in found.items()}


async def sandboxed(root: Path, effort: Effort) -> dict[str, float]:
    """`true` in the sandbox, against the same sandbox started by hand."""
    async with _runtime(root, SandboxConfig(mode="required", undo="off")) as runtime:
        launch = runtime.sandbox.launch(Command(argv=("/bin/bash", "-c", "true"), cwd=root))
        for step in launch.cleanup:
            step()

        async def by_hand(n: int) -> None:
            for _ in range(n):
                fds = [memory_file(content) for content in launch.files]
                argv = fill_descriptors(launch.argv, fds)
                process = await asyncio.create_subprocess_exec(*argv, env=launch.env, cwd=launch.cwd, pass_fds=fds)
                for fd in fds:
                    os.close(fd)
                if await process.wait():
                    raise SystemExit("The sandbox by hand did not work.")

        found = await race({"bwrap": by_hand, "shell": _shell(runtime)}, effort)
    return {f"sandboxed.{name}": value for name, value in found.items()}


async def output(root: Path, rounds: int) -> dict[str, float]:
    """Much output, all of it kept, against `> file`. The best of some rounds, and how much memory grew."""
    allowed = OutputConfig(max_spill=2 * OUTPUT)
    file = root / "printed"
    by_hand, ours = float("inf"), float("inf")
    async with _runtime(root, SandboxConfig(mode="off", undo="off"), allowed) as runtime:
        await _call(runtime, "yes | head -c 10000000")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(rounds):
            os.sync()
            begun = perf_counter()
            process = await asyncio.create_subprocess_exec("bash", "-c", f"{PRINTING} > {file}")
            await process.wait()
            by_hand = min(by_hand, perf_counter() - begun)
            file.unlink()
            os.sync()
            begun = perf_counter()
            spill = await _call(runtime, PRINTING)
            ours = min(ours, perf_counter() - begun)
            assert spill.stat().st_size == OUTPUT
            spill.unlink()
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return {"output.file": by_hand, "output.shell": ours, "output.megabytes": grown / 1024}


def _runtime(root: Path, sandbox: SandboxConfig, kept: OutputConfig | None = None) -> Runtime:
    project = root / "project"
    project.mkdir(exist_ok=True)
    config = Config(sandbox=sandbox, approval=APPROVED, output=kept or OutputConfig())
    ledger = Ledger.open(root / "state" / "ledger.db")
    return Runtime(tools=[SHELL_EXEC], config=config, root=project, ledger=ledger)


async def _call(runtime: Runtime, command: str) -> Path:
    result = await runtime.call("shell.exec", {"command": command, "timeout": 100_000})
    assert result.success, result.error
    assert runtime.ledger is not None
    return runtime.ledger.blobs.path(str(result.metadata["spill"]))


def _shell(runtime: Runtime) -> Run:
    async def run(n: int) -> None:
        for _ in range(n):
            result = await runtime.call("shell.exec", '{"command": "true"}')
            if not result.success:
                raise SystemExit(f"shell.exec did not work: {result.error}")

    return run


async def measure(effort: Effort, rounds: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as scratch:
        root = Path(scratch)
        times = {**await plain(root, effort), **await sandboxed(root, effort)}
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, range(os.cpu_count() or 1))  # who prints and who reads do so at the same time
        return {**times, **await output(root, rounds)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    json.dump({"times": asyncio.run(measure(QUICK if quick else FULL, 2 if quick else 5))}, sys.stdout)


if __name__ == "__main__":
    main()
