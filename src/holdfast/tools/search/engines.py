"""The two ways to find matching files: ripgrep, and our own scan in processes of its own. They agree on every file."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, field

from holdfast.contract.command import Command, Ran
from holdfast.contract.context import Context
from holdfast.helper_process import isolated_python
from holdfast.tools.search.pattern import Pattern
from holdfast.tools.search.ranking import Hit
from holdfast.tools.search.scope import SKIPPED_NAMES, IgnoredAbove, Scope
from holdfast.tools.search.walk import GONE

MOST_PROCESSES: Final = 4
_SHARE_OF_TIME: Final = 0.8
_NO_TIMEOUT_SECONDS: Final = 60.0
_MOST_OUTPUT: Final = 256 * 1024 * 1024
_PLACES: Final = ("/usr/bin/rg", "/usr/local/bin/rg", "/bin/rg")
_COUNT: Final = re.compile(r"\./([^\0]+)\0(\d+)\n")
_PLACE: Final = re.compile(r"\./([^\0]+)\0(\d+):[^\n]*\n")
_TROUBLE: Final = re.compile(r"^rg: (?:\./)?(.*): [^:\n]* \(os error (\d+)\)$", re.MULTILINE)
_PACKAGES: Final = ("holdfast", "holdfast.tools", "holdfast.tools.search")
_BOOT: Final = """import sys
for name, folder in zip(sys.argv[1::2], sys.argv[2::2]):
    module = sys.modules[name] = type(sys)(name)
    module.__path__ = [folder]
