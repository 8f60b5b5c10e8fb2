"""The escape tests for an unprivileged user, and their own failures. The conformance suite runs them for root."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.sandbox import escape_tests
from holdfast.sandbox.launch import Launch
from tests.sandbox.sandboxed_commands import bubblewraps
from tests.sandbox.unprivileged_user import run_as_nobody
from tests.sandbox.weakened_backend import Weakened

SCRIPT = """
import json, os
from holdfast.sandbox import escape_tests
from holdfast.sandbox.probe import backends
found = {
    one.title: {case.name: [case.contained, case.detail] for case in escape_tests.run_escape_tests(one)}
    for one in backends()
}
print(json.dumps({"user": os.geteuid(), "found": found}))
"""


@pytest.mark.spec("N1", "A8", "N6")
def test_every_attack_is_contained_for_an_unprivileged_user(tmp_path: Path) -> None:
    done = run_as_nobody(SCRIPT, tmp_path)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["user"] != 0
    assert {one.title for one in bubblewraps()} <= set(said["found"])
    for title, cases in said["found"].items():
        escaped = {name: detail for name, (held, detail) in cases.items() if not held}
        expected = {"change-protected", "create-protected", "rename-parent", "host-processes"}
        assert set(escaped) == (expected if title.startswith("landlock") else set()), (title, escaped)


@pytest.mark.spec("N1")
def test_an_attack_that_crashes_counts_as_an_escape() -> None:
    def broken(launch: Launch) -> Launch:
        return replace(launch, argv=(*launch.argv[:-2], "no_such_attack", "{}"))

    for case in escape_tests.run_escape_tests(Weakened(broken), ["remount", "tcp"]):
        assert not case.contained
        assert "no answer" in case.detail


@pytest.mark.spec("N1")
def test_a_backend_that_cannot_launch_fails_every_test() -> None:
    def refusing(_launch: Launch) -> Launch:
        raise PermissionError(1, "not today")

    assert [case.contained for case in escape_tests.run_escape_tests(Weakened(refusing))] == [False] * len(
        escape_tests.ESCAPE_TESTS
    )
