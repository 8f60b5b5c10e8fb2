"""Which paths in a git folder commands may write."""

from __future__ import annotations

import pytest

from holdfast.fs.git_folder import is_locked, sequencer_file

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
def test_control_files_and_unknown_files_are_locked(path: str) -> None:
    assert is_locked(path.split("/"))


@pytest.mark.spec("N2", "N9")
@pytest.mark.parametrize("path", DATA)
def test_data_files_are_not_locked(path: str) -> None:
    assert not is_locked(path.split("/"))


@pytest.mark.spec("N2", "N9")
@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("sequencer/opts", ("sequencer", "opts")),
        ("rebase-merge", ("rebase-merge", "")),
        ("worktrees/w/rebase-merge/done", ("rebase-merge", "done")),
        ("modules/a/b/sequencer/todo", ("sequencer", "todo")),
        ("modules/a/worktrees/w/sequencer/todo", ("sequencer", "todo")),
        ("worktrees/w/bisect_names", ("", "bisect_names")),
        ("hooks/sequencer/todo", None),
        ("modules/a/hooks/sequencer/todo", None),
        ("modules/a/sequencer/config", None),
        ("remotes/sequencer/head", None),
        ("x/rebase-merge/message", None),
        ("rebase-merge/x/message", None),
        ("merge_msg", None),
    ],
)
def test_state_files_of_an_operation_in_progress_are_recognized_by_path(
    path: str, found: tuple[str, str] | None
) -> None:
    assert sequencer_file(path.split("/")) == found
