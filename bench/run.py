"""Run the benchmarks: `python bench/run.py [--quick] [--only NAME] [--rounds N]`. See bench/README.md."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from time import monotonic
from typing import Any

import report
import startup
from contenders import CONTENDERS
from environments import HERE, SCRATCH, Contender, clean_environ, load, prepare
from targets import SECTIONS

PARTS = ("calls", "ours", "startup")


class Unmeasured(Exception):
    """A worker ended without numbers; the message is what it said last."""


def main() -> None:
    options = _options()
    contenders = load()
    chosen = {name: entry for name, entry in contenders.items() if _wanted(name, options.only)}
    for contender in chosen.values():
        prepare(contender)
    core = _pin()
    machine = report.machine(core)
    began = monotonic()
    rounds = options.rounds or (1 if options.quick else 5)
    measured: dict[str, float] = {}
    versions: dict[str, str] = {}
    failed: dict[str, str] = {}
    for number in range(1, rounds + 1):
        for job in _jobs(chosen, options.only):
            if " ".join(job) in failed:
                continue
            print(f"round {number} of {rounds}: {' '.join(job)}", file=sys.stderr)
            try:
                _merge(measured, versions, job, _worker(chosen, job, quick=options.quick))
            except Unmeasured as error:
                failed[" ".join(job)] = str(error)
    if options.only in (None, "startup", "holdfast"):
        print("cold starts", file=sys.stderr)
        cold, broken = startup.measure(chosen, rounds=2 if options.quick else max(5, 2 * rounds))
        measured |= {f"startup.{key}": value for key, value in cold.items()}
        failed |= {f"startup {key}": reason for key, reason in broken.items()}
    results = {
        "mode": "quick" if options.quick else f"rounds: {rounds}",
        "machine": machine,
        "versions": versions,
        "targets": report.targets(measured, partly=options.only is not None),
        "measured": measured,
        "failed": sorted(failed),
    }
    text = report.markdown(results, contenders)
    print(text)
    for what, reason in failed.items():
        print(f"NOT MEASURED {what}: {reason}", file=sys.stderr)
    print(f"\n{monotonic() - began:.0f} s", file=sys.stderr)
    if options.quick or options.only:
        print("Only a full run is written to results.json and README.md.", file=sys.stderr)
    else:
        (HERE / "results.json").write_text(json.dumps(results, indent=2, sort_keys=True) + "\n")
        report.write_into(HERE / "README.md", text)
    sys.exit(1 if failed else 0)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure holdfast against its targets and its peers.")
    parser.add_argument("--quick", action="store_true", help="one short round; prints, writes nothing")
    parser.add_argument("--only", metavar="NAME", help="one contender, or one of: " + ", ".join(PARTS))
    parser.add_argument("--rounds", type=int, help="how often everything takes its turn (5; quick: 1)")
    options = parser.parse_args()
    known = {*load(), *PARTS}
    if options.only and options.only not in known:
        parser.error(f"--only knows no '{options.only}'; it takes one of: {', '.join(sorted(known))}.")
    return options


def _wanted(name: str, only: str | None) -> bool:
    if only == "ours":
        return name == "holdfast"
    return only in (None, "calls", "startup", name)


def _pin() -> int | None:
    """Keep this process and all it starts on one core, where the system can."""
    if not hasattr(os, "sched_setaffinity"):
        return None
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    return core


def _jobs(chosen: dict[str, Contender], only: str | None) -> list[tuple[str, str]]:
    jobs: list[tuple[str, str]] = []
    if only not in ("ours", "startup"):
        jobs += [("calls", name) for name in chosen if name in CONTENDERS]
    if "holdfast" in chosen and only not in ("calls", "startup"):
        jobs += [("ours", name) for name in SECTIONS]
    return jobs


def _worker(chosen: dict[str, Contender], job: tuple[str, str], *, quick: bool) -> dict[str, Any]:
    kind, name = job
    owner = chosen[name] if kind == "calls" else chosen["holdfast"]
    command = [str(owner.python), str(HERE / f"{kind}.py"), name, *(["--quick"] if quick else [])]
    if kind == "calls":
        command += ["--package", owner.package]
    environ = clean_environ()
    try:
        done = subprocess.run(
            command, check=False, env=environ, cwd=SCRATCH, capture_output=True, text=True, timeout=120
        )
    except subprocess.TimeoutExpired:
        raise Unmeasured("it took longer than 120 s.") from None
    if done.returncode:
        raise Unmeasured(done.stderr.strip()[-1500:])
    return json.loads(done.stdout.splitlines()[-1])


def _merge(measured: dict[str, float], versions: dict[str, str], job: tuple[str, str], found: dict[str, Any]) -> None:
    """The best of all rounds counts, for the unit as for everything measured in it."""
    kind, name = job
    if "version" in found:
        versions[name] = found["version"]
    for key, value in found["times"].items():
        full = f"{kind}.{name}.{key}"
        measured[full] = min(value, measured.get(full, float("inf")))


if __name__ == "__main__":
    main()
