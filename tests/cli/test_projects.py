"""`--project all`: calls of other projects."""

from __future__ import annotations

import pytest

from tests.cli.command_line import Cli


@pytest.mark.spec("A13a", "A23")
def test_a_call_of_another_project_is_answered_under_the_rules_of_that_project(asking: Cli) -> None:
    other = asking.project.parent / "other"
    (other / ".git").mkdir(parents=True)
    first, second, third = (asking.make_pending("file.write", f"path={name}", "content=x") for name in "abc")
    unknown = asking.run("approve", first, cwd=other)
    assert unknown.code == 2 and f"holdfast approve {first} --project all" in unknown.err
    assert "3 calls are pending" in asking.run("approve", "--project", "all", cwd=other).err
    assert asking.run("approve", first, "--project", "all", cwd=other).code == 0
    assert (asking.project / "a").exists() and not (other / "a").exists()
    assert asking.run("reject", second, "--project", "all", cwd=other).code == 0
    assert asking.run("approve", "--project", "all", cwd=other).code == 0
    assert (asking.project / "c").exists() and not (asking.project / "b").exists()
    gone = asking.run("approve", third, "--project", "all", cwd=other)
    assert gone.code == 2 and f"No call '{third}' is pending" in gone.err
    fourth = asking.make_pending("file.write", "path=d", "content=x")
    (asking.project / "holdfast.toml").write_text('[tools]\ndeny = ["file.write"]\n')
    assert asking.run("approve", fourth, "--project", "all", cwd=other).code == 3
    (asking.project / "holdfast.toml").unlink()
    asking.make_pending("file.write", "path=e", "content=x")
    assert asking.run("approve", "--all", "--project", "all", cwd=other).err.startswith("In /")
    assert (asking.project / "e").exists() and not (asking.project / "d").exists()
