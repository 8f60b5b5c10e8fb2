"""Which parts of a git folder commands may write, told by their paths."""

from __future__ import annotations

import pytest

from holdfast.config.git_folder import locks, may_run

OBEYED = [
    "hooks/pre-commit",
    "config",
    "config.worktree",
    "info/attributes",
    "commondir",
    "gitdir",
    "remotes/origin",
    "branches/main",
    "objects/info/alternates",
    "objects/info/http-alternates",
    "rebase-merge/git-rebase-todo",
    "rebase-apply/next",
    "sequencer/todo",
    "x/config",
    "x/head",
    "x",
    "objects/evil/head",
    "objects/ab/evil/head",
    "objects/tmp_objdir-x/head",
    "objects/tmp_objdir-x/refs",
    "objects/pack/evil/head",
    "refs/evil/objects/x",
    "refs/evil/commondir",
    "logs/evil/objects/x",
    "lfs/evil/head",
    "lfs/objects/ab/cd/evil/head",
    "index.lock/head",
    "orig_head/objects",
    "modules/a/config",
    "modules/a/b/hooks/post-checkout",
    "modules/a/rebase-merge/git-rebase-todo",
    "modules/a/modules/b/config",
    "modules/a/objects/info/alternates",
    "modules/a/unknown",
    "worktrees/w/gitdir",
    "worktrees/w/commondir",
    "worktrees/w/config.worktree",
    "worktrees/w/rebase-merge/git-rebase-todo",
    "worktrees/w/x/head",
    "annex/config",
    "svn/.metadata",
    "gitweb/httpd.conf",
]
DATA = [
    "head",
    "index",
    "index.lock",
    "index.stash.12",
    "sharedindex.abc",
    "packed-refs",
    "packed-refs.new",
    "orig_head",
    "fetch_head",
    "merge_head",
    "merge_msg",
    "commit_editmsg",
    "cherry_pick_head",
    "bisect_log",
    "auto_merge",
    "shallow",
    "gc.pid",
    "objects",
    "objects/ab",
    "objects/ab/cdef",
    "objects/pack/pack-1.idx",
    "objects/info/commit-graphs/commit-graph-chain",
    "objects/tmp_objdir-incoming-x/ab/cd",
    "refs/heads/main",
    "refs/heads/config",
    "refs/heads/hooks/x",
    "refs/remotes/origin/head",
    "refs/stash",
    "logs/head",
    "logs/refs/heads/a/b",
    "info/exclude",
    "info/sparse-checkout",
    "lfs/objects/ab/cd/abcd",
    "rr-cache/" + "a" * 40 + "/preimage",
    "modules",
    "modules/a/head",
    "modules/a/b/refs/heads/main",
    "modules/a/objects/ab/cdef",
    "worktrees",
    "worktrees/w",
    "worktrees/w/head",
    "worktrees/w/logs/head",
]


@pytest.mark.spec("N2", "N9")
@pytest.mark.parametrize("path", OBEYED)
def test_what_git_obeys_or_nobody_knows_is_locked(path: str) -> None:
    assert locks(path.split("/"))


@pytest.mark.spec("N2", "N9")
@pytest.mark.parametrize("path", DATA)
def test_what_git_keeps_as_data_is_not(path: str) -> None:
    assert not locks(path.split("/"))


@pytest.mark.spec("N2", "N9")
@pytest.mark.parametrize(
    ("names", "content", "runs"),
    [
        (("rebase-merge", "git-rebase-todo"), b"pick 1 a\n# exec x\n\nlabel b\nmerge -C 1 a\nupdate-ref c\n", False),
        (("rebase-merge", "git-rebase-todo"), b"pick 1 a\n; exec x\n% help\n", False),
        (("rebase-merge", "git-rebase-todo"), b"pick 1\r\nfixup -C 2\r\nbreak\r\nnoop", False),
        (("rebase-merge", "git-rebase-todo"), b"pick 1 a\nexec make\n", True),
        (("rebase-merge", "git-rebase-todo"), b"x touch a\n", True),
        (("rebase-merge", "git-rebase-todo"), b"  \t x touch a\n", True),
        (("rebase-merge", "git-rebase-todo"), b"pick 1\x0bx\nunknown 2\n", True),
        (("rebase-merge", "git-rebase-todo.backup"), b"exec x", True),
        (("rebase-merge", "strategy"), b"ort\n", False),
        (("rebase-merge", "strategy"), b"evil\n", True),
        (("rebase-merge", "msgnum"), b"exec", False),
        (("rebase-merge", "message"), b"exec x", False),
        (("sequencer", "todo"), b"pick 1\npick 2\n", False),
        (("sequencer", "todo"), b"exec x\n", True),
        (("sequencer", "opts"), b"[options]\n\tstrategy = ort\n\tgpg-sign = \n", False),
        (("sequencer", "opts"), b"[options]\n\tstrategy = evil\n", True),
        (("rebase-apply", "apply-opt"), b"\n", False),
        (("rebase-apply", "apply-opt"), b"'--unsafe-paths'", True),
        (("rebase-apply", "patch"), b"exec x", False),
    ],
)
def test_steps_of_a_rebase_are_told_from_commands(names: tuple[str, str], content: bytes, runs: bool) -> None:
    assert may_run(names, content) is runs
