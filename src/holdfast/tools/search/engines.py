"""The two ways to find matching files: ripgrep where it is installed, and otherwise the plain scan (`scan.py`)."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from time import monotonic
from typing import Any, Final, TypeVar

from msgspec import Struct, structs

from holdfast.contract.command import Command, CommandResult
from holdfast.contract.context import Context
from holdfast.helper_process import PROGRAM_FOLDERS, isolated_python
from holdfast.tools.search import plain_scan
from holdfast.tools.search.ranking import Hit
from holdfast.tools.search.scope import SKIPPED_NAMES, SMALL_SKIPPED, BadQuery, Query, SearchScope, display_path

MatchOffsets = dict[str, list[int]]
"""Where the first matching lines of files are, in bytes."""
_Answer = TypeVar("_Answer")
_TIMEOUT_SHARE: Final = 0.8
_NO_TIMEOUT_SECONDS: Final = 75.0
_MAX_OUTPUT: Final = 256 * 1024 * 1024
_COUNT: Final = re.compile(r"\./([^\0]+)\0(\d+)\n")
_PLACE: Final = re.compile(r"\./([^\0]+)\0(\d+):[^\n]*\n")
_TROUBLE: Final = re.compile(r"^rg: (?:\./)?(.*): [^:\n]* \(os error (\d+)\)$", re.MULTILINE)
_BAD_PATTERN: Final = re.compile(r"^(?:error|rg): (?!regex parse error)(.*)$", re.MULTILINE)
_COMMON: Final = (
    *("--no-config", "--no-ignore-global", "--no-ignore-parent", "--no-require-git", "--no-ignore-messages"),
    *("--no-mmap", "--encoding=none", "--color=never", "--null"),
    *(f"--glob=!{name}" for name in SKIPPED_NAMES),
)


class SearchFailed(Exception):
    """The search ended without an answer; the message is a sentence."""


class RipgrepUnsupported(SearchFailed):
    """ripgrep cannot answer this: the plain scan must."""


class SearchHits(Struct, kw_only=True):
    """What an engine found, before anything is ordered."""

    hits: list[Hit]
    engine: Ripgrep | PlainScan
    unreadable: int = 0


async def count_matches(query: Query, scope: SearchScope, ctx: Context) -> SearchHits:
    """The files with matching lines."""
    return await _first(scope, ctx, lambda engine: engine.count_matches(query))


async def list_files(scope: SearchScope, ctx: Context) -> tuple[list[str], int]:
    """Every file of a folder, in no order, and how many folders could not be read."""
    return await _first(scope, ctx, lambda engine: engine.list_files())


async def _first(scope: SearchScope, ctx: Context, ask: Callable[[Ripgrep | PlainScan], Awaitable[_Answer]]) -> _Answer:
    """The answer of ripgrep, if it is here and has one."""
    if program := find_ripgrep(scope.root):
        try:
            return await ask(Ripgrep(program, scope, ctx))
        except RipgrepUnsupported:
            pass
    return await ask(PlainScan(scope, ctx))


def find_ripgrep(root: Path) -> str | None:
    """From fixed places only: never from the working directory, PATH or the project."""
    own = Path(sys.prefix, "bin", "rg")
    for place in (own, *(Path(folder, "rg") for folder in PROGRAM_FOLDERS)):
        inside = place.resolve().is_relative_to(root) and place is not own
        if not inside and place.is_file() and os.access(place, os.X_OK):
            return str(place)
    return None


class Ripgrep(Struct, frozen=True):
    """Runs ripgrep at the root, contained like any command, with only the project in sight."""

    program: str
    scope: SearchScope
    ctx: Context

    async def count_matches(self, query: Query) -> SearchHits:
        ran = await self._run(query, "--count", *_where(self.scope))
        _check_names(ran)
        hits = [(path, int(number)) for path, number in _COUNT.findall(ran.output)]
        return SearchHits(hits=hits, engine=self, unreadable=_unreadable(ran, self.scope, self.ctx))

    async def places(self, query: Query, paths: Sequence[str], first: int) -> MatchOffsets:
        """Where the first lines of these files match: a pattern is never tried in our own process, which it could
        hold up. Lines themselves are not printed: they may be huge."""
        terse = ("--with-filename", "--byte-offset", "--no-line-number", "--max-columns=1", f"--max-count={first}")
        ran = await self._run(query, *terse, "--", *(f"./{path}" for path in paths))
        found: MatchOffsets = {}
        for path, offset in _PLACE.findall(ran.output):
            found.setdefault(path, []).append(int(offset))
        return found

    async def list_files(self) -> tuple[list[str], int]:
        ran = await self._run(None, "--files", *_where(self.scope))
        _check_names(ran)
        return [path.removeprefix("./") for path in ran.output.split("\0")[:-1]], _unreadable(ran, self.scope, self.ctx)

    async def _run(self, query: Query | None, *words: str) -> CommandResult:
        asked: tuple[str, ...] = ()
        if query is not None:
            # Case and characters are ASCII's for a text; a pattern is about the characters of a line.
            asked = (*(() if query.regex else ("--fixed-strings", "--no-unicode")), f"--regexp={query.text}")
            asked += ("--ignore-case",) if query.fold else ()
        ran = await _run(self.ctx, (self.program, *_COMMON, *asked, *words), cwd=self.scope.root)
        if ran.code not in (0, 1) and not (ran.code == 2 and _TROUBLE.search(ran.error_output)):
            wrong = _BAD_PATTERN.search(ran.error_output)
            if query is not None and query.regex and wrong is not None:
                raise _bad_pattern(wrong[1])
            raise RipgrepUnsupported("ripgrep ended without an answer; try again.")
        return ran


def _check_names(ran: CommandResult) -> None:
    if ran.truncated or "\ufffd" in ran.output:
        raise RipgrepUnsupported("A name is not UTF-8, or there are too many.")


def _where(scope: SearchScope) -> tuple[str, ...]:
    """What is searched, with which rules. ripgrep does not read the ignore files above a folder that is named to it:
    it could read those above the root, too."""
    if "\ufffd" in display_path(scope.below):
        raise RipgrepUnsupported("The path is not UTF-8.")
    if scope.is_file:
        # As a glob, not as a path: a file that is named is searched even if it is binary.
        folder, _, _ = scope.below.rpartition("/")
        glob = re.sub(r"[][*?{}\\!]", r"\\\g<0>", scope.below)
        return ("--no-ignore", "--hidden", "--max-depth=1", f"--glob=/{glob}", "--", f"./{folder}")
    rules = ["--no-ignore", *(f"--glob=!{name}/" for name in SMALL_SKIPPED)] if scope.small else _rules_above(scope)
    return (*rules, "--", f"./{scope.below}")


def _rules_above(scope: SearchScope) -> list[str]:
    """The ignore files above a scope, the strongest last. ripgrep reads their rules as about the root, and all of them
    as weaker than those in the scope. Raises `Declined` where that makes a difference."""
    if not scope.below:
        return []
    parts = scope.below.split("/")
    folders = ["/".join(parts[:depth]) for depth in range(len(parts))]
    options: list[str] = []
    root = os.open(scope.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for kind in reversed(plain_scan.IGNORE_FILES):
            for folder in folders:
                path = f"{folder}/{kind}" if folder else kind
                lines = plain_scan.read_ignore_file(root, str(scope.root), path).split(b"\n")
                rules = [line for line in lines if line.strip() and not line.startswith(b"#")]
                if any(rule.startswith(b"!") or (folder and b"/" in rule.strip()[:-1]) for rule in rules):
                    raise RipgrepUnsupported("A rule above the folder would be read in another way.")
                options += [f"--ignore-file=./{path}"] if rules else []
    finally:
        os.close(root)
    return options


def _unreadable(ran: CommandResult, scope: SearchScope, ctx: Context) -> int:
    failed = (path for path, code in _TROUBLE.findall(ran.error_output) if int(code) not in plain_scan.VANISHED)
    return _not_hidden(failed, scope, ctx)


def _not_hidden(paths: Iterable[str], scope: SearchScope, ctx: Context) -> int:
    """How many could not be read for another reason than that they are hidden."""
    return sum(ctx.sandbox.is_path_readable(scope.root / path) for path in paths)


class PlainScan(Struct, frozen=True):
    """Runs the plain scan in a process, contained like ripgrep and killed if a pattern holds it up."""

    scope: SearchScope
    ctx: Context

    async def count_matches(self, query: Query) -> SearchHits:
        _, answer = await self._ask(query, [self.scope.below] if self.scope.is_file else None)
        hits = [(path, number) for path, number, _ in answer["found"]]
        return SearchHits(hits=hits, engine=self, unreadable=_not_hidden(answer["unreadable"], self.scope, self.ctx))

    async def places(self, query: Query, paths: Sequence[str], first: int) -> MatchOffsets:
        _, answer = await self._ask(query, paths, first)
        return {path: found for path, _, found in answer["found"]}

    async def list_files(self) -> tuple[list[str], int]:
        _, answer = await self._ask(None)
        return answer["found"], _not_hidden(answer["unreadable"], self.scope, self.ctx)

    async def _ask(
        self, query: Query | None, paths: Sequence[str] | None = None, first: int = 0
    ) -> tuple[CommandResult, Any]:
        timeout = self.ctx.timeout or _NO_TIMEOUT_SECONDS
        request = {
            "root": str(self.scope.root),
            "scope": self.scope.below,
            "ignores": not self.scope.small,
            "names": SKIPPED_NAMES,
            "folders": SMALL_SKIPPED if self.scope.small else (),
            "query": None if query is None else structs.asdict(query),
            "paths": paths,
            "first": first,
            # A little before the call's own end, to say why.
            "deadline": monotonic() + timeout * _TIMEOUT_SHARE,
            "packages": _packages(),
        }
        argv = isolated_python("-X", "utf8", plain_scan.__file__)
        ran = await _run(self.ctx, argv, cwd=Path("/"), stdin=json.dumps(request).encode())
        if ran.signal == "SIGALRM" or ran.code == 128 + signal.SIGALRM:
            slow = (
                " (nested repeats such as (a+)+ are slow without ripgrep)" if query is not None and query.regex else ""
            )
            raise SearchFailed(
                f"The search took too long and was stopped; narrow its path, or simplify the pattern{slow}."
            )
        if ran.code != 0 or ran.truncated:
            raise SearchFailed("The scan ended without an answer; try again, or search in a smaller folder.")
        answer = json.loads(ran.output)
        if "bad_pattern" in answer:
            raise _bad_pattern(answer["bad_pattern"])
        return ran, answer


def _packages() -> str:
    """The folder that pathspec is installed in. Importing it here would take 50 ms."""
    found = find_spec("pathspec")
    return str(Path(found.origin).parents[1]) if found and found.origin else ""


def _bad_pattern(reason: str) -> BadQuery:
    return BadQuery(f"The pattern cannot be read: {reason}; correct it, or search for plain text without `regex`.")


async def _run(ctx: Context, argv: tuple[str, ...], *, cwd: Path | None, stdin: bytes = b"") -> CommandResult:
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
            max_bytes=_MAX_OUTPUT,
            filtered=True,
        )
    )
    if ran.stopped is not None:
        raise SearchFailed("The search was stopped.")
    return ran
