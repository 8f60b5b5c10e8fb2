"""Attacks against restoring: symlinks, modes, depth, names, and concurrent commands."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.fs.beneath import remove_tree
from holdfast.fs.protected_paths import command_locked_reason
from holdfast.sandbox import restore_protected
from holdfast.sandbox.protected_mounts import choose_mounts, find_protected
from holdfast.sandbox.restore_protected import Restorer
from tests.sandbox.sandboxed_commands import bubblewraps, git, policy, repository, run_with_violations
from tests.sandbox.unprivileged_user import run_as_nobody


def attacked(root: Path, script: str) -> set[str]:
    """Run a script in a project without an overlay; return its violations."""
    done, violations = run_with_violations(bubblewraps()[0], policy(root), "bash", "-ec", script, cwd=root)
    assert done.code == 0, done.err
    return {os.path.relpath(path, root) for path in violations}


@pytest.mark.spec("N2")
@pytest.mark.parametrize(
    ("script", "planted"),
    [
        ("mkdir c2; echo x > c2/config.toml; ln -s c2 .cargo", ".cargo"),
        ("mkdir -p sub/g2/workflows; ln -s g2 sub/.github", "sub/.github"),
        ("rm -r .git/info; mkdir foo; echo '* filter=x' > foo/attributes; ln -s ../foo .git/info", ".git/info"),
        ("mkdir -p mods/s; echo x > mods/s/config; ln -s ../mods .git/modules", ".git/modules"),
        ("mkdir -p mods .git/modules; echo x > mods/config; ln -s ../../mods .git/modules/s", ".git/modules/s"),
        ("mkdir -p b/objects b/refs; echo x > b/HEAD; echo x > b/config", "b/config"),
        ("mkdir b; echo x > b/HEAD; echo ../c > b/commondir", "b/commondir"),
    ],
)
def test_no_path_bypasses_the_protection(tmp_path: Path, script: str, planted: str) -> None:
    root = repository(tmp_path / "root")
    assert attacked(root, script) == {planted}
    assert not os.path.lexists(root / planted)


@pytest.mark.spec("N2")
def test_a_moved_submodule_configuration_is_moved_back(tmp_path: Path) -> None:
    root = repository(tmp_path / "root")
    inner = root / ".git" / "modules" / "sub"
    inner.mkdir(parents=True)
    git(inner, "init", "-q", "--bare")
    config = (inner / "config").read_text()
    script = "cp -r .git/m2 mods; echo evil > mods/sub/config; ln -s ../mods .git/modules"
    attacked(root, f"mv .git/modules .git/m2; {script}")
    assert not (root / ".git" / "modules").is_symlink()
    assert (inner / "config").read_text() == config


@pytest.mark.spec("N2")
def test_a_path_moved_into_a_package_folder_is_moved_back(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / ".envrc").write_text("mine")
    (tmp_path / "sub" / ".vscode").mkdir()
    (tmp_path / "sub" / ".vscode" / "tasks.json").write_text("mine")
    attacked(tmp_path, "mkdir node_modules; mv sub node_modules/s")
    assert (tmp_path / "sub" / ".envrc").read_text() == "mine"
    assert (tmp_path / "sub" / ".vscode" / "tasks.json").read_text() == "mine"


@pytest.mark.spec("N2")
def test_only_folders_below_the_project_count_as_package_folders(tmp_path: Path) -> None:
    root = tmp_path / "site-packages" / "root"
    other = tmp_path / "node_modules" / "other"
    assert command_locked_reason(root / ".envrc", root=root) is not None
    assert command_locked_reason(other / ".envrc", root=root, writable=(other,)) is not None
    assert command_locked_reason(root / "node_modules" / ".envrc", root=root) is None
    held = (".git/modules/node_modules/config", "node_modules/x/.git/config", ".GIT/worktrees/site-packages/gitdir")
    for path in held:
        assert command_locked_reason(root / path, root=root) is not None, path


@pytest.mark.spec("N2")
def test_build_files_of_a_project_in_a_larger_writable_folder_are_found(tmp_path: Path) -> None:
    root = tmp_path / "project"
    (root / "sub").mkdir(parents=True)
    (root / "Makefile").touch()
    (root / "sub" / "Makefile").touch()
    assert find_protected(tmp_path) == []
    assert [item.path for item in find_protected(tmp_path, root=root)] == [str(root / "Makefile")]


@pytest.mark.spec("N2")
def test_a_planted_tree_too_deep_to_copy_is_removed_with_the_rest(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    restorer = Restorer(root, [], keep=tmp_path / "kept")
    here = os.open(root, os.O_RDONLY)
    for name in (".bash_aliases", *["a"] * 1100):
        os.mkdir(name, dir_fd=here)
        below = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    (root / ".envrc").write_text("x")
    restorer()
    assert set(restorer.violations) == {str(root / ".bash_aliases"), str(root / ".envrc")}
    assert not (root / ".bash_aliases").exists() and not (root / ".envrc").exists()
    left = next(path for path in root.iterdir() if path.name.endswith(".blocked"))
    assert left.stat().st_mode & 0o777 == 0
    parent = os.open(root, os.O_RDONLY)
    remove_tree(left.name, parent)
    os.close(parent)
    assert list(root.iterdir()) == []


@pytest.mark.spec("N2")
def test_the_quarantine_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.sandbox.restore_protected.MAX_QUARANTINE_BYTES", 40_000)
    root, kept = tmp_path / "root", tmp_path / "kept"
    for count in range(6):
        root.mkdir(exist_ok=True)
        restorer = Restorer(root, [], keep=kept)
        with (root / ".envrc").open("wb") as file:
            file.truncate(10_000)
        restorer()
        assert restorer.violations == (str(root / ".envrc"),), count
    assert len(list(kept.iterdir())) == 2
    assert not (root / ".envrc").exists()


@pytest.mark.spec("N2")
def test_a_removed_file_is_not_restored_when_another_command_ends(tmp_path: Path) -> None:
    first = Restorer(tmp_path, [])
    (tmp_path / ".envrc").symlink_to("evil")
    second = Restorer(tmp_path, choose_mounts(find_protected(tmp_path)))
    second()
    assert not (tmp_path / ".envrc").is_symlink()
    (tmp_path / ".envrc").symlink_to("evil")
    seen = choose_mounts(find_protected(tmp_path))
    first()
    Restorer(tmp_path, seen)()
    assert not (tmp_path / ".envrc").is_symlink()


SHUT = """
import json, os
from pathlib import Path
from holdfast.sandbox.restore_protected import Restorer
found = {}
for number, (plant, folder, mode) in enumerate([
    ("a/.git/config", "a/.git", 0o555), ("b/.envrc", "b", 0o311), ("b/.envrc", "b", 0o444), (".envrc", ".", 0o311),
    (".envrc", ".", 0o555), ("a/b/.envrc", "a", 0),
]):
    root = Path.home() / str(number)
    (root / plant).parent.mkdir(parents=True)
    sweep = Restorer(root, [])
    (root / plant).write_text("x")
    (root / folder).chmod(mode)
    sweep()
    same = (root / folder).stat().st_mode & 0o777 == mode
    (root / folder).chmod(0o755)
    found[f"{plant} {mode:o}"] = [sweep.violations == (str(root / plant),), same, (root / plant).exists()]
