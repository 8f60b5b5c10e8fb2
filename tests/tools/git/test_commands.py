"""The git tools on real repositories."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from holdfast import Config, Result, Runtime, helper_process
from holdfast.config.config import SandboxConfig
from holdfast.tools.git.commands import GIT_DIFF, GIT_LOG, GIT_STATUS, parse_diff, parse_log, parse_status
from tests.runtime.support import run

ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/nonexistent",
    "GIT_AUTHOR_NAME": "Ann",
    "GIT_AUTHOR_EMAIL": "ann@example.org",
    "GIT_COMMITTER_NAME": "Ann",
    "GIT_COMMITTER_EMAIL": "ann@example.org",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
}


def git(folder: Path, *args: str) -> str:
    done = subprocess.run(["git", *args], cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=True)
    return done.stdout


def repository(folder: Path) -> Path:
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "a.txt").write_text("one\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "First")
    return folder


GIT_TOOLS = (GIT_STATUS, GIT_DIFF, GIT_LOG)


def look(root: Path, name: str, config: Config | None = None) -> Result:
    async def work() -> Result:
        async with Runtime(tools=GIT_TOOLS, root=root, config=config) as runtime:
            return await runtime.call(name, {})

    return run(work())


def typed(result: Result) -> Any:
    assert result.success, result.error
    return result.structured


@pytest.mark.spec("B3", "N2")
def test_hidden_files_are_skipped_and_named(tmp_path: Path) -> None:
    root = repository(tmp_path / "project")
    (root / "sub").mkdir()
    (root / "sub" / "server.key").write_text("one\n")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "Second")
    (root / ".gitignore").write_text(".env\n")
    for name in ("a.txt", "sub/server.key", ".env"):
        (root / name).write_text("hunter2\n")
    for name in ("git.status", "git.diff"):
        result = look(root, name)
        assert result.success, result.error
        assert "a.txt" in result.output and result.output.count("server.key") == 1
        assert "[Not compared, hidden by sandbox.read_deny: " in result.output
    assert ".env" not in look(root, "git.status").output, "git ignores it"


@pytest.mark.spec("B3", "T11")
def test_status_shows_the_branch_and_every_changed_path(tmp_path: Path) -> None:
    root = repository(tmp_path / "repo")
    (root / "a.txt").write_text("two\n")
    (root / "new name\n.txt").write_text("x")
    (root / "staged.txt").write_text("x")
    git(root, "add", "staged.txt")
    result = look(root, "git.status")
    facts = typed(result)
    assert (facts["branch"], facts["upstream"], facts["truncated"]) == ("main", None, False)
    assert {(entry["status"], entry["path"]) for entry in facts["entries"]} == {
        (" M", "a.txt"),
        ("A ", "staged.txt"),
        ("??", "new name\n.txt"),
    }
    assert result.output.startswith("## main\n")


@pytest.mark.spec("B3")
def test_a_clean_tree_is_reported_and_a_rename_shows_both_paths(tmp_path: Path) -> None:
    root = repository(tmp_path / "repo")
    assert look(root, "git.status").output == "## main\nnothing to commit, working tree clean"
    git(root, "mv", "a.txt", "b.txt")
    assert typed(look(root, "git.status"))["entries"] == [{"status": "R ", "path": "b.txt", "from": "a.txt"}]


@pytest.mark.spec("B3")
def test_status_shows_100_entries_with_a_notice(tmp_path: Path) -> None:
    root = repository(tmp_path / "repo")
    for number in range(120):
        (root / f"f{number:03}").touch()
    facts = typed(look(root, "git.status"))
    assert (len(facts["entries"]), facts["truncated"]) == (100, True)


@pytest.mark.spec("B3", "T11")
def test_diff_returns_the_patch_and_line_counts_per_file(tmp_path: Path) -> None:
    root = repository(tmp_path / "repo")
    assert look(root, "git.diff").output == "No unstaged changes."
    (root / "a.txt").write_text("two\nthree\n")
    result = look(root, "git.diff")
    facts = typed(result)
    assert facts["files"] == [{"path": "a.txt", "added": 2, "removed": 1}]
    assert "-one\n+two\n+three" in facts["diff"] and result.output == facts["diff"]


@pytest.mark.spec("B3", "X7")
def test_a_huge_diff_is_cut_at_its_limit(tmp_path: Path) -> None:
    root = repository(tmp_path / "repo")
    (root / "a.txt").write_text("".join(f"line {number}\n" for number in range(50_000)))
    facts = typed(look(root, "git.diff"))
    assert facts["truncated"] and len(facts["diff"].encode()) <= 128 * 1024


@pytest.mark.spec("B3", "T11")
def test_log_lists_the_last_twenty_commits(tmp_path: Path) -> None:
    root = repository(tmp_path / "repo")
    for number in range(25):
        git(root, "commit", "-q", "--allow-empty", "-m", f"Commit {number}\n\nBody\x1f\x1e")
    commits = typed(look(root, "git.log"))["commits"]
    assert [commit["subject"] for commit in commits] == [f"Commit {number}" for number in range(24, 4, -1)]
    assert commits[0]["author"] == "Ann" and len(commits[0]["date"]) == 10


@pytest.mark.spec("B3")
def test_no_commit_message_can_forge_another_commit(tmp_path: Path) -> None:
    root = repository(tmp_path / "repo")
    for subject in ("ok\x1edeadbee\x1f2020-01-01\x1fLinus\x1fforged", "a\x1eb", "x\x1f"):
        git(root, "commit", "-q", "--allow-empty", "-m", subject)
    commits = typed(look(root, "git.log"))["commits"]
    assert len(commits) == 4 and {commit["author"] for commit in commits} == {"Ann"}


@pytest.mark.spec("B3")
def test_a_repository_without_commits_has_an_empty_log(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    assert look(tmp_path, "git.log").output == "No commits yet."
    assert typed(look(tmp_path, "git.status"))["branch"] == "main"


@pytest.mark.spec("B3")
@pytest.mark.parametrize("name", ["git.status", "git.diff", "git.log"])
def test_outside_a_repository_and_without_git_the_error_is_always_the_same(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = look(tmp_path, name)
    assert result.error == f"Not a git repository: {tmp_path.name} and the folders above it have no .git."
    monkeypatch.setattr(helper_process, "PROGRAM_FOLDERS", (str(tmp_path),))
    assert look(tmp_path, name).error == "git is not installed. Install it to use the git tools."


@pytest.mark.spec("B3")
def test_a_broken_repository_is_an_error_with_gits_own_first_line(tmp_path: Path) -> None:
    root = repository(tmp_path / "repo")
    (root / ".git" / "HEAD").write_text("nonsense")
    error = look(root, "git.status").error or ""
    assert error.startswith("git status failed (exit code 128): fatal:")


def plant(root: Path, marker: Path) -> None:
    """Plant everything a repository can make git run; each leaves its name in the marker's folder."""
    marker.mkdir(exist_ok=True)

    def script(name: str, rest: str = "") -> str:
        path = root / f"evil-{name}"
        path.write_text(f"#!/bin/sh\ntouch {marker}/{name} {root}/ran-{name}\n{rest}\n")
        path.chmod(0o755)
        return str(path)

    git(root, "config", "core.fsmonitor", script("fsmonitor"))
    git(root, "config", "diff.evil.textconv", script("textconv", 'cat "$1"'))
    git(root, "config", "diff.external", script("external"))
    git(root, "config", "filter.evil.clean", script("clean", "cat"))
    git(root, "config", "filter.evil.smudge", script("smudge", "cat"))
    git(root, "config", "core.pager", script("pager", "cat"))
    git(root, "config", "pager.log", script("pager-log", "cat"))
    git(root, "config", "gpg.program", script("gpg"))
    git(root, "config", "log.showSignature", "true")
    (root / ".gitattributes").write_text("*.txt diff=evil filter=evil\n")
    hooks = root / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for hook in ("post-index-change", "pre-commit", "post-checkout"):
        (hooks / hook).write_text(f"#!/bin/sh\ntouch {marker}/{hook} {root}/ran-{hook}\n")
        (hooks / hook).chmod(0o755)
    (root / "a.txt").write_text("two\n")
    os.utime(root / "a.txt", (1, 1))


