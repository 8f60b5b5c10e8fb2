"""Running git so that nothing the repository brings can act, and nothing but the repository is shown.

Everything the configuration of a repository can make git run is switched off by name, and git runs in the sandbox,
where it can write nothing, reach no network and see nothing but the project and its git folder.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
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
from holdfast.tools.git.repository import NotARepository, Repository, repository_of
from holdfast.tools.schemas import LABEL, Schema, strict_object

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
_OFF: Final = {"clean": "", "smudge": "", "process": "", "required": "false"}
"""What makes a filter of attributes one that does nothing."""
_PROBE: Final = "filter.holdfast.clean"
_MAX_DRIVERS: Final = 100
_MAX_NAMES: Final = 64 * 1024
_MAX_ERROR: Final = 8 * 1024


class GitFailed(Exception):
    """There is nothing to show; the message is for the model."""


async def git(ctx: Context, *args: str, max_bytes: int, converts: bool = False) -> Ran:
    """One git command in the project root. Raises `GitFailed` with a sentence where git cannot work.

    `converts`: it compares files of the working tree with the index, for which git runs filters.
    """
    program = system_program("git")
    if program is None:
        raise GitFailed("git is not installed; the git tools need it.")
    assert ctx.root is not None
    try:
        repository = await asyncio.to_thread(repository_of, ctx.root)
    except NotARepository as error:
        raise GitFailed(str(error)) from None
    run = partial(_run, ctx, program, repository)
    without = _as_variables([])
    if converts and await asyncio.to_thread(repository.may_define_filters):
        without = _as_variables(await _filters(run))
    return await run(args, without, max_bytes)


async def _run(
    ctx: Context, program: str, repository: Repository, args: Sequence[str], env: Mapping[str, str], max_bytes: int
) -> Ran:
    settings = [part for setting in _SETTINGS for part in ("-c", setting)]
    command = Command(
        argv=(program, "--no-pager", "--no-optional-locks", *settings, *args),
        cwd=ctx.root,
        env={**_ENVIRONMENT, **repository.variables, **env},
        read_only=True,
        sees="project",
        shows=repository.shown,
        helper=True,
        merged=False,
        keeps="head",
        max_bytes=max_bytes,
    )
    try:
        return await ctx.sandbox.run(command)
    except SandboxRefused as error:
        raise GitFailed(f"Sandbox error: {error}") from None


async def _filters(run: Callable[[Sequence[str], Mapping[str, str], int], Awaitable[Ran]]) -> list[str]:
    """Every filter that git finds in the configuration, included files and all."""
    listing = ("config", "--null", "--name-only", "--get-regexp", r"^filter\.")
    ran = await run(listing, _as_variables([_PROBE]), _MAX_NAMES)
    keys = checked(ran, "config").split("\0")
    if _PROBE not in keys:
        raise GitFailed("This repository has filters, which git can only be kept from running since version 2.31.")
    found = sorted({key.removeprefix("filter.").rpartition(".")[0] for key in keys if key})
    if ran.truncated or len(found) > _MAX_DRIVERS:
        raise GitFailed("This repository has more filters than can be switched off, so git is not run in it.")
    return [f"filter.{name}.{variable}" for name in found for variable in _OFF]


def _as_variables(keys: Sequence[str]) -> dict[str, str]:
    """Settings as variables: on the command line a name with `=` in it would be cut there."""
    given = {"GIT_CONFIG_COUNT": str(len(keys))}
    for number, key in enumerate(keys):
        given[f"GIT_CONFIG_KEY_{number}"] = key
        given[f"GIT_CONFIG_VALUE_{number}"] = _OFF[key.rpartition(".")[2]]
    return given


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
        profiles=("minimal",),
        presets=("$readonly",),
        needs_root=True,
        source="builtin",
    )
