"""`git.log`: the last twenty commits."""

from __future__ import annotations

from typing import Final

from holdfast.contract.context import Context
from holdfast.contract.result import Result, ok
from holdfast.contract.values import Json
from holdfast.tools.git.running import checked, clipped, git, git_tool
from holdfast.tools.schemas import BOOLEAN, STRING, array, strict_object

MAX_COMMITS: Final = 20
MAX_AUTHOR: Final = 120
MAX_SUBJECT: Final = 240
MAX_BYTES: Final = 64 * 1024
_FORMAT: Final = "%h%x00%ad%x00%an%x00%s%x00"
"""Fields end with NUL, the one character no commit can hold: nothing in a message can look like the next commit."""


async def _look(ctx: Context) -> Result:
    born = await git(ctx, "rev-parse", "--quiet", "--verify", "HEAD^{commit}", max_bytes=1024)
    if born.code == 1:
        return ok("No commits yet.", structured={"commits": [], "truncated": False})
    ran = await git(
        ctx,
        "log",
        f"--max-count={MAX_COMMITS}",
        "--no-show-signature",
        "--no-mailmap",
        "--no-color",
        "--date=short",
        f"--format={_FORMAT}",
        max_bytes=MAX_BYTES,
    )
    facts = parse(checked(ran, "log"), cut=ran.truncated)
    return ok(render(facts), structured=facts)


def parse(output: str, *, cut: bool = False) -> dict[str, Json]:
    commits: list[Json] = []
    fields = iter(output.split("\0")[:-1])
    for digest, date, author, subject in zip(fields, fields, fields, fields, strict=False):
        commits.append(
            {
                "commit": digest.lstrip("\n"),
                "date": date,
                "author": clipped(author, MAX_AUTHOR),
                "subject": clipped(subject, MAX_SUBJECT),
            }
        )
    return {"commits": commits, "truncated": cut}


def render(facts: dict[str, Json]) -> str:
    commits = facts["commits"]
    assert isinstance(commits, list)
    lines: list[str] = []
    for commit in commits:
        assert isinstance(commit, dict)
        lines.append(f"{commit['commit']} {commit['date']} {commit['author']}: {commit['subject']}")
    return "\n".join(lines)


_OUTPUT: Final = strict_object(
    commits=array(strict_object(commit=STRING, date=STRING, author=STRING, subject=STRING)), truncated=BOOLEAN
)
GIT_LOG: Final = git_tool("git.log", "The last twenty commits.", _look, _OUTPUT, aliases=("git_log",))
