"""Read-only git commands. Even these run programs named in the repository's configuration (pagers, filters, fsmonitor),
so they are approved only in a sandbox."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from holdfast.rules.shell.context import PLACEHOLDERS, CommandContext
from holdfast.rules.shell.parts import word_set
from holdfast.rules.shell.read_only import outside_project, read_only_program, split_arguments

NOT_CONTAINED: Final = "git runs programs that the repository's configuration names, and there is no sandbox"
_SHOWING: Final = """
    oneline stat shortstat numstat name-only name-status graph all patch decorate no-decorate decorate= abbrev-commit
    no-merges merges first-parent reverse follow no-patch summary raw minimal patience histogram color no-color color=
    word-diff word-diff= ignore-all-space ignore-space-change ignore-blank-lines cached staged check merge-base stat=
    unified= format= pretty pretty= date= author= committer= grep= since= until= after= before= max-count= skip=
    diff-filter= branches tags remotes branches= topo-order date-order full-history no-renames find-renames
    no-ext-diff no-textconv exit-code quiet abbrev= no-abbrev-commit left-right cherry-pick dirstat compact-summary
    function-context relative
"""
_LOG: Final = read_only_program("pwsbizDRqc", "nSGL", _SHOWING, attached="UMCB", numbers=True)
READ_ONLY_SUBCOMMANDS: Final = {
    "blame": read_only_program("bceflnpsw", "L", "porcelain show-email date=", attached="MC"),
    "branch": read_only_program("arv", "", "list all remotes show-current no-color verbose"),
    "cat-file": read_only_program("epst"),
    "check-ignore": read_only_program("nqv", "", "verbose quiet non-matching"),
    "describe": read_only_program("", "", "tags all always dirty long abbrev= exact-match"),
    "diff": read_only_program("pwsbizDRqc", "nSGL", f"{_SHOWING} no-index", attached="UMCB", numbers=True),
    "grep": read_only_program("EFGPachHiIlLnovwWpz", "emABC", "count cached untracked heading", "pattern"),
    "log": _LOG,
    "ls-files": read_only_program("cdmostuvz", "", """
        cached deleted modified others stage exclude-standard full-name error-unmatch"""),
    "ls-tree": read_only_program("drtlz", "", "name-only full-name full-tree long"),
    "merge-base": read_only_program("", "", "all is-ancestor octopus independent"),
    "rev-list": read_only_program("", "n", f"{_SHOWING} count objects", numbers=True),
    "rev-parse": read_only_program("", "", """
        abbrev-ref abbrev-ref= git-dir show-toplevel short short= verify is-inside-work-tree show-prefix show-cdup
        quiet"""),
    "shortlog": read_only_program("cens", "", "summary numbered email all no-merges since="),
    "show": _LOG,
    "status": read_only_program("bsuvz", "", """
        short branch porcelain porcelain= long ignored untracked-files untracked-files= show-stash ahead-behind"""),
}  # fmt: skip
_EXACT: Final = frozenset(
    {
        *(("remote",), ("remote", "-v"), ("remote", "--verbose"), ("stash", "list"), ("tag",), ("tag", "-l")),
        *(("tag", "--list"), ("worktree", "list"), ("reflog",), ("--version",), ("version",)),
        *(("config", "user.name"), ("config", "user.email")),
        *(("config", "--get", "user.name"), ("config", "--get", "user.email")),
    }
)
READ_ONLY_NAMES: Final = frozenset(READ_ONLY_SUBCOMMANDS)
WILDCARD_SUBCOMMANDS: Final = READ_ONLY_NAMES | {
    *("add", "checkout", "cherry", "commit", "count-objects", "mv", "name-rev", "range-diff", "restore", "rm"),
    *("show-branch", "stash", "switch", "tag", "whatchanged"),
}
"""Subcommands whose operands are only revisions and paths; in all others an operand can name a program or transport."""


HAZARDOUS: Final = word_set("""
    -C -O -c --config-env --exec-path --ext-diff --extcmd --git-dir --output --open-files-in-pager --receive-pack
    --textconv --upload-pack --work-tree
""")
"""Options that no rule can approve: they run programs, write files or leave the project."""


def check_git(words: Sequence[str], context: CommandContext) -> str:
    """Why a git command does more than read the repository in a sandbox; empty if it does not."""
    if PLACEHOLDERS & set(words):
        return "an argument is only known at run time"
    rest = list(words[1:])
    if rest[:1] == ["--no-pager"]:
        rest.pop(0)
    reason = _check_subcommand(rest, context)
    return reason if reason or context.is_sandboxed() is True else NOT_CONTAINED


def _check_subcommand(rest: Sequence[str], context: CommandContext) -> str:
    if tuple(rest) in _EXACT:
        return outside_project((), context)
    known = READ_ONLY_SUBCOMMANDS.get(rest[0]) if rest else None
    if known is None:
        return f"'git {rest[0]}' is not known to only read" if rest else "it has no subcommand"
    read = split_arguments(known, rest[1:])
    if isinstance(read, str):
        return read
    operands = read.operands
    if rest[0] == "branch" and operands and "--list" not in read.options:
        return "it would create a branch"
    if "--no-index" in read.options and not (context.links_stay_inside or all(map(context.is_plain_file, operands))):
        return "it may follow symlinks out of the project"
    if known.operands == "pattern" and "-e" not in read.options:
        operands = operands[1:]
    return outside_project(operands, context)
