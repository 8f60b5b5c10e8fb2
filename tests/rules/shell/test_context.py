"""Which paths are inside the project and which programs are trusted, on a real disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.contract.enums import Verdict
from holdfast.rules.shell.context import CommandContext

from .command_judges import verdict


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "src" / "deep").mkdir(parents=True)
    (root / "a.txt").write_text("a")
    (tmp_path / "secret").write_text("s")
    (root / "link").symlink_to("../secret")
    (root / "out").symlink_to("..")
    (root / "in").symlink_to("src/deep")
    (root / "src" / "leak").symlink_to("../../secret")
    return root


def at(root: Path, cwd: Path | None = None) -> CommandContext:
    return CommandContext.at(str(root), [str(cwd or root)], lambda: True)


@pytest.mark.spec("A11", "N3")
@pytest.mark.parametrize(
    ("text", "approved"),
    [
        ("cat a.txt", True),
        ("cat src/../a.txt", True),
        ("cat in/../x", True),
        ("cat link", False),
        ("cat out/secret", False),
        ("ls out", False),
        ("cat ../secret", False),
        ("cat < link", False),
        ("cat < a.txt", True),
        ("cd src && cat ../a.txt", False),
        ("cd src && cat deep", True),
        ("cd in && ls", False),
        ("cd out && ls", False),
        ("cd src; cd deep; cat x", True),
        ("cd src; cd deep; cat ../x", False),
        ("cd missing || cat a.txt", True),
        ("cat leak", True),
        ("cd src && cat leak", False),
        ("cat leak; cd src", False),
    ],
)
def test_symlinks_and_cd_are_resolved_before_a_path_counts_as_inside(root: Path, text: str, approved: bool) -> None:
    assert verdict(text, context=at(root)) is (Verdict.APPROVE if approved else None)


@pytest.mark.spec("A11")
def test_outside_the_project_nothing_that_reads_files_is_approved(root: Path, tmp_path: Path) -> None:
    for context in (at(root, tmp_path), CommandContext.at(None, [str(root)]), at(root, root / "out")):
        assert verdict("ls", context=context) is None
        assert verdict("cat a.txt", context=context) is None
        assert verdict("echo a", context=context) is Verdict.APPROVE
    assert verdict("cat ../a.txt", context=at(root, root / "src")) is Verdict.APPROVE


@pytest.mark.spec("A11")
def test_a_program_inside_the_project_is_not_trusted(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = root / "bin" / "ls"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:/usr/bin:/bin")
    assert verdict("ls", context=at(root)) is None
    assert verdict("cat a.txt", context=at(root)) is Verdict.APPROVE
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert verdict("ls", context=at(root)) is Verdict.APPROVE
    monkeypatch.setenv("PATH", ".:/usr/bin:/bin")
    assert verdict("ls", context=at(root)) is None
    assert verdict("echo x", context=at(root)) is Verdict.APPROVE
    assert verdict("env echo x", context=at(root)) is None
    monkeypatch.setenv("PATH", str(root / "nowhere"))
    assert verdict("ls", context=at(root)) is None


@pytest.mark.spec("A11")
def test_a_symlink_on_the_path_into_the_project_is_not_trusted(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = root / "tool"
    real.write_text("#!/bin/sh\n")
    real.chmod(0o755)
    outside = tmp_path / "bin"
    outside.mkdir()
    (outside / "ls").symlink_to(real)
    monkeypatch.setenv("PATH", f"{outside}:/usr/bin:/bin")
    assert verdict("ls", context=at(root)) is None
