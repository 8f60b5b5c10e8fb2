"""Running git so that nothing the repository brings can act.

Hooks, fsmonitor, pagers, external diffs and textconv are switched off; clean filters cannot be, so git runs in the
sandbox, where it can write nothing, reach no network and see none of the user's own configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from holdfast.contract.command import Command, Ran
from holdfast.contract.context import Context
from holdfast.contract.errors import SandboxRefused
from holdfast.contract.result import Result, fail
from holdfast.contract.tool import Tool
from holdfast.contract.values import Args
from holdfast.contract.vocabulary import NEEDS_CONTAINMENT, Risk
from holdfast.helper_process import system_program
from holdfast.text.preview import with_label
from holdfast.tools.schemas import LABEL, Schema, strict_object

_ENVIRONMENT: Final = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
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
    "gpg.program=false",
    "submodule.recurse=false",
    "diff.ignoreSubmodules=all",
    "color.ui=never",
    "safe.directory=*",
)
_MAX_ERROR: Final = 8 * 1024


class GitFailed(Exception):
    """There is nothing to show; the message is for the model."""


async def git(ctx: Context, *args: str, max_bytes: int) -> Ran:
    """One git command in the project root. Raises `GitFailed` with a sentence where git cannot work."""
    program = system_program("git")
    if program is None:
        raise GitFailed("git is not installed; the git tools need it.")
    assert ctx.root is not None
    if not _in_repository(ctx.root):
        raise GitFailed(f"Not a git repository: {ctx.root.name} and the folders above it have no .git.")
    settings = [part for setting in _SETTINGS for part in ("-c", setting)]
    command = Command(
        argv=(program, "--no-pager", "--no-optional-locks", *settings, *args),
        cwd=ctx.root,
        env=_ENVIRONMENT,
        read_only=True,
        merged=False,
        keeps="head",
        max_bytes=max_bytes,
    )
    try:
        return await ctx.sandbox.run(command)
    except SandboxRefused as error:
        raise GitFailed(f"Sandbox error: {error}") from None


def checked(ran: Ran, what: str) -> str:
    """The output, if git succeeded or was cut off because it had printed enough."""
    if ran.code == 0 or (ran.truncated and ran.code is None):
        return ran.output
    said = ran.error_output[:_MAX_ERROR].strip().splitlines()
    why = said[0] if said else "it said nothing"
    how = f"exit code {ran.code}" if ran.code is not None else f"ended by {ran.signal}"
    raise GitFailed(f"git {what} failed ({how}): {why}")


def clipped(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def git_tool(
    name: str,
    description: str,
    look: Callable[[Context], Any],
    output_schema: Schema,
    *,
    aliases: Sequence[str],
) -> Tool:
    """A tool without arguments: what it looks at is fixed."""

    async def execute(args: Args, ctx: Context) -> Result:
        try:
            return await look(ctx)
        except GitFailed as error:
            return fail(str(error))

    return Tool(
        name=name,
        description=description,
        input_schema=strict_object(label=LABEL),
        output_schema=output_schema,
        execute=execute,
        strict=True,
        risk=Risk.LOW,
        effects=frozenset({"fs.read"}),
        capabilities=frozenset({NEEDS_CONTAINMENT}),
        format_preview=lambda args, width: with_label("", args),
        aliases=tuple(aliases),
        groups=("git",),
        needs_root=True,
        source="builtin",
    )


def _in_repository(root: Path) -> bool:
    return any((folder / ".git").exists() for folder in (root, *root.parents))
