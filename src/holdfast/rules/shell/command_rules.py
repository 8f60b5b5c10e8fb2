"""Command rules (`[[approval.commands]]`): compiles a rule and matches it against the words of a command.

An approving rule matches exact words only. An asking or denying rule also matches other spellings of options and
subcommands, and answers "perhaps" if a word is unknown.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from functools import cache
from typing import Final, Literal

from msgspec import Struct

from holdfast.config.config import CommandRule
from holdfast.contract.enums import Verdict
from holdfast.contract.errors import ConfigError
from holdfast.contract.widening import Widening
from holdfast.net.hosts import is_allow_list_entry
from holdfast.rules.shell import git
from holdfast.rules.shell.context import FOUND_PATH, CommandContext
from holdfast.rules.shell.parts import Word, word_set
from holdfast.rules.shell.programs import family, is_plain_name, program_name
from holdfast.rules.shell.read_only import READERS, SPECIAL_CHECKS, check_read_only, outside_project
from holdfast.rules.shell.wrappers import COMMAND_RUNNERS

SHELL_CHANGING: Final = word_set("""
    . alias bind builtin complete compopt declare disown enable eval exec export getopts hash let local mapfile popd
    pushd read readarray readonly set shift shopt source trap typeset ulimit umask unalias unset
""")
"""Shell builtins that change what later commands mean, so no rule can approve them."""
CHECKING_FILES: Final = word_set("""
    autopep8 black clang-format codespell gofmt hadolint isort pyright shellcheck shfmt yamllint pytest
""") | {"ruff check", "ruff format"}
"""Linters, formatters and test runners."""
_FILE_PROGRAMS: Final = CHECKING_FILES | word_set("""
    bunzip2 bzip2 cp dos2unix gunzip gzip mkdir mv rm rmdir shred tee touch truncate unix2dos unlink unxz xz zstd
