"""The two ways to find matching files: ripgrep where it is installed, and otherwise the plain scan (`scan.py`)."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, field

from holdfast.contract.command import Command, Ran
from holdfast.contract.context import Context
from holdfast.helper_process import FOLDERS, isolated_python
from holdfast.tools.search import scan
from holdfast.tools.search.ranking import Hit
from holdfast.tools.search.scope import SKIPPED_NAMES, BadQuery, Query, Scope, shown_path

_SHARE_OF_TIME: Final = 0.8
_NO_TIMEOUT_SECONDS: Final = 60.0
_MOST_OUTPUT: Final = 256 * 1024 * 1024
_COUNT: Final = re.compile(r"\./([^\0]+)\0(\d+)\n")
_PLACE: Final = re.compile(r"\./([^\0]+)\0(\d+):[^\n]*\n")
_TROUBLE: Final = re.compile(r"^rg: (?:\./)?(.*): [^:\n]* \(os error (\d+)\)$", re.MULTILINE)
_BAD_PATTERN: Final = re.compile(r"^(?:error|rg): (?!regex parse error)(.*)$", re.MULTILINE)
_COMMON: Final = (
    "--no-config",
    "--no-ignore-global",
    "--no-ignore-parent",
    "--no-require-git",
    "--no-ignore-messages",
    "--no-mmap",
    "--encoding=none",
    "--color=never",
    "--null",
    *(f"--glob=!{name}" for name in SKIPPED_NAMES),
)


class SearchFailed(Exception):
    """The search ended without an answer; the message is a sentence."""


class Declined(Exception):
    """ripgrep cannot answer this: the plain scan must."""


class Found(Struct, kw_only=True):
    """What an engine found, before anything is ordered."""

    hits: list[Hit] = field(default_factory=list[Hit])
    places: dict[str, Sequence[int]] | None = None
    """For a regular expression: where the first matching lines are. None: ripgrep is asked afterwards."""
    unreadable: int = 0
    contained: bool = False
    """What may not be read was out of reach."""


async def count(query: Query, scope: Scope, ctx: Context, *, first: int) -> Found:
    """The files with matching lines; `first`: of how many lines the plain scan says where they are."""
    if program := find_ripgrep(scope.root):
        try:
            return await Ripgrep(program, ctx).count(query, scope)
        except Declined:
            pass
    return await PlainScan(ctx).count(query, scope, first)


async def places(
    query: Query, scope: Scope, ctx: Context, paths: Sequence[str], first: int
) -> dict[str, Sequence[int]]:
    """Where the first lines of these files match: a pattern is never tried in this process, which it could hold up."""
    if program := find_ripgrep(scope.root):
        try:
            return await Ripgrep(program, ctx).places(query, scope, paths, first)
        except Declined:
            pass
    return (await PlainScan(ctx).count(query, scope, first)).places or {}


async def files(scope: Scope, ctx: Context) -> tuple[list[str], int]:
    """Every file of a folder, in no order, and how many folders could not be read."""
    if program := find_ripgrep(scope.root):
        try:
            return await Ripgrep(program, ctx).files(scope)
        except Declined:
            pass
    return await PlainScan(ctx).files(scope)


def find_ripgrep(root: Path) -> str | None:
    """From fixed places only: never from the working directory, PATH or the project."""
    own = Path(sys.prefix, "bin", "rg")
    for place in (own, *(Path(folder, "rg") for folder in FOLDERS)):
        inside = place.resolve().is_relative_to(root) and place is not own
        if not inside and place.is_file() and os.access(place, os.X_OK):
            return str(place)
    return None


class Ripgrep:
    """Runs ripgrep at the root, contained like any command, with only the project in sight."""

    def __init__(self, program: str, ctx: Context) -> None:
        self._program = program
        self._ctx = ctx

    async def count(self, query: Query, scope: Scope) -> Found:
        ran = await self._run(query, scope, *await asyncio.to_thread(_where, scope, "--count"))
        hits = await asyncio.to_thread(_counts, ran.output)
        return Found(hits=hits, unreadable=_unreadable(ran), contained=ran.contained)

    async def places(self, query: Query, scope: Scope, paths: Sequence[str], first: int) -> dict[str, Sequence[int]]:
        found: dict[str, list[int]] = {}
        if paths:
            # Lines themselves are not printed: they may be huge.
            terse = ("--with-filename", "--byte-offset", "--no-line-number", "--max-columns=1", f"--max-count={first}")
            ran = await self._run(query, scope, *terse, "--", *(f"./{path}" for path in paths))
            for path, offset in _PLACE.findall(ran.output):
                found.setdefault(path, []).append(int(offset))
        return dict(found)

    async def files(self, scope: Scope) -> tuple[list[str], int]:
        ran = await self._run(None, scope, *await asyncio.to_thread(_where, scope, "--files"))
        return [path.removeprefix("./") for path in ran.output.split("\0")[:-1]], _unreadable(ran)

    async def _run(self, query: Query | None, scope: Scope, *words: str) -> Ran:
        asked: tuple[str, ...] = ()
        if query is not None:
            # Case and characters are ASCII's for a text; a pattern is about the characters of a line.
            asked = (*(() if query.regex else ("--fixed-strings", "--no-unicode")), f"--regexp={query.text}")
            asked += ("--ignore-case",) if query.fold else ()
        ran = await _run(self._ctx, (self._program, *_COMMON, *asked, *words), cwd=scope.root)
        if ran.code not in (0, 1) and not (ran.code == 2 and _TROUBLE.search(ran.error_output)):
            wrong = _BAD_PATTERN.search(ran.error_output)
            if query is not None and query.regex and wrong is not None:
                raise _bad_pattern(wrong[1])
            raise Declined
        if ran.truncated or "\ufffd" in ran.output:  # a name that is not UTF-8
            raise Declined
        return ran


def _where(scope: Scope, *words: str) -> tuple[str, ...]:
    """What is searched, with which rules. ripgrep does not read the ignore files above a folder that is named to it:
    it could read those above the root, too."""
    if "\ufffd" in shown_path(scope.below):
        raise Declined
    if scope.is_file:
        # As a glob, not as a path: a file that is named is searched even if it is binary.
        folder, _, _ = scope.below.rpartition("/")
        glob = re.sub(r"[][*?{}\\!]", r"\\\g<0>", scope.below)
        return (*words, "--no-ignore", "--hidden", "--max-depth=1", f"--glob=/{glob}", "--", f"./{folder}")
    rules = tuple(_rules_above(scope)) if scope.ignores else ("--no-ignore",)
    return (*words, *rules, *(f"--glob=!{name}/" for name in scope.skipped_folders), "--", f"./{scope.below}")


def _rules_above(scope: Scope) -> list[str]:
    """The ignore files above a scope, the strongest last. ripgrep reads their rules as about the root, and all of them
    as weaker than those in the scope. Raises `Declined` where that makes a difference."""
    if not scope.below:
        return []
    parts = scope.below.split("/")
    folders = ["/".join(parts[:depth]) for depth in range(len(parts))]
    options: list[str] = []
    root = os.open(scope.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for kind in reversed(scan.KINDS):
            for folder in folders:
                path = f"{folder}/{kind}" if folder else kind
                lines = scan.read_ignore_file(root, str(scope.root), path).split(b"\n")
                rules = [line for line in lines if line.strip() and not line.startswith(b"#")]
                if any(rule.startswith(b"!") or (folder and b"/" in rule.strip()[:-1]) for rule in rules):
                    raise Declined
                options += [f"--ignore-file=./{path}"] if rules else []
    finally:
        os.close(root)
    return options


def _counts(output: str) -> list[Hit]:
    """Path, NUL, number, newline. There may be many thousands: the loop over them is left to C where it can be."""
    if output.count("\n") != output.count("\0"):  # a newline in a name
        return [(path, int(number)) for path, number in _COUNT.findall(output)]
    parts = output[2:-1].replace("\n./", "\0").split("\0")
    return list(zip(parts[::2], map(int, parts[1::2]), strict=False))


def _unreadable(ran: Ran) -> int:
    return sum(int(code) not in scan.GONE for _, code in _TROUBLE.findall(ran.error_output))


class PlainScan:
    """Runs the plain scan in a process, contained like ripgrep and killed if a pattern holds it up."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx

    async def count(self, query: Query, scope: Scope, first: int) -> Found:
        wanted = {"query": query.text, "regex": query.regex, "fold": query.fold}
        ran, answer = await self._ask(scope, **wanted, first=first if query.regex else 0)
        return Found(
            hits=[(path, number) for path, number, _ in answer["found"]],
            places={path: places for path, _, places in answer["found"]} if query.regex else None,
            unreadable=answer["unreadable"],
            contained=ran.contained,
        )

    async def files(self, scope: Scope) -> tuple[list[str], int]:
        _, answer = await self._ask(scope, query=None)
        return answer["found"], answer["unreadable"]

    async def _ask(self, scope: Scope, **wanted: Any) -> tuple[Ran, dict[str, Any]]:
        timeout = self._ctx.timeout
        request = {
            "root": str(scope.root),
            "scope": scope.below,
            "is_file": scope.is_file,
            "ignores": scope.ignores,
            "names": SKIPPED_NAMES,
            "folders": scope.skipped_folders,
            # A little before the call's own end, to say why.
            "seconds": _NO_TIMEOUT_SECONDS if timeout is None else timeout * _SHARE_OF_TIME,
            "packages": _packages(),
            **wanted,
        }
        argv = isolated_python("-X", "utf8", scan.__file__)
        ran = await _run(self._ctx, argv, cwd=Path("/"), stdin=json.dumps(request).encode())
        if ran.signal == "SIGALRM" or ran.code == 128 + signal.SIGALRM:
            slow = " (nested repeats such as (a+)+ are slow without ripgrep)" if wanted.get("regex") else ""
            raise SearchFailed(
                f"The search took too long and was stopped; narrow its path, or simplify the pattern{slow}."
            )
        try:
            answer = json.loads(ran.output) if ran.code == 0 and not ran.truncated else None
        except ValueError:
            answer = None
        if answer is None:
            raise SearchFailed("The scan ended without an answer; try again, or search in a smaller folder.")
        if "bad_pattern" in answer:
            raise _bad_pattern(answer["bad_pattern"])
        return ran, answer


def _packages() -> str:
    """The folder that pathspec is installed in. Importing it here would take 50 ms."""
    found = find_spec("pathspec")
    return str(Path(found.origin).parents[1]) if found and found.origin else ""


def _bad_pattern(reason: str) -> BadQuery:
    return BadQuery(f"The pattern cannot be read: {reason}; correct it, or search for plain text without `regex`.")


async def _run(ctx: Context, argv: tuple[str, ...], *, cwd: Path | None, stdin: bytes = b"") -> Ran:
    ran = await ctx.sandbox.run(
        Command(
            argv=argv,
            cwd=cwd,
            stdin=stdin,
            read_only=True,
            sees="project",
            helper=True,
            merged=False,
            keeps="head",
            max_bytes=_MOST_OUTPUT,
        )
    )
    if ran.stopped is not None:
        raise SearchFailed("The search was stopped.")
    return ran
