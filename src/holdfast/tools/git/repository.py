"""Finds a project's repository without git and runs git in it safely: whatever `.git` says was written by the project's
author.

git follows a `.git` file, a symlink or `commondir` anywhere. Here, a git folder outside the project is accepted only if
it names the project in turn, as those of linked worktrees and submodules do. Otherwise a project could present another
one's history and files as its own.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from holdfast.contract.command import Command, CommandResult
from holdfast.contract.context import Context
from holdfast.contract.enums import NEEDS_CONTAINMENT
from holdfast.contract.errors import SandboxRefused
from holdfast.contract.json import Args
from holdfast.contract.result import Result, fail
from holdfast.contract.tool import Tool
from holdfast.fs.beneath import read_regular
from holdfast.helper_process import system_program
from holdfast.text.preview import with_label
from holdfast.tools.schemas import LABEL, Schema, read_only_tool, strict_object

_MAX_FILE_BYTES: Final = 1 << 20
_POINTER: Final = re.compile(rb"gitdir: ([^\n]+)\n?\s*")
_WORKTREE: Final = re.compile(rb"^\s*worktree\s*=\s*(.*?)\s*$", re.MULTILINE | re.IGNORECASE)
_ATTRIBUTES: Final = (".gitattributes", ".gitignore")


class NotARepository(Exception):
    """There is no repository, or it is not the project's own; the message is for the model."""


class Repository(Struct, frozen=True, kw_only=True):
    top: Path
    """The top of the working tree."""
    folder: Path
    """The git folder: `.git`, or that of a worktree or submodule."""
    common: Path
    """The git folder of the main worktree, where the configuration, refs and objects are."""
    outside_paths: tuple[Path, ...] = ()
    """The parts of it outside the project, which git has to see."""

    @property
    def variables(self) -> dict[str, str]:
        """Name all its folders, so that git neither searches nor follows `core.worktree` and `commondir`."""
        return {"GIT_DIR": str(self.folder), "GIT_COMMON_DIR": str(self.common), "GIT_WORK_TREE": str(self.top)}

    def may_define_filters(self) -> bool:
        """Whether its configuration defines filters, or includes files that may."""
        texts = (_content(file) for file in (self.common / "config", self.folder / "config.worktree"))
        return any(text is None or b"filter" in text.lower() or b"include" in text.lower() for text in texts)


def repository_of(root: Path) -> Repository:
    """Return the repository of a project, whose top may be above it. Raises `NotARepository`."""
    top = next((folder for folder in (root, *root.parents) if os.path.lexists(folder / ".git")), None)
    if top is None:
        raise NotARepository(f"Not a git repository: {root.name} and the folders above it have no .git.")
    entry = top / ".git"
    if entry.is_dir() and not entry.is_symlink():
        folder = common = entry
    else:
        folder, common = _follow_git_file(top, entry)
    names = (above / name for above in (top, *_between(top, root)) for name in _ATTRIBUTES)
    files = (file for file in names if file.is_file() and not file.is_symlink())
    outside = (path for path in (folder, common, *files) if not path.is_relative_to(root))
    return Repository(top=top, folder=folder, common=common, outside_paths=tuple(dict.fromkeys(outside)))


def _between(top: Path, root: Path) -> list[Path]:
    return [folder for folder in root.parents if folder != top and folder.is_relative_to(top)]


def _follow_git_file(top: Path, entry: Path) -> tuple[Path, Path]:
    """Follow a `.git` file or symlink; return its git folder and common folder."""
    text = None if entry.is_dir() else _content(entry)
    pointer = None if text is None else _POINTER.fullmatch(text)
    folder = Path(os.path.realpath(entry if pointer is None else top / os.fsdecode(pointer[1])))
    shared = _content(folder / "commondir")
    common = folder if not shared else Path(os.path.realpath(folder / os.fsdecode(shared.strip())))
    own = folder.is_relative_to(top) and common.is_relative_to(top)
    linked = common == folder.parent.parent and _names(folder / "gitdir", folder, entry)
    if own or linked or (common == folder and _is_work_tree_of(folder, top)):
        return folder, common
    raise NotARepository(
        f"The .git of {top.name} leads to {folder}, which does not point back, so it may belong to another project. "
        "If the worktree was moved, run `git worktree repair`."
    )


def _names(file: Path, base: Path, wanted: Path) -> bool:
    """Whether a file contains this path."""
    text = _content(file)
    return bool(text) and os.path.realpath(base / os.fsdecode(text.strip())) == os.path.realpath(wanted)


def _is_work_tree_of(folder: Path, top: Path) -> bool:
    """Whether `core.worktree` points back, as git sets it for submodules."""
    found = _WORKTREE.findall(_content(folder / "config") or b"")
    return any(os.path.realpath(folder / os.fsdecode(path.strip(b'"'))) == os.path.realpath(top) for path in found)


def _content(path: Path) -> bytes | None:
    """Return the content of a small regular file, b"" if it does not exist, None if it cannot be read or is too
    large."""
    try:
        content = read_regular(path, _MAX_FILE_BYTES, follow=True)
    except (FileNotFoundError, NotADirectoryError):
        return b""
    except OSError:
        return None
    return content if len(content) < _MAX_FILE_BYTES else None


_ENVIRONMENT: Final = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_PAGER": "cat",
    "LC_ALL": "C.UTF-8",
}
_SETTINGS: Final = (
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.hooksPath=/dev/null",
    "core.pager=cat",
    "core.quotePath=false",
    "core.sshCommand=false",
    "diff.orderFile=/dev/null",
    "log.showSignature=false",
    "submodule.recurse=false",
    "color.ui=never",
    "safe.directory=*",
)
_DISABLED_FILTER: Final = {"clean": "", "smudge": "", "process": "", "required": "false"}
"""Settings that turn a filter driver into a no-op."""
_PROBE_KEY: Final = "filter.holdfast.clean"
_MAX_DRIVERS: Final = 100
_MAX_NAMES: Final = 64 * 1024
_MAX_ERROR: Final = 8 * 1024


