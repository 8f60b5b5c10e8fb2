"""Runs a benchmark made of several scripts, and writes their times as a table and a JSON file."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import report
from targets import Target

HERE = Path(__file__).resolve().parent


def main(description: str, name: str, parts: Sequence[str], targets: Sequence[Target]) -> None:
    """The table between `<!-- NAME:start -->` and `<!-- NAME:end -->` of the README, and NAME.json."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="short rounds; prints, writes nothing")
    parser.add_argument("--only", choices=parts)
    options = parser.parse_args()
    about = report.machine(None)
    measured: dict[str, float] = {}
    for part in (options.only,) if options.only else parts:
        print(f"measuring {part}", file=sys.stderr)
        command = [sys.executable, str(HERE / f"{part}.py"), *(["--quick"] if options.quick else [])]
        done = subprocess.run(command, cwd=HERE.parent, stdout=subprocess.PIPE, text=True, timeout=900, check=True)
        measured |= {f"{part}.{key}": value for key, value in json.loads(done.stdout.splitlines()[-1])["times"].items()}
    rows = report.targets(measured, partly=options.only is not None, wanted=targets)
    where = f"{about['cpu']}, {about['cores']} cores, Python {about['python']}, {about['system']}"
    head = f"Measured {about['date']} on {where} (load average when it began: {about['load']})."
    text = f"{head}\n\n{report.target_table(rows)}"
    print(text)
    if not options.quick and not options.only:
        results: dict[str, Any] = {"machine": about, "targets": rows, "measured": measured}
        (HERE / f"{name}.json").write_text(json.dumps(results, indent=2, sort_keys=True) + "\n")
        report.write_into(HERE / "README.md", text, (f"<!-- {name}:start -->", f"<!-- {name}:end -->"))
