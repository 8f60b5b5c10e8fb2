"""The tasks for small models: reproducible projects, true facts, and checks that tell right answers from wrong ones."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Final, get_args

import pytest

from bench.small_model_tasks import TASKS, SetName, Task, build_project, final_files, snapshot
from bench.small_model_tasks.checks import Behaviour, Constant, Definition, Files, Replacement, Unused, Usages, Value

SETS: Final[tuple[SetName, ...]] = get_args(SetName)
ALL: Final = [(name, task) for name in SETS for task in TASKS[name]]

ANSWERS: Final[dict[str, tuple[str, str]]] = {
    "dev-definition-1": (
        "`billable_weight` is defined in `src/parcelhub/pricing/rates.py` and used in tests/test_rates.py.",
        "It is defined in docs/architecture.md, see also rates.py.",
    ),
    "dev-definition-2": ("timeline.py:16", "src/parcelhub/tracking/timelines.py"),
    "dev-definition-3": (
        "The tests import it (tests/test_client.py), but it is set in net/client.py, line 9.",
        "MAX_RETRIES is set in tests/test_client.py.",
    ),
    "dev-definition-4": ("It lives in web/src/formatters.ts.", "It lives in web/src/trackingView.ts."),
    "dev-definition-5": (
        "The module parcelhub.net.pacing implements it: delay_before doubles the pause.",
        "src/parcelhub/net/client.py implements the retries, with src/parcelhub/net/pacing.py",
    ),
    "dev-definition-6": ("./src/parcelhub/pricing/zones.py", "src/parcelhub/pricing/rates.py"),
    "dev-definition-7": (
        "carriers/swiftline.py (another one is in carriers/northpost.py)",
        "- carriers/northpost.py\n- carriers/swiftline.py",
    ),
    "dev-definition-8": ("carriers/base.py", "It is used in carriers/base.py."),
    "dev-usage-1": ("`quote` and `quote_return` call it.", "`quote` calls it."),
    "dev-usage-2": (
        "EventLog is used in storage/repository.py and tests/test_timeline.py.",
        "storage/repository.py, tests/test_timeline.py, tracking/timeline.py",
    ),
    "dev-usage-3": ("No, only tests/test_cache.py uses it.", "Yes, in src/parcelhub/tracking/poller.py."),
    "dev-usage-4": (
        "- src/parcelhub/net/client.py\n- src/parcelhub/tracking/poller.py\n- tests/test_client.py",
        "src/parcelhub/net/client.py and src/parcelhub/tracking/poller.py",
    ),
    "dev-usage-5": ("renderTracking calls it.", "It is called in web/src/formatters.ts."),
    "dev-usage-6": (
        "northpost.py and swiftline.py raise it; poller.py catches it. It comes from carriers/base.py.",
        "northpost.py and swiftline.py raise it.",
    ),
    "dev-configuration-1": ("12 seconds (config/default.toml:8)", "It is 45 seconds, or 12 by default."),
    "dev-configuration-2": ("It listens on localhost:8417.", "It listens on 8400."),
    "dev-configuration-3": ("384 MB", "4 processes"),
    "dev-configuration-4": ("It is ERROR.", "It is INFO."),
    "dev-git-1": ("Poll Swiftline less often.", "It shows the timeline in the browser."),
    "dev-git-2": ("Priya Nair", "Lena Okafor"),
    "dev-git-3": ("docs/architecture.md (and docs/carrier-notes.md is untracked)", "docs/operations.md"),
    "held-out-definition-1": ("velodock/fleet/stations.py", "velodock/fleet/rebalance.py"),
    "held-out-definition-2": ("In `rentals/desk.py`.", "In `velodock/app.py`."),
    "held-out-definition-3": ("It comes from velodock/rentals/desk.py.", "It comes from docs/overview.md."),
    "held-out-definition-4": ("gateway/frame.go:13: func decodeFrame", "gateway/dock.go:31"),
    "held-out-definition-5": ("velodock.accounts.sealing", "accounts/riders.py"),
    "held-out-definition-6": ("It is in rebalance.py.", "It is in stations.py."),
    "held-out-definition-7": ("/tmp/x/velodock/payments/refunds.py", "velodock/fleet/bikes.py"),
    "held-out-definition-8": ("payments/capture.py", "payments/refunds.py"),
    "held-out-usage-1": ("RentalDesk.finish", "fare_preview and finish"),
    "held-out-usage-2": ("fleet/stations.py and fleet/rebalance.py", "fleet/stations.py and fleet/bikes.py"),
    "held-out-usage-3": ("No. Only tests/test_payments.py does.", "Yes, velodock/rentals/desk.py."),
    "held-out-usage-4": (
        "payments/capture.py, payments/refunds.py, tests/test_payments.py",
        "payments/capture.py, payments/refunds.py, rentals/desk.py, tests/test_payments.py",
    ),
    "held-out-usage-5": ("serveDock in gateway/dock.go calls it.", "gateway/main.go calls it."),
    "held-out-usage-6": (
        "app.py, fleet/rebalance.py, rentals/desk.py and tests/test_fleet.py",
        "app.py, rentals/desk.py and tests/test_fleet.py",
    ),
    "held-out-configuration-1": ("18 seconds.", "3 seconds."),
    "held-out-configuration-2": ("7345.", "Port 7300."),
    "held-out-configuration-3": ("Every 35 seconds.", "Every 350 seconds."),
    "held-out-configuration-4": ("At 17%.", "At 26%."),
    "held-out-git-1": ("It adds the ferry terminal station.", "It rejects short frames."),
    "held-out-git-2": ("Aisha Bello", "Jonas Lind"),
    "held-out-git-3": ("Changed velodock/payments/ledger.py, added ops/backup.sh", "velodock/payments/ledger.py"),
}
"""A right answer and a wrong one for each task that asks for one."""

EDITS: Final[dict[str, tuple[tuple[str, str], tuple[str, str]]]] = {
    "dev-edit-1": (("RETRIES = 3", "RETRIES = 5"), ("RETRIES = 3", "RETRIES = 6")),
    "dev-edit-2": (("_pick", "_choose_tier"), ("def _pick", "def _choose_tier")),
    "dev-edit-3": (
        ("    return round(distance", "    if delivered:\n        return 0\n    return round(distance"),
        ("    return round(distance", "    if not delivered:\n        return 0\n    return round(distance"),
    ),
    "held-out-edit-1": (("CAP = 1500", "CAP = 1800"), ("CAP = 1500", "CAP = '1800'")),
    "held-out-edit-2": (
        ("EMPLOYER_PERCENT = 50", "EMPLOYER_PERCENT = 50\nSENIOR_PERCENT = 20"),
        ("EMPLOYER_PERCENT = 50", "SENIOR_PERCENT = 20"),
    ),
    "held-out-edit-3": (
        ("    return email.split", '    if not email:\n        return "Guest"\n    return email.split'),
        ("    return email.split", '    if not email\n        return "Guest"\n    return email.split'),
    ),
}
"""A right replacement in the file and a wrong one for each edit."""


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> dict[SetName, Path]:
    found: dict[SetName, Path] = {}
    for name in SETS:
        found[name] = tmp_path_factory.mktemp(name)
        build_project(found[name], name)
    return found


def git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, text=True).stdout


def test_each_set_has_24_tasks_with_unique_ids_and_prompts() -> None:
    assert [len(TASKS[name]) for name in SETS] == [24, 24]
    assert len({task.id for _, task in ALL}) == len({task.prompt for _, task in ALL}) == 48
    for name in SETS:
        kinds = [task.kind for task in TASKS[name]]
        wanted = {"definition": 8, "usage": 6, "configuration": 4, "edit": 3, "git": 3}
        assert {kind: kinds.count(kind) for kind in kinds} == wanted


@pytest.mark.parametrize("name", SETS)
def test_a_project_is_the_same_every_time(name: SetName, roots: dict[SetName, Path], tmp_path: Path) -> None:
    build_project(tmp_path, name)
    assert snapshot(tmp_path) == snapshot(roots[name])
    assert git(tmp_path, "rev-parse", "HEAD") == git(roots[name], "rev-parse", "HEAD")
    assert {path: data.decode() for path, data in snapshot(tmp_path).items()} == final_files(name)


@pytest.mark.parametrize("name", SETS)
def test_a_project_has_four_commits_a_modified_and_an_untracked_file(name: SetName, roots: dict[SetName, Path]) -> None:
    assert git(roots[name], "rev-list", "--count", "HEAD") == "4\n"
    assert [line[:2] for line in git(roots[name], "status", "--porcelain").splitlines()] == [" M", "??"]


@pytest.mark.parametrize("name", SETS)
def test_every_python_file_of_a_project_compiles(name: SetName) -> None:
    for path, content in final_files(name).items():
        if path.endswith(".py"):
            compile(content, path, "exec")


@pytest.mark.parametrize(("name", "task"), ALL, ids=[task.id for _, task in ALL])
def test_the_expected_facts_are_true_of_the_project(name: SetName, task: Task, roots: dict[SetName, Path]) -> None:
    files = final_files(name)
    match task.expected:
        case Definition(file=file, identifier=identifier):
            assert re.search(rf"^(export )?{identifier}(?!\w)", files[file], re.MULTILINE)
            others = [path for path in files if path != file and f"\n{identifier}" in files[path]]
            assert len(others) == (1 if re.search(r"two|twice", task.prompt) else 0)
        case Usages(identifier=identifier, sites=sites, defined=defined, also=also):
            using = {path for path, text in files.items() if re.search(rf"\b{identifier}\b", text)}
            assert using == {defined, *also, *(site.file for site in sites)}
            assert all(re.search(rf"\b{caller}\b", files[site.file]) for site in sites for caller in site.callers)
        case Unused(identifier=identifier, allowed=allowed):
            assert {path for path, text in files.items() if identifier in text} == set(allowed)
        case Value(file=file, line=line, right=right):
            assert line in [text.strip() for text in files[file].splitlines()]
            assert any(value in line for value in right)
        case Replacement(file=file, old=old, new=new):
            assert old in files[file] and new not in files[file]
        case Constant(file=file, name=constant):
            assert constant not in files[file]
        case Behaviour(file=file, function=function):
            assert f"\ndef {function}(" in files[file]
        case Files(files=wanted, also=also):
            status = git(roots[name], "status", "--porcelain", "--untracked-files=all")
            assert {line[3:] for line in status.splitlines()} == {*wanted, *also}
        case _:
            last = git(roots[name], "log", "-1", "--format=%s %an")
            assert task.expected.check(last, files) == ""


@pytest.mark.parametrize(("name", "task"), ALL, ids=[task.id for _, task in ALL])
def test_the_check_tells_right_from_wrong(name: SetName, task: Task, roots: dict[SetName, Path]) -> None:
    root = roots[name]
    original = snapshot(root)
    assert task.check("", root, original)
    assert task.check("It is in README.md.", root, original)
    if task.id in ANSWERS:
        right, wrong = ANSWERS[task.id]
        assert task.check(right, root, original) == ""
        assert task.check(wrong, root, original)
        return
    assert isinstance(task.expected, Replacement | Constant | Behaviour)
    target = root / task.expected.file
    before = target.read_text()
    right_edit, wrong_edit = EDITS[task.id]
    try:
        target.write_text(before.replace(*right_edit))
        assert task.check("Done.", root, original) == ""
        target.write_text(before.replace(*wrong_edit))
        assert task.check("Done.", root, original)
    finally:
        target.write_text(before)


def test_a_change_elsewhere_makes_any_answer_wrong(roots: dict[SetName, Path], tmp_path: Path) -> None:
    original = snapshot(roots["dev"])
    build_project(tmp_path, "dev")
    (tmp_path / "notes.md").write_text("new")
    task = TASKS["dev"][0]
    assert task.check(ANSWERS[task.id][0], tmp_path, original) == "notes.md changed."
