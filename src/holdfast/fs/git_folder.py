"""Which files in a `.git` folder commands may write: data only, not files that git or its extensions obey or run.

Names are folded and relative to the `.git` folder. It also contains the git folders of submodules and worktrees. The
state files of an operation in progress (rebase, cherry-pick, am, bisect) can name programs, options or shell code. They
are allowed only if their content matches the format that git itself writes; unlisted files are refused. The formats are
those of git 2.20 to 2.52 (`sequencer.c`, `builtin/{rebase,am,bisect}.c`).
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
"""Remotes in the legacy format: these folders usually exist and are empty."""
CONTROL_NAMES: Final = frozenset({"hooks", "config", "config.worktree", "commondir", "gitdir", *LEGACY_REMOTES})
"""Names at the top of a git folder that git obeys, runs, or uses to locate another folder."""
RERERE_CACHE: Final = "rr-cache"
"""Recorded conflict resolutions. Git applies them automatically if the folder exists."""
REPOSITORY_NAMES: Final = ("HEAD", "objects", "refs", "commondir")
"""Names by which git recognizes a repository."""
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
"""Data files. Names with underscores are references and messages, such as `ORIG_HEAD` and `COMMIT_EDITMSG`."""
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
"""Data folders and the paths allowed in them: none that could form another repository."""
SEQUENCER_FOLDERS: Final = frozenset({"rebase-merge", "rebase-apply", "sequencer"})
"""State of an operation that `--continue` resumes."""

_HEX: Final = rb"[0-9a-f]{4,64}"
_QUOTED: Final = rb"'(?:[^'\0]|'\\['!]')*+'"
"""A word quoted for the shell by git (`sq_quote`)."""
_REF: Final = rb"refs(?:/[^\x00-\x20./~^:?*\[\\\x7f][^\x00-\x20/~^:?*\[\\\x7f]*)+"
_STRATEGY: Final = rb"(?:ort|recursive|resolve|octopus|ours|subtree)"
"""For any other name, git runs `git-merge-NAME`, which can be a path."""
_MERGE_OPTION: Final = (
    rb"(?:ours|theirs|patience|histogram|minimal|renormalize|no-renormalize|no-renames|subtree(?:=[\w./-]*)?"
    rb"|diff-algorithm=\w+|ignore-(?:space-change|all-space|space-at-eol|cr-at-eol)"
    rb"|(?:find-renames|rename-threshold)(?:=\d+%?)?)"
)
_KEY: Final = rb"[\w@.+<> -]*"
"""A signing key id. Not a path: for SSH it would name a file."""
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
"""Every todo command except `exec`. The comment character is configurable."""
_TODO_LINES: Final = rb"(?:" + _TODO_LINE + rb"\n)*+(?:" + _TODO_LINE + rb")?"
_AUTHOR: Final = rb"GIT_AUTHOR_NAME=%b\nGIT_AUTHOR_EMAIL=%b\nGIT_AUTHOR_DATE=%b\n?" % (_QUOTED, _QUOTED, _QUOTED)
_EMPTY: Final = rb"\n?"
_BOOLEAN: Final = rb"[tfb]?\n?"
_OBJECT: Final = rb"(?:%b)?\n?" % _HEX
_NUMBER: Final = rb"\d{1,9}\n?"
_TEXT: Final = rb"(?s:.*)"
"""Git uses the file only as a message, patch or index."""
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
        "apply-opt": _EMPTY,  # `git apply` options can let a patch write outside the repository
        "rewritten": rb"(?:%b %b\n)*" % (_HEX, _HEX),
        "quoted-cr": rb"(?:nowarn|warn|strip)?\n?",
    },
    "sequencer": {"head": _OBJECT, "abort-safety": _OBJECT, "todo": _TODO_LINES, "opts": _OPTIONS},
    "": {
        "bisect_names": rb"(?: %b)*\n?" % _QUOTED,  # older versions pass it to `eval`
        "bisect_terms": rb"(?:[a-zA-Z][\w/-]*\n[a-zA-Z][\w/-]*\n)?",
        "bisect_start": rb"(?:[^\x00-\x20-][^\x00-\x20]*)?\n?",
        "bisect_log": rb"(?:(?:# [^\n\0]*|git bisect [a-z][\w/-]*(?: (?:%b|%b))*)\n|\n)*" % (_QUOTED, _HEX),
        "bisect_expected_rev": _OBJECT,
        "bisect_ancestors_ok": _EMPTY,
        "bisect_first_parent": _EMPTY,
        "bisect_reset_when_found": rb"[^\x00-\x20]*\n?",
    },
}
"""Formats by folder and file name; the empty folder is the top of the git folder."""
_MAX_FILE_BYTES: Final = 1024 * 1024
"""A longer todo list is not parsed, and so refused."""
GIT_NAMES: Final = frozenset(
    {*REPOSITORY_NAMES, *CONTROL_NAMES, *NESTED_FOLDERS, *SEQUENCER_FOLDERS, RERERE_CACHE, "info"}
)
"""Names at the top of a git folder that identify it, or that git obeys."""


def is_git_folder(name: str) -> bool:
    """Whether the name is `.git`, also on a case-insensitive file system."""
    return fold(name) == GIT_FOLDER


def is_locked(names: Sequence[str], *, whole: bool = True) -> bool:
    """Whether commands may not write at this path. With `whole`, the folder is a `.git` folder, so unknown names are
    locked; a folder that only resembles one can contain other files."""
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
    """Like `is_locked`, for a submodule. Its name can contain slashes, so every split is tried."""
    inner = [names[start:] for start in range(1, len(names))]
    if any(is_locked(one, whole=False) for one in inner):
        return True
    return whole and bool(inner) and all(is_locked(one) for one in inner)


def sequencer_file(names: Sequence[str]) -> tuple[str, str] | None:
    """Return folder and name of a state file of an operation in progress, which is checked by content; None for other
    paths. The name is empty for the folder itself."""
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
    """Whether a path is the rerere cache of a repository or submodule."""
    return bool(names) and names[-1] == RERERE_CACHE and (len(names) == 1 or names[0] in NESTED_FOLDERS)


def is_repository(names: Collection[str]) -> bool:
    """Whether git recognizes a folder with these entries as a repository, regardless of its name."""
    return "HEAD" in names and ("commondir" in names or ("objects" in names and "refs" in names))


def is_in_repository(path: str) -> bool:
    """Whether a path is in a folder that git recognizes as a repository, or would make it one."""
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
    """Return the names of a path inside its first `.git`; empty if there is none. A `.git` above the root does not
    count, since a worktree can be there."""
    below = names[len(root) :] if names[: len(root)] == root else names
    return below[below.index(GIT_FOLDER) + 1 :] if GIT_FOLDER in below else ()


def path_names_inside_git(path: str | Path, root: Path | None) -> Sequence[str]:
    """Like `names_inside_git`, for a path that is not folded."""
    top = [] if root is None else split_path(fold_path(str(root)))
    return names_inside_git(split_path(fold_path(str(path))), top)


def is_pointer_name(path: Path) -> bool:
    """Whether a file of this name redirects version control to another folder (a `.git` file)."""
    return is_git_folder(path.name) or (fold(path.name) == "repo" and fold(path.parent.name) == ".jj")


def leads_to_control_file(names: Sequence[str]) -> bool:
    """Whether control files can be below this path, so that it must not be a symlink."""
    return names[0] in ("info", "objects", *NESTED_FOLDERS) and not is_locked(names, whole=False)


def matches_git_format(state: tuple[str, str], content: bytes) -> bool:
    """Whether the content matches the format that git writes, so that it cannot make git run a program."""
    folder, name = state
    if folder == "rebase-apply" and re.fullmatch(r"\d{4,9}", name):
        return True
    form = _FORMATS[folder].get(name)
    return form is not None and re.fullmatch(form, content) is not None


def file_matches_git_format(state: tuple[str, str], path: str) -> bool:
    """Whether the file at a path, as a command left it, matches the format that git writes."""
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
