"""The context of a command: the project, the folders it may run in, the sandbox, and which programs are trusted."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, Literal, cast

from msgspec import Struct
from msgspec.structs import replace

from holdfast.contract.enums import RUNS_COMMANDS
from holdfast.contract.json import Args
from holdfast.contract.tool import Tool
from holdfast.fs.protected_paths import protected_reason
from holdfast.rules.chain import ApprovalRequest
from holdfast.rules.shell.parts import Dialect, GlobWord, word_set

DEV_NULL: Final = "/dev/null"
FOUND_PATH: Final = "\0found"
"""Placeholder for the path of any file found in the project."""
UNKNOWN_WORDS: Final = "\0unknown"
"""Placeholder for any number of unknown words."""
UNKNOWN_WORD: Final = "\0text"
"""Placeholder for exactly one unknown word."""
UNKNOWN_GLOB: Final = "\0wild"
"""Placeholder for any number of unknown words, including file names anywhere that globs match."""
UNKNOWNS: Final = frozenset({UNKNOWN_WORDS, UNKNOWN_WORD, UNKNOWN_GLOB})
PLACEHOLDERS: Final = frozenset({FOUND_PATH, *UNKNOWNS})
BUILTINS: Final = word_set(": [ [[ cd command echo false printf pwd read set test true type")
"""Shell builtins, which the PATH does not affect."""
NameSeparator = Literal["", "lines", "nulls"]
_MAX_FOLDERS: Final = 32
_MAX_MATCHES: Final = 200
_MAX_SURVEYED: Final = 10_000
_PLAIN_FILE: Final = re.compile(r"[^-\s'\"\\*?\[{$`;&|<>()#!~][^\s'\"\\*?\[{$`;&|<>()!]*")
_SPECIAL: Final = re.compile(r"[*?\[]")
_ESCAPED: Final = re.compile(r"\\.", re.DOTALL)
_PATTERN_PIECE: Final = re.compile(r"(?P<set>\[(?:0-9|[A-Za-z0-9_.])+\])|\\?.", re.DOTALL)


def no_sandbox() -> bool:
    return False


class CommandContext(Struct, frozen=True, kw_only=True):
    """Where a command runs, as far as the rules need to know."""

    root: str | None
    """The real path of the project; None outside a project."""
    folders: tuple[str, ...]
    """The real paths of all folders the command may be in."""
    is_sandboxed: Callable[[], bool] = no_sandbox
    """Whether a sandbox confines the command; called only if needed, because it can be slow."""
    is_system_program: Callable[[str, str | None], bool]
    protected: tuple[str, ...] = ()
    """Additional protected paths from the configuration."""
    dialect: Dialect = "bash"
    """The shell that runs the command."""
    exists: Callable[[str], bool] = os.path.exists
    """Whether a path exists; replaced in tests and examples."""
    input_names: NameSeparator = ""
    """The separator of project file names on standard input; empty if the input is something else."""
    only_regular_files: bool = False
    """Whether found files are regular files, so that none is a symlink."""

    @classmethod
    def at(
        cls,
        root: str | None,
        folders: Iterable[str],
        is_sandboxed: Callable[[], bool] = no_sandbox,
        protected: tuple[str, ...] = (),
    ) -> CommandContext:
        return cls(
            root=None if root is None else os.path.realpath(root),
            folders=tuple(dict.fromkeys(map(os.path.realpath, folders))),
            is_sandboxed=is_sandboxed,
            is_system_program=is_system_program,
            protected=protected,
        )

    @property
    def in_project(self) -> bool:
        return all(map(self._is_in_project, self.folders))

    def contains(self, path: str) -> bool:
        """Whether a path is inside the project from every folder the command may be in, symlinks resolved."""
        if path in PLACEHOLDERS:
            return False
        try:
            return all(self._is_in_project(os.path.realpath(os.path.join(folder, path))) for folder in self.folders)  # noqa: PTH118
        except OSError:  # a /proc symlink without permission
            return False

    def has_file(self, path: str) -> bool:
        """Whether a path exists from every folder the command may be in."""
        return all(self.exists(os.path.join(folder, path)) for folder in self.folders)  # noqa: PTH118

    def is_plain_file(self, path: str) -> bool:
        """Whether a path is not a directory from any folder the command may be in."""
        if path in ("-", DEV_NULL):
            return True
        paths = [os.path.join(folder, path) for folder in self.folders]  # noqa: PTH118
        return path not in PLACEHOLDERS and not any(map(os.path.isdir, paths))

    @property
    def links_stay_inside(self) -> bool:
        """Whether no symlink in the project points outside it."""
        return self.root is not None and not _survey(self.root)[0]

    @property
    def found_files_stay_inside(self) -> bool:
        """Whether no file found in the project can be outside it."""
        return self.only_regular_files or self.links_stay_inside

    @property
    def has_plain_names(self) -> bool:
        """Whether every path in the project is a single word that cannot be an option or a glob."""
        return self.has_plain_folders and self.root is not None and not _survey(self.root)[1]

    @property
    def has_plain_folders(self) -> bool:
        """Whether the paths of the project and of all folders are single words."""
        components = {name for path in (self.root or "", *self.folders) for name in path.split("/") if name}
        return all(map(_PLAIN_FILE.fullmatch, components))

    def is_protected_path(self, path: str) -> bool:
        """Whether a path is protected from any folder the command may be in."""
        root = None if self.root is None else Path(self.root)
        full = (Path(folder, path) for folder in self.folders)
        return any(protected_reason(context, root=root, extra=self.protected) is not None for context in full)

    @property
    def runs_in_protected_folder(self) -> bool:
        """Whether the command may run in a protected folder below the project root."""
        inner = tuple(folder for folder in self.folders if folder != self.root)
        return bool(inner) and replace(self, folders=inner).is_protected_path(".")

    def after_cd(self, target: str) -> CommandContext | None:
        """The context after `cd target`; the old folders stay, because `cd` may fail. None if the target is unknown or
        outside
        the project."""
        if not target or target in PLACEHOLDERS or target.startswith("-") or ".." in target.split("/"):
            return None
        if len(self.folders) > _MAX_FOLDERS:
            return None
        joined = {os.path.normpath(os.path.join(folder, target)) for folder in self.folders}  # noqa: PTH118
        if not all(self._is_in_project(folder) and os.path.realpath(folder) == folder for folder in joined):
            return None
        return replace(self, folders=tuple(dict.fromkeys((*self.folders, *sorted(joined)))))

    def expand_glob(self, pattern: GlobWord) -> tuple[str, ...] | None:
        """The files a glob matches now; None if there are too many, or they are unknown or not all inside the
        project."""
        steps = _glob_segments(pattern.text)
        if steps is None or len(self.folders) != 1:
            return None
        found = [""]
        for step, matching in steps:
            found = [path for above in found for path in self._expand_segment(above, step, matching)]
            if len(found) > _MAX_MATCHES:
                return None
        found = [path for path in found if os.path.lexists(os.path.join(self.folders[0], path))]  # noqa: PTH118
        if not all(map(self.contains, found)):
            return None
        return tuple(sorted(found)) or (_unescaped(pattern.text),)

    def glob_stays_inside(self, pattern: GlobWord) -> bool:
        """Whether a glob can only match files inside the project."""
        pieces = pattern.text.split("/")
        if not pieces[0] or any(piece.startswith(".") for piece in pieces) or not self.in_project:
            return False
        return len(pieces) == 1 or self.links_stay_inside

    def _expand_segment(self, above: str, step: str, matching: re.Pattern[str] | None) -> Iterator[str]:
        if matching is None:
            yield f"{above}{step}"
            return
        try:
            names = os.listdir(os.path.join(self.folders[0], above or "."))  # noqa: PTH118, PTH208
        except OSError:
            return
        hidden = step.startswith(".")
        for name in names:
            if matching.fullmatch(name) and (hidden or not name.startswith(".")):
                yield f"{above}{name}"

    def is_trusted_program(self, program: str, *, external: bool = False) -> bool:
        """Whether a name resolves to a builtin or a system program, not to a program in the project."""
        if program in BUILTINS and not external:
            return True
        return self.is_system_program(program, self.root)

    def _is_in_project(self, path: str) -> bool:
        return self.root is not None and (path == self.root or path.startswith(f"{self.root.rstrip('/')}/"))


def _survey(root: str) -> tuple[bool, bool]:
    """Whether symlinks lead out of the project, and whether it has unusual names; both true if it is too large.

    Not cached, because a command may have changed the project.
    """
    leads_out = has_odd_names = not os.path.isdir(root)  # noqa: PTH112
    seen = 0
    for folder, folders, files in os.walk(root):
        seen += len(folders) + len(files)
        if seen > _MAX_SURVEYED or (leads_out and has_odd_names):
            return True, True
        for name in (*folders, *files):
            has_odd_names = has_odd_names or _PLAIN_FILE.fullmatch(name) is None
            path = f"{folder}/{name}"
            if not leads_out and os.path.islink(path):  # noqa: PTH114
                real = os.path.realpath(path)
                leads_out = real != root and not real.startswith(f"{root}/")
    return leads_out, has_odd_names


def _glob_segments(pattern: str) -> list[tuple[str, re.Pattern[str] | None]] | None:
    """The path components of a glob with their regular expressions; None if shells match it differently."""
    if pattern.startswith("/") or ".." in pattern.split("/"):
        return None
    steps: list[tuple[str, re.Pattern[str] | None]] = []
    for piece in re.split(r"(/+)", pattern):
        if _SPECIAL.search(_ESCAPED.sub("", piece)) is None:
            steps.append((_unescaped(piece), None))
            continue
        expression = _glob_regex(piece)
        if expression is None or (piece.startswith(".") and re.fullmatch(expression, "..")):
            return None  # dash, and bash before 5.2, match the parent folder
        steps.append((piece, re.compile(expression, re.DOTALL)))
    return steps


def _glob_regex(piece: str) -> str | None:
    """A glob component as a regular expression. Only sets of single characters and `0-9` mean the same in every shell
    and
    locale."""
    expression = ""
    for found in _PATTERN_PIECE.finditer(piece):
        if found["set"] is not None:
            expression += found["set"]
        elif found[0] == "[":
            return None
        else:
            expression += {"*": ".*", "?": "."}.get(found[0]) or re.escape(_unescaped(found[0]))
    return expression


def _unescaped(pattern: str) -> str:
    return _ESCAPED.sub(lambda found: found[0][1], pattern)


def is_system_program(name: str, root: str | None) -> bool:
    """Whether the first program with that name on the PATH is outside the project."""
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        if not os.path.isabs(folder):  # noqa: PTH117 - depends on the working directory, so on the project
            return False
        found = os.path.join(folder, name)  # noqa: PTH118
        if os.path.isfile(found) and os.access(found, os.X_OK):  # noqa: PTH113
            real = os.path.realpath(found)
            places = (f"{os.path.realpath(folder)}/", real)
            return root is None or not any(path.startswith(f"{root}/") for path in places)
    return False


def is_shell_tool(tool: Tool) -> bool:
    return RUNS_COMMANDS in tool.capabilities


def command_of(args: Args) -> str | None:
    """The shell text of a call; for a program with `args` its quoted equivalent; None if there is no command."""
    command, more = args.get("command"), args.get("args")
    if isinstance(command, list):
        return shlex.join(map(str, cast("list[object]", command)))
    if not isinstance(command, str):
        return None
    return shlex.join([command, *map(str, more)]) if isinstance(more, list) else command


def context_of(
    request: ApprovalRequest, dialect: Dialect, is_sandboxed: Callable[[], bool], protected: tuple[str, ...] = ()
) -> CommandContext:
    """The context of a call. Its `cwd` argument may be relative to the project or to the caller, so both count."""
    inner = request.args.get("cwd")
    root = None if request.root is None else str(request.root)
    folders = [request.cwd]
    if isinstance(inner, str) and (root is None or request.document is not None or inner.startswith(("~", "$"))):
        root = None
    elif isinstance(inner, str) and root is not None:
        folders = [os.path.join(base, inner) for base in (root, request.cwd)]  # noqa: PTH118
    return replace(CommandContext.at(root, folders, is_sandboxed, protected), dialect=dialect)