def left_behind(root: Path, marker: Path) -> set[str]:
    return {path.name for path in marker.iterdir()} | {path.name for path in root.glob("ran-*")}


@pytest.mark.spec("B3", "N3")
@pytest.mark.parametrize("name", ["git.status", "git.diff", "git.log"])
def test_a_repository_cannot_run_its_programs(tmp_path: Path, name: str) -> None:
    root = repository(tmp_path / "repo")
    plant(root, tmp_path / "marker")
    result = look(root, name)
    assert result.success, result.error
    assert left_behind(root, tmp_path / "marker") == set()


@pytest.mark.spec("B3")
@pytest.mark.parametrize("name", ["git.status", "git.diff", "git.log"])
def test_a_configured_order_file_outside_the_sandbox_does_not_make_git_fail(tmp_path: Path, name: str) -> None:
    """The sandbox hides files outside the project, and git fails if its configured order file is missing."""
    root = repository(tmp_path / "repo")
    (tmp_path / "order").write_text("*.txt\n")
    for setting in ("diff.orderFile", "core.excludesFile", "core.attributesFile", "mailmap.file", "commit.template"):
        git(root, "config", setting, str(tmp_path / "order"))
    (root / "a.txt").write_text("two\n")
    (root / "b.txt").write_text("new\n")
    result = look(root, name)
    assert result.success, result.error


