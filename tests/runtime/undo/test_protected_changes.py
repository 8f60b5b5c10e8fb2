"""No change of a command bypasses a protected path, with an overlay or a copy."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.runtime.undo.protected_changes import check_changes
from holdfast.store.changes import ABSENT, PathChange, PathState
from tests.quick import quickly
from tests.runtime.undo.marks import needs_overlay
from tests.runtime.undo.support import FakeSandbox, Mechanism, RecordedProject

both = pytest.mark.parametrize("mechanism", [pytest.param("overlay", marks=needs_overlay), "copy"])


@both
@pytest.mark.spec("X11", "N2")
@pytest.mark.parametrize(
    ("script", "refused"),
    [
        ("mkdir c2; echo x > c2/config.toml; ln -s c2 .cargo", {".cargo"}),
        ("mkdir -p sub/g2/workflows; ln -s g2 sub/.github", {"sub/.github"}),
        (
            "mv .git/info .git/i2; mkdir foo; echo x > foo/attributes; ln -s ../foo .git/info",
            {".git/info", ".git/i2/exclude"},
        ),
        ("mkdir -p mods/s; echo x > mods/s/config; ln -s ../mods .git/modules", {".git/modules"}),
        (
            "mkdir -p b/objects/ab b/refs; echo x | tee b/HEAD b/config b/objects/ab/c",
            {"b/HEAD", "b/config", "b/objects"},
        ),
        ("mkdir b; echo x > b/HEAD; echo ../c > b/commondir", {"b/HEAD", "b/commondir"}),
        ("echo ref: x > half/HEAD", {"half/HEAD"}),
        (
            "echo evil > bare/config; echo x > bare/refs/new; mkdir bare/hooks; echo x > bare/hooks/h",
            {"bare/config", "bare/hooks/h"},
        ),
        ("rm -r bare/info; ln -s ../x bare/info", {"bare/info"}),
    ],
)
def test_no_change_bypasses_a_protected_path(
    tmp_path: Path, mechanism: Mechanism, script: str, refused: set[str]
) -> None:
    project = RecordedProject(tmp_path, mechanism)
    for folder in (".git/info", "half/objects", "half/refs", "bare/objects", "bare/refs", "bare/info"):
        (project.root / folder).mkdir(parents=True)
    for file in (".git/info/exclude", "half/config", "bare/HEAD", "bare/config"):
        (project.root / file).write_text("mine\n")
    _, changes = project.shell(script)
    assert {os.path.relpath(path, project.root) for path in changes.violations} == refused
    assert not (project.root / ".git" / "info").is_symlink()
    assert (project.root / "bare" / "config").read_text() == "mine\n"
    for path in refused - {"bare/config", ".git/info", "b/objects", "bare/info"}:
        assert not os.path.lexists(project.root / path), path
    assert (project.root / "bare" / "refs" / "new").exists() is ("bare/refs/new" in script)
    project.ledger.close()


@pytest.mark.spec("X11", "N2")
def test_ordinary_folders_with_git_like_names_are_applied_quickly(tmp_path: Path) -> None:
    made = PathState(kind="file", mode=0o644)
    paths = [f"src/{folder}/config/objects/{number}.py" for folder in "abcd" for number in range(1000)]
    found = [PathChange(path, ABSENT, made) for path in (*paths, "a/node_modules/x/HEAD", "modules", "info/config")]
    with quickly():
        judged = check_changes(str(tmp_path), found, FakeSandbox(tmp_path))
    assert (judged.allowed, judged.refused, judged.violations) == (found, [], [])