class GitFailed(Exception):
    """git failed; the message is for the model."""


async def git(ctx: Context, *args: str, max_bytes: int, converts: bool = False) -> CommandResult:
    """Run a git command in the project root. Raises `GitFailed`.

    `converts`: the command compares the working tree with the index, for which git would run filters, and its arguments
    end with paths.
    """
    program = system_program("git")
    if program is None:
        raise GitFailed("git is not installed. Install it to use the git tools.")
    assert ctx.root is not None
    try:
        repository = await asyncio.to_thread(repository_of, ctx.root)
    except NotARepository as error:
        raise GitFailed(str(error)) from None
    run = partial(_run, ctx, program, repository)
    without = _as_variables([])
    if converts and await asyncio.to_thread(repository.may_define_filters):
        without = _as_variables(await _filters(run))
    ran = await run(args, without, max_bytes)
    skipped = [path for path in hidden_paths(ran, ctx) if converts and (ran.code != 0 or path in ran.output)]
    if not skipped:
        return replace(ran, hidden=())
    # A hidden file is masked by a device: git reports it as changed and fails to compare it, so exclude it and retry.
    ran = await run((*args, *(f":(exclude,literal){path}" for path in skipped)), without, max_bytes)
    return replace(ran, hidden=tuple(f"{ctx.root}/{path}" for path in skipped))


def hidden_paths(ran: CommandResult, ctx: Context) -> list[str]:
    """Return the hidden files of the project, relative to the root."""
    top = f"{ctx.root}/"
    return [path.removeprefix(top) for path in ran.hidden if path.startswith(top)]


def append_hidden_note(text: str, ran: CommandResult, ctx: Context) -> str:
    """Append a note about the files that were not compared."""
    names = hidden_paths(ran, ctx)
    return f"{text}\n[Not compared, hidden by sandbox.read_deny: {', '.join(names)}]" if names else text


async def _run(
    ctx: Context, program: str, repository: Repository, args: Sequence[str], env: Mapping[str, str], max_bytes: int
) -> CommandResult:
    settings = [part for setting in _SETTINGS for part in ("-c", setting)]
    command = Command(
        argv=(program, "--no-pager", "--no-optional-locks", *settings, *args),
        cwd=ctx.root,
        env={**_ENVIRONMENT, **repository.variables, **env},
        read_only=True,
        sees="project",
        shows=repository.outside_paths,
        helper=True,
        merged=False,
        keeps="head",
        max_bytes=max_bytes,
    )
    try:
        return await ctx.sandbox.run(command)
    except SandboxRefused as error:
        raise GitFailed(f"Sandbox error: {error}") from None


async def _filters(run: Callable[[Sequence[str], Mapping[str, str], int], Awaitable[CommandResult]]) -> list[str]:
    """List every filter in the configuration, including included files."""
    listing = ("config", "--null", "--name-only", "--get-regexp", r"^filter\.")
    ran = await run(listing, _as_variables([_PROBE_KEY]), _MAX_NAMES)
    keys = require_success(ran, "config").split("\0")
    if _PROBE_KEY not in keys:
        raise GitFailed("This repository has filters, and only git 2.31 or newer can be kept from running them.")
    found = sorted({key.removeprefix("filter.").rpartition(".")[0] for key in keys if key})
    if ran.truncated or len(found) > _MAX_DRIVERS:
        raise GitFailed("This repository has more filters than can be disabled, so git was not run.")
    return [f"filter.{name}.{variable}" for name in found for variable in _DISABLED_FILTER]


def _as_variables(keys: Sequence[str]) -> dict[str, str]:
    """Pass settings as environment variables: `-c` would split a name that contains `=`."""
    variables = {"GIT_CONFIG_COUNT": str(len(keys))}
    for number, key in enumerate(keys):
        variables[f"GIT_CONFIG_KEY_{number}"] = key
        variables[f"GIT_CONFIG_VALUE_{number}"] = _DISABLED_FILTER[key.rpartition(".")[2]]
    return variables


def require_success(ran: CommandResult, subcommand: str) -> str:
    """Return the output if git succeeded, or was stopped because it had printed enough."""
    if ran.code == 0 or (ran.truncated and ran.code is None):
        return ran.output
    lines = ran.error_output[:_MAX_ERROR].strip().splitlines()
    why = lines[0] if lines else "no error message"
    how = f"exit code {ran.code}" if ran.code is not None else f"ended by {ran.signal}"
    raise GitFailed(f"git {subcommand} failed ({how}): {why}")


def shorten(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def git_tool(
    name: str, description: str, look: Callable[[Context], Any], output_schema: Schema, *, aliases: Sequence[str]
) -> Tool:
    """Declare a tool without arguments: its command is fixed."""

    async def execute(args: Args, ctx: Context) -> Result:
        try:
            return await look(ctx)
        except GitFailed as error:
            return fail(str(error))

    return read_only_tool(
        name=name,
        description=description,
        input_schema=strict_object(label=LABEL),
        output_schema=output_schema,
        execute=execute,
        capabilities=frozenset({NEEDS_CONTAINMENT}),
        format_preview=lambda args, width: with_label("", args),
        aliases=tuple(aliases),
        groups=("git",),
        profiles=("minimal",),
        needs_root=True,
    )