print(json.dumps(found))
"""


@pytest.mark.spec("N2")
def test_no_mode_hides_a_planted_file_of_an_ordinary_user(tmp_path: Path) -> None:
    done = run_as_nobody(SHUT, tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert list(found.values()) == [[True, True, False]] * 6, found


@pytest.mark.spec("N2")
def test_builds_and_package_installs_work(tmp_path: Path) -> None:
    root = repository(tmp_path / "root")
    script = (
        "mkdir -p build/sub node_modules/x/.github node_modules/.bin; echo all: > build/Makefile; "
        "echo all: > build/sub/Makefile; echo {} > node_modules/x/package.json; ln -s ../x/x node_modules/.bin/x; "
        "mkdir info modules; ln -s info current; git add build; git commit -qm one"
    )
    assert attacked(root, script) == set()
    assert (root / "current").is_symlink()


KILLED = """
import os, signal, sys
from pathlib import Path
from holdfast.sandbox.protected_mounts import MountStubs, choose_mounts, find_protected
from holdfast.sandbox.restore_protected import Restorer
root, keep = Path(sys.argv[1]), Path(sys.argv[2])
before = choose_mounts(find_protected(root))
stubs = MountStubs(root)
sweep = Restorer(root, before, masked=stubs.made, keep=keep)
(root / "sub" / ".npmrc").write_text("planted")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.spec("N2")
def test_the_next_process_restores_for_a_killed_one(tmp_path: Path) -> None:
    root, keep = tmp_path / "root", tmp_path / "state" / "blocked"
    (root / "sub").mkdir(parents=True)
    done = subprocess.run([sys.executable, "-c", KILLED, root, keep], timeout=30, check=False)
    assert done.returncode == -signal.SIGKILL
    assert (root / ".envrc").exists() and (root / "sub" / ".npmrc").exists()
    living = Restorer(root, [], keep=keep)
    assert restore_protected.recover(keep) == ()
    living.discard()
    assert restore_protected.recover(keep) == (str(root / "sub" / ".npmrc"),)
    assert [path.name for path in root.rglob("*")] == ["sub"]
    assert list((tmp_path / "state" / "sweeps").iterdir()) == []


@pytest.mark.spec("N2")
def test_a_new_file_that_reuses_the_inode_of_a_removed_symlink_stays(tmp_path: Path) -> None:
    link, new = tmp_path / "Makefile", tmp_path / "new.txt"
    link.symlink_to("/etc/hostname")
    new.write_text("mine")
    about = new.stat()
    before = [replace(item, identity=(about.st_dev, about.st_ino)) for item in choose_mounts(find_protected(tmp_path))]
    assert [item.path for item in before] == [str(link)]
    link.unlink()
    restorer = Restorer(tmp_path, before)
    restorer()
    assert (new.read_text(), link.readlink()) == ("mine", Path("/etc/hostname"))
    assert restorer.violations == (str(link),)
