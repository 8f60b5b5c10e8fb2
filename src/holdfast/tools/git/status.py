"""`git.status`: the branch, and what is changed, staged or not tracked."""

from __future__ import annotations

import re
from typing import Final

from holdfast.contract.context import Context
from holdfast.contract.result import Result, ok
from holdfast.contract.values import Json
from holdfast.tools.git.running import checked, clipped, git, git_tool
from holdfast.tools.schemas import BOOLEAN, INTEGER, STRING, STRING_OR_NULL, array, strict_object

MAX_ENTRIES: Final = 100
MAX_PATH: Final = 240
MAX_BYTES: Final = 64 * 1024
# In a submodule git runs itself, and there nothing that is switched off here is.
_ARGUMENTS: Final = ("--porcelain=v1", "--branch", "-z", "--ignore-submodules=all", "--", ".")
_COUNT: Final = re.compile(r"(ahead|behind) (\d+)")


async def _look(ctx: Context) -> Result:
    ran = await git(ctx, "status", *_ARGUMENTS, max_bytes=MAX_BYTES, converts=True)
    facts = parse(checked(ran, "status"), cut=ran.truncated)
    return ok(render(facts), structured=facts)


def parse(output: str, *, cut: bool = False) -> dict[str, Json]:
    """What `git status --porcelain=v1 --branch -z` printed; `cut` drops the field that may be incomplete."""
    fields = output.split("\0")[:-1]
    if cut and fields:
        fields.pop()
    entries: list[Json] = []
    facts: dict[str, Json] = {"branch": None, "upstream": None, "ahead": 0, "behind": 0}
    place = iter(fields)
    for item in place:
        if item.startswith("## "):
            facts |= _branch(item[3:])
            continue
        status, path = item[:2], item[3:]
        source = next(place, None) if status[0] in "RC" or status[1] in "RC" else None
        if len(entries) < MAX_ENTRIES:
            origin = None if source is None else clipped(source, MAX_PATH)
            entries.append({"status": status, "path": clipped(path, MAX_PATH), "from": origin})
        else:
            cut = True
    return {**facts, "entries": entries, "truncated": cut}


def _branch(line: str) -> dict[str, Json]:
    """`main...origin/main [ahead 1, behind 2]`, `No commits yet on main` or `HEAD (no branch)`."""
    names, _, counts = line.partition(" [")
    names = names.removeprefix("No commits yet on ").removeprefix("Initial commit on ")
    branch, _, upstream = names.partition("...")
    facts: dict[str, Json] = {
        "branch": None if branch == "HEAD (no branch)" else branch,
        "upstream": upstream or None,
    }
    return facts | {word: int(number) for word, number in _COUNT.findall(counts)}


def render(facts: dict[str, Json]) -> str:
    """As `git status --short --branch` shows it."""
    counts = ", ".join(f"{word} {facts[word]}" for word in ("ahead", "behind") if facts[word])
    head = str(facts["branch"] or "HEAD (no branch)")
    if facts["upstream"]:
        head += f"...{facts['upstream']}" + (f" [{counts}]" if counts else "")
    lines = [f"## {head}"]
    entries = facts["entries"]
    assert isinstance(entries, list)
    for entry in entries:
        assert isinstance(entry, dict)
        source = f"{entry['from']} -> " if entry["from"] else ""
        lines.append(f"{entry['status']} {source}{entry['path']}")
    if facts["truncated"]:
        lines.append(f"[Showing the first {len(entries)} entries.]")
    elif not entries:
        lines.append("nothing to commit, working tree clean")
    return "\n".join(lines)


_OUTPUT: Final = strict_object(
    branch=STRING_OR_NULL,
    upstream=STRING_OR_NULL,
    ahead=INTEGER,
    behind=INTEGER,
    entries=array(strict_object(status=STRING, path=STRING, **{"from": STRING_OR_NULL})),
    truncated=BOOLEAN,
)
GIT_STATUS: Final = git_tool(
    "git.status",
    "The branch and what is changed, staged or not tracked in the project.",
    _look,
    _OUTPUT,
    aliases=("git_status",),
)
