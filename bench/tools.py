"""Run the benchmarks of the tools (files, shell, search, undo): `python bench/tools.py [--quick] [--only PART]`.

Each part is a script that prints its times; this one turns them into ratios.
"""

from __future__ import annotations

from collections.abc import Callable

import parts
from targets import Measured, Target, ratio

PARTS = ("files", "shell", "search", "undo")


def more(part: str, whole: str, factor: float) -> Callable[[Measured], float]:
    return lambda m: (m[part] - m[whole]) * factor


def against(part: str, ours: str, theirs: str) -> Callable[[Measured], float]:
    return ratio(f"{part}.{ours}", f"{part}.{theirs}")


SEARCHES = {"none": "no hit", "few": "few hits", "many": "half a million hits"}
ENGINES = (("ripgrep", "with ripgrep", 1.2), ("alone", "without", None))
RECORDED = {
    "overlay": "recorded by overlay",
    "copy_first": "recorded by copy, the first time",
    "copy_again": "recorded by copy, after that",
    "overlay_undone": "undone",
}
TARGETS: tuple[Target, ...] = (
    Target("`file.read`, first 200 lines: 1 GB more than 1 KB", "ms", more("files.huge", "files.small", 1e3), 5),
    Target("`file.list`, 100 000 entries; against scandir and sort", "×", against("files", "list", "scandir"), 2),
    Target("`shell.exec true`, no sandbox; against asyncio", "×", against("shell.plain", "shell", "asyncio"), 1.5),
    Target("`shell.exec true`, sandboxed; against bare bwrap", "×", against("shell.sandboxed", "shell", "bwrap"), 1.2),
    Target("1 GB of output, all spilled; against `cmd > file`", "×", against("shell.output", "shell", "file"), 1.5),
    Target("memory it grows by", "MB", lambda m: m["shell.output.megabytes"], 16),
    *(
        Target(f"`code.search`, {hits}, {how}; against `rg -F`", "×", against(f"search.{key}", engine, "rg"), limit)
        for key, hits in SEARCHES.items()
        for engine, how, limit in ENGINES
    ),
    *(
        Target(f"a command in {files} files, {how}; against none", "×", against(f"undo.{files}", key, "plain"), None)
        for files in (1_000, 50_000)
        for key, how in RECORDED.items()
    ),
)


if __name__ == "__main__":
    parts.main("Measure the built-in tools against the bare operations.", "tools", PARTS, TARGETS)
