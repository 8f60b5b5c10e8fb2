"""Hostile repositories that try to run programs or show foreign data, in every sandbox mode."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast import Answer, Config, PendingCall, Result, Runtime
from holdfast.config.config import SandboxConfig
from tests.runtime.support import run
from tests.soak import some
from tests.tools.git.test_commands import ENVIRONMENT, GIT_TOOLS, git, repository

TOOLS = ("git.status", "git.diff", "git.log")
CONTAINED = {"bubblewrap": SandboxConfig(backend="bubblewrap"), "landlock": SandboxConfig(backend="landlock")}
MODES = {**CONTAINED, "off": SandboxConfig(mode="off", environment=("PATH", "GIT_*"))}
SECRET = "SECRETgxqz"


async def _approve(held: PendingCall) -> Answer:
    return Answer(kind="approve", by="test")


def look(root: Path, mode: str) -> list[Result]:
    async def work() -> list[Result]:
        config = Config(sandbox=MODES[mode])
        async with Runtime(tools=GIT_TOOLS, root=root, config=config, asker=_approve) as runtime:
            return [await runtime.call(name, {}) for name in TOOLS]

    return run(work(), 90)


class Trap:
    """A repository with programs that leave a marker file when they run."""

    def __init__(self, folder: Path) -> None:
        self.outside = folder / "outside"
        self.outside.mkdir()
        self.root = repository(folder / "repo")
        self.marks = [self.outside, self.root / "marks"]
        self.marks[1].mkdir()

    def program(self, name: str, rest: str = "cat") -> str:
        path = self.root / f"evil-{name}"
        ran = " ".join(f"{mark}/ran-{name}" for mark in self.marks)
        path.write_text(f"#!/bin/sh\ntouch {ran}\n{rest}\n")
        path.chmod(0o755)
        return str(path)

    def config(self, key: str, value: str, *where: str) -> None:
        git(self.root, "config", *where, key, value)

    def touch(self, text: str = "two\n") -> None:
        """What git has to look at again."""
        (self.root / "a.txt").write_text(text)
        os.utime(self.root / "a.txt", (1, 1))

    def attribute(self, text: str) -> None:
        (self.root / ".gitattributes").write_text(f"*.txt {text}\n")

    @property
    def sprung(self) -> set[str]:
        return {path.name for mark in self.marks for path in mark.glob("ran-*")}


def filters(trap: Trap) -> None:
    trap.attribute("filter=evil diff=evil")
    for name in ("clean", "smudge", "process"):
        trap.config(f"filter.evil.{name}", trap.program(name))
    trap.config("filter.evil.required", "true")


def strangely_named_filters(trap: Trap) -> None:
    trap.attribute("filter=a=b.c.clean")
    trap.config("filter.a=b.c.clean.clean", trap.program("clean"))
    trap.config("filter.a=b.c.clean.required", "true")


def a_shouted_filter(trap: Trap) -> None:
    trap.attribute("filter=Evil")
    file = trap.root / ".git" / "config"
    file.write_text(f'{file.read_text()}[FILTER "Evil"]\n\tCLEAN = {trap.program("clean")}\n')


def a_filter_of_an_included_file(trap: Trap) -> None:
    trap.attribute("filter=evil")
    (trap.root / "settings").write_text(f'[filter "evil"]\n\tclean = {trap.program("clean")}\n')
    trap.config("include.path", "../settings")


def a_filter_of_a_conditionally_included_file(trap: Trap) -> None:
    trap.attribute("filter=evil")
    (trap.root / "settings").write_text(f'[filter "evil"]\n\tprocess = {trap.program("process")}\n')
    trap.config(f"includeIf.gitdir:{trap.root}/.path", "../settings")
    trap.config("includeIf.onbranch:main.path", "../settings")


def a_filter_of_the_worktree(trap: Trap) -> None:
    trap.attribute("filter=evil")
    trap.config("extensions.worktreeConfig", "true")
    trap.config("filter.evil.clean", trap.program("clean"), "--worktree")


def a_filter_by_hidden_attributes(trap: Trap) -> None:
    (trap.root / ".git" / "info" / "attributes").write_text("* filter=evil\n")
    trap.config("filter.evil.clean", trap.program("clean"))


def external_diffs(trap: Trap) -> None:
    trap.attribute("diff=evil")
    trap.config("diff.evil.textconv", trap.program("textconv"))
    trap.config("diff.evil.command", trap.program("command"))
    trap.config("diff.external", trap.program("external"))
    trap.config("diff.evil.cachetextconv", "true")


def watchers_hooks_and_pagers(trap: Trap) -> None:
    for key in ("core.fsmonitor", "core.pager", "pager.log", "pager.diff", "pager.status", "core.editor"):
        trap.config(key, trap.program(key))
    trap.config("core.hooksPath", "hooks")
    for folder in (trap.root / "hooks", trap.root / ".git" / "hooks"):
        folder.mkdir(exist_ok=True)
        for hook in ("post-index-change", "reference-transaction", "post-checkout", "fsmonitor-watchman"):
            shutil.copy(trap.program(f"hook-{hook}"), folder / hook)


def signatures(trap: Trap) -> None:
    tree = git(trap.root, "write-tree").strip()
    for number, armour in enumerate(("PGP SIGNATURE", "SSH SIGNATURE", "SIGNED MESSAGE")):
        who = "Ann <ann@example.org> 1700000000 +0000"
        signature = f"gpgsig -----BEGIN {armour}-----\n \n AAAA\n -----END {armour}-----\n"
        text = f"tree {tree}\nauthor {who}\ncommitter {who}\n{signature}\nSigned {number}\n"
        made = subprocess.run(
            ["git", "hash-object", "-t", "commit", "-w", "--stdin"],
            input=text, cwd=trap.root, env=ENVIRONMENT, capture_output=True, text=True, check=True,
        ).stdout.strip()  # fmt: skip
        git(trap.root, "update-ref", "HEAD", made)
    trap.config("log.showSignature", "true")
    for key in ("gpg.program", "gpg.openpgp.program", "gpg.ssh.program", "gpg.x509.program"):
        trap.config(key, trap.program(key))
    trap.config("gpg.ssh.allowedSignersFile", "/dev/null")
    trap.config("gpg.ssh.defaultKeyCommand", trap.program("key"))


def submodules(trap: Trap) -> None:
    inner = repository(trap.root / "inner")
    url = str(inner)
    git(trap.root, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", url, "sub")
    git(trap.root, "commit", "-q", "-m", "With a submodule")
    sub = trap.root / "sub"
    git(sub, "config", "core.fsmonitor", trap.program("sub-fsmonitor"))
    git(sub, "config", "filter.evil.clean", trap.program("sub-clean"))
    (sub / ".gitattributes").write_text("* filter=evil\n")
    (sub / "a.txt").write_text("changed\n")
    for name in ("submodule.sub.ignore", "submodule.inner.ignore"):
        trap.config(name, "none")
        git(trap.root, "config", "-f", ".gitmodules", name, "none")
    trap.config("diff.ignoreSubmodules", "none")
    trap.config("diff.submodule", "diff")
    trap.config("status.submoduleSummary", "true")


def missing_objects(url: str) -> Callable[[Trap], None]:
    """Objects that git would fetch lazily, with a program of the repository's choice."""

    def planted(trap: Trap) -> None:
        trap.config("remote.origin.url", url.format(evil=trap.program("remote", "exit 1"), root=trap.root))
        trap.config("remote.origin.promisor", "true")
        trap.config("remote.origin.partialclonefilter", "blob:none")
        trap.config("extensions.partialClone", "origin")
        trap.config("core.repositoryformatversion", "1")
        trap.config("remote.origin.uploadpack", trap.program("upload-pack", "exit 1"))
        trap.config("core.sshCommand", trap.program("ssh", "exit 1"))
        trap.config("core.askPass", trap.program("askpass", "exit 1"))
        trap.config("credential.helper", f"!{trap.program('credential', 'exit 1')}")
        trap.config("core.gitProxy", trap.program("proxy", "exit 1"))
        trap.config("core.alternateRefsCommand", trap.program("alternates", "exit 1"))
        trap.config("protocol.allow", "always")
        blob = git(trap.root, "rev-parse", "HEAD:a.txt").strip()
        (trap.root / ".git" / "objects" / blob[:2] / blob[2:]).unlink()

    return planted