""")
"""Programs that treat their files as data, whatever the files and the project's settings contain: they do not run them.
pytest does run the tests it is given, but it does so without operands too: a file only selects some of them."""
_PATH_SEPARATORS: Final = re.compile("[=:,@]")
"""Characters after which a path can start inside a word."""
_MAX_SEPARATORS: Final = 16


def wildcard_refusal(words: Sequence[str], *, only_files: bool) -> str:
    """Why these words cannot be approved with further operands (`*`); empty if they can.

    This is an allow-list: a program that is in none of the tables is refused. A list of dangerous programs would never
    be complete.
    """
    name = words[0]
    if is_reader(words) and name not in COMMAND_RUNNERS:
        return ""
    if name == "git":
        known = len(words) > 1 and words[1] in git.WILDCARD_SUBCOMMANDS
        return "" if known else f"an operand of '{' '.join(words[:2])}' may name a program; spell out the whole command"
    if not _FILE_PROGRAMS & {name, " ".join(words[:2])}:
        return f"'{name}' is not known to treat its operands as data; spell out the whole command"
    if only_files:
        return ""
    return (
        f"'{name}' does more than read its operands; "
        f'spell out the whole command, or set operands = "files" to approve it with any project file'
    )


def is_reader(words: Sequence[str]) -> bool:
    """Whether a rule is for a program that does not change its files."""
    if words[0] == "git":
        return len(words) > 1 and words[1] in git.READ_ONLY_NAMES - {"branch"}
    return words[0] in READERS or words[0] in SPECIAL_CHECKS


def embedded_paths(word: str) -> list[str]:
    """The paths inside a word: everything after each `=`, `:`, `,` or `@`, and the pieces between them."""
    after = [word[found.end() :] for found in _PATH_SEPARATORS.finditer(word)]
    return [piece for piece in (*after, *_PATH_SEPARATORS.split(word)) if piece and piece != word]


def operand_refusal(word: str, context: CommandContext) -> str:
    """Why an operand may be more than a project file; empty if it is not. Options are not checked here."""
    if len(_PATH_SEPARATORS.findall(word)) > _MAX_SEPARATORS:
        return f"'{word[:40]}…' has too many parts to check"
    if word.startswith("-"):
        return ""
    if word.startswith("@"):
        return f"'{word}' may name a file with arguments"
    for piece in embedded_paths(word):
        if piece.startswith("~") or not context.contains(piece):
            return f"'{piece}' in '{word}' is not inside the project"
    return ""


RuleMatch = Literal["yes", "perhaps", "no"]
_FORCED: Final = "f,force i,interactive n,no-clobber u,update v,verbose b,backup S,suffix t,target-directory"
_MODES: Final = "R,recursive c,changes f,silent,quiet v,verbose reference dereference h,no-dereference preserve-root"
_OPTION_SYNONYMS: Final = {
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
"""Options of well-known programs, with synonyms joined by commas. `+` and `:` are operand prefixes with the same effect
(`git push origin +main`)."""
_ONE_DASH: Final = word_set("cc clang convert ffmpeg find gcc go java javac magick openssl qemu terraform tofu")
"""Programs whose long options start with a single dash."""


def match_option(words: Sequence[str], option: str, given: Sequence[Word]) -> RuleMatch:
    """Whether a command has an option. `words` are the rule's words without options; `given` are the command's
    arguments."""
    if option in given:
        return "yes"
    if "=" in option and not option.endswith("="):
        return _match_valued(option, given)
    if words[0] in _ONE_DASH:
        return _best([_match_exactly(option.strip("-="), word) for word in given])
    spelt = _OPTION_SYNONYMS.get(" ".join(words[:2])) or _OPTION_SYNONYMS.get(words[0], "")
    groups = tuple(frozenset(group.split(",")) for group in spelt.split())
    bundle = option[1:] if not option.startswith("--") and option[1:].isalpha() else ""
    wanted = list(bundle) or [option.lstrip("-").rstrip("=")]
    return _worst([_best([_match_one(_synonyms(groups, name), groups, word) for word in given]) for name in wanted])


def _synonyms(groups: Sequence[frozenset[str]], name: str) -> frozenset[str]:
    return next((group for group in groups if name in group), frozenset({name}))


def _match_valued(option: str, given: Sequence[Word]) -> RuleMatch:
    name, _, value = option.partition("=")
    for word, after in zip(given, [*given[1:], ""], strict=True):
        if word is None or (word == name and after is None):
            return "perhaps"
        if word == name and after == value:
            return "yes"
        if word.startswith("--") and name.startswith(word.partition("=")[0]) and word.endswith(value):
            return "perhaps"
    return "no"


def _match_exactly(bare: str, word: Word) -> RuleMatch:
    if word is None:
        return "perhaps"
    return "yes" if word.startswith("-") and word.lstrip("-").partition("=")[0] == bare else "no"


def _match_one(same: frozenset[str], groups: Sequence[frozenset[str]], word: Word) -> RuleMatch:
    if word is None:
        return "perhaps"
    if word[:1] in ("+", ":") and word[:1] in same:
        return "yes"
    if not word.startswith("-"):
        return "no"
    if word.startswith("--"):
        return _match_long(same, groups, word[2:].partition("=")[0])
    if any(len(name) == 1 and name in word[1:] for name in same):
        return "yes"
    initials = {name[0].lower() for name in same if len(name) > 1}
    return "no" if groups or not initials & set(word[1:].lower()) else "perhaps"


def _match_long(same: frozenset[str], groups: Sequence[frozenset[str]], given: str) -> RuleMatch:
    """Match a long option, which programs accept in abbreviated form."""
    if given in same:
        return "yes"
    shortened = bool(given) and any(len(name) > 1 and name.startswith(given) for name in same)
    if groups:
        return "yes" if shortened and not any(given in group for group in groups) else "no"
    letters = {name.lower() for name in same if len(name) == 1}
    return "perhaps" if shortened or given[:1].lower() in letters else "no"


def _best(match: Sequence[RuleMatch]) -> RuleMatch:
    return "yes" if "yes" in match else "perhaps" if "perhaps" in match else "no"


def _worst(match: Sequence[RuleMatch]) -> RuleMatch:
    return "no" if "no" in match else "perhaps" if "perhaps" in match else "yes"


_NPM: Final = (
    "i,in,ins,inst,insta,instal,isnt,isnta,isntal,isntall,add,install t,tst,test rum,urn,run-script,run "
    "un,rm,r,remove,unlink,uninstall up,upgrade,udpate,update x,exec c,config ls,la,ll,list s,se,find,search "
    "v,info,show,view ln,link ddp,dedupe author,owner create,innit,init dist-tags,dist-tag hlep,help issues,bugs "
    "home,docs why,explain clean-install,ic,install-clean,isntall-clean,ci rb,rebuild verison,version "
    "cit,clean-install-test,sit,install-ci-test it,install-test adduser,add-user,login"
)
_ALIASES: Final = {
    "brew": "rm,remove,uninstall ls,list up,update",
    "cargo": "b,build c,check d,doc t,test r,run rm,remove",
    "gem": "i,install",
    "npm": _NPM,
    "pnpm": _NPM,
}
"""Subcommands with their aliases joined by commas."""
_PREFIX_PROGRAMS: Final = word_set("bundle gem hg ip nmcli npm tmux")
"""Programs that accept abbreviated subcommands."""
_CONTAINER_GROUPS: Final = word_set("builder buildx compose container context image network plugin system volume")
_CONTAINERS: Final = frozenset({"docker", "nerdctl", "podman"})
_OF_IMAGES: Final = {"rm": "rmi", "remove": "rmi", "ls": "images", "list": "images"}


def is_subcommand_alias(program: str, wanted: str, word: str) -> bool:
    """Whether a word is another name of a subcommand."""
    groups = (group.split(",") for group in _ALIASES.get(program, "").split())
    if any(wanted in group and word in group for group in groups):
        return True
    return program in _PREFIX_PROGRAMS and len(word) > 1 and wanted.startswith(word) and not word.startswith("-")


def without_container_group(program: str, wanted: Sequence[str], words: Sequence[Word]) -> Sequence[Word]:
    """The words of a container program without its management group: `docker container rm` is `docker rm`."""
    if program not in _CONTAINERS or not wanted or wanted[0] in _CONTAINER_GROUPS:
        return words
    for at, word in enumerate(words):
        if word in _CONTAINER_GROUPS and not any(word in ("run", "exec") for word in words[:at]):
            after = list(words[at + 1 :])
            if word == "image" and after and (name := _OF_IMAGES.get(after[0] or "")) is not None:
                after[0] = name
            return [*words[:at], *after]
    return words


WILDCARD: Final = "*"
_MAX_LOOKS: Final = 4000
"""Paths that are checked on disk for one command."""
_QUOTED: Final = re.compile(r"""'[^']*'|"[^"$`]*"|\\.""")
_OPERATOR: Final = re.compile(r"[;&|<>()$`\n]")


