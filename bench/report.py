"""Formats measured numbers as Markdown tables, for the terminal and for bench/README.md."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from environments import Contender
from targets import TARGETS, Measured, Target

START, END = "<!-- results:start -->", "<!-- results:end -->"


def machine(core: int | None) -> dict[str, str]:
    """What a reader needs to judge the numbers, and nothing that names the machine."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "cpu": _cpu(),
        "cores": str(os.cpu_count()),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "pinned": "no" if core is None else "to one core",
        "load": f"{os.getloadavg()[0]:.1f}",
    }


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    found = re.search(r"^model name\s*:\s*(.+)$", info.read_text(), re.MULTILINE) if info.is_file() else None
    return found[1] if found else platform.processor() or "unknown"


def targets(measured: Measured, *, partly: bool, wanted: Sequence[Target] = TARGETS) -> list[dict[str, Any]]:
    """Every target with what was seen; a whole run also lists those it failed to measure."""
    rows: list[dict[str, Any]] = []
    for target in wanted:
        try:
            seen = target.value(measured)
        except KeyError:
            seen = None
        kept = None if target.limit is None else seen is not None and seen <= target.limit
        if seen is not None or not partly:
            rows.append({"what": target.what, "scale": target.scale, "seen": seen, "limit": target.limit, "met": kept})
    return rows


def markdown(results: Mapping[str, Any], contenders: Mapping[str, Contender]) -> str:
    measured, about = results["measured"], results["machine"]
    where = f"{about['cpu']}, {about['cores']} cores, Python {about['python']}, {about['system']}"
    how = f"{results['mode']}, pinned: {about['pinned']}, load average when it began: {about['load']}"
    parts = [f"Measured {about['date']} on {where} ({how})."]
    if results["targets"]:
        parts += ["### Targets", target_table(results["targets"])]
    named = [name for name in contenders if f"calls.{name}.by_name" in measured]
    if named:
        parts += ["### One call", _call_table(named, measured, results["versions"])]
        parts += ["### 1 000 tools", _many_table(named, measured)]
        parts += ["### What each one does", _does_table(named, contenders)]
    started = [name for name in contenders if f"startup.{name}.version" in measured]
    if started:
        parts += ["### Cold `--version`", _startup_table(started, measured)]
    return "\n\n".join(parts)


def target_table(rows: Sequence[Mapping[str, Any]]) -> str:
    return _table(
        ("what", "seen", "target", ""),
        (
            (
                row["what"],
                "–" if row["seen"] is None else _number(row["seen"], row["scale"]),
                "" if row["limit"] is None else f"at most {_number(row['limit'], row['scale'])}",
                _verdict(row),
            )
            for row in rows
        ),
    )


def _verdict(row: Mapping[str, Any]) -> str:
    if row["seen"] is None:
        return "**NOT MEASURED**"
    return {True: "met", False: "**MISSED**", None: "no target"}[row["met"]]


def _call_table(names: Sequence[str], m: Measured, versions: Mapping[str, str]) -> str:
    def units(name: str, route: str) -> str:
        key = f"calls.{name}.{route}"
        return _number(m[key] / m[f"calls.{name}.unit"], "") if key in m else "–"

    ordered = sorted(names, key=lambda name: m[f"calls.{name}.by_name"] / m[f"calls.{name}.unit"])
    return _table(
        ("contender", "by name, units", "cheapest way round, units", "a sync tool, units", "unit, µs"),
        (
            (
                f"{name} {versions.get(name, '')}",
                units(name, "by_name"),
                units(name, "direct"),
                units(name, "sync"),
                f"{m[f'calls.{name}.unit'] * 1e6:.2f}",
            )
            for name in ordered
        ),
    )


def _many_table(names: Sequence[str], m: Measured) -> str:
    def cell(name: str, key: str, factor: float) -> str:
        found = m.get(f"calls.{name}.{key}")
        return "–" if found is None else _number(found * factor, "")

    return _table(
        ("contender", "define and register, ms", "list again, ms", "call one by name, units"),
        (
            (
                name,
                cell(name, "many_register", 1e3),
                cell(name, "many_listing", 1e3),
                cell(name, "many_by_name", 1 / m[f"calls.{name}.many_unit"]),
            )
            for name in names
        ),
    )


def _does_table(names: Sequence[str], contenders: Mapping[str, Contender]) -> str:
    return _table(
        ("contender", "by name", "cheapest way round", "what a call by name does"),
        ((name, contenders[name].by_name, contenders[name].direct or "–", contenders[name].checks) for name in names),
    )


def _startup_table(names: Sequence[str], m: Measured) -> str:
    def row(name: str) -> tuple[str, str, str]:
        taken, bare = m[f"startup.{name}.version"], m[f"startup.{name}.pass"]
        return name, f"{taken * 1e3:.0f}", _number(taken / bare, "×")

    return _table(("command line", "ms", "against `python -c pass`"), map(row, names))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _number(value: float, scale: str) -> str:
    digits = 0 if value >= 100 else 1 if value >= 10 else 2 if value >= 0.1 else 4
    text = f"{value:.{digits}f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return f"{text}{'' if scale == '×' else ' '}{scale}".strip()


def write_into(page: Path, text: str, markers: tuple[str, str] = (START, END)) -> None:
    """Replace what stands between the markers."""
    start, end = markers
    before, _, rest = page.read_text().partition(start)
    _, found, after = rest.partition(end)
    if not found:
        raise SystemExit(f"{page.name} lacks the markers {start} and {end}.")
    page.write_text(f"{before}{start}\n{text}\n{end}{after}")
