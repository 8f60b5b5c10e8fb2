"""Git folders that commands write to: real git, run outside afterwards, executes nothing that a command planted."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.sandbox.protected_mounts import find_protected
from tests.runtime.undo.support import RecordedProject, overlay_bwrap
from tests.sandbox.sandboxed_commands import bubblewraps, git, policy, repository, run_with_violations
from tests.soak import some

Run = Callable[[str], set[str]]
"""Runs a script contained in the project and returns its violations."""


@pytest.fixture(params=["binds", "overlay", "copy"])
def contained(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Run]:
    """A repository with one commit, and a function that runs commands in it."""
    if request.param == "overlay" and overlay_bwrap() is None:
        pytest.skip("no bubblewrap with overlays")
    root = repository(tmp_path / "project")
    commit(root, "one")

    def in_binds(script: str) -> set[str]:
        done, violations = run_with_violations(bubblewraps()[0], policy(root), "bash", "-ec", script, cwd=root)
        assert done.code == 0, done.err
        return {os.path.relpath(path, root) for path in violations}

    def recorded(script: str) -> set[str]:
        changes = place.shell(script)[1]
        assert not changes.lost
        return {os.path.relpath(path, root) for path in changes.violations}

    if request.param == "binds":
        return root, in_binds
    place = RecordedProject(tmp_path, request.param)
    return root, recorded


def commit(root: Path, text: str, name: str = "a.txt") -> None:
    (root / name).write_text(f"{text}\n")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", text)


def outside(root: Path, *args: str) -> str:
    """Run git outside the sandbox, as the user does next; it may fail."""
    env = {**os.environ, "GIT_EDITOR": "true", "GIT_PAGER": "cat"}
    done = subprocess.run(["git", *args], cwd=root, env=env, capture_output=True, text=True, timeout=30, check=False)
    return done.stdout + done.stderr


PLANT_REBASE = """
    d={}/rebase-merge; mkdir -p $d
    echo refs/heads/main > $d/head-name; git rev-parse HEAD | tee $d/onto > $d/orig-head
    echo 1 > $d/msgnum; echo 2 > $d/end; touch $d/interactive $d/done
    printf 'exec touch {}\\nnoop\\n' > $d/git-rebase-todo
