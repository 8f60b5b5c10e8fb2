"""Where a command would run: which paths are in the project, which programs are the system's, what holds it."""

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
from holdfast.rules.shell.verdicts import Dialect, GlobWord, word_set

DEV_NULL: Final = "/dev/null"
FOUND_PATH: Final = "\0found"
"""Stands for the path of any file that is found in the project."""
UNKNOWN_WORDS: Final = "\0unknown"
"""Stands for any words that cannot be told."""
UNKNOWN_WORD: Final = "\0text"
"""Stands for one word that cannot be told."""
UNKNOWN_GLOB: Final = "\0wild"
"""Stands for any words that cannot be told, and names of files anywhere that patterns match."""
UNKNOWNS: Final = frozenset({UNKNOWN_WORDS, UNKNOWN_WORD, UNKNOWN_GLOB})
PLACEHOLDERS: Final = frozenset({FOUND_PATH, *UNKNOWNS})
BUILTINS: Final = word_set(": [ [[ cd command echo false printf pwd read set test true type")
"""What the shell does itself, whatever lies on the PATH."""
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
    """The surroundings of one command."""

    root: str | None
    """The real path of the project."""
    folders: tuple[str, ...]
    """Real paths of every folder the command may be in."""
    is_sandboxed: Callable[[], bool] = no_sandbox
    """Whether a sandbox holds the command; asked only when that matters."""
    is_system_program: Callable[[str, str | None], bool]
    protected: tuple[str, ...] = ()
    """What the configuration protects beside the paths that always are."""
    dialect: Dialect = "bash"
    """The shell that runs the command."""
    exists: Callable[[str], bool] = os.path.exists
    """Whether there is a file of that path."""
    input_names: NameSeparator = ""
    """How the names of project files are separated that the command is given, if that is what it is given."""
    only_regular_files: bool = False
    """Whether what is found are regular files only."""

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
        """Whether a path lies in the project, symlinks followed, wherever the command may be by then."""
        if path in PLACEHOLDERS:
            return False
        try:
            return all(self._is_in_project(os.path.realpath(os.path.join(folder, path))) for folder in self.folders)  # noqa: PTH118
        except OSError:  # a link in /proc that may not be followed
            return False

    def has_file(self, path: str) -> bool:
        """Whether a path is that of a file or folder which is there, wherever the command may be by then."""
        return all(self.exists(os.path.join(folder, path)) for folder in self.folders)  # noqa: PTH118

    def is_plain_file(self, path: str) -> bool:
        """Whether a path is no folder, wherever the command may be by then."""
        if path in ("-", DEV_NULL):
            return True
        paths = [os.path.join(folder, path) for folder in self.folders]  # noqa: PTH118
        return path not in PLACEHOLDERS and not any(map(os.path.isdir, paths))

    @property
    def links_stay_inside(self) -> bool:
        """Whether no link in the project leads out of it."""
        return self.root is not None and not _survey(self.root)[0]

    @property
    def found_files_stay_inside(self) -> bool:
        """Whether no file that is found in the project leads out of it."""
        return self.only_regular_files or self.links_stay_inside

    @property
    def has_plain_names(self) -> bool:
        """Whether the path of every file in the project is one word that is no option."""
        return self.has_plain_folders and self.root is not None and not _survey(self.root)[1]

    @property
    def has_plain_folders(self) -> bool:
        """Whether the paths of the project and of the folders the command may be in are single words."""
        steps = {step for path in (self.root or "", *self.folders) for step in path.split("/") if step}
        return all(map(_PLAIN_FILE.fullmatch, steps))

    def is_protected_path(self, path: str) -> bool:
        """Whether a path is a protected one, wherever the command may be by then."""
        root = None if self.root is None else Path(self.root)
        full = (Path(folder, path) for folder in self.folders)
        return any(protected_reason(context, root=root, extra=self.protected) is not None for context in full)

    @property
    def runs_in_protected_folder(self) -> bool:
        """Whether the command may be in a protected folder below the top of the project."""
        inner = tuple(folder for folder in self.folders if folder != self.root)
        return bool(inner) and replace(self, folders=inner).is_protected_path(".")

    def after_cd(self, target: str) -> CommandContext | None:
        """The place after `cd target`, which may have failed; None if it cannot be told or is not in the project."""
        if not target or target in PLACEHOLDERS or target.startswith("-") or ".." in target.split("/"):
            return None
        if len(self.folders) > _MAX_FOLDERS:
            return None
        joined = {os.path.normpath(os.path.join(folder, target)) for folder in self.folders}  # noqa: PTH118
        if not all(self._is_in_project(folder) and os.path.realpath(folder) == folder for folder in joined):
            return None
        return replace(self, folders=tuple(dict.fromkeys((*self.folders, *sorted(joined)))))

    def expand_glob(self, pattern: GlobWord) -> tuple[str, ...] | None:
        """What a pattern stands for, here and now; None if that is too much, cannot be told, or is not all inside."""
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
        """Whether a pattern can only match files of the project, though it is not known which."""
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
        """Whether the bare name means a program of the system, not one of the project."""
        if program in BUILTINS and not external:
            return True
        return self.is_system_program(program, self.root)

    def _is_in_project(self, path: str) -> bool:
        return self.root is not None and (path == self.root or path.startswith(f"{self.root.rstrip('/')}/"))


