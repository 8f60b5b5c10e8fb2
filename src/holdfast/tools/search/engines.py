"""The two search engines: ripgrep if it is installed, otherwise `plain_scan`. Both run in a sandboxed process."""

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
"""Byte offsets of the first matching lines, by path."""
_Result = TypeVar("_Result")
_TIMEOUT_SHARE: Final = 0.8
_NO_TIMEOUT_SECONDS: Final = 75.0
_MAX_OUTPUT: Final = 256 * 1024 * 1024
_COUNT: Final = re.compile(r"\./([^\0]+)\0(\d+)\n")
_OFFSET: Final = re.compile(r"\./([^\0]+)\0(\d+):[^\n]*\n")
_FILE_ERROR: Final = re.compile(r"^rg: (?:\./)?(.*): [^:\n]* \(os error (\d+)\)$", re.MULTILINE)
_BAD_PATTERN: Final = re.compile(r"^(?:error|rg): (?!regex parse error)(.*)$", re.MULTILINE)
_COMMON: Final = (
    *("--no-config", "--no-ignore-global", "--no-ignore-parent", "--no-require-git", "--no-ignore-messages"),
    *("--no-mmap", "--encoding=none", "--color=never", "--null"),
    *(f"--glob=!{name}" for name in SKIPPED_NAMES),
)


class SearchFailed(Exception):
    """The search failed; the message is a complete sentence."""


class RipgrepUnsupported(SearchFailed):
    """ripgrep cannot do this search exactly: `plain_scan` has to."""


class SearchHits(Struct, kw_only=True):
    """The files an engine found, unordered."""

    hits: list[Hit]
    engine: Ripgrep | PlainScan
    unreadable: int = 0


async def count_matches(query: Query, scope: SearchScope, ctx: Context) -> SearchHits:
    """Return the files with matching lines."""
    return await _with_engine(scope, ctx, lambda engine: engine.count_matches(query))


async def list_files(scope: SearchScope, ctx: Context) -> tuple[list[str], int]:
    """Return every file of a folder, unordered, and the number of unreadable folders."""
    return await _with_engine(scope, ctx, lambda engine: engine.list_files())


async def _with_engine(
    scope: SearchScope, ctx: Context, search: Callable[[Ripgrep | PlainScan], Awaitable[_Result]]
) -> _Result:
    """Search with ripgrep, falling back to the plain scan."""
    if program := find_ripgrep(scope.root):
        try:
            return await search(Ripgrep(program, scope, ctx))
        except RipgrepUnsupported:
            pass
    return await search(PlainScan(scope, ctx))


def find_ripgrep(root: Path) -> str | None:
    """Return ripgrep's path, looked up in fixed folders only: never in the working directory, PATH or the project."""
    own = Path(sys.prefix, "bin", "rg")
    for path in (own, *(Path(folder, "rg") for folder in PROGRAM_FOLDERS)):
        inside = path.resolve().is_relative_to(root) and path is not own
        if not inside and path.is_file() and os.access(path, os.X_OK):
            return str(path)
    return None


class Ripgrep(Struct, frozen=True):
    """Runs ripgrep at the root, sandboxed, with only the project visible."""

    program: str
    scope: SearchScope
    ctx: Context

    async def count_matches(self, query: Query) -> SearchHits:
        ran = await self._run(query, "--count", *_scope_options(self.scope))
        _check_names(ran)
        hits = [(path, int(number)) for path, number in _COUNT.findall(ran.output)]
        return SearchHits(hits=hits, engine=self, unreadable=_unreadable(ran, self.scope, self.ctx))

    async def match_offsets(self, query: Query, paths: Sequence[str], first: int) -> MatchOffsets:
        """Return the offsets of the first matching lines. Patterns are never matched in this process, which they could
        block by backtracking. The lines are not printed, because they may be huge."""
        terse = ("--with-filename", "--byte-offset", "--no-line-number", "--max-columns=1", f"--max-count={first}")
        ran = await self._run(query, *terse, "--", *(f"./{path}" for path in paths))
        found: MatchOffsets = {}
        for path, offset in _OFFSET.findall(ran.output):
            found.setdefault(path, []).append(int(offset))
        return found

    async def list_files(self) -> tuple[list[str], int]:
        ran = await self._run(None, "--files", *_scope_options(self.scope))
        _check_names(ran)
        return [path.removeprefix("./") for path in ran.output.split("\0")[:-1]], _unreadable(ran, self.scope, self.ctx)

    async def _run(self, query: Query | None, *words: str) -> CommandResult:
        options: tuple[str, ...] = ()
        if query is not None:
            # A plain text is matched bytewise with ASCII case folding; a pattern is matched against characters.
            options = (*(() if query.regex else ("--fixed-strings", "--no-unicode")), f"--regexp={query.text}")
            options += ("--ignore-case",) if query.fold else ()
        ran = await _run(self.ctx, (self.program, *_COMMON, *options, *words), cwd=self.scope.root)
        if ran.code not in (0, 1) and not (ran.code == 2 and _FILE_ERROR.search(ran.error_output)):
            bad = _BAD_PATTERN.search(ran.error_output)
            if query is not None and query.regex and bad is not None:
                raise _bad_pattern(bad[1])
            raise RipgrepUnsupported("ripgrep failed. Try again.")
        return ran