"""


@pytest.mark.spec("N2", "N9")
def test_a_planted_rebase_does_not_run(contained: tuple[Path, Run], tmp_path: Path) -> None:
    root, run = contained
    mark = tmp_path / "ran"
    assert run(PLANT_REBASE.format(".git", mark)) == {".git/rebase-merge/git-rebase-todo"}
    outside(root, "rebase", "--continue")
    assert not mark.exists()


@pytest.mark.spec("N2", "N9")
def test_a_planted_rebase_of_a_worktree_does_not_run(contained: tuple[Path, Run], tmp_path: Path) -> None:
    root, run = contained
    mark = tmp_path / "ran"
    git(root, "worktree", "add", "-q", str(tmp_path / "w"))
    assert run(PLANT_REBASE.format(".git/worktrees/w", mark))
    outside(tmp_path / "w", "rebase", "--continue")
    assert not mark.exists()


@pytest.mark.spec("N2", "N9")
def test_a_step_planted_into_a_users_rebase_does_not_run(contained: tuple[Path, Run], tmp_path: Path) -> None:
    root, run = contained
    mark = tmp_path / "ran"
    conflict(root)
    outside(root, "rebase", "main")
    todo = root / ".git/rebase-merge/git-rebase-todo"
    assert todo.exists()
    assert run(f"echo 'x touch {mark}' >> .git/rebase-merge/git-rebase-todo") == {".git/rebase-merge/git-rebase-todo"}
    (root / "a.txt").write_text("both\n")
    git(root, "add", "-A")
    outside(root, "rebase", "--continue")
    assert not mark.exists()


STRATEGY = "d=git-merge-x; mkdir -p $d; printf '#!/bin/sh\\ntouch {mark}\\n' > $d/evil; chmod +x $d/evil\n"
"""A program that git runs for the strategy `x/evil`."""
OPTIONS = [
    r"[options] strategy = x/evil\n",
    r"[options]\n\rstrategy = x/evil\n",
    r"[options]\n\tstrategy = \"x/evil\"\n",
    r"[options]\n\tstrategy = ort\n[Options]Strategy=x/evil",
]


@pytest.mark.spec("N2", "N9")
@pytest.mark.parametrize("options", OPTIONS)
def test_a_strategy_planted_into_a_cherry_pick_does_not_run(
    contained: tuple[Path, Run], tmp_path: Path, options: str
) -> None:
    root, run = contained
    mark = tmp_path / "ran"
    conflict(root)
    git(root, "switch", "-q", "main")
    plant = f"printf '{options}' > .git/sequencer/opts"
    stop = "git cherry-pick side~1 side || true; echo both > a.txt; git add a.txt\n"
    assert run(STRATEGY.format(mark=mark) + stop + plant) == {".git/sequencer/opts"}
    outside(root, "cherry-pick", "--continue")
    assert not mark.exists()
    assert run(f"mkdir -p .git/sequencer; {plant}") == {".git/sequencer/opts"}


@pytest.mark.spec("N2", "N9")
@pytest.mark.parametrize("where", ["worktree", "submodule"])
def test_a_strategy_planted_elsewhere_does_not_run(contained: tuple[Path, Run], tmp_path: Path, where: str) -> None:
    root, run = contained
    mark = tmp_path / "ran"
    conflict(root)
    git(root, "switch", "-q", "main")
    if where == "worktree":
        git(root, "worktree", "add", "-q", str(root / "w"))
        place, folder = root / "w", ".git/worktrees/w"
    else:
        add = ("submodule", "add", "-q", "--name", "s", str(root), "w")
        git(root, "-c", "protocol.file.allow=always", *add)
        place, folder = root / "w", ".git/modules/s"
        git(place, "fetch", "-q", "origin", "side:side")
    outside(place, "-c", "user.name=a", "-c", "user.email=a@example.org", "cherry-pick", "side~1", "side")
    assert (root / folder / "sequencer/todo").exists()
    (place / "a.txt").write_text("both\n")
    git(place, "add", "-A")
    plant = f"cd w\n{STRATEGY.format(mark=mark)}cd ..; printf '{OPTIONS[0]}' > {folder}/sequencer/opts"
    assert run(plant) == {f"{folder}/sequencer/opts"}
    outside(place, "cherry-pick", "--continue")
    assert not mark.exists()


@pytest.mark.spec("N2")
@pytest.mark.parametrize(
    "stop",
    [
        "git cherry-pick -x -s -X theirs -X find-renames=40 --strategy=resolve -e --cleanup=scissors main~1 main",
        "git cherry-pick --rerere-autoupdate --allow-empty --keep-redundant-commits -X subtree=a/b main",
        "git revert --no-edit HEAD~1 HEAD~2",
        "git rebase -X patience -X find-renames=40 --signoff --rerere-autoupdate --autostash main",
        "git rebase --strategy=octopus --reset-author-date --committer-date-is-author-date main",
        "git rebase --apply main",
        "git rebase --apply -q --ignore-date main",
        "git rebase -i --autosquash --rebase-merges --update-refs main",
        "git rebase -i --root --onto main",
        "git rebase --keep-empty --no-ff -v --empty=keep main",
        "git format-patch main --stdout > ../p; git switch -q main; git am -3 --signoff --keep-cr < ../p",
        "git format-patch main --stdout > ../p; git switch -q main; git am -k --scissors --message-id < ../p",
        "echo > 'a !'; git add -A; git commit -qm x; git bisect start HEAD HEAD~3 -- a.txt 'a !'; git bisect skip",
        "git bisect start --first-parent --term-old=fast --term-new=slow; git bisect slow; git bisect fast HEAD~1",
    ],
)
def test_an_interrupted_git_operation_is_left_as_it_is(tmp_path: Path, stop: str) -> None:
    root = repository(tmp_path / "project")
    git(root, "config", "user.name", "O'A! B")
    commit(root, "one")
    conflict(root)
    commit(root, "fixup! more", "b.txt")
    env = {**os.environ, "GIT_EDITOR": "true"}
    subprocess.run(["bash", "-c", stop], cwd=root, env=env, capture_output=True, timeout=30, check=False)
    patterns = ("rebase-merge/*", "rebase-apply/*", "sequencer/*", "BISECT_*", "CHERRY_PICK_HEAD")
    state = [path for pattern in patterns for path in (root / ".git").glob(pattern)]
    assert state, "it did not stop"
    assert not [item.path for item in find_protected(root) if item.path in map(str, state)]


@pytest.mark.spec("N2", "N9")
def test_bisect_names_are_not_executed_as_shell_code(contained: tuple[Path, Run]) -> None:
    root, run = contained
    commit(root, "two")
    assert run("git bisect start HEAD HEAD~1 -- a.txt; git bisect reset") == set()
    assert run("echo '; touch ran' > .git/BISECT_NAMES") == {".git/BISECT_NAMES"}
    assert not (root / ".git/BISECT_NAMES").exists()


@pytest.mark.spec("N2", "N9")
def test_a_command_cannot_enable_recorded_resolutions(contained: tuple[Path, Run]) -> None:
    """git applies recorded resolutions silently if the folder exists."""
    root, run = contained
    conflict(root)
    git(root, "switch", "-q", "main")
    use = "git -c rerere.enabled=true"
    kept_from = run(f"{use} merge side || true; echo evil > a.txt; {use} rerere; git reset -q --hard")
    assert kept_from and all(path.startswith(".git/rr-cache") for path in kept_from)
    assert not (root / ".git/rr-cache").exists()
    outside(root, "merge", "side")
    assert "<<<<<<<" in (root / "a.txt").read_text()


@pytest.mark.spec("N2")
def test_recorded_resolutions_keep_working_for_users_who_enabled_them(contained: tuple[Path, Run]) -> None:
    root, run = contained
    (root / ".git/rr-cache").mkdir()
    conflict(root)
    git(root, "switch", "-q", "main")
    assert run("git merge side || true; echo both > a.txt; git commit -qam merged") == set()
    assert list((root / ".git/rr-cache").glob("*/postimage"))


def conflict(root: Path) -> None:
    """Check out a branch `side` that conflicts with `main`."""
    git(root, "switch", "-qc", "side")
    commit(root, "side")
    commit(root, "more", "b.txt")
    git(root, "switch", "-q", "main")
    commit(root, "main")
    git(root, "switch", "-q", "side")


@pytest.mark.spec("N2")
def test_a_rebase_with_conflicts_continues_across_commands(contained: tuple[Path, Run]) -> None:
    root, run = contained
    conflict(root)
    assert run("git rebase main || true; test -d .git/rebase-merge") == set()
    assert (root / ".git/rebase-merge/git-rebase-todo").exists()
    assert run("echo both > a.txt; git add a.txt; GIT_EDITOR=true git rebase --continue") == set()
    assert git(root, "log", "--format=%s", "side").split() == ["more", "side", "main", "one"]
    assert not (root / ".git/rebase-merge").exists()


@pytest.mark.spec("N2")
def test_a_rebase_that_runs_commands_ends_within_its_command(contained: tuple[Path, Run]) -> None:
    root, run = contained
    commit(root, "two")
    assert run("git rebase -q -x 'echo ran >> ran.txt' HEAD~1") == set()
    assert (root / "ran.txt").read_text() == "ran\n"


@pytest.mark.spec("N2")
def test_other_interrupted_operations_continue_too(contained: tuple[Path, Run]) -> None:
    root, run = contained
    conflict(root)
    (root / "series.patch").write_text(git(root, "format-patch", "-2", "--stdout"))
    git(root, "switch", "-q", "main")
    assert run("git cherry-pick side~1 side || true; test -d .git/sequencer") == set()
    assert run("echo both > a.txt; git add a.txt; GIT_EDITOR=true git cherry-pick --continue") == set()
    assert git(root, "log", "-2", "--format=%s").split() == ["more", "side"]
    git(root, "reset", "-q", "--hard", "HEAD~2")
    assert run("git am -q series.patch || true; test -d .git/rebase-apply") == set()
    assert run("echo both > a.txt; git add a.txt; git am --continue") == set()
    assert git(root, "log", "-2", "--format=%s").split() == ["more", "side"]
    assert run("git merge -q HEAD~1; git stash list; git bisect start; git bisect reset; git gc -q") == set()


@pytest.mark.spec("N2", "N9")
@pytest.mark.parametrize(
    ("script", "planted"),
    some(
        [
            ("git init -q --bare .git/x; git -C .git/x config core.fsmonitor 'touch ran'", ".git/x/config"),
            ("git init -q --bare .git/objects/x; echo x >> .git/objects/x/config", ".git/objects/x/config"),
            ("mkdir -p .git/objects/ab; git init -q --bare .git/objects/ab/x", ".git/objects/ab/x/config"),
            ("git init -q --bare .git/refs/x", ".git/refs/x/objects"),
            ("git init -q --bare .git/modules/x", ".git/modules/x/config"),
            ("git init -q --bare .git/rebase-merge", ".git/rebase-merge/config"),
            ("git init -q --bare sub", "sub/config"),
            ("git init -q sub", "sub/.git/config"),
            ("mkdir sub; echo 'gitdir: ../.git/x' > sub/.git", "sub/.git"),
            ("echo /tmp > .git/objects/info/alternates", ".git/objects/info/alternates"),
            ("mkdir -p .git/info; echo '* filter=x' > .git/info/attributes", ".git/info/attributes"),
            ("echo '[core]' > .git/config.worktree", ".git/config.worktree"),
            ("echo ../x > .git/commondir", ".git/commondir"),
            ("echo x > .git/gitdir", ".git/gitdir"),
            ("mkdir -p .git/remotes; echo 'URL: /tmp/x' > .git/remotes/origin", ".git/remotes/origin"),
            ("mkdir -p .git/worktrees/w; echo ../.. > .git/worktrees/w/commondir", ".git/worktrees/w/commondir"),
            ("mkdir -p .git/gitweb; echo x > .git/gitweb/httpd.conf", ".git/gitweb/httpd.conf"),
            ("ln -sf ../../outside .git/COMMIT_EDITMSG", ".git/COMMIT_EDITMSG"),
            ("rm -f .git/logs/HEAD; ln -s ../../../outside .git/logs/HEAD", ".git/logs/HEAD"),
            ("ln -s ../../outside .git/FETCH_HEAD", ".git/FETCH_HEAD"),
            ("mkdir -p .hg; printf '[confirmation]\\nupdate = touch ran' > .hg/hgrc", ".hg/hgrc"),
            ("mkdir -p .jj; echo ../elsewhere > .jj/repo", ".jj/repo"),
            ("mkdir -p .jj/repo; echo x > .jj/repo/config.toml", ".jj/repo/config.toml"),
        ],
        24,
    ),
)
def test_files_planted_in_a_git_folder_are_removed(contained: tuple[Path, Run], script: str, planted: str) -> None:
    root, run = contained
    existed = (root / planted).exists()
    kept_from = run(script)
    assert any(planted.startswith(path) or path.startswith(planted) for path in kept_from), kept_from
    assert not (root / planted).is_symlink() and (existed or not (root / planted).exists())
    assert git(root, "log", "--format=%s").split() == ["one"]


PACKAGES = ["node_modules", "site-packages", "dist-packages"]
"""Names of package folders, in which commands may write anything."""
PLANT_COMMON = """
    printf '#!/bin/sh\ntouch {mark}\n' > evil; chmod +x evil; mkdir -p other
    cp -r .git/modules/{name}/objects .git/modules/{name}/refs .git/modules/{name}/packed-refs other 2>&- || true
    printf '[core]\n\trepositoryformatversion = 0\n\tfsmonitor = {root}/evil\n\tworktree = {root}/lib\n' > other/config
    echo ../../../other > .git/modules/{name}/commondir || true
    printf '[core]\n\tfsmonitor = {root}/evil\n' >> .git/modules/{name}/config || true
    mkdir -p .git/modules/{name}/hooks; cp evil .git/modules/{name}/hooks/post-index-change || true