from holdfast.tools.search.scan import main
main()"""
"""Makes the packages on the way without running them: they would import what the scan does not need."""


class TooSlow(Exception):
    """The time for our own scan is up."""


class Stopped(Exception):
    """The call was stopped while a command ran."""


class Broken(Exception):
    """Our own scan gave no answer."""


class Declined(Exception):
    """ripgrep cannot answer this: our own scan must."""


class Found(Struct, kw_only=True):
    """What an engine found, before anything is ordered."""

    hits: list[Hit] = field(default_factory=list[Hit])
    places: dict[str, Sequence[int]] = field(default_factory=dict[str, Sequence[int]])
    """For regular expressions in our own scan, where the first matching lines are; ripgrep is asked afterwards."""
    unreadable: int = 0
    contained: bool = False
    """What may not be read was out of reach."""


def find_ripgrep(root: Path) -> str | None:
    """From fixed places only: never from the working directory, PATH or the project."""
    own = Path(sys.prefix, "bin", "rg")
    for place in (own, *map(Path, _PLACES)):
        inside = place.resolve().is_relative_to(root) and place is not own
        if not inside and place.is_file() and os.access(place, os.X_OK):
            return str(place)
    return None


class Ripgrep:
    """Runs ripgrep in the scope, contained like any command, with only the project in sight."""

    def __init__(self, program: str, ctx: Context) -> None:
        self._program = program
        self._ctx = ctx

    async def search(self, pattern: Pattern, scope: Scope) -> Found:
        above = await asyncio.to_thread(IgnoredAbove, scope)
        try:
            if above.keeps_some:
                raise Declined
            ran = await self._run(scope, "--count", *_asked(pattern), "--", "./")
            if ran.truncated or "\ufffd" in ran.output:
                raise Declined
            return await asyncio.to_thread(_read_counts, ran, scope, above)
        finally:
            above.close()

    async def places(
        self, pattern: Pattern, scope: Scope, paths: Sequence[str], first: int
    ) -> dict[str, Sequence[int]]:
        """Where the first matching lines of these files begin. Lines themselves are not printed: they may be huge."""
        at = len(_prefix(scope))
        named = [f"./{path[at:]}" for path in paths]
        terse = (*_TERSE, f"--max-count={first}", *_asked(pattern))
        ran = await self._run(scope, *terse, "--", *named) if named else None
        found: dict[str, list[int]] = {}
        for path, offset in _PLACE.findall(ran.output if ran is not None else ""):
            found.setdefault(_prefix(scope) + path, []).append(int(offset))
        return dict(found)

    async def _run(self, scope: Scope, *asked: str) -> Ran:
        ran = await self._ctx.sandbox.run(
            Command(
                argv=(self._program, *_COMMON, *_left_out(scope), *asked),
                cwd=scope.folder,
                read_only=True,
                sees="project",
                helper=True,
                merged=False,
                keeps="head",
                max_bytes=_MOST_OUTPUT,
            )
        )
        if ran.stopped is not None:
            raise Stopped
        if ran.code not in (0, 1) and not (ran.code == 2 and _TROUBLE.search(ran.error_output)):
            raise Declined
        return ran


_COMMON: Final = (
    "--no-config",
    "--no-ignore-global",
    "--no-ignore-parent",
    "--no-require-git",
    "--no-ignore-messages",
    "--no-mmap",
    "--no-unicode",
    "--encoding=none",
    "--color=never",
    "--null",
    *(f"--glob=!{name}" for name in SKIPPED_NAMES),
)


_TERSE: Final = ("--with-filename", "--byte-offset", "--no-line-number", "--max-columns=1")


def _left_out(scope: Scope) -> tuple[str, ...]:
    ignores = () if scope.ignores else ("--no-ignore",)
    return (*ignores, *(f"--glob=!{name}/" for name in scope.skipped_folders))


def _asked(pattern: Pattern) -> tuple[str, ...]:
    how = () if pattern.regex else ("--fixed-strings",)
    return (*how, *(("--ignore-case",) if pattern.fold else ()), f"--regexp={pattern.text.decode()}")


def _read_counts(ran: Ran, scope: Scope, above: IgnoredAbove) -> Found:
    hits = _counts(ran.output)
    if prefix := _prefix(scope):
        hits = [(prefix + path, count) for path, count in hits]
    trouble = [prefix + path for path, code in _TROUBLE.findall(ran.error_output) if int(code) not in GONE]
    if not above.says_nothing:
        hits = [hit for hit in hits if not above.hides(hit[0])]
        trouble = [path for path in trouble if not above.hides(path)]
    return Found(hits=hits, unreadable=len(trouble), contained=ran.contained)


def _counts(output: str) -> list[Hit]:
    """Path, NUL, number, newline. There may be many thousands: the loop over them is left to C where it can be."""
    if output.count("\n") != output.count("\0"):  # a newline in a name
        return [(path, int(count)) for path, count in _COUNT.findall(output)]
    parts = output[2:-1].replace("\n./", "\0").split("\0")
    return list(zip(parts[::2], map(int, parts[1::2]), strict=False))


def _prefix(scope: Scope) -> str:
    return f"{os.fsdecode(scope.below)}/" if scope.below else ""


class OwnScan:
    """Searches in processes of its own, contained like ripgrep and killed whatever a pattern does to them."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        # A little before the call's own end, to say why.
        self._seconds = _NO_TIMEOUT_SECONDS if ctx.timeout is None else ctx.timeout * _SHARE_OF_TIME

    async def search(self, pattern: Pattern, scope: Scope, first: int) -> Found:
        """With where the first matching lines of each file are, for a regular expression."""
        shares = 1 if scope.is_file else max(1, min(MOST_PROCESSES, os.cpu_count() or 1))
        places = first if pattern.regex else 0
        wanted = {"query": pattern.text.hex(), "regex": pattern.regex, "fold": pattern.fold, "first": places}
        parts = await self._all([{**_request(scope), **wanted, "share": (n, shares)} for n in range(shares)])
        found = Found(contained=all(ran.contained for ran, _ in parts))
        found.unreadable = len({path for _, part in parts for path in part["unreadable"]})
        for _, part in parts:
            for path, count, places in part["found"]:
                found.hits.append((path, count))
                if pattern.regex:
                    found.places[path] = places
        return found

    async def files(self, scope: Scope) -> tuple[list[str], int]:
        """Every file of the scope, in no order, and how many folders could not be read."""
        ((_, part),) = await self._all([{**_request(scope), "lists": True}])
        return part["found"], len(part["unreadable"])

    async def _all(self, requests: Sequence[dict[str, Any]]) -> list[tuple[Ran, dict[str, Any]]]:
        running = [asyncio.ensure_future(self._one({**request, "seconds": self._seconds})) for request in requests]
        try:
            return await asyncio.gather(*running)
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _one(self, request: dict[str, Any]) -> tuple[Ran, dict[str, Any]]:
        here = Path(__file__).parent
        packages = zip(_PACKAGES, (here.parent.parent, here.parent, here), strict=True)
        words = [str(word) for package in packages for word in package]
        ran = await self._ctx.sandbox.run(
            Command(
                argv=isolated_python("-X", "utf8", "-c", _BOOT, *words),
                cwd=Path("/"),
                stdin=json.dumps(request).encode(),
                read_only=True,
                sees="project",
                helper=True,
                merged=False,
                keeps="head",
                max_bytes=_MOST_OUTPUT,
            )
        )
        if ran.stopped is not None:
            raise Stopped
        if ran.signal == "SIGALRM" or ran.code == 128 + signal.SIGALRM:
            raise TooSlow
        if ran.code != 0 or ran.truncated:
            raise Broken("The scan ended without an answer; try again, or search in a smaller folder.")
        try:
            return ran, json.loads(ran.output)
        except ValueError:
            raise Broken("The scan's answer could not be read; try again.") from None


def _request(scope: Scope) -> dict[str, Any]:
    return {
        "root": str(scope.root),
        "scope": os.fsdecode(scope.below),
        "is_file": scope.is_file,
        "ignores": scope.ignores,
        "skipped_names": SKIPPED_NAMES,
        "skipped_folders": scope.skipped_folders,
        "share": (0, 1),
        "lists": False,
    }
