"""Mutation testing of the requirements (`make spec-mutants`): disables each guard and expects a test to fail.

A surviving mutant means that the tests would not notice if the requirement were broken.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Final, Literal

from scripts.manifest import MANIFEST, ManifestError, Requirement, covered_by, load_manifest
from scripts.pytest_spec import Record, read_report

HERE: Final = Path(__file__).resolve().parent
Verdict = Literal["caught", "survived", "unusable"]


@dataclass(frozen=True, slots=True)
class Outcome:
    requirement: Requirement
    verdict: Verdict
    reason: str
    seconds: float


def main() -> int:
    options = _options()
    try:
        chosen = _choose(load_manifest(options.manifest), options.only)
    except ManifestError as error:
        print(error)
        return 1
    if not chosen:
        print("No requirement is marked done, so there are no guards to disable.")
        return 0
    with TemporaryDirectory(prefix="holdfast-mutants-") as scratch:
        print(f"{len(chosen)} requirements: running their tests with all guards enabled …", flush=True)
        tests = _baseline(chosen, Path(scratch), options.workers)
        outcomes: list[Outcome] = []
        with ThreadPoolExecutor(options.workers) as pool:
            running = [pool.submit(_try, item, tests, Path(scratch), options.timeout) for item in chosen]
            for number, finished in enumerate(as_completed(running), 1):
                outcome = finished.result()
                outcomes.append(outcome)
                print(f"[{number}/{len(chosen)}] {_line(outcome)}", flush=True)
    return _summary(outcomes)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--manifest", type=Path, default=MANIFEST)
    parser.add_argument("--only", default="", help="ids, separated by commas")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=180, help="timeout per requirement in seconds")
    return parser.parse_args()


def _choose(manifest: dict[str, Requirement], only: str) -> list[Requirement]:
    wanted = [name.strip() for name in only.split(",") if name.strip()]
    for name in wanted:
        if name not in manifest or not manifest[name].done:
            raise ManifestError(f"requirement {name}: not marked done, so it has no guard to disable")
    return [item for item in manifest.values() if item.done and (not wanted or item.id in wanted)]


def _baseline(chosen: Iterable[Requirement], scratch: Path, workers: int) -> list[Record]:
    report = scratch / "baseline.json"
    only = ",".join(requirement.id for requirement in chosen)
    processes = str(workers if workers > 1 else 0)
    _pytest(["-n", processes, f"--spec-only={only}", f"--spec-report={report}"], _environ("", report), timeout=None)
    return read_report(report) if report.exists() else []


def _try(requirement: Requirement, tests: list[Record], scratch: Path, timeout: float) -> Outcome:
    began = monotonic()
    verdict, reason = _judge(requirement, tests, scratch, timeout)
    return Outcome(requirement, verdict, reason, monotonic() - began)


def _judge(requirement: Requirement, tests: list[Record], scratch: Path, timeout: float) -> tuple[Verdict, str]:
    own = [test for test in tests if any(covered_by(requirement.id, name) for name in test["spec"])]
    passing = [test["id"] for test in own if test["outcome"] == "passed"]
    if not passing:
        return "unusable", "no passing test is marked with it"
    if failing := [test["id"] for test in own if test["outcome"] == "failed"]:
        return "unusable", f"{failing[0]} fails with all guards enabled"
    report, log = scratch / f"{requirement.id}.json", scratch / f"{requirement.id}.log"
    environ = _environ(f"{requirement.guard}={requirement.mutant}", log)
    files = sorted({test.partition("::")[0] for test in passing})
    options = ["-x", f"--spec-only={requirement.id}", f"--spec-report={report}", *files]
    try:
        _pytest(options, environ, timeout=timeout)
    except subprocess.TimeoutExpired:
        return "caught", f"its tests did not finish within {timeout:.0f} s"
    notes = set(log.read_text().splitlines()) if log.exists() else set[str]()
    if problems := sorted(notes - {"applied"}):
        return "unusable", problems[0]
    if not notes:
        return "survived", "its tests never import the guard"
    after = read_report(report) if report.exists() else []
    if failed := [test["id"] for test in after if test["outcome"] == "failed"]:
        return "caught", f"by {failed[0].rpartition('::')[2]}"
    if not after:
        return "unusable", "the mutant breaks the import of the tests; use a `return:` mutant"
    return "survived", f"all {len(after)} tests pass without it"


def _environ(mutant: str, log: Path) -> dict[str, str]:
    """Return the environment. The baseline run gets the same, so that a test that depends on it fails there."""
    paths = [str(HERE / "mutation"), str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "SPEC_MUTANT": mutant, "SPEC_MUTANT_LOG": str(log)}


def _pytest(options: Sequence[str], environ: dict[str, str], timeout: float | None) -> None:
    """Run pytest in a session of its own, and kill the whole session on a timeout."""
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", "--tb=no", *options]
    with subprocess.Popen(
        command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    ) as process:
        try:
            process.wait(timeout)
        except BaseException:
            os.killpg(process.pid, 9)
            raise


def _line(outcome: Outcome) -> str:
    mark = {"caught": "✓", "survived": "✗", "unusable": "?"}[outcome.verdict]
    requirement = outcome.requirement
    return (
        f"{mark} {requirement.id:<5}{requirement.guard} ({requirement.mutant}) "
        f"{outcome.verdict}: {outcome.reason} ({outcome.seconds:.1f} s)"
    )


def _summary(outcomes: list[Outcome]) -> int:
    wrong = [outcome for outcome in outcomes if outcome.verdict != "caught"]
    print(f"\n{len(outcomes) - len(wrong)} of {len(outcomes)} mutants were caught.")
    for outcome in sorted(wrong, key=lambda item: item.requirement.id):
        print(_line(outcome))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