"""


@pytest.mark.spec("N2", "N9")
@pytest.mark.parametrize("name", [*PACKAGES, "libs/node_modules/inner"])
def test_a_submodule_named_like_a_package_folder_is_protected(
    contained: tuple[Path, Run], tmp_path: Path, name: str
) -> None:
    root, run = contained
    commit(repository(tmp_path / "library"), "library")
    add = ("submodule", "add", "-q", "--name", name, str(tmp_path / "library"), "lib")
    git(root, "-c", "protocol.file.allow=always", *add)
    git(root, "commit", "-qm", "with a submodule")
    mark = tmp_path / "ran"
    run(PLANT_COMMON.format(mark=mark, root=root, name=name))
    assert not (root / ".git/modules" / name / "commondir").exists()
    outside(root, "status")
    outside(root / "lib", "status")
    assert not mark.exists()


@pytest.mark.spec("N2", "N9")
@pytest.mark.parametrize("name", PACKAGES)
def test_a_worktree_named_like_a_package_folder_is_protected(
    contained: tuple[Path, Run], tmp_path: Path, name: str
) -> None:
    root, run = contained
    mark = tmp_path / "ran"
    git(root, "worktree", "add", "-q", str(tmp_path / name))
    pointer = (root / ".git/worktrees" / name / "gitdir").read_text()
    run(f"echo /tmp/x/.git > .git/worktrees/{name}/gitdir || true")
    assert (root / ".git/worktrees" / name / "gitdir").read_text() == pointer
    assert run(PLANT_REBASE.format(f".git/worktrees/{name}", mark))
    outside(tmp_path / name, "rebase", "--continue")
    assert not mark.exists()


@pytest.mark.spec("N2", "N9")
def test_a_bare_repository_with_a_submodule_named_like_a_package_folder_is_protected(
    contained: tuple[Path, Run],
) -> None:
    root, run = contained
    git(root, "init", "-q", "--bare", "store")
    (root / "store/modules/node_modules").mkdir(parents=True)
    (root / "store/worktrees/site-packages").mkdir(parents=True)
    planted = ("store/modules/node_modules/commondir", "store/worktrees/site-packages/gitdir")
    assert run(f"echo ../x > {planted[0]}; echo ../x > {planted[1]}") == set(planted)
    assert not any((root / path).exists() for path in planted)


@pytest.mark.spec("N2", "N9")
def test_git_does_not_write_through_a_planted_symlink(contained: tuple[Path, Run], tmp_path: Path) -> None:
    root, run = contained
    theirs = tmp_path / "outside"
    theirs.write_text("mine")
    run("rm -f .git/COMMIT_EDITMSG .git/logs/HEAD; ln -s ../../outside .git/COMMIT_EDITMSG")
    run("rm -f .git/logs/HEAD; ln -s ../../../outside .git/logs/HEAD; echo 'touch ran' > .git/MERGE_MSG")
    outside(root, "commit", "--allow-empty", "-m", "$(touch ran)")
    assert theirs.read_text() == "mine"


@pytest.mark.spec("N2", "N9")
def test_a_configured_hooks_folder_is_not_writable(contained: tuple[Path, Run]) -> None:
    root, run = contained
    git(root, "config", "core.hooksPath", "tools/hooks")
    (root / "tools/hooks").mkdir(parents=True)
    (root / "tools/hooks/pre-push").write_text("#!/bin/sh\n")
    run("echo x > tools/hooks/pre-commit || true; echo x >> tools/hooks/pre-push || true; echo fine > tools/other")
    assert [path.name for path in (root / "tools/hooks").iterdir()] == ["pre-push"]
    assert (root / "tools/hooks/pre-push").read_text() == "#!/bin/sh\n"
    assert (root / "tools/other").read_text() == "fine\n"
