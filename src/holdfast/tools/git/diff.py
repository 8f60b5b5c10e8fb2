"""`git.diff`: what is changed in the working tree and not staged."""

from __future__ import annotations

import re
from typing import Final

from holdfast.contract.context import Context
from holdfast.contract.result import Result, ok
from holdfast.contract.values import Json
from holdfast.tools.git.running import checked, clipped, git, git_tool
from holdfast.tools.git.status import MAX_PATH
from holdfast.tools.schemas import BOOLEAN, INTEGER_OR_NULL, STRING, array, strict_object

MAX_BYTES: Final = 128 * 1024
MAX_FILES: Final = 200
_NUMBERS: Final = re.compile(r"(\d+|-)\t(\d+|-)\t(.*)")
_NOTHING_RUNS: Final = ("--no-ext-diff", "--no-textconv", "--ignore-submodules=all")
_ARGUMENTS: Final = (*_NOTHING_RUNS, "--no-color", "-O/dev/null", "--numstat", "--patch", "--", ".")


async def _look(ctx: Context) -> Result:
    ran = await git(ctx, "diff", *_ARGUMENTS, max_bytes=MAX_BYTES, converts=True)
    facts = parse(checked(ran, "diff"), cut=ran.truncated)
    return ok(render(facts), structured=facts)


def parse(output: str, *, cut: bool = False) -> dict[str, Json]:
    """The numbers come first, one line a file, and then the patch."""
    lines = output.split("\n")
    files: list[Json] = []
    place = 0
    for place, line in enumerate(lines):  # noqa: B007 - where the numbers end is used below
        found = _NUMBERS.fullmatch(line)
        if found is None:
            break
        added, removed, path = found.groups()
        if len(files) < MAX_FILES:
            files.append({"path": clipped(path, MAX_PATH), "added": _number(added), "removed": _number(removed)})
    patch = "\n".join(lines[place:]).strip("\n")
    return {"files": files, "diff": patch, "truncated": cut}


def _number(text: str) -> int | None:
    return None if text == "-" else int(text)


def render(facts: dict[str, Json]) -> str:
    diff = str(facts["diff"])
    if not diff:
        return "No unstaged changes."
    return f"{diff}\n[The diff is longer; this is its beginning.]" if facts["truncated"] else diff


_OUTPUT: Final = strict_object(
    files=array(strict_object(path=STRING, added=INTEGER_OR_NULL, removed=INTEGER_OR_NULL)),
    diff=STRING,
    truncated=BOOLEAN,
)
GIT_DIFF: Final = git_tool(
    "git.diff", "What is changed in the working tree and not staged.", _look, _OUTPUT, aliases=("git_diff",)
)
