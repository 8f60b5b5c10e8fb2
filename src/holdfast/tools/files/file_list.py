"""`file.list`: the entries of a folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from heapq import nsmallest
from pathlib import Path
from typing import Final, Literal, NamedTuple, cast

from holdfast.contract.context import Context
from holdfast.contract.enums import CHECKS_IN_DRY_RUN
from holdfast.contract.errors import PathRefused
from holdfast.contract.json import Args, Json
from holdfast.contract.result import Result, fail, ok
from holdfast.fs.beneath import FolderTree
from holdfast.text.escape import escape
from holdfast.text.preview import with_label
from holdfast.tools.files.file_state import ConfinedPath, os_error_reason, path_to_read
from holdfast.tools.files.pages import NOTICE_BYTES, NOTICE_LINES
from holdfast.tools.schemas import LABEL, nullable, read_only_tool, strict_object, text

DEFAULT_LIMIT: Final = 500
SMALL_LIMIT: Final = 200
MAX_DEPTH: Final = 10
MAX_VISITED: Final = 1_000_000
_EMPTY: Final = "(empty directory)"
_BUILD_FOLDERS: Final = frozenset(
    (".git", ".hg", ".svn", ".tox", ".venv", "venv", "__pycache__", "build", "dist", "node_modules", "target", "vendor")
)


class Entry(NamedTuple):
    """One entry. Tuples sort as they are listed: folders first, then names case-insensitively, then exactly."""

    not_folder: bool
    folded: str
    path: str
    """Relative to the listed folder."""
    kind: Literal["dir", "file", "link", "other"]
    link: bool


class Listing:
    """Lists a folder to a given depth without following symlinks."""

    def __init__(self, folders: FolderTree, target: ConfinedPath, depth: int, ctx: Context) -> None:
        self._folders = folders
        self._ctx = ctx
        self.target = target
        self.depth = depth
        self.total = 0
        self.skipped: set[str] = set()
        """Names of the skipped build and version control folders."""

    def entries(self) -> Iterator[Entry]:
        # A folder that vanished, was swapped for a symlink or is not accessible is listed but not entered.
        for path, found, _ in self._folders.walk(enter=self._may_enter, failed=lambda _path, _error: None):
            if self.total >= MAX_VISITED or (self.total % 1024 == 0 and self._ctx.cancelled):
                return
            if found.name in _BUILD_FOLDERS and found.is_dir(follow_symlinks=False):
                self.skipped.add(found.name)
                continue
            self.total += 1
            link = found.is_symlink()
            if found.is_dir(follow_symlinks=False) or (link and self._leads_to_folder(path)):
                kind = "dir"
            else:
                kind = "link" if link else "file" if found.is_file(follow_symlinks=False) else "other"
            yield Entry(kind != "dir", path.casefold(), path, kind, link)

    def display_path(self, entry: Entry) -> str:
        """Its path from the root, which other tools accept."""
        folder = self.target.relative
        return _escape_bytes(entry.path if folder == "." else f"{folder}/{entry.path}")

    def described(self, entry: Entry) -> Json:
        size: int | None = None
        if entry.kind == "file":
            with suppress(OSError):
                folder, name = self._folders.parent(entry.path)
                size = os.stat(name, dir_fd=folder, follow_symlinks=False).st_size
        return {"path": self.display_path(entry), "kind": entry.kind, "size": size, "link": entry.link}

    def _may_enter(self, path: str) -> bool:
        if path.count("/") + 1 >= self.depth:
            return False
        if path.rpartition("/")[2] in _BUILD_FOLDERS:
            return False
        return self._ctx.sandbox.is_path_readable(self.target.path / path)

    def _leads_to_folder(self, path: str) -> bool:
        target = Path(os.path.realpath(self.target.path / path))
        return target.is_relative_to(self.target.root) and target.is_dir()


def _execute(args: Args, ctx: Context) -> Result:
    given = cast(str, args.get("path") or ".")
    depth = _depth(args)
    target: ConfinedPath | None = None
    try:
        target = path_to_read(ctx, given)
        with FolderTree(target.root, target.path) as folders:
            if ctx.dry_run:
                return ok("")
            listing = Listing(folders, target, depth, ctx)
            entries = nsmallest(_limit(args, ctx), listing.entries())
            return _result(entries, listing, ctx)
    except PathRefused as error:
        return fail(str(error))
    except NotADirectoryError:
        return fail(_no_folder(given, target))
    except FileNotFoundError:
        return fail(f"Directory not found: {given}")
    except OSError as error:
        return fail(f"{given} cannot be listed: {os_error_reason(error)}.")


def _no_folder(given: str, target: ConfinedPath | None) -> str:
    if target is not None and target.path.is_file():
        return f"{given} is a file, not a folder. Use file.read to read it."
    return f"Directory not found: {given}"


def _result(entries: list[Entry], listing: Listing, ctx: Context) -> Result:
    names = [escape(listing.display_path(entry)) + ("/" if entry.kind == "dir" else "") for entry in entries]
    limits = ctx.truncate
    shown = limits.head("\n".join(names), limits.MAX_LINES - NOTICE_LINES, limits.MAX_BYTES - NOTICE_BYTES)
    count = shown.output_lines if names else 0
    done: Args = {
        "path": listing.target.relative,
        "depth": listing.depth,
        "entries": [listing.described(entry) for entry in entries[:count]],
        "total": listing.total,
        "complete": listing.total < MAX_VISITED,
        "build_folders_not_shown": [*sorted(listing.skipped)],
    }
    return ok(f"{shown.content if names else _EMPTY}\n\n{_footer(done, count)}", structured=done)


def _footer(done: Args, count: int) -> str:
    parts = ["1 entry" if count == 1 else f"{count} entries"]
    if cast(int, done["depth"]) > 1:
        parts.append(f"depth={done['depth']}")
    if hidden := cast(int, done["total"]) - count:
        parts.append(f"{hidden if done['complete'] else f'at least {hidden}'} more not shown")
    if skipped := cast("list[str]", done["build_folders_not_shown"]):
        parts.append(f"without {', '.join(skipped)}")
    return f"[{', '.join(parts)}]"


def _escape_bytes(name: str) -> str:
    """Escape the bytes of a name that is not valid UTF-8."""
    return name if name.isascii() else os.fsencode(name).decode(errors="backslashreplace")


def _depth(args: Args) -> int:
    given = cast(int | None, args.get("max_depth"))
    if given is None:
        return MAX_DEPTH if args.get("recursive") else 1
    return min(MAX_DEPTH, max(1, given)) if args.get("recursive") is not False else 1


def _limit(args: Args, ctx: Context) -> int:
    most = SMALL_LIMIT if ctx.caps == "small" else ctx.truncate.MAX_LINES - NOTICE_LINES
    given = cast(int | None, args.get("limit"))
    return min(most, DEFAULT_LIMIT if given is None else max(1, given))


def _preview(args: Args, width: int) -> str:
    depth = _depth(args)
    return with_label(str(args.get("path") or ".") + (f"  depth={depth}" if depth > 1 else ""), args)


def _touches(args: Args) -> list[str]:
    return [cast(str, args.get("path") or ".")]


FILE_LIST: Final = read_only_tool(
    name="file.list",
    description=(
        "List a folder, folders first, with paths relative to the project root. Not recursive by default. "
        "Build and version control folders are skipped."
    ),
    input_schema=strict_object(
        path=nullable("string", "The folder, relative to the project root (default: the root)."),
        recursive=nullable("boolean", "List recursively (default: false)."),
        max_depth=nullable("integer", f"Depth (default 1, or {MAX_DEPTH} if recursive; at most {MAX_DEPTH})."),
        limit=nullable("integer", f"Maximum number of entries (default {DEFAULT_LIMIT})."),
        label=LABEL,
    ),
    output_schema=strict_object(
        path=text("The folder, relative to the project root."),
        depth={"type": "integer"},
        entries={
            "type": "array",
            "items": strict_object(
                path=text("Relative to the project root."),
                kind={"enum": ["dir", "file", "link", "other"]},
                size=nullable("integer", "Size of a file in bytes."),
                link={"type": "boolean", "description": "Whether it is a symbolic link; if kind is dir, to a folder."},
            ),
        },
        total={"type": "integer", "description": "Number of entries, shown or not."},
        complete={"type": "boolean", "description": "Whether every entry was counted."},
        build_folders_not_shown={"type": "array", "items": {"type": "string"}},
    ),
    execute=_execute,
    capabilities=frozenset({CHECKS_IN_DRY_RUN}),
    touches=_touches,
    format_preview=_preview,
    aliases=("list", "ls", "list_dir"),
    groups=("fs",),
    profiles=("minimal",),
)
