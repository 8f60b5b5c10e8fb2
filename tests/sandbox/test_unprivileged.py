"""The escape battery for a user without rights. For root it is run by the conformance suite."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.sandbox.places import bubblewraps
from tests.sandbox.unprivileged import run_as_nobody

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
def test_every_attack_is_held_for_a_user_without_rights(tmp_path: Path) -> None:
    done = run_as_nobody(SCRIPT, tmp_path)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["user"] != 0
    assert {one.title for one in bubblewraps()} <= set(said["found"])
    for title, cases in said["found"].items():
        escaped = {name: detail for name, (held, detail) in cases.items() if not held}
        expected = {"change-protected", "create-protected", "rename-parent", "host-processes"}
        assert set(escaped) == (expected if title.startswith("landlock") else set()), (title, escaped)