@pytest.mark.spec("B3")
def test_plain_git_does_run_the_planted_programs(tmp_path: Path) -> None:
    root = repository(tmp_path / "repo")
    plant(root, tmp_path / "marker")
    for command in (["status"], ["diff"], ["diff", "--no-ext-diff"]):
        subprocess.run(["git", *command], cwd=root, env=ENVIRONMENT, capture_output=True, check=False)
    sprung = left_behind(root, tmp_path / "marker")
    assert {"fsmonitor", "textconv", "external", "clean", "post-index-change"} <= sprung


@pytest.mark.spec("B3", "A18", "N6")
def test_without_a_sandbox_approval_is_needed(tmp_path: Path) -> None:
    root = repository(tmp_path / "repo")
    result = look(root, "git.status", Config(sandbox=SandboxConfig(mode="off")))
    assert result.failure is not None and result.failure.value == "nobody_to_ask"


@pytest.mark.spec("B3")
def test_entries_cut_in_the_middle_are_dropped() -> None:
    assert parse_status("## main\0 M whole\0 M hal\0", cut=True)["entries"] == [
        {"status": " M", "path": "whole", "from": None}
    ]
    assert parse_log("abc\x002026-01-01\0Ann\0One\0\ndef\x002026", cut=True) == {
        "commits": [{"commit": "abc", "date": "2026-01-01", "author": "Ann", "subject": "One"}],
        "truncated": True,
    }


@pytest.mark.spec("B3")
@pytest.mark.parametrize(
    ("line", "facts"),
    [
        ("main", ("main", None, 0, 0)),
        ("main...origin/main [ahead 1, behind 2]", ("main", "origin/main", 1, 2)),
        ("main...origin/main [gone]", ("main", "origin/main", 0, 0)),
        ("No commits yet on main", ("main", None, 0, 0)),
        ("HEAD (no branch)", (None, None, 0, 0)),
    ],
)
def test_every_form_of_the_branch_line_is_parsed(line: str, facts: tuple[object, ...]) -> None:
    parsed = parse_status(f"## {line}\0")
    assert (parsed["branch"], parsed["upstream"], parsed["ahead"], parsed["behind"]) == facts


@pytest.mark.spec("B3")
def test_a_binary_file_has_no_line_counts() -> None:
    parsed = parse_diff("-\t-\timage.png\n\ndiff --git a/image.png b/image.png\n")
    assert parsed["files"] == [{"path": "image.png", "added": None, "removed": None}]
