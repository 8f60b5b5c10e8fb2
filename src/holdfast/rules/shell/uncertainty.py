"""Finds commands that may run something that their words do not show, so that asking and denying rules cannot rule out
a match.

A command is certain if its program treats its words as data, and every word that could be an option is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

from holdfast.rules.shell import harmless, programs
from holdfast.rules.shell.effects import (
    ANYTHING,
    CODE_OPTION,
    DECLARING_BUILTINS,
    SETTING_BUILTINS,
    VARIABLE_NAME,
    CommandEffects,
)
from holdfast.rules.shell.harmless import (
    FROM_ENVIRONMENT,
    UNKNOWN_PIECE,
    ResolvedWord,
    UnknownWord,
    unsafe_option_reason,
)
from holdfast.rules.shell.parts import CommandPart, Word, word_set
from holdfast.rules.shell.programs import family, program_name

_ASSIGNMENT: Final = re.compile(r"[\"']?([A-Za-z_]\w*)(\[[^=]*\])?\+?=(.*)", re.DOTALL)
_PLAIN: Final = re.compile(r"(['\"]?)(?!-)[A-Za-z0-9_./:@%+,=-]*\1")
_SYSTEM: Final = re.compile(
    r"/(?:usr/)?(?:local/)?s?bin/[^/]+|/(?:usr/)?lib(?:64|exec)?/[\w./-]+|/opt/homebrew/bin/[^/]+"
)
_SENSITIVE: Final = re.compile(
    r"PATH|ENV|PS[0-4]|SHELL|VISUAL|BASH_\w+|SHELLOPTS|BASHOPTS|HISTFILE|LD_\w+|DYLD_\w+|GIT_\w+|LESS\w*|MAN\w*|CC|CXX"
    r"|\w*(?:ASKPASS|BROWSER|COMMAND|DIFF|EDITOR|PAGER|SSH|RSH|OPTIONS?|OPTS?|FLAGS|CONFIG\w*|PRELOAD|WRAPPER|_RC|HOOKS?)"
    r"|(?:npm|pnpm|yarn|pip|apt)_config_\w+|ZIPOPT|WGETRC|PERL5\w+|RUBYOPT|PYTHON(?:STARTUP|PATH|HOME)|NODE_PATH"
)
"""Variables that shells and programs are known to act on."""
_SHELL_VARIABLES: Final = re.compile(r"PS[0-4]|ENV|BASH_\w+|PROMPT_COMMAND|SHELLOPTS|BASHOPTS")
"""Variables that the shell itself acts on."""
_ARITHMETIC_VARIABLES: Final = word_set(
    "BASHPID EPOCHSECONDS HISTCMD HISTFILESIZE HISTSIZE LINENO OPTIND RANDOM SECONDS SRANDOM"
)
"""Shell variables whose assigned value is evaluated as arithmetic."""
_DEFERRING_BUILTINS: Final = word_set("alias bind compgen complete enable hash mapfile readarray trap")
"""Builtins that store commands for later, or run them."""
_EDITORS: Final = word_set("ex gvim less nvim rview rvim vi view vim vimdiff")
_EDITOR_WORD: Final = re.compile(
    r"-[RnNdoOpybmM]|-[oOp]?[0-9]*|\+[0-9]*|\+/[\w ]*|[^-+].*|-[FSXriIgNJs]+|--|-", re.DOTALL
)
_SPLICED: Final = re.compile(rf"[A-Za-z]{FROM_ENVIRONMENT}+[A-Za-z]")
"""A name with an inherited value in the middle, which may be empty."""
_CODE: Final = re.compile(r"[$`\\'\"]")
_BUILTINS: Final = word_set("""
    . : [ [[ alias bg break builtin cd command continue declare dirs echo eval exec exit export false fg getopts hash
    help jobs kill let local mapfile popd printf pushd pwd read readarray readonly return set shift shopt source test
    times trap true type typeset ulimit umask unset wait
""")
_VISIBLE_RUNNERS: Final = (
    harmless.HARMLESS_PROGRAMS.union(programs.WRAPPERS)
    | programs.OPAQUE_WRAPPERS
    | programs.SHELL_STARTERS
    | programs.FILE_RUNNERS
)
"""Programs that only run commands that `wrappers` finds in their words."""


class Uncertainty(CommandEffects):
    """Reasons why the parts of a command text may run something that they do not show."""

    @cached_property
    def reasons(self) -> Mapping[int, str]:
        """The reasons by position of the part."""
        resolved = (
            (at, self._check_assignment(part) if part.kind == "assignment" else self._check_command(at, part))
            for at, part in enumerate(self.parts)
        )
        return {at: reason for at, reason in resolved if reason}

    def _check_assignment(self, part: CommandPart) -> str:
        name, _, value = part.text.partition("=")
        name = name.rstrip("+").partition("[")[0]
        if name in ("BASH_ALIASES", "BASH_CMDS"):
            return f"it sets {name}"
        if name in _ARITHMETIC_VARIABLES and not value.isdigit():
            return f"setting {name} evaluates a value that is only known at run time"
        if not value and _SENSITIVE.fullmatch(name):
            return f"the value of {name} is only known at run time"
        if part.scoped or {name, ANYTHING} & self.exported or _SENSITIVE.fullmatch(name):
            return self._check_variable(name, value)
        return ""

    def _check_variable(self, name: str, value: str) -> str:
        """Why an exported variable may make a program run something; empty if it cannot."""
        if name == "PATH" or harmless.HARMLESS_VARIABLES.fullmatch(name):
            return ""
        if not self.acts_on_variables and _SHELL_VARIABLES.fullmatch(name) is None:
            return ""
        if _PLAIN.fullmatch(value) is None:
            return f"programs may act on the variable {name}"
        path = program_name(value.strip("\"'"))
        if (
            path
            and not path.isdigit()
            and (self.written_files & {ANYTHING, path} or family(path) in programs.INTERPRETERS)
        ):
            return f"programs may run the program that the variable {name} names"
        return ""

    def _check_command(self, at: int, part: CommandPart) -> str:
        program = part.words[0] if part.kind == "command" and not part.guessed else None
        if program is None:
            return ""
        name = program_name(program)
        is_script = part.inside in programs.FILE_RUNNERS and part.derived
        if is_script or ("/" in program and _SYSTEM.fullmatch(program) is None):
            if self.may_have_written(program, at):
                return f"the file '{program}' may have been written by the same command"
            return ""
        if self.changes_path and name not in _BUILTINS:
            return f"PATH is changed, so '{name}' may be another program"
        sets = name in SETTING_BUILTINS or name in DECLARING_BUILTINS or name == "env"
        if sets and (reason := self._check_names(name, part)):
            return reason
        if name in _DEFERRING_BUILTINS and None in part.words:
            return "an argument is only known at run time"
        if name in ("scp", "sftp", "ssh"):
            return self._check_ssh(name, self.resolved_words(part, at))
        if name in ("ed", "ex") and (part.piped or self.is_given_text):
            return "an editor runs commands from its input"
        if name == "git":
            return self._check_git(self.resolved_words(part, at))
        if name == "find":
            return self._check_find(self.resolved_words(part, at)) if None in part.words else ""
        if (table := harmless.OPTION_TABLES.get(name)) is not None:
            resolved = self.resolved_words(part, at)
            return unsafe_option_reason(
                table, resolved, programs.COMMAND_OPTIONS.get(name, "").split()
            ) or self._check_file(name, part)
        if name in _EDITORS and not all(_EDITOR_WORD.fullmatch(str(word)) for word in self.resolved_words(part, at)):
            return "a word may be an editor command"
        if name in _VISIBLE_RUNNERS or part.inside in ("a variable", "alias", "git -c"):
            return ""
        return self._check_other(name, self.resolved_words(part, at))

    def _check_other(self, name: str, resolved: Sequence[ResolvedWord]) -> str:
        """Programs without a table of their options."""
        if _is_data(name, resolved):
            return ""
        if family(name).lower() in programs.INTERPRETERS:
            operand = next((word for word in resolved if not (isinstance(word, str) and word.startswith("-"))), "")
            if any(isinstance(word, str) and CODE_OPTION.fullmatch(word) for word in resolved):
                return ""
            is_unknown = isinstance(operand, UnknownWord) or operand.startswith(UNKNOWN_PIECE)
            edits = operand is UnknownWord.OPERAND and name in _EDITORS | {"nano", "emacs", "ed"}
            return "the program it runs is only known at run time" if is_unknown and not edits else ""
        spliced = any(isinstance(word, str) and _SPLICED.search(word) for word in resolved)
        if spliced or any(
            isinstance(word, UnknownWord) or UNKNOWN_PIECE in word
            for word in resolved
            if word is not UnknownWord.OPERAND
        ):
            return f"'{name}' may run its arguments, and one of them is only known at run time"
        if name in programs.RUN_PROGRAMS and any(_CODE.search(str(word)) for word in resolved):
            return f"'{name}' may run its arguments"
        return ""

    def _check_file(self, name: str, part: CommandPart) -> str:
        """Operands of zip and make that can hold commands."""
        if name == "zip" and any("TT" in (word or "") for word in part.words):
            return "an option of zip may run a program"
        if name == "make" and any(isinstance(word, str) and _CODE.search(word) for word in part.words[1:]):
            return "a word may be a make command"
        if name == "make" and any(raw_words.startswith("<(") for raw_words in part.raw_words):
            return "the commands it runs are only known at run time"
        return ""

    def _check_git(self, resolved: Sequence[ResolvedWord]) -> str:
        words = list(resolved)
        while words and isinstance(words[0], str) and words[0].startswith("-"):
            valued = words[0] in ("-c", "-C", "--git-dir", "--work-tree", "--namespace")
            if valued and UnknownWord.MANY in words[1:2]:
                return "an argument of git is only known at run time"
            del words[: 2 if valued else 1]
        if not words:
            return ""
        subcommand = words[0]
        if isinstance(subcommand, UnknownWord) or UNKNOWN_PIECE in subcommand or FROM_ENVIRONMENT in subcommand:
            return "the git subcommand is only known at run time"
        if subcommand in harmless.GIT_HARMLESS:
            return ""
        if (table := harmless.GIT_OPTION_TABLES.get(subcommand)) is not None:
            if any("::" in word for word in words[1:] if isinstance(word, str)):
                return "a git remote helper may run a program"
            return unsafe_option_reason(table, words[1:], programs.COMMAND_OPTIONS["git"].split())
        is_unknown = any(isinstance(word, UnknownWord) or UNKNOWN_PIECE in word for word in words[1:])
        return (
            f"'git {subcommand}' may run its arguments, and one of them is only known at run time" if is_unknown else ""
        )

    def _check_ssh(self, name: str, resolved: Sequence[ResolvedWord]) -> str:
        """Words before the remote command that may be options, or name a configuration file."""
        if self.written_files and any(re.match(r"-\w*F", str(word)) for word in resolved):
            return "the ssh configuration file may have been written by the same command"
        for word, before in zip(resolved, ["", *resolved], strict=False):
            valued = isinstance(before, str) and before.startswith("-") and before[-1] in "BbcDEeFIiJLlmOoPpQRSWwsX"
            if word is UnknownWord.MANY or (
                not valued and (word is UnknownWord.ONE or str(word).startswith(UNKNOWN_PIECE))
            ):
                return f"a word that may be an option of '{name}' is only known at run time"
            if name == "ssh" and not valued and not str(word).startswith("-"):
                return ""
        return ""

    def _check_find(self, resolved: Sequence[ResolvedWord]) -> str:
        """Words of find that may be an action such as `-exec`."""
        reason, before = "a word that may be a find action is only known at run time", ""
        for at, word in enumerate(resolved):
            is_value = before in harmless.FIND_VALUE_WORDS
            before = word if isinstance(word, str) else ""
            if word is UnknownWord.MANY:
                return reason
            if word is UnknownWord.OPERAND or is_value:
                continue
            if isinstance(word, str) and not word.startswith(UNKNOWN_PIECE):
                if word.startswith("-") and (UNKNOWN_PIECE in word or FROM_ENVIRONMENT in word):
                    return reason
            elif at or not str(next(iter(resolved[1:2]), "-")).startswith(("-", "(")):
                return reason
        return ""

    def _check_names(self, name: str, part: CommandPart) -> str:
        """Builtins that set a variable that shells or programs act on, or whose name is unknown."""
        raw_words = part.raw_words or tuple(word or "" for word in part.words)
        if name in DECLARING_BUILTINS and any(
            re.match(r"-\w*n", word or "") for word in part.words[1:] if name != "export"
        ):
            return "it creates a name reference to a variable"
        for word, spelt in zip(part.words[1:], raw_words[1:], strict=False):
            found = _ASSIGNMENT.fullmatch(spelt if word is None else word)
            if found is not None and name not in SETTING_BUILTINS:
                variable, value = found[1], found[3].rstrip("\"'") if word is None else found[3]
                if variable in ("BASH_ALIASES", "BASH_CMDS") or (
                    variable in _ARITHMETIC_VARIABLES and not value.isdigit()
                ):
                    return f"it sets {variable}"
                exports = (
                    name in ("env", "export") or {variable, ANYTHING} & self.exported or _SENSITIVE.fullmatch(variable)
                )
                if exports and (reason := self._check_variable(variable, value)):
                    return reason
            elif (
                name in DECLARING_BUILTINS
                and word is None
                and self.acts_on_variables
                and not VARIABLE_NAME.match(spelt.strip("\"'"))
            ):
                return "the name of the variable it sets is only known at run time"
        if name in SETTING_BUILTINS:
            return self._check_targets(name, part)
        return ""

    def _check_targets(self, name: str, part: CommandPart) -> str:
        for target in _set_variables(name, part.words[1:]):
            variable = target.partition("[")[0]
            if variable in _ARITHMETIC_VARIABLES or _SENSITIVE.fullmatch(variable):
                return f"the value of {variable} is only known at run time"
            if (
                {variable, ANYTHING} & self.exported
                and not harmless.HARMLESS_VARIABLES.fullmatch(variable)
                and self.acts_on_variables
            ):
                return f"programs may act on the variable {variable}"
        return ""


def may_run_others(words: Sequence[Word], *, writes: bool) -> bool:
    """Whether a command may start programs that its words do not show, because its input names them.

    `writes`: whether the text also writes files, which may be that input.
    """
    if not words or words[0] is None:
        return False
    name = program_name(words[0])
    if "/" in words[0] and _SYSTEM.fullmatch(words[0]) is None:
        return True
    if name in programs.RUNS_FILE_CONTENT:
        return writes
    if name in programs.RUN_PROGRAMS:
        return not _is_data(name, ["\0" if word is None else word for word in words[1:]])
    if name in programs.DATA_PROGRAMS:
        options = programs.CONFIGURABLE.get(name)
        return options is not None and any((word or "").startswith(options) for word in words[1:])
    return name not in programs.WRAPPERS


def _is_data(name: str, resolved: Sequence[ResolvedWord]) -> bool:
    """Whether the words are those of a subcommand that treats them as data."""
    data = harmless.HARMLESS_SUBCOMMANDS.get(name, frozenset())
    if not resolved or resolved[0] not in data:
        return False
    rest = list(resolved[1:])
    if "publish" not in data:  # not npm and its kin: an unknown word is an operand
        rest = [
            UnknownWord.OPERAND if isinstance(word, UnknownWord) or word.startswith(UNKNOWN_PIECE) else word
            for word in rest
        ]
    return not unsafe_option_reason(harmless.HARMLESS_SUBCOMMAND_OPTIONS, rest)


def _set_variables(name: str, words: Sequence[Word]) -> Iterator[str]:
    """The known variables that a builtin assigns to."""
    if name in ("printf", "wait"):
        letter = "-v" if name == "printf" else "-p"
        for word, after in zip(words, [*words[1:], ""], strict=False):
            if word is not None and word.startswith(letter):
                yield word.removeprefix(letter) or after or ""
        return
    yield from (word for word in words if word is not None and VARIABLE_NAME.match(word))
