"""Search arguments: the query, the glob, the folder or file to search, and what is skipped there."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from fnmatch import translate
from pathlib import Path
from typing import Final, cast

from msgspec import Struct

from holdfast.contract.context import Context
from holdfast.contract.errors import PathRefused
from holdfast.contract.json import Args
from holdfast.fs.document_names import attachments_folder, is_conflict_copy

SOURCE: Final = frozenset(
    "rs go ts tsx js jsx py c cpp h hpp sh bash zsh fish html css scss sql xml".split()  # noqa: SIM905
)
CONFIG: Final = frozenset("toml json yaml yml env".split())  # noqa: SIM905
SMALL_EXTENSIONS: Final = SOURCE | CONFIG | frozenset("ini cfg conf properties md mdx rst txt".split())  # noqa: SIM905
"""File types shown to models with a small context."""
SMALL_SKIPPED: Final = (".hg", "build", "dist", "node_modules", "target")
SKIPPED_NAMES: Final = (".git",)
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SPECIAL: Final = re.compile(r"[\\.^$*+?{}\[\]()|]")
_GLOB_PIECE: Final = re.compile(r"\\.|\[[!^]?.[^]]*\]|.", re.DOTALL)
"""An escaped character, a character class, or a single character."""
_MAX_GLOBS: Final = 200
_MAX_BRACE_DEPTH: Final = 20
_Segment = Callable[[str], object]


class BadQuery(ValueError):
    """The query or glob is invalid; the message says how to fix it."""


class Query(Struct, frozen=True):
    """A literal text or a regular expression."""

    text: str
    regex: bool = False
    fold: bool = False
    """Case-insensitive; for a literal text, ASCII only."""

    @property
    def is_identifier(self) -> bool:
        return not self.regex and _IDENTIFIER.fullmatch(self.text) is not None


def parse_query(text: str, *, regex: bool = False, fold: bool = False) -> Query:
    """Return the query. A regular expression without special characters becomes a literal. Raises `BadQuery`."""
    if regex and text.startswith("(?i)"):
        text, fold = text[4:], True
    if not text.strip():
        raise BadQuery("The query is empty. Give a text to search for.")
    if "\n" in text or "\0" in text:
        raise BadQuery("The query spans lines or contains NUL. Search matches one line at a time, so give one line.")
    if len(text) > 4000:
        raise BadQuery(f"The query is {len(text):,} characters long. The maximum is 4,000.")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadQuery("The query contains lone surrogates. Send the text as it is in the file.") from None
    return Query(text, regex and _SPECIAL.search(text) is not None, fold)


class SearchScope(Struct, frozen=True, kw_only=True):
    """The folder or file to search."""

    root: Path
    below: str
    """The path below the root (invalid UTF-8 as lone surrogates); empty for the root itself."""
    is_file: bool
    document: str | None = None
    """The conversation's document, below the root. It, its attachments and its conflict copies are skipped, since they
    contain the question and the answers so far."""
    small: bool = False
    """For models with a small context: skip `SMALL_SKIPPED` and show `SMALL_EXTENSIONS` instead of reading ignore
    files."""


def touches(args: Args) -> list[str]:
    """The path that a call reads."""
    return [cast(str, args.get("path") or ".")]


def resolve_scope(given: str | None, ctx: Context) -> SearchScope:
    """Return the scope. Raises `PathRefused` for paths outside the project or that do not exist."""
    if ctx.root is None:
        raise PathRefused("There is no project root here, so there is nothing to search. Run `holdfast init` first.")
    root = Path(os.path.realpath(ctx.root))
    path = ctx.path.confine(given) if given else root
    if not ctx.sandbox.is_path_readable(path):
        raise PathRefused(f"Sandbox: {given or path} may not be read (sandbox.read_deny).")
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise PathRefused(f"{given} cannot be searched: {error.strerror}. Name a folder or a file.") from None
    is_file = stat.S_ISREG(mode)
    if not is_file and not stat.S_ISDIR(mode):
        raise PathRefused(f"{given} is neither a folder nor a regular file. Name one of these.")
    below = "" if path == root else str(path.relative_to(root))
    return SearchScope(
        root=root, below=below, is_file=is_file, document=_document(root, ctx), small=ctx.caps == "small"
    )


def _document(root: Path, ctx: Context) -> str | None:
    if ctx.document_dir is None or ctx.document_name is None:
        return None
    path = Path(os.path.realpath(ctx.document_dir / ctx.document_name))
    return str(path.relative_to(root)) if path.is_relative_to(root) else None


def own_file_matcher(scope: SearchScope) -> Callable[[str], bool] | None:
    """Return a matcher for the files of the conversation itself, or None if the scope names them or there are none."""
    document = scope.document
    if document is None or scope.is_file:
        return None
    folder, _, name = document.rpartition("/")
    attachments = f"{attachments_folder(document)}/"
    if f"{scope.below}/".startswith(attachments):
        return None

    def is_own(path: str) -> bool:
        if path == document or path.startswith(attachments):
            return True
        place, _, found = path.rpartition("/")
        return place == folder and is_conflict_copy(found, name)

    return is_own


def extension(path: str) -> str:
    end = path[path.rfind(".") + 1 :] if "." in path else "/"
    return "" if "/" in end else end.lower()


def display_path(path: str) -> str:
    """A path below the root as text that can be printed: bytes that are not UTF-8 become replacement characters."""
    return path if path.isascii() else os.fsencode(path).decode(errors="replace")


def path_filter(glob: str | None, scope: SearchScope) -> Callable[[str], bool] | None:
    """Return a filter for paths below the root, or None if all are wanted. Raises `BadQuery`."""
    start = len(scope.below) + 1 if scope.below and not scope.is_file else 0
    extensions = SMALL_EXTENSIONS if scope.small and not scope.is_file else None
    matches = None if glob is None else glob_matcher(glob)
    is_own = own_file_matcher(scope)
    if extensions is None and matches is None and is_own is None:
        return None

    def wanted(path: str) -> bool:
        if extensions is not None and extension(path) not in extensions:
            return False
        return (matches is None or matches(path[start:])) and not (is_own is not None and is_own(path))

    return wanted


def glob_matcher(glob: str) -> Callable[[str], bool]:
    """Return a matcher. With a slash the glob applies to the whole path, otherwise to the name; a leading `!` negates
    it.

    Matching never backtracks, so its time is bounded by the lengths of glob and path. Raises `BadQuery`.
    """
    keeps = not glob.startswith("!")
    text = glob if keeps else glob[1:]
    if not text or "\0" in text or len(text) > 1000:
        raise BadQuery("The glob is empty, too long or contains NUL. Use one such as '*.py' or 'src/**/*.py'.")
    by_name = "/" not in text and text != "**"
    try:
        globs = [_segments(pieces) for pieces in _branches(iter(_GLOB_PIECE.findall(text.removeprefix("/"))))]
    except BadQuery as error:
        raise BadQuery(f"The glob {glob!r} is invalid: {error}. Escape special characters with '\\'.") from None

    def matches(path: str) -> bool:
        names = [path.rpartition("/")[2]] if by_name else path.split("/")
        return any(_matches_path(segments, names) for segments in globs) is keeps

    return matches


def _branches(pieces: Iterator[str], depth: int = 0) -> list[list[str]]:
    """Expand the braces, up to the end or to the one that closes this depth."""
    if depth > _MAX_BRACE_DEPTH:
        raise BadQuery(f"its braces are nested more than {_MAX_BRACE_DEPTH} deep")
    done: list[list[str]] = []
    here: list[list[str]] = [[]]
    for piece in pieces:
        if piece == "{":
            inner = _branches(pieces, depth + 1)
            if len(here) * len(inner) > _MAX_GLOBS:
                raise BadQuery(f"its braces expand to more than {_MAX_GLOBS} globs")
            here = [before + after for before in here for after in inner]
        elif piece == "}":
            if not depth:
                raise BadQuery("a '}' has no matching '{'")
            return [branch for branch in done + here if branch] or [[]]
        elif piece == "," and depth:
            done += here
            here = [[]]
        else:
            here = [[*branch, piece] for branch in here]
    if depth:
        raise BadQuery("a '{' is never closed")
    return here


def _segments(pieces: Sequence[str]) -> list[_Segment | None]:
    """Return a matcher for each path segment; None stands for `**`, any number of segments."""
    parts: list[list[str]] = [[]]
    for piece in pieces:
        if piece == "/":
            parts.append([])
        else:
            parts[-1].append(piece)
    if len(parts) > 1 and parts[-1] == ["*", "*"]:
        parts.append(["*"])  # the contents of a folder, not the folder itself
    # `translate` uses atomic groups for stars, so matching cannot backtrack exponentially.
    return [
        None if part == ["*", "*"] else re.compile(translate("".join(map(_to_fnmatch, part)))).match for part in parts
    ]


def _to_fnmatch(piece: str) -> str:
    """Convert a piece to fnmatch syntax."""
    if piece in ("[", "\\"):
        raise BadQuery("a '[' is never closed" if piece == "[" else "it ends in a backslash")
    if piece.startswith("\\"):
        return f"[{piece[1]}]" if piece[1] in "*?[" else piece[1]
    if any(low > high for low, high in re.findall("(.)-(.)", piece[1:-1])):
        raise BadQuery("the range of a class is backwards")
    return f"[!{piece[2:]}" if piece.startswith("[^") else piece


def _matches_path(segments: Sequence[_Segment | None], names: Sequence[str]) -> bool:
    reached = {0}
    """Positions that the segments so far can reach."""
    for segment in segments:
        if segment is None:
            reached = set(range(min(reached), len(names) + 1))
        else:
            reached = {at + 1 for at in reached if at < len(names) and segment(names[at])}
        if not reached:
            return False
    return len(names) in reached
