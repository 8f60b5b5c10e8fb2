"""Lists every requirement with the tests that prove it (`make spec`). Fails if a done requirement is not proved."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import fill

from scripts.guards import guard_problem
from scripts.manifest import MANIFEST, ManifestError, Requirement, covered_by, load_manifest
from scripts.pytest_spec import Record, read_report


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report", type=Path, help="what `pytest --spec-report` wrote")
    parser.add_argument("--manifest", type=Path, default=MANIFEST)
    options = parser.parse_args()
    try:
        manifest = load_manifest(options.manifest)
        tests = read_report(options.report)
    except ManifestError as error:
        print(error)
        return 1
    except FileNotFoundError:
        print(f"There is no report {options.report}. Run `make spec`.")
        return 1
    for line in table(manifest, tests):
        print(line)
    problems = [*find_problems(manifest, tests)]
    for problem in problems:
        print(f"✗ {problem}")
    return 1 if problems else 0


def table(manifest: Mapping[str, Requirement], tests: list[Record]) -> Iterator[str]:
    """Yield one row per requirement, followed by the names of its passing tests, and a line of totals."""
    yield f"{'id':<5}{'status':<9}{'passing':>7}  requirement"
    for requirement in manifest.values():
        passing = [test for test in _tests_of(requirement.id, tests) if test["outcome"] == "passed"]
        yield f"{requirement.id:<5}{requirement.status:<9}{len(passing):>7}  {requirement.says}"
        names = dict.fromkeys(_short(test["id"]) for test in passing)
        if names:
            yield fill(", ".join(names), 120, initial_indent=" " * 23, subsequent_indent=" " * 23)
    done = sum(requirement.done for requirement in manifest.values())
    yield f"{done} of {len(manifest)} requirements are done; {len(tests)} tests ran."


def find_problems(manifest: Mapping[str, Requirement], tests: list[Record]) -> Iterator[str]:
    for test in tests:
        for name in test["spec"]:
            if name not in manifest:
                yield f"{test['id']} is marked with {name!r}, which is not in the manifest."
    for requirement in manifest.values():
        if not requirement.done:
            continue
        outcomes = [(test["outcome"], test["id"]) for test in _tests_of(requirement.id, tests)]
        if "passed" not in {outcome for outcome, _ in outcomes}:
            yield f"{requirement.id} is marked done, but no passing test is marked with it."
        for outcome, test in outcomes:
            if outcome == "failed":
                yield f"{requirement.id} is marked done, but {test} fails."
        if requirement.guard and (problem := guard_problem(requirement.guard)):
            yield f"{requirement.id} is guarded by {requirement.guard}, {problem}."


def _tests_of(requirement: str, tests: list[Record]) -> list[Record]:
    return [test for test in tests if any(covered_by(requirement, name) for name in test["spec"])]


def _short(test: str) -> str:
    return test.rpartition("::")[2].partition("[")[0].removeprefix("test_")


if __name__ == "__main__":
    sys.exit(main())