def _survey(root: str) -> tuple[bool, bool]:
    """Whether links lead out of a project and odd names are in it, looked at anew each time; both if it is too much to
    look at."""
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
    """The pieces of a path with an expression for those that are patterns; None for what shells match differently."""
    if pattern.startswith("/") or ".." in pattern.split("/"):
        return None
    steps: list[tuple[str, re.Pattern[str] | None]] = []
    for piece in re.split(r"(/+)", pattern):
        if _SPECIAL.search(_ESCAPED.sub("", piece)) is None:
            steps.append((_unescaped(piece), None))
            continue
        expression = _glob_regex(piece)
        if expression is None or (piece.startswith(".") and re.fullmatch(expression, "..")):
            return None  # dash, and bash before 5.2, match the folder above
        steps.append((piece, re.compile(expression, re.DOTALL)))
    return steps


def _glob_regex(piece: str) -> str | None:
    """Of sets only those of single letters and of digits are the same in every shell and language."""
    made = ""
    for found in _PATTERN_PIECE.finditer(piece):
        if found["set"] is not None:
            made += found["set"]
        elif found[0] == "[":
            return None
        else:
            made += {"*": ".*", "?": "."}.get(found[0]) or re.escape(_unescaped(found[0]))
    return made


def _unescaped(pattern: str) -> str:
    return _ESCAPED.sub(lambda found: found[0][1], pattern)


def is_system_program(name: str, root: str | None) -> bool:
    """Whether the first program of that name on the PATH is outside the project."""
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        if not os.path.isabs(folder):  # noqa: PTH117
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
    """The shell text of a call, or what it would be for a program with `args`; None if there is none to read."""
    command, more = args.get("command"), args.get("args")
    if isinstance(command, list):
        return shlex.join(map(str, cast("list[object]", command)))
    if not isinstance(command, str):
        return None
    return shlex.join([command, *map(str, more)]) if isinstance(more, list) else command


def context_of(
    request: ApprovalRequest, dialect: Dialect, is_sandboxed: Callable[[], bool], protected: tuple[str, ...] = ()
) -> CommandContext:
    """Where the call would run. A folder it names is looked for in the project, so both readings of it count."""
    inner = request.args.get("cwd")
    root = None if request.root is None else str(request.root)
    folders = [request.cwd]
    if isinstance(inner, str) and (root is None or request.document is not None or inner.startswith(("~", "$"))):
        root = None
    elif isinstance(inner, str) and root is not None:
        folders = [os.path.join(base, inner) for base in (root, request.cwd)]  # noqa: PTH118
    return replace(CommandContext.at(root, folders, is_sandboxed, protected), dialect=dialect)
