"""Files of a git folder that git goes on from: a rebase, a cherry-pick, a series of patches, a bisection.

Some of them name programs, options or shell code, so each is allowed only as git itself writes it, byte by byte. A file
that is not listed here, or says anything else, is refused. The forms are those of git 2.20 to 2.52 (`sequencer.c`,
`builtin/{rebase,am,bisect}.c`); names are folded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

FOLDERS: Final = frozenset({"rebase-merge", "rebase-apply", "sequencer"})
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
_STEP: Final = (
    rb"[ \t]*(?:[!-/:-@\[-`{-~][^\n\0]*|(?:pick|p|revert|reword|r|edit|e|squash|s|fixup|f|label|l|reset|t|merge|m"
    rb"|update-ref|u|drop|d|noop|break|b)(?:[ \t][^\n\0]*)?)?\r?"
)
"""All but `exec`. Comments begin with whatever character the person configured."""
_STEPS: Final = rb"(?:" + _STEP + rb"\n)*+(?:" + _STEP + rb")?"
_AUTHOR: Final = rb"GIT_AUTHOR_NAME=%b\nGIT_AUTHOR_EMAIL=%b\nGIT_AUTHOR_DATE=%b\n?" % (_QUOTED, _QUOTED, _QUOTED)
_NOTHING: Final = rb"\n?"
_BOOLEAN: Final = rb"[tfb]?\n?"
_OBJECT: Final = rb"(?:%b)?\n?" % _HEX
_NUMBER: Final = rb"\d{1,9}\n?"
_TEXT: Final = rb"(?s:.*)"
"""Git takes it for a message, a patch or an index, and for nothing else."""
_ONE_OPTION: Final = rb"(?:(?:--)?%b|'(?:--)?%b'|\"%b\")" % (_MERGE_OPTION, _MERGE_OPTION, _MERGE_OPTION)

_EITHER_REBASE: Final[Mapping[str, bytes]] = {
    "head-name": rb"(?:%b|detached HEAD)?\n?" % _REF,
    "onto": _OBJECT,
    "orig-head": _OBJECT,
    "stopped-sha": _OBJECT,
    "autostash": _OBJECT,
    "quiet": _BOOLEAN,
    "verbose": _BOOLEAN,
    "signoff": rb"(?:--signoff)?\n?",
    "strategy": _STRATEGY + rb"?\n?",
    "strategy_opts": rb" ?(?:%b(?: %b)*)?\n?" % (_ONE_OPTION, _ONE_OPTION),
    "gpg_sign_opt": rb"(?:-S%b)?\n?" % _KEY,
    "allow_rerere_autoupdate": rb"(?:--(?:no-)?rerere-autoupdate)?\n?",
    "author-script": _AUTHOR,
    "patch": _TEXT,
}
_FORMS: Final[Mapping[str, Mapping[str, bytes]]] = {
    "rebase-merge": {
        **_EITHER_REBASE,
        "git-rebase-todo": _STEPS,
        "git-rebase-todo.backup": _STEPS,
        "done": _STEPS,
        "dropped": _STEPS,
        "msgnum": _NUMBER,
        "end": _NUMBER,
        "message": _TEXT,
        "message-squash": _TEXT,
        "message-fixup": _TEXT,
        "trailer": _TEXT,
        "amend": _OBJECT,
        "squash-onto": _OBJECT,
        "current-fixups": rb"(?:(?:squash|fixup(?: -[cC])?) %b\n?)*" % _HEX,
        "rewritten-list": rb"(?:%b %b\n)*" % (_HEX, _HEX),
        "rewritten-pending": rb"(?:%b\n)*" % _HEX,
        "update-refs": rb"(?:%b\n%b\n%b\n)*" % (_REF, _HEX, _HEX),
        "refs-to-delete": rb"(?:%b\n)*" % _REF,
        "interactive": _NOTHING,
        "cdate_is_adate": _NOTHING,
        "ignore_date": _NOTHING,
        "drop_redundant_commits": _NOTHING,
        "keep_redundant_commits": _NOTHING,
        "reschedule-failed-exec": _NOTHING,
        "no-reschedule-failed-exec": _NOTHING,
    },
    "rebase-apply": {
        **_EITHER_REBASE,
        "apply-opt": _NOTHING,  # `git apply` has options that let a patch write outside
        "next": _NUMBER,
        "last": _NUMBER,
        "abort-safety": _OBJECT,
        "original-commit": _OBJECT,
        "rewritten": rb"(?:%b %b\n)*" % (_HEX, _HEX),
        "quoted-cr": rb"(?:nowarn|warn|strip)?\n?",
        "final-commit": _TEXT,
        "info": _TEXT,
        "msg": _TEXT,
        "msg-clean": _TEXT,
        "patch-merge-index": _TEXT,
        **dict.fromkeys(
            ("applying", "rebasing", "dirtyindex", "keep", "messageid", "no-inbody-headers", "rerere-autoupdate"),
            _BOOLEAN,
        ),
        **dict.fromkeys(("scissors", "sign", "threeway", "utf8"), _BOOLEAN),
    },
    "sequencer": {"head": _OBJECT, "abort-safety": _OBJECT, "todo": _STEPS, "opts": _OPTIONS},
    "": {
        "bisect_names": rb"(?: %b)*\n?" % _QUOTED,  # older versions hand it to `eval`
        "bisect_terms": rb"(?:[a-zA-Z][\w/-]*\n[a-zA-Z][\w/-]*\n)?",
        "bisect_start": rb"(?:[^\x00-\x20-][^\x00-\x20]*)?\n?",
        "bisect_log": rb"(?:(?:# [^\n\0]*|git bisect [a-z][\w/-]*(?: (?:%b|%b))*)\n|\n)*" % (_QUOTED, _HEX),
        "bisect_expected_rev": _OBJECT,
        "bisect_ancestors_ok": _NOTHING,
        "bisect_first_parent": _NOTHING,
        "bisect_reset_when_found": rb"[^\x00-\x20]*\n?",
    },
}
"""Files by folder; those directly in the git folder by none."""
_MAIL: Final = re.compile(r"\d{4,9}")


def state_of(names: Sequence[str]) -> tuple[str, str] | None:
    """Folder and name of a path, counted from inside its git folder, that is judged by what it says; None for others.
    The name is empty for the folder itself."""
    match tuple(names):
        case (folder,) if folder in FOLDERS:
            return folder, ""
        case (folder, name) if folder in FOLDERS:
            return folder, name
        case (name,) if name in _FORMS[""]:
            return "", name
        case _:
            return None


def is_as_git_writes(state: tuple[str, str], content: bytes) -> bool:
    """Whether git itself writes such a file with that content, so that it makes git run nothing."""
    folder, name = state
    if folder == "rebase-apply" and _MAIL.fullmatch(name):
        return True
    form = _FORMS[folder].get(name)
    return form is not None and re.fullmatch(form, content) is not None