ACTING: dict[str, Callable[[Trap], None]] = {
    one.__name__: one
    for one in (
        filters, strangely_named_filters, a_shouted_filter, a_filter_of_an_included_file,
        a_filter_of_a_conditionally_included_file, a_filter_of_the_worktree, a_filter_by_hidden_attributes,
        external_diffs, watchers_hooks_and_pagers, signatures, submodules,
    )
} | {
    "missing_objects_ext": missing_objects("ext::{evil}"),
    "missing_objects_file": missing_objects("{root}"),
    "missing_objects_ssh": missing_objects("ssh://host/x"),
    "missing_objects_git": missing_objects("git://127.0.0.1:1/x"),
}  # fmt: skip


@pytest.mark.spec("B3", "N8")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("what", some(ACTING, 8))
def test_no_program_of_a_hostile_repository_runs(tmp_path: Path, what: str, mode: str) -> None:
    trap = Trap(tmp_path)
    ACTING[what](trap)
    trap.touch()
    results = look(trap.root, mode)
    assert trap.sprung == set()
    if not what.startswith("missing"):
        assert [result.error for result in results] == [None, None, None]
        assert " M a.txt" in results[0].output and "+two" in results[1].output


@pytest.mark.spec("B3")
@pytest.mark.parametrize("what", ACTING)
def test_plain_git_does_run_the_traps(tmp_path: Path, what: str) -> None:
    trap = Trap(tmp_path)
    ACTING[what](trap)
    trap.touch()
    allowed = {**ENVIRONMENT, "GIT_ALLOW_PROTOCOL": "ext:file:ssh:git"}
    for words in (["status"], ["diff", "--no-ext-diff"], ["diff"], ["log", "-p", "-5"]):
        subprocess.run(["git", *words], cwd=trap.root, env=allowed, capture_output=True, check=False, timeout=30)
    assert trap.sprung


