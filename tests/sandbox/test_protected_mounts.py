"""Protected paths while commands run."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.config.config import SandboxConfig
from holdfast.fs.protected_paths import command_locked_reason
from holdfast.sandbox import protected_mounts
from holdfast.sandbox.launch import Backend, clean_up, run_launch
from holdfast.sandbox.policy import PathVariables, resolve_policy
from holdfast.sandbox.protected_mounts import MountStubs, find_protected
from holdfast.sandbox.restore_protected import Restorer
from tests.sandbox.sandboxed_commands import bubblewraps, git, launched, policy, repository, run, run_with_violations

each = pytest.mark.parametrize("backend", bubblewraps(), ids=lambda one: one.title.partition(" (")[0])


def tree(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text() if path.is_file() else "folder"
        for path in sorted(folder.rglob("*"))
        if ".git/objects" not in str(path)
    }


@each
@pytest.mark.spec("N2")
def test_ordinary_git_work_succeeds_and_git_settings_stay_unchanged(tmp_path: Path, backend: Backend) -> None:
    root = repository(tmp_path / "root")
    (root / "a.txt").write_text("one\n")
    script = (
        "set -e; git add a.txt; git commit -qm first; git switch -qc other; echo two >> a.txt; git commit -qam second; "
        "git checkout -q main; git merge -q other; git stash list; git tag v1; git rm -q a.txt; git commit -qm third; "
        "git status --porcelain"
    )
    config = (root / ".git" / "config").read_text()
    done, violations = run_with_violations(backend, policy(root), "bash", "-c", script, cwd=root)
    assert (done.code, done.out, violations) == (0, "", ()), done
    assert git(root, "log", "--format=%s").split() == ["third", "second", "first"]
    assert (root / ".git" / "config").read_text() == config
    assert git(root, "status", "--porcelain") == ""


@each
@pytest.mark.spec("N2")
@pytest.mark.parametrize(
    "script",
    [
        "git config core.fsmonitor ./evil",
        "echo x > .git/hooks/pre-commit",
        "chmod +x .git/hooks/pre-commit.sample",
        "echo '* filter=evil' > .git/info/attributes",
        "rm -rf .git/hooks",
        "mv .git .elsewhere && mkdir .git",
        "echo x >> Makefile",
        "rm Makefile",
        "mv Makefile old && echo x > Makefile",
        "ln -sf /etc/passwd .envrc",
        "mkdir .vscode && echo '{}' > .vscode/tasks.json",
        "echo x > .git/config.worktree",
    ],
)
def test_files_that_git_and_other_tools_obey_are_not_changed(tmp_path: Path, backend: Backend, script: str) -> None:
    root = repository(tmp_path / "root")
    (root / "Makefile").write_text("all:\n")
    before = tree(root)
    done, violations = run_with_violations(backend, policy(root), "bash", "-c", script, cwd=root)
    assert done.code != 0 or violations, (done, violations)
    assert set(tree(root)) - {"old", ".elsewhere"} == set(before)
    assert tree(root)["Makefile"] == "all:\n"
    assert tree(root)[".git/config"] == before[".git/config"]


@each
@pytest.mark.spec("N2")
def test_a_moved_parent_is_moved_back_and_planted_files_are_removed(tmp_path: Path, backend: Backend) -> None:
    root = tmp_path / "root"
    inner = repository(root / "sub")
    config = (inner / ".git" / "config").read_text()
    script = "mv sub sub2 && mkdir -p sub/.git/hooks && cd sub/.git && echo x > hooks/pre-commit && echo x > config"
    done, violations = run_with_violations(backend, policy(root), "bash", "-c", script, cwd=root)
    assert done.code == 0
    assert str(inner / ".git" / "hooks") in violations
    assert str(inner / ".git" / "config") in violations
    assert (inner / ".git" / "config").read_text() == config
    assert not (inner / ".git" / "hooks" / "pre-commit").exists()
    assert (inner / ".git" / "hooks" / "pre-commit.sample").exists()


@pytest.mark.spec("N2")
def test_restoring_follows_no_symlink(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "sub").mkdir(parents=True)
    (root / "sub" / ".envrc").write_text("mine")
    outside.mkdir()
    (outside / ".envrc").write_text("theirs")
    before = protected_mounts.choose_mounts(find_protected(root))
    sweep = Restorer(root, [_unmounted(item) for item in before], keep=tmp_path / "kept")
    (root / "sub" / ".envrc").unlink()
    (root / "sub").rmdir()
    (root / "sub").symlink_to(outside)
    sweep()
    assert (outside / ".envrc").read_text() == "theirs"
    assert sweep.violations == (str(root / "sub" / ".envrc"),)


def _unmounted(item: protected_mounts.ProtectedPath) -> protected_mounts.ProtectedPath:
    return replace(item, mounted=False, content=Path(item.path).read_bytes())


@pytest.mark.spec("N2")
def test_protected_files_beyond_the_mounted_ones_are_restored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protected_mounts, "MAX_MOUNTED", 2)
    for name in ("a", "b", "c", "d"):
        (tmp_path / name).mkdir()
        (tmp_path / name / ".npmrc").write_text(name)
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / ".npmrc").symlink_to("../a/.npmrc")
    script = "for x in a b c; do echo evil > $x/.npmrc; done; rm -r d; rm link/.npmrc; echo evil > link/.npmrc"
    _done, violations = run_with_violations(bubblewraps()[0], policy(tmp_path), "bash", "-c", script, cwd=tmp_path)
    assert {name: (tmp_path / name / ".npmrc").read_text() for name in "abcd"} == {name: name for name in "abcd"}
    assert (tmp_path / "link" / ".npmrc").readlink() == Path("../a/.npmrc")
    assert {str(tmp_path / name / ".npmrc") for name in ("c", "d", "link")} <= set(violations)


@pytest.mark.spec("N2")
def test_changes_by_a_person_stay_and_removed_files_are_quarantined(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "Makefile").write_text("old")
    place = resolve_policy(SandboxConfig(), PathVariables(cwd=root, root=root, home=tmp_path), state=tmp_path / "state")
    launch = launched(bubblewraps()[0], place, ["sh", "-c", "echo planted > conftest.py; mkfifo .env"], cwd=root)
    code, _out, _err = run_launch(replace(launch, cleanup=()), 30)
    assert code == 0
    (root / "new").write_text("saved by an editor")
    (root / "new").rename(root / "Makefile")
    (root / "new").write_text("mine")
    (root / "new").rename(root / ".envrc")
    assert clean_up(launch) == (str(root / ".env"), str(root / "conftest.py"))
    assert (root / "Makefile").read_text() == "saved by an editor"
    assert (root / ".envrc").read_text() == "mine"
    assert not (root / "conftest.py").exists() and not (root / ".env").exists()
    assert [path.read_text() for path in (tmp_path / "state" / "blocked").iterdir()] == ["planted\n"]


@pytest.mark.spec("N2")
def test_packages_can_be_installed_into_the_project(tmp_path: Path) -> None:
    script = "mkdir -p node_modules/left && echo '{}' > node_modules/left/package.json"
    done, violations = run_with_violations(bubblewraps()[0], policy(tmp_path), "sh", "-c", script, cwd=tmp_path)
    assert (done.code, violations) == (0, ())
    assert (tmp_path / "node_modules" / "left" / "package.json").read_text() == "{}\n"


@each
@pytest.mark.spec("N2")
def test_masks_leave_no_files_behind_and_git_ignores_them(tmp_path: Path, backend: Backend) -> None:
    root = repository(tmp_path / "root")
    before = tree(root)
    done = run(backend, policy(root), "bash", "-c", "git status --porcelain; echo x > .envrc", cwd=root)
    assert done.out == ""
    assert "Permission denied" in done.err
    assert tree(root) == before


@pytest.mark.spec("N2")
def test_concurrent_commands_share_their_mount_stubs(tmp_path: Path) -> None:
    first, second = MountStubs(tmp_path), MountStubs(tmp_path)
    assert (first.files, first.folders) == (second.files, second.folders)
    first.remove()
    assert all(Path(path).exists() for path in (*second.files, *second.folders))
    second.remove()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.spec("N2")
def test_user_files_are_never_removed_with_the_masks(tmp_path: Path) -> None:
    (tmp_path / ".vscode").mkdir()
    (tmp_path / ".envrc").touch()
    assert run(bubblewraps()[0], policy(tmp_path), "true", cwd=tmp_path).code == 0
    assert {path.name for path in tmp_path.iterdir()} == {".vscode", ".envrc"}


@pytest.mark.spec("N2")
def test_many_concurrent_commands_leave_the_project_unchanged(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text("all:\n")
    place, found = policy(tmp_path), list[tuple[str, ...]]()

    def one() -> None:
        done, violations = run_with_violations(bubblewraps()[0], place, "sh", "-c", "ls >/dev/null", cwd=tmp_path)
        assert done.code == 0
        found.append(violations)

    threads = [threading.Thread(target=one) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert found == [()] * 8
    assert [path.name for path in tmp_path.iterdir()] == ["Makefile"]


@pytest.mark.spec("N2")
def test_a_failed_launch_removes_its_mount_stubs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from holdfast.contract.errors import SandboxRefused

    monkeypatch.setattr(protected_mounts, "MAX_MOUNTED", 0)
    monkeypatch.setattr(protected_mounts, "MAX_SAVED_BYTES", 3)
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "Makefile").write_text("long enough")
    config = policy(tmp_path, writable=(str(tmp_path / "one"), str(tmp_path / "two")))
    with pytest.raises(SandboxRefused, match=r"Narrow sandbox\.writable"):
        launched(bubblewraps()[0], config, ["true"])
    assert list((tmp_path / "one").iterdir()) == []


@pytest.mark.spec("N2")
@pytest.mark.parametrize(
    ("path", "locked"),
    [
        (".git/hooks/pre-commit", True),
        (".git/config", True),
        (".GIT/Config", True),
        ("sub/.git/info/attributes", True),
        (".git/modules/a/b/hooks/x", True),
        (".git/worktrees/w/gitdir", True),
        (".git/commondir", True),
        ("Makefile", True),
        (".envrc", True),
        ("notes.chat", True),
        ("mine.lock", True),
        (".git/index", False),
        (".git/refs/heads/main", False),
        (".git/objects/ab/cd", False),
        (".git", False),
        ("src/main.py", False),
        ("node_modules/x/package.json", False),
    ],
)
def test_commands_may_write_git_data_but_not_what_git_obeys(tmp_path: Path, path: str, locked: bool) -> None:
    assert (command_locked_reason(tmp_path / path, root=tmp_path, extra=["mine.lock"]) is not None) is locked


@pytest.mark.spec("N2")
def test_a_git_file_that_points_elsewhere_is_protected_too(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    done, violations = run_with_violations(
        bubblewraps()[0], policy(tmp_path), "sh", "-c", "echo 'gitdir: ../evil' > sub/.git", cwd=tmp_path
    )
    assert done.code == 0
    assert violations == (str(tmp_path / "sub" / ".git"),)
    assert not (tmp_path / "sub" / ".git").exists()


@each
@pytest.mark.spec("N2")
def test_denied_files_and_folders_cannot_be_read_even_in_a_writable_folder(tmp_path: Path, backend: Backend) -> None:
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "key").write_text("k")
    (tmp_path / "token").write_text("k")
    place = policy(tmp_path, read_deny=("private", "token", "not-there"))
    script = "cat private/key token; ls private; echo x > private/new; echo x > token; rm token; chmod 777 private"
    done = run(backend, place, "sh", "-c", script, cwd=tmp_path)
    assert done.out == ""
    assert (tmp_path / "token").read_text() == "k"
    assert [path.name for path in (tmp_path / "private").iterdir()] == ["key"]
    assert not (tmp_path / "not-there").exists()
