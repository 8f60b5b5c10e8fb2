"""What commands may write in a git folder: what git keeps as data. The rest is obeyed or run by git or its extensions.

Names are folded and counted from inside the folder. Folders of submodules and worktrees lie in it and are git folders
themselves. Files that git goes on from (a rebase, a cherry-pick, a series of patches, a bisection) may name programs,
options or shell code, so each is allowed only as git itself writes it, byte by byte: a file that is not listed here, or
says anything else, is refused. The forms are those of git 2.20 to 2.52 (`sequencer.c`,
`builtin/{rebase,am,bisect}.c`).
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from holdfast.fs.paths import fold, fold_path, split_path

GIT_FOLDER: Final = ".git"
LEGACY_REMOTES: Final = frozenset({"branches", "remotes"})
"""Folders of remotes in the old style: nearly always there, and empty."""
CONTROL_NAMES: Final = frozenset({"hooks", "config", "config.worktree", "commondir", "gitdir", *LEGACY_REMOTES})
"""Names directly in a git folder that git obeys, runs, or finds another folder by."""
RERERE_CACHE: Final = "rr-cache"
"""Recorded resolutions of conflicts. Git applies them by itself as soon as the folder is there."""
REPOSITORY_NAMES: Final = ("HEAD", "objects", "refs", "commondir")
"""What makes a folder a repository."""
_REPOSITORY_NAMES: Final = {name.lower(): name for name in REPOSITORY_NAMES}
NESTED_FOLDERS: Final = frozenset({"modules", "worktrees"})
_CONTROL_PATHS: Final = (
    ("info", "attributes"),
    ("objects", "info", "alternates"),
    ("objects", "info", "http-alternates"),
)
_DATA_FILES: Final = (
    r"head|index(?:\..+)?|sharedindex\..+|packed-refs(?:\.new)?|shallow|description|gc\.(?:log|pid)|.+\.lock"
    r"|[a-z]+(?:_[a-z]+)+(?:\.patch)?|addp-hunk-edit\.diff"
)
"""Files with data: the names with underscores are references and messages, as `ORIG_HEAD` and `COMMIT_EDITMSG`."""
_DATA_FOLDERS: Final = {
    "objects": (
        r"(?:tmp_objdir[^/]*/)?(?:[0-9a-f]{2}|pack)(?:/[^/]+)?|tmp_objdir[^/]*|pack/multi-pack-index\.d/[^/]+|[^/]+\.lock"
        r"|info(?:/(?:packs|commit-graph|[^/]+\.lock|commit-graphs(?:/[^/]+)?))?"
    ),
    "refs": r"(?!(?:.*/)?(?:objects|commondir)(?:/|$)).+",
    "logs": r"(?!(?:.*/)?(?:objects|commondir)(?:/|$)).+",
    "lfs": r"(?!(?:.*/)?(?:head|commondir)(?:/|$)).+",
    "reftable": r"[^/]+",
    "rr-cache": r"[0-9a-f]{40,64}(?:/[^/]+)?",
    "info": r"exclude|sparse-checkout|refs|grafts|[^/]+\.lock",
    "notes_merge_worktree": r"[^/]+",
}
"""Folders with data, and what paths in them look like: nothing that could be a repository of its own."""
SEQUENCER_FOLDERS: Final = frozenset({"rebase-merge", "rebase-apply", "sequencer"})
"""What git does next when it is told to continue."""

_HEX: Final = rb"[0-9a-f]{4,64}"
_QUOTED: Final = rb"'(?:[^'\0]|'\\['!]')*+'"
"""As git quotes for a shell: whatever is in it, a shell takes it for one word."""
_REF: Final = rb"refs(?:/[^\x00-\x20./~^:?*\[\\\x7f][^\x00-\x20/~^:?*\[\\\x7f]*)+"
_STRATEGY: Final = rb"(?:ort|recursive|resolve|octopus|ours|subtree)"
"""Git runs `git-merge-NAME` for any other, which may be a path."""
_MERGE_OPTION: Final = (
    rb"(?:ours|theirs|patience|histogram|minimal|renormalize|no-renormalize|no-renames|subtree(?:=[\w./-]*)?"
    rb"|diff-algorithm=\w+|ignore-(?:space-change|all-space|space-at-eol|cr-at-eol)"
    rb"|(?:find-renames|rename-threshold)(?:=\d+%?)?)"
)
_KEY: Final = rb"[\w@.+<> -]*"
"""What names a key to sign with. No path: for SSH it would be a file."""
_SWITCHES: Final = (
    b"no-commit|edit|allow-empty|allow-empty-message|drop-redundant-commits|keep-redundant-commits|signoff"
    b"|record-origin|allow-ff|allow-rerere-auto"
)
_OPTIONS: Final = (
    rb"(?:\[options\]\n(?:\t(?:(?:" + _SWITCHES + rb") = (?:true|false)|mainline = \d+|strategy = " + _STRATEGY
    + rb"|strategy-option = " + _MERGE_OPTION + rb"|gpg-sign = " + _KEY
    + rb"|default-msg-cleanup = (?:whitespace|verbatim|scissors|strip))\n)*)?"
)  # fmt: skip
_TODO_LINE: Final = (
    rb"[ \t]*(?:[!-/:-@\[-`{-~][^\n\0]*|(?:pick|p|revert|reword|r|edit|e|squash|s|fixup|f|label|l|reset|t|merge|m"
    rb"|update-ref|u|drop|d|noop|break|b)(?:[ \t][^\n\0]*)?)?\r?"
)
"""All but `exec`. Comments begin with whatever character the person configured."""
_TODO_LINES: Final = rb"(?:" + _TODO_LINE + rb"\n)*+(?:" + _TODO_LINE + rb")?"
_AUTHOR: Final = rb"GIT_AUTHOR_NAME=%b\nGIT_AUTHOR_EMAIL=%b\nGIT_AUTHOR_DATE=%b\n?" % (_QUOTED, _QUOTED, _QUOTED)
_EMPTY: Final = rb"\n?"
_BOOLEAN: Final = rb"[tfb]?\n?"
_OBJECT: Final = rb"(?:%b)?\n?" % _HEX
_NUMBER: Final = rb"\d{1,9}\n?"
_TEXT: Final = rb"(?s:.*)"
"""Git takes it for a message, a patch or an index, and for nothing else."""
_ONE_OPTION: Final = rb"(?:(?:--)?%b|'(?:--)?%b'|\"%b\")" % (_MERGE_OPTION, _MERGE_OPTION, _MERGE_OPTION)

_EITHER_REBASE: Final[Mapping[str, bytes]] = {
    **dict.fromkeys(("onto", "orig-head", "stopped-sha", "autostash"), _OBJECT),
    **dict.fromkeys(("quiet", "verbose"), _BOOLEAN),
    "head-name": rb"(?:%b|detached HEAD)?\n?" % _REF,
    "signoff": rb"(?:--signoff)?\n?",
    "strategy": _STRATEGY + rb"?\n?",
    "strategy_opts": rb" ?(?:%b(?: %b)*)?\n?" % (_ONE_OPTION, _ONE_OPTION),
    "gpg_sign_opt": rb"(?:-S%b)?\n?" % _KEY,
    "allow_rerere_autoupdate": rb"(?:--(?:no-)?rerere-autoupdate)?\n?",
    "author-script": _AUTHOR,
    "patch": _TEXT,
}
_FORMATS: Final[Mapping[str, Mapping[str, bytes]]] = {
    "rebase-merge": {
        **_EITHER_REBASE,
        **dict.fromkeys(("git-rebase-todo", "git-rebase-todo.backup", "done", "dropped"), _TODO_LINES),
        **dict.fromkeys(("msgnum", "end"), _NUMBER),
        **dict.fromkeys(("message", "message-squash", "message-fixup", "trailer"), _TEXT),
        **dict.fromkeys(("amend", "squash-onto"), _OBJECT),
        **dict.fromkeys(("interactive", "cdate_is_adate", "ignore_date"), _EMPTY),
        **dict.fromkeys(("drop_redundant_commits", "keep_redundant_commits"), _EMPTY),
        **dict.fromkeys(("reschedule-failed-exec", "no-reschedule-failed-exec"), _EMPTY),
        "current-fixups": rb"(?:(?:squash|fixup(?: -[cC])?) %b\n?)*" % _HEX,
        "rewritten-list": rb"(?:%b %b\n)*" % (_HEX, _HEX),
        "rewritten-pending": rb"(?:%b\n)*" % _HEX,
        "update-refs": rb"(?:%b\n%b\n%b\n)*" % (_REF, _HEX, _HEX),
        "refs-to-delete": rb"(?:%b\n)*" % _REF,
    },
    "rebase-apply": {
        **_EITHER_REBASE,
        **dict.fromkeys(("next", "last"), _NUMBER),
        **dict.fromkeys(("abort-safety", "original-commit"), _OBJECT),
        **dict.fromkeys(("final-commit", "info", "msg", "msg-clean", "patch-merge-index"), _TEXT),
        **dict.fromkeys(("applying", "rebasing", "dirtyindex", "keep", "messageid", "no-inbody-headers"), _BOOLEAN),
        **dict.fromkeys(("rerere-autoupdate", "scissors", "sign", "threeway", "utf8"), _BOOLEAN),
        "apply-opt": _EMPTY,  # `git apply` has options that let a patch write outside
        "rewritten": rb"(?:%b %b\n)*" % (_HEX, _HEX),
        "quoted-cr": rb"(?:nowarn|warn|strip)?\n?",
    },
    "sequencer": {"head": _OBJECT, "abort-safety": _OBJECT, "todo": _TODO_LINES, "opts": _OPTIONS},
    "": {
        "bisect_names": rb"(?: %b)*\n?" % _QUOTED,  # older versions hand it to `eval`
        "bisect_terms": rb"(?:[a-zA-Z][\w/-]*\n[a-zA-Z][\w/-]*\n)?",
        "bisect_start": rb"(?:[^\x00-\x20-][^\x00-\x20]*)?\n?",
        "bisect_log": rb"(?:(?:# [^\n\0]*|git bisect [a-z][\w/-]*(?: (?:%b|%b))*)\n|\n)*" % (_QUOTED, _HEX),
        "bisect_expected_rev": _OBJECT,
        "bisect_ancestors_ok": _EMPTY,
        "bisect_first_parent": _EMPTY,
        "bisect_reset_when_found": rb"[^\x00-\x20]*\n?",
    },
}
"""Files by folder; those directly in the git folder by none."""
_MAX_FILE_BYTES: Final = 1024 * 1024
"""A rebase with more steps than fit is not looked at, and so not left to a command."""
GIT_NAMES: Final = frozenset(
    {*REPOSITORY_NAMES, *CONTROL_NAMES, *NESTED_FOLDERS, *SEQUENCER_FOLDERS, RERERE_CACHE, "info"}
)
"""Names directly in a git folder that make it one, or that git obeys."""


def is_git_folder(name: str) -> bool:
    """Whether it is what git calls its folder, as a careless file system sees it."""
    return fold(name) == GIT_FOLDER


def is_locked(names: Sequence[str], *, whole: bool = True) -> bool:
    """Whether commands may not write there. `whole`: it is a `.git` and nothing else, so what is not known is locked;
    in a folder that only looks like one, other things may lie."""
    first, rest = names[0], names[1:]
    if first in CONTROL_NAMES or first in SEQUENCER_FOLDERS:
        return True
    if any(tuple(names[: len(path)]) == path for path in _CONTROL_PATHS):
        return True
    if first == "worktrees":
        return len(rest) > 1 and is_locked(rest[1:], whole=whole)
    if first == "modules":
        return _is_locked_in_module(rest, whole=whole)
    if not whole:
        return False
    if not rest:
        return first not in _DATA_FOLDERS and re.fullmatch(_DATA_FILES, first) is None
    return first not in _DATA_FOLDERS or re.fullmatch(_DATA_FOLDERS[first], "/".join(rest)) is None


def _is_locked_in_module(names: Sequence[str], *, whole: bool) -> bool:
    """The name of a submodule may have slashes, so nobody can tell where its folder begins."""
    inner = [names[start:] for start in range(1, len(names))]
    if any(is_locked(one, whole=False) for one in inner):
        return True
    return whole and bool(inner) and all(is_locked(one) for one in inner)


def sequencer_file(names: Sequence[str]) -> tuple[str, str] | None:
    """Folder and name of a path that git goes on from, which is judged by what it says; None for any other path. The
    name is empty for the folder itself."""
    if not names:
        return None
    first, rest = names[0], names[1:]
    if first == "worktrees":
        return sequencer_file(rest[1:]) if len(rest) > 1 else None
    if first in SEQUENCER_FOLDERS:
        return (first, "".join(rest)) if len(rest) <= 1 else None
    if first != "modules":
        return ("", first) if not rest and first in _FORMATS[""] else None
    inner = [rest[start:] for start in range(1, len(rest))]
    found = [(one, sequencer_file(one)) for one in inner]
    if any(known is None and is_locked(one, whole=False) for one, known in found):
        return None
    return next((known for _, known in found if known is not None), None)


def is_rerere_cache(names: Sequence[str]) -> bool:
    """Whether a path is that of the folder with recorded resolutions, in a git folder or in that of a submodule."""
    return bool(names) and names[-1] == RERERE_CACHE and (len(names) == 1 or names[0] in NESTED_FOLDERS)


def is_repository(names: Collection[str]) -> bool:
    """Whether git takes a folder with these names in it for a repository, whatever it is called."""
    return "HEAD" in names and ("commondir" in names or ("objects" in names and "refs" in names))


def is_in_repository(path: str) -> bool:
    """Whether a path lies in such a folder, or would complete one: git then obeys what is in it."""
    parts = path.split("/")
    for place, name in enumerate(map(fold, parts)):
        if name in CONTROL_NAMES or name in _REPOSITORY_NAMES or name == "info":
            folder = "/".join(parts[:place])
            there = {
                each for low, each in _REPOSITORY_NAMES.items() if low == name or os.path.lexists(f"{folder}/{each}")
            }
            if is_repository(there):
                return True
    return False


def names_inside_git(names: Sequence[str], root: Sequence[str] = ()) -> Sequence[str]:
    """What of a path lies inside the first `.git` on it; nothing if there is none. One above the project does not count
    in the project: a worktree may lie there."""
    below = names[len(root) :] if names[: len(root)] == root else names
    return below[below.index(GIT_FOLDER) + 1 :] if GIT_FOLDER in below else ()


def path_names_inside_git(path: str | Path, root: Path | None) -> Sequence[str]:
    """The same for a path that is not folded."""
    top = [] if root is None else split_path(fold_path(str(root)))
    return names_inside_git(split_path(fold_path(str(path))), top)


def is_pointer_name(path: Path) -> bool:
    """Whether a file of that name, where a folder belongs, makes version control obey another folder."""
    return is_git_folder(path.name) or (fold(path.name) == "repo" and fold(path.parent.name) == ".jj")


def leads_to_control_file(names: Sequence[str]) -> bool:
    """Whether something that git obeys may lie below: such a folder must not be a link."""
    return names[0] in ("info", "objects", *NESTED_FOLDERS) and not is_locked(names, whole=False)


def matches_git_format(state: tuple[str, str], content: bytes) -> bool:
    """Whether git itself writes such a file with that content, so that it makes git run nothing."""
    folder, name = state
    if folder == "rebase-apply" and re.fullmatch(r"\d{4,9}", name):
        return True
    form = _FORMATS[folder].get(name)
    return form is not None and re.fullmatch(form, content) is not None


def file_matches_git_format(state: tuple[str, str], path: str) -> bool:
    """Whether such a path, as a command left it, is what git writes there itself: then it makes git run nothing."""
    with suppress(OSError):
        opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            kind = os.fstat(opened).st_mode
            if not state[1]:
                return stat.S_ISDIR(kind)
            if not stat.S_ISREG(kind):
                return False
            content = os.read(opened, _MAX_FILE_BYTES + 1)
            return len(content) <= _MAX_FILE_BYTES and matches_git_format(state, content)
        finally:
            os.close(opened)
    return False
