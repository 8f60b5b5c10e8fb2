"""Run the benchmarks of the hands (files, shell, search, undo): `python bench/hands.py [--quick] [--only PART]`.

Each part is a script of its own that prints its times; here they become ratios, a table and bench/hands.json.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import report
from targets import Measured, Target, ratio

HERE = Path(__file__).resolve().parent
PARTS = ("files", "shell", "search", "undo")
START, END = "<!-- hands:start -->", "<!-- hands:end -->"


def more(part: str, whole: str, factor: float) -> Callable[[Measured], float]:
    return lambda m: (m[part] - m[whole]) * factor


def against(part: str, ours: str, theirs: str) -> Callable[[Measured], float]:
    return ratio(f"{part}.{ours}", f"{part}.{theirs}")


SEARCHES = {"none": "no hit", "few": "few hits", "many": "half a million hits"}
ENGINES = (("ripgrep", "with ripgrep", 1.2), ("alone", "without", 2))
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
    Target("`shell.exec true`, sandboxed; against bare bwrap", "×", against("shell.held", "shell", "bwrap"), 1.2),
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


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the hands against doing it by hand.")
    parser.add_argument("--quick", action="store_true", help="short rounds; prints, writes nothing")
    parser.add_argument("--only", choices=PARTS)
    options = parser.parse_args()
    about = report.machine(None)
    measured: dict[str, float] = {}
    for part in (options.only,) if options.only else PARTS:
        print(f"measuring {part}", file=sys.stderr)
        command = [sys.executable, str(HERE / f"{part}.py"), *(["--quick"] if options.quick else [])]
        done = subprocess.run(command, cwd=HERE.parent, stdout=subprocess.PIPE, text=True, timeout=900, check=True)
        measured |= {f"{part}.{key}": value for key, value in json.loads(done.stdout.splitlines()[-1])["times"].items()}
    rows = report.targets(measured, partly=options.only is not None, wanted=TARGETS)
    where = f"{about['cpu']}, {about['cores']} cores, Python {about['python']}, {about['system']}"
    head = f"Measured {about['date']} on {where} (load average when it began: {about['load']})."
    text = f"{head}\n\n{report.target_table(rows)}"
    print(text)
    if not options.quick and not options.only:
        results: dict[str, Any] = {"machine": about, "targets": rows, "measured": measured}
        (HERE / "hands.json").write_text(json.dumps(results, indent=2, sort_keys=True) + "\n")
        report.write_into(HERE / "README.md", text, (START, END))


if __name__ == "__main__":
    main()
