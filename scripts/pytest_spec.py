"""A pytest plugin that writes, as JSON, which test is marked with which requirement and whether it passed."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any, Final, Literal, TypedDict, cast

import pytest

from scripts.manifest import covered_by

Outcome = Literal["passed", "failed", "skipped"]

_ORDER: Final[tuple[Outcome, ...]] = ("passed", "skipped", "failed")


class Record(TypedDict):
    id: str
    spec: list[str]
    outcome: Outcome


class Recorder:
    """Collects one record per test; the worst outcome of its phases (setup, call, teardown) counts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tests: dict[str, Record] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        ids = [name for key, value in report.user_properties if key == "spec" for name in cast(list[str], value)]
        record = self.tests.setdefault(report.nodeid, {"id": report.nodeid, "spec": ids, "outcome": "passed"})
        if _ORDER.index(report.outcome) > _ORDER.index(record["outcome"]):
            record["outcome"] = report.outcome

    def pytest_sessionfinish(self) -> None:
        self.path.write_text(json.dumps(list(self.tests.values()), indent=1))


def read_report(path: Path) -> list[Record]:
    return cast(list[Record], json.loads(path.read_text()))


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("spec")
    group.addoption("--spec-report", metavar="PATH", help="write the requirements and the outcome of each test")
    group.addoption("--spec-only", metavar="IDS", help="run only the tests marked with one of these requirements")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "spec(*ids): the requirements this test proves")
    path = cast(str | None, config.getoption("--spec-report"))
    if path is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(Path(path)), "spec-recorder")


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None, Any, Any]:
    """Attach the ids to each test as a user property, which xdist transfers with the reports."""
    wanted = set((cast(str | None, config.getoption("--spec-only")) or "").split(",")) - {""}
    kept: list[pytest.Item] = []
    dropped: list[pytest.Item] = []
    for item in items:
        ids = sorted({str(name) for name in _ids(item)})
        item.user_properties.append(("spec", ids))
        chosen = not wanted or any(covered_by(requirement, name) for requirement in wanted for name in ids)
        (kept if chosen else dropped).append(item)
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = kept
    return (yield)


def _ids(item: pytest.Item) -> Iterable[object]:
    for mark in item.iter_markers("spec"):
        yield from mark.args
