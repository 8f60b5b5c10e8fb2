"""Which files a call looks at: the folder it names, the globs and extensions it asks for, what is left out."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

from msgspec import Struct

from holdfast.contract.context import Context
from holdfast.contract.errors import PathRefused
from holdfast.tools.search.globs import BadGlob, compile_tokens, parse
from holdfast.tools.search.ignore import Level
from holdfast.tools.search.walk import Folders, Walk

SOURCE: Final = frozenset(
    "rs go ts tsx js jsx py c cpp h hpp sh bash zsh fish html css scss sql xml".split()  # noqa: SIM905
)
CONFIG: Final = frozenset("toml json yaml yml env".split())  # noqa: SIM905
SMALL_EXTENSIONS: Final = SOURCE | CONFIG | frozenset("md mdx rst txt".split())  # noqa: SIM905
"""What a model with little room is shown."""
SMALL_SKIPPED: Final = (".hg", "build", "dist", "node_modules", "target")
SKIPPED_NAMES: Final = (".git",)


class Scope(Struct, frozen=True, kw_only=True):
    """A folder or a file of the project, as a search sees it."""

    root: Path
    below: bytes
    """Its path below the root; empty for the root itself."""
    is_file: bool
    small: bool = False

    @property
    def ignores(self) -> bool:
        """The profile for small models does not ask ignore files: it has a list of its own."""
        return not self.small

    @property
    def skipped_folders(self) -> tuple[str, ...]:
        return SMALL_SKIPPED if self.small else ()

    @property
    def folder(self) -> Path:
        return self.root / os.fsdecode(self.below)

    @property
    def name(self) -> str:
        return os.fsdecode(self.below) or "."


def scope_of(given: str | None, ctx: Context) -> Scope:
    """Raises `PathRefused` for what is outside the project or does not exist."""
    if ctx.root is None:
        raise PathRefused("There is no project root here, so there is nothing to search; run `holdfast init` first.")
    root = Path(os.path.realpath(ctx.root))
    path = ctx.path.confine(given) if given else root
    if not ctx.sandbox.is_path_readable(path):
        raise PathRefused(f"Sandbox: {given or path} may not be read; sandbox.read_deny in your config names it.")
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise PathRefused(f"{given} cannot be searched: {error.strerror}; name a folder or a file.") from None
    is_file = stat.S_ISREG(mode)
    if not is_file and not stat.S_ISDIR(mode):
        raise PathRefused(f"{given} is neither a folder nor a regular file; name one of these.")
    below = b"" if path == root else os.fsencode(path.relative_to(root))
    return Scope(root=root, below=below, is_file=is_file, small=ctx.caps == "small")


def wanted_by(glob: str | None, scope: Scope) -> Callable[[str], bool] | None:
    """Whether a path below the root is asked for; None if all are. Raises `BadGlob` with a sentence."""
    at = len(scope.below) + 1 if scope.below and not scope.is_file else 0
    extensions = SMALL_EXTENSIONS if scope.small and not scope.is_file else None
    matches = None if glob is None else glob_matches(glob)
    if extensions is None and matches is None:
        return None

    def wanted(path: str) -> bool:
        if extensions is not None and extension(path) not in extensions:
            return False
        return matches is None or matches(os.fsencode(path)[at:])

    return wanted


def glob_matches(glob: str) -> Callable[[bytes], bool]:
    """With a slash the glob is about the whole path, otherwise about the name; `!` in front turns it round."""
    keeps = not glob.startswith("!")
    text = glob if keeps else glob[1:]
    if not text or "\0" in text or len(text) > 1000:
        raise BadGlob("The glob is empty, too long or contains NUL; write one such as '*.py' or 'src/**/*.py'.")
    anywhere = "/" not in text and text != "**"
    try:
        tokens = parse(f"**/{text}" if anywhere else text.removeprefix("/"), strict=True)
    except BadGlob as error:
        raise BadGlob(f"The glob {glob!r} cannot be read: {error}; escape special characters with '\\'.") from None
    matches = compile_tokens(tokens)
    return matches if keeps else lambda path: not matches(path)


def extension(path: str) -> str:
    end = path[path.rfind(".") + 1 :] if "." in path else "/"
    return "" if "/" in end else end.lower()


class IgnoredAbove:
    """What the ignore files above a scope leave out of it: ripgrep, started in the scope, does not see those."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._folders = Folders(str(scope.root))
        self._walk = Walk(self._folders, str(scope.root), ignores=scope.ignores)
        self._top = self._walk.level_above(scope.below)
        self._known: dict[bytes, tuple[bool, Level | None]] = {}

    def close(self) -> None:
        self._folders.close()

    @property
    def says_nothing(self) -> bool:
        return self._top is None

    @property
    def keeps_some(self) -> bool:
        """A `!` above the scope could bring back what an ignore file inside it leaves out."""
        level = self._top
        while level is not None:
            if level.keeps_some:
                return True
            level = level.above
        return False

    def hides(self, shown: str) -> bool:
        path = os.fsencode(shown)
        folder, _, name = path.rpartition(b"/")
        hidden, level = self._folder(folder)
        return hidden or (level is not None and level.ask(path, name, False) is True)

    def _folder(self, folder: bytes) -> tuple[bool, Level | None]:
        known = self._known.get(folder)
        if known is None:
            if folder == self._scope.below:
                known = (False, self._walk.level_at(folder, self._top))
            else:
                above, _, name = folder.rpartition(b"/")
                hidden, level = self._folder(above)
                hidden = hidden or (level is not None and level.ask(folder, name, True) is True)
                known = (hidden, None if hidden else self._walk.level_at(folder, level))
            self._known[folder] = known
        return known