class CompiledRule(Struct, frozen=True, kw_only=True):
    """A compiled rule: the first words of a command, and what may follow them."""

    name: str
    verdict: Verdict
    words: tuple[str, ...]
    options: tuple[str, ...] = ()
    any_operands: bool = False
    only_files: bool = False
    """Whether every operand must be an existing project file."""
    needs: Widening | None = None
    """Access beyond the sandbox policy that such a command gets."""

    def approves(self, words: Sequence[str], context: CommandContext) -> str | None:
        """Empty if the rule approves these words; why not, if only the context prevents it; None if it does not
        match."""
        count = len(self.words)
        if self.verdict is not Verdict.APPROVE or tuple(words[:count]) != self.words:
            return None
        rest = words[count:]
        operands = [word for word in rest if not word.startswith("-") or word == "-"]
        if operands and not self.any_operands:
            return None
        if not all(self._has_option(word) for word in rest if word.startswith("-") and word != "-"):
            return None
        if self.words[0] == "git" and context.is_sandboxed() is not True:
            return git.NOT_CONTAINED
        if self.any_operands and self.words[0] != "git" and (reason := check_read_only(words, context)):
            return reason
        if FOUND_PATH in rest and (self.words[0] == "git" or not is_reader(self.words)):
            return "an argument is only known at run time"
        return (outside_project(operands, context) if operands else "") or self._operand_problem(rest, context)

    def _operand_problem(self, rest: Sequence[str], context: CommandContext) -> str:
        """Why an operand, or a path inside it, is not an ordinary project file; empty if all are."""
        if len(rest) * len(context.folders) > _MAX_LOOKS:
            return "it has too many operands to check"
        reads = is_reader(self.words) and (self.any_operands or self.words[0] == "git")
        for word in rest:
            if self.only_files and not word.startswith("-") and not context.has_file(word.partition("::")[0]):
                return f"'{word}' is not an existing project file"
            if reason := operand_refusal(word, context):
                return reason
            if (
                not reads
                and (path := next(filter(context.is_protected_path, (word, *embedded_paths(word))), None)) is not None
            ):
                return f"'{path}' is a protected path"
        return "it runs in a protected folder" if not reads and context.runs_in_protected_folder else ""

    def _has_option(self, word: str) -> bool:
        name, equals, _ = word.partition("=")
        return word in self.options or bool(equals and f"{name}=" in self.options)

    def match(self, words: Sequence[Word]) -> RuleMatch:
        """Whether an asking or denying rule matches a command. Options between the rule's words are skipped."""
        if not words:
            return "no"
        if words[0] is None:
            return "perhaps"
        name = program_name(words[0])
        if name != self.words[0] and self.words[0] != family(name) and name != family(self.words[0]):
            return "no"
        named = [word for word in self.words if not word.startswith("-")]
        rest = _split_joined_values(named[1:], words[1:])
        options = [match_option(named, option, rest) for option in self.words[1:] if option.startswith("-")]
        found = [
            _match_operands(self.words[0], named[1:], without_container_group(self.words[0], named[1:], rest)),
            *options,
        ]
        if "no" in found:
            return "no"
        return "perhaps" if "perhaps" in found or name != self.words[0] else "yes"

    def is_in_code(self, texts: Sequence[str]) -> bool:
        """Whether every word of the rule occurs in interpreter code, alone or after a one-letter command (sed's
        `e`)."""
        return bool(texts) and all(any(_code_pattern(word).search(text) for text in texts) for word in self.named)

    @property
    def named(self) -> frozenset[str]:
        """The words of the rule that are not options."""
        return frozenset(word for word in self.words if not word.startswith("-"))


