"""`git.status`, `git.diff` and `git.log`: the branch, unstaged changes, and the last twenty commits."""

from __future__ import annotations

import re
from typing import Final

from holdfast.contract.context import Context
from holdfast.contract.json import Json
from holdfast.contract.result import Result, ok
from holdfast.tools.git.repository import append_hidden_note, git, git_tool, require_success, shorten
from holdfast.tools.schemas import BOOLEAN, INTEGER, INTEGER_OR_NULL, STRING, STRING_OR_NULL, array, strict_object

MAX_ENTRIES: Final = 100
MAX_PATH: Final = 240
MAX_STATUS_BYTES: Final = 64 * 1024
# git runs itself in submodules, without the settings below that disable hooks and filters.
_STATUS_ARGUMENTS: Final = ("--porcelain=v1", "--branch", "-z", "--ignore-submodules=all", "--", ".")
_COUNT: Final = re.compile(r"(ahead|behind) (\d+)")


async def _status(ctx: Context) -> Result:
    ran = await git(ctx, "status", *_STATUS_ARGUMENTS, max_bytes=MAX_STATUS_BYTES, converts=True)
    facts = parse_status(require_success(ran, "status"), cut=ran.truncated)
    return ok(append_hidden_note(render_status(facts), ran, ctx), structured=facts)


def parse_status(output: str, *, cut: bool = False) -> dict[str, Json]:
    """Parse the output of `git status --porcelain=v1 --branch -z`; `cut` drops the last field, which may be
    incomplete."""
    fields = output.split("\0")[:-1]
    if cut and fields:
        fields.pop()
    entries: list[Json] = []
    facts: dict[str, Json] = {"branch": None, "upstream": None, "ahead": 0, "behind": 0}
    remaining = iter(fields)
    for item in remaining:
        if item.startswith("## "):
            facts |= _branch(item[3:])
            continue
        status, path = item[:2], item[3:]
        source = next(remaining, None) if status[0] in "RC" or status[1] in "RC" else None
        if len(entries) < MAX_ENTRIES:
            origin = None if source is None else shorten(source, MAX_PATH)
            entries.append({"status": status, "path": shorten(path, MAX_PATH), "from": origin})
        else:
            cut = True
    return {**facts, "entries": entries, "truncated": cut}


def _branch(line: str) -> dict[str, Json]:
    """Parse `main...origin/main [ahead 1, behind 2]`, `No commits yet on main` or `HEAD (no branch)`."""
    names, _, counts = line.partition(" [")
    names = names.removeprefix("No commits yet on ").removeprefix("Initial commit on ")
    branch, _, upstream = names.partition("...")
    facts: dict[str, Json] = {"branch": None if branch == "HEAD (no branch)" else branch, "upstream": upstream or None}
    return facts | {word: int(number) for word, number in _COUNT.findall(counts)}


def render_status(facts: dict[str, Json]) -> str:
    """Format like `git status --short --branch`."""
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


_STATUS_OUTPUT: Final = strict_object(
    branch=STRING_OR_NULL,
    upstream=STRING_OR_NULL,
    ahead=INTEGER,
    behind=INTEGER,
    entries=array(strict_object(status=STRING, path=STRING, **{"from": STRING_OR_NULL})),
    truncated=BOOLEAN,
)
GIT_STATUS: Final = git_tool(
    "git.status",
    "Show the branch and the changed, staged and untracked files of the project.",
    _status,
    _STATUS_OUTPUT,
    aliases=("git_status",),
)


MAX_DIFF_BYTES: Final = 128 * 1024
MAX_FILES: Final = 200
_NUMBERS: Final = re.compile(r"(\d+|-)\t(\d+|-)\t(.*)")
_NOTHING_RUNS: Final = ("--no-ext-diff", "--no-textconv", "--ignore-submodules=all")
_DIFF_ARGUMENTS: Final = (*_NOTHING_RUNS, "--no-color", "-O/dev/null", "--numstat", "--patch", "--", ".")


async def _diff(ctx: Context) -> Result:
    ran = await git(ctx, "diff", *_DIFF_ARGUMENTS, max_bytes=MAX_DIFF_BYTES, converts=True)
    facts = parse_diff(require_success(ran, "diff"), cut=ran.truncated)
    return ok(append_hidden_note(render_diff(facts), ran, ctx), structured=facts)


def parse_diff(output: str, *, cut: bool = False) -> dict[str, Json]:
    """Parse `--numstat --patch`: one line of numbers per file, then the patch."""
    lines = output.split("\n")
    files: list[Json] = []
    patch_start = 0
    for patch_start, line in enumerate(lines):  # noqa: B007 - used below
        found = _NUMBERS.fullmatch(line)
        if found is None:
            break
        added, removed, path = found.groups()
        if len(files) < MAX_FILES:
            files.append({"path": shorten(path, MAX_PATH), "added": _number(added), "removed": _number(removed)})
    patch = "\n".join(lines[patch_start:]).strip("\n")
    return {"files": files, "diff": patch, "truncated": cut}


def _number(text: str) -> int | None:
    return None if text == "-" else int(text)


def render_diff(facts: dict[str, Json]) -> str:
    diff = str(facts["diff"])
    if not diff:
        return "No unstaged changes."
    return f"{diff}\n[The diff is cut here; the rest is not shown.]" if facts["truncated"] else diff


_DIFF_OUTPUT: Final = strict_object(
    files=array(strict_object(path=STRING, added=INTEGER_OR_NULL, removed=INTEGER_OR_NULL)),
    diff=STRING,
    truncated=BOOLEAN,
)
GIT_DIFF: Final = git_tool(
    "git.diff", "Show unstaged changes in the working tree.", _diff, _DIFF_OUTPUT, aliases=("git_diff",)
)


MAX_COMMITS: Final = 20
MAX_AUTHOR: Final = 120
MAX_SUBJECT: Final = 240
MAX_LOG_BYTES: Final = 64 * 1024
_FORMAT: Final = "%h%x00%ad%x00%an%x00%s%x00"
"""Fields end with NUL, the only character no commit can contain: no message can forge the next commit."""


async def _log(ctx: Context) -> Result:
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
        max_bytes=MAX_LOG_BYTES,
    )
    facts = parse_log(require_success(ran, "log"), cut=ran.truncated)
    return ok(render_log(facts), structured=facts)


def parse_log(output: str, *, cut: bool = False) -> dict[str, Json]:
    commits: list[Json] = []
    fields = iter(output.split("\0")[:-1])
    for digest, date, author, subject in zip(fields, fields, fields, fields, strict=False):
        commits.append(
            {
                "commit": digest.lstrip("\n"),
                "date": date,
                "author": shorten(author, MAX_AUTHOR),
                "subject": shorten(subject, MAX_SUBJECT),
            }
        )
    return {"commits": commits, "truncated": cut}


def render_log(facts: dict[str, Json]) -> str:
    commits = facts["commits"]
    assert isinstance(commits, list)
    lines: list[str] = []
    for commit in commits:
        assert isinstance(commit, dict)
        lines.append(f"{commit['commit']} {commit['date']} {commit['author']}: {commit['subject']}")
    return "\n".join(lines)


_LOG_OUTPUT: Final = strict_object(
    commits=array(strict_object(commit=STRING, date=STRING, author=STRING, subject=STRING)), truncated=BOOLEAN
)
GIT_LOG: Final = git_tool("git.log", "Show the last twenty commits.", _log, _LOG_OUTPUT, aliases=("git_log",))
