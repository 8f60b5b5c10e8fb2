"""What a rule that asks or denies cannot be sure of: commands that may run what their words do not show.

A command is clear if its program is known to treat its words as data and every word that could be an option of it is
told.
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
from holdfast.rules.shell.programs import family, program_name
from holdfast.rules.shell.verdicts import CommandPart, Word, word_set

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
"""Variables that shells and programs are known to obey."""
_SHELL_VARIABLES: Final = re.compile(r"PS[0-4]|ENV|BASH_\w+|PROMPT_COMMAND|SHELLOPTS|BASHOPTS")
"""Those that the shell itself obeys."""
_ARITHMETIC_VARIABLES: Final = word_set(
    "BASHPID EPOCHSECONDS HISTCMD HISTFILESIZE HISTSIZE LINENO OPTIND RANDOM SECONDS SRANDOM"
)
"""Variables of the shell that evaluate what they are set to."""
_DEFERRING_BUILTINS: Final = word_set("alias bind compgen complete enable hash mapfile readarray trap")
"""Builtins that keep commands for later, or run them."""
_EDITORS: Final = word_set("ex gvim less nvim rview rvim vi view vim vimdiff")
_EDITOR_WORD: Final = re.compile(
    r"-[RnNdoOpybmM]|-[oOp]?[0-9]*|\+[0-9]*|\+/[\w ]*|[^-+].*|-[FSXriIgNJs]+|--|-", re.DOTALL
)
_SPLICED: Final = re.compile(rf"[A-Za-z]{FROM_ENVIRONMENT}+[A-Za-z]")
"""A name with something in it that may be nothing."""
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
"""Programs that run nothing but what is read from their words."""


class Uncertainty(CommandEffects):
    """What is unsure about the parts of one command text."""

    @cached_property
    def reasons(self) -> Mapping[int, str]:
        """Why a part may run something that it does not show, by its position."""
        resolved = (
            (at, self._about_assignment(part) if part.kind == "assignment" else self._about_command(at, part))
            for at, part in enumerate(self.parts)
        )
        return {at: reason for at, reason in resolved if reason}

    def _about_assignment(self, part: CommandPart) -> str:
        name, _, value = part.text.partition("=")
        name = name.rstrip("+").partition("[")[0]
        if name in ("BASH_ALIASES", "BASH_CMDS"):
            return f"it sets {name}"
        if name in _ARITHMETIC_VARIABLES and not value.isdigit():
            return f"setting {name} evaluates a value that cannot be told"
        if not value and _SENSITIVE.fullmatch(name):
            return f"what {name} is set to cannot be told"
        if part.scoped or {name, ANYTHING} & self.exported or _SENSITIVE.fullmatch(name):
            return self._about_variable(name, value)
        return ""

    def _about_variable(self, name: str, value: str) -> str:
        """Why a variable that programs see may make one run something."""
        if name == "PATH" or harmless.HARMLESS_VARIABLES.fullmatch(name):
            return ""
        if not self.obeys_variables and _SHELL_VARIABLES.fullmatch(name) is None:
            return ""
        if _PLAIN.fullmatch(value) is None:
            return f"programs may obey the variable {name}"
        path = program_name(value.strip("\"'"))
        if (
            path
            and not path.isdigit()
            and (self.written_files & {ANYTHING, path} or family(path) in programs.INTERPRETERS)
        ):
            return f"programs may run what the variable {name} names"
        return ""

    def _about_command(self, at: int, part: CommandPart) -> str:
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
            return f"PATH was changed, so it is not known which program '{name}' is"
        sets = name in SETTING_BUILTINS or name in DECLARING_BUILTINS or name == "env"
        if sets and (reason := self._about_names(name, part)):
            return reason
        if name in _DEFERRING_BUILTINS and None in part.words:
            return "an argument cannot be told"
        if name in ("scp", "sftp", "ssh"):
            return self._about_ssh(name, self.resolved_words(part, at))
        if name in ("ed", "ex") and (part.piped or self.is_given_text):
            return "an editor runs what it is given"
        if name == "git":
            return self._about_git(self.resolved_words(part, at))
        if name == "find":
            return self._about_find(self.resolved_words(part, at)) if None in part.words else ""
        if (table := harmless.OPTION_TABLES.get(name)) is not None:
            resolved = self.resolved_words(part, at)
            return unsafe_option_reason(
                table, resolved, programs.COMMAND_OPTIONS.get(name, "").split()
            ) or self._about_file(name, part)
        if name in _EDITORS and not all(_EDITOR_WORD.fullmatch(str(word)) for word in self.resolved_words(part, at)):
            return "a word may be a command of the editor"
        if name in _VISIBLE_RUNNERS or part.inside in ("a variable", "alias", "git -c"):
            return ""
        return self._about_other(name, self.resolved_words(part, at))

    def _about_other(self, name: str, resolved: Sequence[ResolvedWord]) -> str:
        """Programs of which it is not known what they do with their words."""
        if _is_data(name, resolved):
            return ""
        if family(name).lower() in programs.INTERPRETERS:
            operand = next((word for word in resolved if not (isinstance(word, str) and word.startswith("-"))), "")
            if any(isinstance(word, str) and CODE_OPTION.fullmatch(word) for word in resolved):
                return ""
            untold = isinstance(operand, UnknownWord) or operand.startswith(UNKNOWN_PIECE)
            edits = operand is UnknownWord.OPERAND and name in _EDITORS | {"nano", "emacs", "ed"}
            return "the program it would run cannot be told" if untold and not edits else ""
        spliced = any(isinstance(word, str) and _SPLICED.search(word) for word in resolved)
        if spliced or any(
            isinstance(word, UnknownWord) or UNKNOWN_PIECE in word
            for word in resolved
            if word is not UnknownWord.OPERAND
        ):
            return f"it is not known what '{name}' does with its words, and one cannot be told"
        if name in programs.RUN_PROGRAMS and any(_CODE.search(str(word)) for word in resolved):
            return f"'{name}' may run what its words say"
        return ""

    def _about_file(self, name: str, part: CommandPart) -> str:
        """A file of instructions that the text may have written, or a pipe."""
        if name == "zip" and any("TT" in (word or "") for word in part.words):
            return "an option of zip may run something"
        if name == "make" and any(isinstance(word, str) and _CODE.search(word) for word in part.words[1:]):
            return "a word may be a command of make"
        if name == "make" and any(raw_words.startswith("<(") for raw_words in part.raw_words):
            return "what it would run cannot be told"
        return ""

    def _about_git(self, resolved: Sequence[ResolvedWord]) -> str:
        words = list(resolved)
        while words and isinstance(words[0], str) and words[0].startswith("-"):
            valued = words[0] in ("-c", "-C", "--git-dir", "--work-tree", "--namespace")
            if valued and UnknownWord.MANY in words[1:2]:
                return "an argument of git cannot be told"
            del words[: 2 if valued else 1]
        if not words:
            return ""
        subcommand = words[0]
        if isinstance(subcommand, UnknownWord) or UNKNOWN_PIECE in subcommand or FROM_ENVIRONMENT in subcommand:
            return "the subcommand of git cannot be told"
        if subcommand in harmless.GIT_HARMLESS:
            return ""
        if (table := harmless.GIT_OPTION_TABLES.get(subcommand)) is not None:
            if any("::" in word for word in words[1:] if isinstance(word, str)):
                return "a remote helper of git may run something"
            return unsafe_option_reason(table, words[1:], programs.COMMAND_OPTIONS["git"].split())
        untold = any(isinstance(word, UnknownWord) or UNKNOWN_PIECE in word for word in words[1:])
        return f"it is not known what 'git {subcommand}' does with its words" if untold else ""

    def _about_ssh(self, name: str, resolved: Sequence[ResolvedWord]) -> str:
        """Words before the command of the other host that may be options, or name a file of settings."""
        if self.written_files and any(re.match(r"-\w*F", str(word)) for word in resolved):
            return "the settings of ssh may have been written by the same command"
        for word, before in zip(resolved, ["", *resolved], strict=False):
            valued = isinstance(before, str) and before.startswith("-") and before[-1] in "BbcDEeFIiJLlmOoPpQRSWwsX"
            if word is UnknownWord.MANY or (
                not valued and (word is UnknownWord.ONE or str(word).startswith(UNKNOWN_PIECE))
            ):
                return f"a word that may be an option of '{name}' cannot be told"
            if name == "ssh" and not valued and not str(word).startswith("-"):
                return ""
        return ""

    def _about_find(self, resolved: Sequence[ResolvedWord]) -> str:
        """Only where a word of it could be an action."""
        reason, before = "a word that may be an action of find cannot be told", ""
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

    def _about_names(self, name: str, part: CommandPart) -> str:
        """Builtins that set variables: those that shells and programs obey, or whose names cannot be told."""
        raw_words = part.raw_words or tuple(word or "" for word in part.words)
        if name in DECLARING_BUILTINS and any(
            re.match(r"-\w*n", word or "") for word in part.words[1:] if name != "export"
        ):
            return "another name is given to a variable"
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
                if exports and (reason := self._about_variable(variable, value)):
                    return reason
            elif (
                name in DECLARING_BUILTINS
                and word is None
                and self.obeys_variables
                and not VARIABLE_NAME.match(spelt.strip("\"'"))
            ):
                return "the variable that is set cannot be told"
        if name in SETTING_BUILTINS:
            return self._about_targets(name, part)
        return ""

    def _about_targets(self, name: str, part: CommandPart) -> str:
        for target in _set_variables(name, part.words[1:]):
            variable = target.partition("[")[0]
            if variable in _ARITHMETIC_VARIABLES or _SENSITIVE.fullmatch(variable):
                return f"what {variable} is set to cannot be told"
            if (
                {variable, ANYTHING} & self.exported
                and not harmless.HARMLESS_VARIABLES.fullmatch(variable)
                and self.obeys_variables
            ):
                return f"programs may obey the variable {variable}"
        return ""


def may_run_others(words: Sequence[Word], *, writes: bool) -> bool:
    """Whether a command may start programs that are named in what it is given, and its words do not show which.

    `writes`: whether files are written before, which it may be given.
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
    """Whether the subcommand treats its words as data."""
    data = harmless.HARMLESS_SUBCOMMANDS.get(name, frozenset())
    if not resolved or resolved[0] not in data:
        return False
    rest = list(resolved[1:])
    if "publish" not in data:  # what cannot be told is an operand
        rest = [
            UnknownWord.OPERAND if isinstance(word, UnknownWord) or word.startswith(UNKNOWN_PIECE) else word
            for word in rest
        ]
    return not unsafe_option_reason(harmless.HARMLESS_SUBCOMMAND_OPTIONS, rest)


def _set_variables(name: str, words: Sequence[Word]) -> Iterator[str]:
    """The variables that a builtin puts something into, as far as they are told."""
    if name in ("printf", "wait"):
        letter = "-v" if name == "printf" else "-p"
        for word, after in zip(words, [*words[1:], ""], strict=False):
            if word is not None and word.startswith(letter):
                yield word.removeprefix(letter) or after or ""
        return
    yield from (word for word in words if word is not None and VARIABLE_NAME.match(word))