def _split_joined_values(wanted: Sequence[str], words: Sequence[Word]) -> list[Word]:
    """Split options from values that the rule names: `-uroot` becomes `-u root`."""
    apart: list[Word] = []
    for word in words:
        name, _, value = (word or "").partition("=")
        if word is not None and word.startswith("--") and value in wanted:
            apart += [name, value]
        elif word is not None and word.startswith("-") and word[2:] in wanted:
            apart += [word[:2], word[2:]]
        else:
            apart.append(word)
    return apart


@cache
def _code_pattern(word: str) -> re.Pattern[str]:
    return re.compile(rf"(?:(?<![A-Za-z0-9_])|-[a-z]+)(?:[0-9$,]*e)?{re.escape(word)}(?![A-Za-z0-9_])")


def _match_operands(program: str, wanted: Sequence[str], words: Sequence[Word]) -> RuleMatch:
    """Whether the operands of the rule come first, with only options and their values before them."""
    if not wanted:
        return "yes"
    for at, word in enumerate(words):
        if word is None:
            return "perhaps"
        if word == wanted[0] or is_subcommand_alias(program, wanted[0], word):
            return _match_operands(program, wanted[1:], words[at + 1 :])
        if not word.startswith("-") and (at == 0 or not (words[at - 1] or "").startswith("-")):
            return "no"
    return "no"


def compile_rule(given: CommandRule) -> CompiledRule:
    """Compile a rule. Raises `ConfigError` if it is invalid or would approve too much."""
    try:
        words = shlex.split(given.rule)
    except ValueError:
        raise _rule_error(given, "its quotes are not balanced") from None
    if _OPERATOR.search(_QUOTED.sub("", given.rule)):
        raise _rule_error(given, "a rule is the words of one command, without operators or variables")
    starred = words[-1:] == [WILDCARD]
    words = words[:-1] if starred else words
    if not words:
        raise _rule_error(given, "it names no program")
    if WILDCARD in words:
        raise _rule_error(given, "`*` stands for further words and must come last")
    verdict = Verdict(given.verdict)
    if "/" in words[0] or (verdict is Verdict.APPROVE and not is_plain_name(words[0])):
        raise _rule_error(given, f"'{words[0]}' is not a plain program name")
    if verdict is Verdict.APPROVE:
        _validate_approval(given, words, starred)
    return CompiledRule(
        name=given.rule, verdict=verdict, words=tuple(words), options=given.options, any_operands=starred,
        only_files=given.operands == "files", needs=_needs(given, verdict),
    )  # fmt: skip


def _needs(given: CommandRule, verdict: Verdict) -> Widening | None:
    hosts = () if isinstance(given.network, str) else given.network
    needs = Widening(hosts=hosts, network=given.network == "on", read=given.read, write=given.write)
    if needs and verdict is Verdict.DENY:
        raise _rule_error(given, "a denying rule cannot give access, so remove network, read and write")
    if (strange := next((host for host in hosts if not is_allow_list_entry(host)), None)) is not None:
        raise _rule_error(given, f"{strange!a} is not a host; use host, *.host or host:port")
    return needs or None


def _validate_approval(given: CommandRule, words: list[str], starred: bool) -> None:
    if words[0] in SHELL_CHANGING:
        raise _rule_error(given, f"'{words[0]}' changes what later commands mean and always needs approval")
    if starred and (reason := wildcard_refusal(words, only_files=given.operands == "files")):
        raise _rule_error(given, reason)
    for option in given.options:
        if not option.startswith("-"):
            raise _rule_error(given, f"the option '{option}' does not begin with '-'")
        if words[0] == "git" and option.rstrip("=") in git.HAZARDOUS:
            raise _rule_error(
                given, f"'{option}' of {words[0]} runs programs or writes files and always needs approval"
            )


def _rule_error(given: CommandRule, reason: str) -> ConfigError:
    return ConfigError(f"The command rule '{given.rule}' is invalid: {reason}.")
