"""Whether a command has an option that an asking or denying rule names, however it is spelt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from holdfast.rules.shell.verdicts import Word

Fit = Literal["yes", "perhaps", "no"]
_FORCED: Final = "f,force i,interactive n,no-clobber u,update v,verbose b,backup S,suffix t,target-directory"
_MODES: Final = "R,recursive c,changes f,silent,quiet v,verbose reference dereference h,no-dereference preserve-root"
_SAME: Final = {
    "chgrp": _MODES,
    "chmod": _MODES,
    "chown": _MODES,
    "cp": f"{_FORCED} r,R,recursive a,archive d l,link s,symbolic-link p preserve no-preserve parents reflink sparse",
    "git branch": "d,delete D f,force m,move M c,copy C a,all r,remotes v,verbose list show-current u,set-upstream-to",
    "git checkout": "f,force b B orphan detach d p,patch m,merge ours theirs t,track l q,quiet conflict guess progress",
    "git clean": "f,force d x X n,dry-run q,quiet i,interactive e,exclude",
    "git commit": "a,all amend n,no-verify m,message F,file c,reedit-message C,reuse-message fixup squash p,patch "
    "allow-empty allow-empty-message author date s,signoff no-edit e,edit S,gpg-sign v,verbose q,quiet dry-run",
    "git push": "f,force,+ force-with-lease force-if-includes d,delete,: all,branches mirror tags n,dry-run q,quiet "
    "v,verbose u,set-upstream no-verify verify follow-tags atomic prune o,push-option porcelain progress thin signed "
    "receive-pack,exec repo recurse-submodules no-force no-force-with-lease",
    "git reset": "hard soft mixed merge keep q,quiet p,patch N,intent-to-add pathspec-from-file",
    "mv": f"{_FORCED} T,no-target-directory strip-trailing-slashes exchange no-copy",
    "rm": "f,force r,R,recursive i I interactive d,dir v,verbose one-file-system preserve-root no-preserve-root",
}
"""Options of well-known programs; those joined by commas are one. An operand that begins with `+` or `:` counts too."""
_ONE_DASH: Final = frozenset(
    {
        *("cc", "clang", "convert", "ffmpeg", "find", "gcc", "go", "java", "javac", "magick", "openssl", "qemu"),
        *("terraform", "tofu"),
    }
)
"""Programs whose long options begin with one dash."""


def fit_option(words: Sequence[str], option: str, given: Sequence[Word]) -> Fit:
    """`words` are the rule's, without options; `given` what follows the program's name."""
    if option in given:
        return "yes"
    if "=" in option and not option.endswith("="):
        return _fit_valued(option, given)
    if words[0] in _ONE_DASH:
        bare = option.strip("-=")
        return _best([_fit_exactly(bare, word) for word in given])
    groups = _groups(words)
    bundle = option[1:] if not option.startswith("--") and option[1:].isalpha() else ""
    wanted = list(bundle) or [option.lstrip("-").rstrip("=")]
    return _worst([_best([_fit_one(_same(groups, name), groups, word) for word in given]) for name in wanted])


def _groups(words: Sequence[str]) -> tuple[frozenset[str], ...]:
    spelt = _SAME.get(" ".join(words[:2])) or _SAME.get(words[0], "")
    return tuple(frozenset(group.split(",")) for group in spelt.split())


def _same(groups: Sequence[frozenset[str]], name: str) -> frozenset[str]:
    return next((group for group in groups if name in group), frozenset({name}))


def _fit_valued(option: str, given: Sequence[Word]) -> Fit:
    name, _, value = option.partition("=")
    for word, after in zip(given, [*given[1:], ""], strict=True):
        if word is None or (word == name and after is None):
            return "perhaps"
        if word == name and after == value:
            return "yes"
        if word.startswith("--") and name.startswith(word.partition("=")[0]) and word.endswith(value):
            return "perhaps"
    return "no"


def _fit_exactly(bare: str, word: Word) -> Fit:
    if word is None:
        return "perhaps"
    return "yes" if word.startswith("-") and word.lstrip("-").partition("=")[0] == bare else "no"


def _fit_one(same: frozenset[str], groups: Sequence[frozenset[str]], word: Word) -> Fit:
    if word is None:
        return "perhaps"
    if word[:1] in ("+", ":") and word[:1] in same:
        return "yes"
    if not word.startswith("-"):
        return "no"
    if word.startswith("--"):
        return _fit_long(same, groups, word[2:].partition("=")[0])
    if any(len(name) == 1 and name in word[1:] for name in same):
        return "yes"
    initials = {name[0].lower() for name in same if len(name) > 1}
    return "no" if groups or not initials & set(word[1:].lower()) else "perhaps"


def _fit_long(same: frozenset[str], groups: Sequence[frozenset[str]], given: str) -> Fit:
    """Programs take the beginning of a long option for the whole."""
    if given in same:
        return "yes"
    shortened = bool(given) and any(len(name) > 1 and name.startswith(given) for name in same)
    if groups:
        return "yes" if shortened and not any(given in group for group in groups) else "no"
    letters = {name.lower() for name in same if len(name) == 1}
    return "perhaps" if shortened or given[:1].lower() in letters else "no"


def _best(fits: Sequence[Fit]) -> Fit:
    return "yes" if "yes" in fits else "perhaps" if "perhaps" in fits else "no"


def _worst(fits: Sequence[Fit]) -> Fit:
    return "no" if "no" in fits else "perhaps" if "perhaps" in fits else "yes"