def _check_names(ran: CommandResult) -> None:
    if ran.truncated or "\ufffd" in ran.output:
        raise RipgrepUnsupported("A file name is not UTF-8, or the output is too long.")


def _scope_options(scope: SearchScope) -> tuple[str, ...]:
    """Return the options and path for a scope. ripgrep ignores the ignore files above a path argument, since it could
    also read those above the root."""
    if "\ufffd" in display_path(scope.below):
        raise RipgrepUnsupported("The path is not UTF-8.")
    if scope.is_file:
        # As a glob, not as a path argument: a file argument is searched even if it is binary.
        folder, _, _ = scope.below.rpartition("/")
        glob = re.sub(r"[][*?{}\\!]", r"\\\g<0>", scope.below)
        return ("--no-ignore", "--hidden", "--max-depth=1", f"--glob=/{glob}", "--", f"./{folder}")
    rules = ["--no-ignore", *(f"--glob=!{name}/" for name in SMALL_SKIPPED)] if scope.small else _rules_above(scope)
    return (*rules, "--", f"./{scope.below}")


def _rules_above(scope: SearchScope) -> list[str]:
    """Return options with the ignore files above a scope, strongest last.

    ripgrep treats their rules as relative to the root and as weaker than those in the scope. Raises
    `RipgrepUnsupported` where that makes a difference.
    """
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
                    raise RipgrepUnsupported("ripgrep would interpret an ignore rule above the folder differently.")
                options += [f"--ignore-file=./{path}"] if rules else []
    finally:
        os.close(root)
    return options


def _unreadable(ran: CommandResult, scope: SearchScope, ctx: Context) -> int:
    failed = (path for path, code in _FILE_ERROR.findall(ran.error_output) if int(code) not in plain_scan.VANISHED)
    return _count_visible(failed, scope, ctx)


def _count_visible(paths: Iterable[str], scope: SearchScope, ctx: Context) -> int:
    """Count the unreadable paths, except those that are hidden on purpose: not even a count may reveal them."""
    return sum(ctx.sandbox.is_path_readable(scope.root / path) for path in paths)


class PlainScan(Struct, frozen=True):
    """Runs `plain_scan` in a sandboxed process, killed if a pattern backtracks without end."""

    scope: SearchScope
    ctx: Context

    async def count_matches(self, query: Query) -> SearchHits:
        _, answer = await self._ask(query, [self.scope.below] if self.scope.is_file else None)
        hits = [(path, number) for path, number, _ in answer["found"]]
        return SearchHits(hits=hits, engine=self, unreadable=_count_visible(answer["unreadable"], self.scope, self.ctx))

    async def match_offsets(self, query: Query, paths: Sequence[str], first: int) -> MatchOffsets:
        _, answer = await self._ask(query, paths, first)
        return {path: found for path, _, found in answer["found"]}

    async def list_files(self) -> tuple[list[str], int]:
        _, answer = await self._ask(None)
        return answer["found"], _count_visible(answer["unreadable"], self.scope, self.ctx)

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
            # Before the call's own timeout, to report the reason.
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
                f"The search took too long and was stopped. Narrow its path, or simplify the pattern{slow}."
            )
        if ran.code != 0 or ran.truncated:
            raise SearchFailed("The scan failed. Try again, or search in a smaller folder.")
        answer = json.loads(ran.output)
        if "bad_pattern" in answer:
            raise _bad_pattern(answer["bad_pattern"])
        return ran, answer


def _packages() -> str:
    """The folder with the pathspec package; importing pathspec here would take 50 ms."""
    found = find_spec("pathspec")
    return str(Path(found.origin).parents[1]) if found and found.origin else ""


def _bad_pattern(reason: str) -> BadQuery:
    return BadQuery(f"The pattern is invalid: {reason}. Correct it, or search for plain text without `regex`.")


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
