"""`git.status`, `git.diff` and `git.log`: fixed, bounded looks at the repository, which can run nothing of it."""

from __future__ import annotations

from holdfast.contract.tool import Tool


def git_tools() -> list[Tool]:
    from holdfast.tools.git import diff, log, status

    return [status.GIT_STATUS, diff.GIT_DIFF, log.GIT_LOG]
