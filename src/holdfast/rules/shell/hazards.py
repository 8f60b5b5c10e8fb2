"""What no rule may approve wide: when `*` may stand for further operands, and what an operand may be."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from holdfast.rules.shell import git
from holdfast.rules.shell.place import Place
from holdfast.rules.shell.readers import CHECKS, READERS
from holdfast.rules.shell.wrappers import WRAPPING

SHELL_CHANGING: Final = frozenset(
    {
        *(".", "alias", "bind", "builtin", "complete", "compopt", "declare", "disown", "enable", "eval", "exec"),
        *("export", "getopts", "hash", "let", "local", "mapfile", "popd", "pushd", "read", "readarray", "readonly"),
        *("set", "shift", "shopt", "source", "trap", "typeset", "ulimit", "umask", "unalias", "unset"),
    }
)
"""Builtins that change what later commands mean."""
_TAKING_FILES: Final = frozenset(
    {
        *((name,) for name in ("bunzip2", "bzip2", "cp", "dos2unix", "gunzip", "gzip", "mkdir", "mv", "rm", "rmdir")),
        *((name,) for name in ("shred", "tee", "touch", "truncate", "unix2dos", "unlink", "unxz", "xz", "zstd")),
        *((name,) for name in ("autopep8", "black", "clang-format", "codespell", "gofmt", "hadolint", "isort")),
        *((name,) for name in ("pyright", "shellcheck", "shfmt", "yamllint")),
        *(("ruff", "check"), ("ruff", "format"), ("pytest",)),
    }
)
"""Programs that treat files as data, whatever is in them and in the project's settings: neither the file nor what it
names is run. pytest does run the tests it is given, as it does without operands: a file only chooses some of them."""
_JOINTS: Final = re.compile("[=:,@]")
"""What stands before a path inside a word."""
_MAX_JOINTS: Final = 16


def star_refusal(words: Sequence[str], *, only_files: bool) -> str:
    """Why these words may not be approved with further operands; empty if they may.

    What a program does with its operands must be known. There is no list of dangerous programs, which would never be
    whole: one that is in neither table is refused.
    """
    name = words[0]
    if is_reader(words) and name not in WRAPPING:
        return ""
    if name == "git":
        known = len(words) > 1 and words[1] in git.STAR
        return "" if known else f"an operand of '{' '.join(words[:2])}' may name a program; spell the whole command out"
    if not any(tuple(words[: len(known)]) == known for known in _TAKING_FILES):
        return f"'{name}' is not known to treat its operands as data; spell the whole command out"
    if only_files:
        return ""
    return (
        f"'{name}' does more than read its operands; "
        f'spell the whole command out, or say operands = "files" to approve it with any file of the project'
    )


def is_reader(words: Sequence[str]) -> bool:
    """Whether a rule is about a program that changes no file it is given."""
    if words[0] == "git":
        return len(words) > 1 and words[1] in git.READING - {"branch"}
    return words[0] in READERS or words[0] in CHECKS


def pieces(word: str) -> list[str]:
    """The paths a word may hold beside being one: what follows `=`, `:`, `,` or `@`, whole and up to the next."""
    after = [word[found.end() :] for found in _JOINTS.finditer(word)]
    return [piece for piece in (*after, *_JOINTS.split(word)) if piece and piece != word]


def operand_refusal(word: str, place: Place) -> str:
    """Why an operand may be more than a file of the project; empty if it is not. The values of options may be."""
    if len(_JOINTS.findall(word)) > _MAX_JOINTS:
        return f"'{word[:40]}…' has too many parts to look at"
    if word.startswith("-"):
        return ""
    if word.startswith("@"):
        return f"'{word}' may name a file of arguments"
    for piece in pieces(word):
        if piece.startswith("~") or not place.holds(piece):
            return f"'{piece}' in '{word}' is not inside the project"
    return ""
