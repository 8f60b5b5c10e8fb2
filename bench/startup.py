"""Measures cold starts: whole processes, started in turns; the shortest of each counts."""

from __future__ import annotations

import subprocess
from pathlib import Path
from time import perf_counter

from environments import HERE, Contender, clean_environ, project


def commands(contenders: dict[str, Contender]) -> dict[str, list[str]]:
    """What is started. `NAME.pass` is the bare interpreter of the same environment: the yardstick."""
    found: dict[str, list[str]] = {}
    for name, contender in contenders.items():
        if contender.version:
            found[f"{name}.pass"] = [str(contender.python), "-c", "pass"]
            found[f"{name}.version"] = contender.command(*contender.version)
    if (ours := contenders.get("holdfast")) is not None:
        found["holdfast.pydantic"] = [str(ours.python), "-c", "import pydantic"]
        found["holdfast.first_call"] = [str(ours.python), str(HERE / "first_call.py")]
        found["holdfast.calculator"] = ours.command("holdfast", "call", "calculator", "expression=1+1")
    return found


def measure(contenders: dict[str, Contender], rounds: int) -> tuple[dict[str, float], dict[str, str]]:
    """The shortest time of each command, and why some could not be measured."""
    place = project()
    best: dict[str, float] = {}
    broken: dict[str, str] = {}
    wanted = commands(contenders)
    for name, command in wanted.items():
        problem = _problem(command, place)
        if problem is None:
            best[name] = float("inf")
        else:
            broken[name] = problem
    for _ in range(rounds):
        for name in best:
            best[name] = min(best[name], _seconds(wanted[name], place))
    return best, broken


def _problem(command: list[str], place: Path) -> str | None:
    """Once outside the clock: compiled files and state exist afterwards, and a failing command is not measured."""
    try:
        done = subprocess.run(
            command, check=False, env=clean_environ(), cwd=place, capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return type(error).__name__
    return f"exit code {done.returncode}: {done.stderr.strip()[-300:]}" if done.returncode else None


def _seconds(command: list[str], place: Path) -> float:
    environ = clean_environ()
    start = perf_counter()
    subprocess.run(command, env=environ, cwd=place, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return perf_counter() - start