@pytest.mark.spec("B3", "N8")
def test_inherited_git_variables_do_not_reach_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if the configuration passes such variables to commands."""
    trap = Trap(tmp_path)
    other = repository(tmp_path / "other")
    git(other, "commit", "-q", "--allow-empty", "-m", SECRET)
    trap.touch()
    for name, value in {
        "GIT_DIR": f"{other}/.git", "GIT_EXTERNAL_DIFF": trap.program("external"), "GIT_TRACE": f"{tmp_path}/trace",
        "GIT_CONFIG_PARAMETERS": f"'core.fsmonitor'='{trap.program('parameter')}'", "GIT_INDEX_FILE": "/nowhere",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    results = look(trap.root, "off")
    assert [result.error for result in results] == [None, None, None]
    assert SECRET not in results[2].output
    assert trap.sprung == set() and not (tmp_path / "trace").exists()


def private(folder: Path) -> Path:
    """An unrelated repository of the same user."""
    other = repository(folder / "private")
    (other / "a.txt").write_text(f"{SECRET} in a file\n")
    git(other, "commit", "-q", "-a", "-m", f"{SECRET} in a message")
    (other / "a.txt").write_text(f"{SECRET} in the working tree\n")
    return other


def as_a_file(root: Path, other: Path) -> None:
    shutil.rmtree(root / ".git")
    (root / ".git").write_text(f"gitdir: {other}/.git\n")


def as_a_link(root: Path, other: Path) -> None:
    shutil.rmtree(root / ".git")
    (root / ".git").symlink_to(other / ".git")


def as_a_worktree_of_it(root: Path, other: Path) -> None:
    """Claim to be a worktree of the other repository, which does not know about it."""
    made = root / "made"
    made.mkdir()
    shutil.rmtree(root / ".git")
    (root / ".git").write_text(f"gitdir: {made}\n")
    (made / "commondir").write_text(f"{other}/.git\n")
    (made / "gitdir").write_text(f"{root}/.git\n")
    (made / "HEAD").write_text("ref: refs/heads/main\n")


def by_its_common_folder(root: Path, other: Path) -> None:
    (root / ".git" / "commondir").write_text(f"{other}/.git\n")


def by_its_working_tree(root: Path, other: Path) -> None:
    git(root, "config", "core.worktree", str(other))


def by_links_inside(root: Path, other: Path) -> None:
    for name in ("objects", "refs", "index", "packed-refs"):
        if (other / ".git" / name).exists():
            path = root / ".git" / name
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
            path.symlink_to(other / ".git" / name)


def by_alternates(root: Path, other: Path) -> None:
    (root / ".git" / "objects" / "info" / "alternates").write_text(f"{other}/.git/objects\n")
    (root / ".git" / "refs" / "heads" / "main").write_text(git(other, "rev-parse", "HEAD"))


def by_names_in_a_file(root: Path, other: Path) -> None:
    (other / "names").write_text(f"{SECRET} <ann@example.org>\n")
    git(root, "config", "mailmap.file", str(other / "names"))
    git(root, "config", "log.mailmap", "true")
    git(root, "config", "diff.orderFile", str(other / "names"))
    git(root, "config", "core.excludesFile", str(other / "names"))


LEAKING = {
    one.__name__: one
    for one in (
        as_a_file, as_a_link, as_a_worktree_of_it, by_its_common_folder, by_its_working_tree, by_links_inside,
        by_alternates, by_names_in_a_file,
    )
}  # fmt: skip
ONLY_CONTAINED = {"by_links_inside", "by_alternates"}
"""Without a sandbox git follows these links, and approval is needed."""


@pytest.mark.spec("B3", "N3")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("what", LEAKING)
def test_data_of_another_repository_is_not_shown(tmp_path: Path, what: str, mode: str) -> None:
    if mode == "off" and what in ONLY_CONTAINED:
        return
    root, other = repository(tmp_path / "repo"), private(tmp_path)
    LEAKING[what](root, other)
    for result in look(root, mode):
        assert SECRET not in f"{result.output} {result.error} {result.structured}", result


@pytest.mark.spec("B3")
@pytest.mark.parametrize("what", [name for name in LEAKING if name != "by_names_in_a_file"])
def test_plain_git_does_show_data_of_another_repository(tmp_path: Path, what: str) -> None:
    root, other = repository(tmp_path / "repo"), private(tmp_path)
    LEAKING[what](root, other)
    said = ""
    for words in (["diff"], ["log", "-p"]):
        done = subprocess.run(["git", *words], cwd=root, env=ENVIRONMENT, capture_output=True, text=True, check=False)
        said += done.stdout
    assert SECRET in said


@pytest.mark.spec("B3", "N5")
@pytest.mark.parametrize("mode", MODES)
def test_a_linked_worktree_a_submodule_and_a_folder_of_a_repository_work(tmp_path: Path, mode: str) -> None:
    main = repository(tmp_path / "main")
    git(main, "worktree", "add", "-q", str(tmp_path / "linked"))
    git(main, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(main), "sub")
    (main / "folder").mkdir()
    (main / "folder" / "holdfast.toml").touch()
    (main / ".gitignore").write_text("ignored\n")
    git(main, "add", ".")
    git(main, "commit", "-q", "-m", "Second")
    for root in (tmp_path / "linked", main / "sub", main / "folder"):
        (root / "new.txt").touch()
        (root / "ignored").touch()
        status, diff, log = look(root, mode)
        assert (status.error, diff.error, log.error) == (None, None, None), root
        assert "new.txt" in status.output and "First" in log.output
        assert root.name != "folder" or "ignored" not in status.output
