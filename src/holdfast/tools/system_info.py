"""`system.info`: facts about the machine, without anything that identifies its user."""

from __future__ import annotations

import os
import platform
from typing import Final

from holdfast.contract.context import Context
from holdfast.contract.json import Args, Json
from holdfast.contract.result import Result, ok
from holdfast.tools.schemas import (
    INTEGER,
    INTEGER_OR_NULL,
    LABEL,
    STRING,
    STRING_OR_NULL,
    read_only_tool,
    strict_object,
)


def _execute(args: Args, ctx: Context) -> Result:
    import shutil  # loads the compression modules, which nothing else here needs

    facts: dict[str, Json] = {
        "system": platform.system(),
        "release": platform.release(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "cpus": os.cpu_count() or 1,
        "memory_bytes": _memory(),
        "disk_free_bytes": shutil.disk_usage(ctx.cwd).free,
        "cwd": str(ctx.cwd),
        "root": str(ctx.root) if ctx.root else None,
    }
    return ok(_render(facts, ctx), structured=facts)


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return None


def _render(facts: dict[str, Json], ctx: Context) -> str:
    size = ctx.truncate.format_size
    memory, disk = facts["memory_bytes"], facts["disk_free_bytes"]
    return "\n".join(
        [
            f"system: {facts['system']} {facts['release']} ({facts['machine']})",
            f"python: {facts['python']}",
            f"cpus: {facts['cpus']}",
            f"memory: {size(memory) if isinstance(memory, int) else 'unknown'}",
            f"disk free: {size(disk) if isinstance(disk, int) else 'unknown'}",
            f"cwd: {facts['cwd']}",
            f"project root: {facts['root'] or 'none'}",
        ]
    )


def _preview(args: Args, width: int) -> str:
    label = args.get("label")
    return f"# {label}" if label else ""


SYSTEM_INFO: Final = read_only_tool(
    name="system.info",
    description="Describe the machine: operating system, Python, processors, memory, disk, working directory.",
    input_schema=strict_object(label=LABEL),
    output_schema=strict_object(
        system=STRING,
        release=STRING,
        machine=STRING,
        python=STRING,
        cpus=INTEGER,
        memory_bytes=INTEGER_OR_NULL,
        disk_free_bytes=INTEGER,
        cwd=STRING,
        root=STRING_OR_NULL,
    ),
    execute=_execute,
    runs="inline",
    format_preview=_preview,
    groups=("system",),
    profiles=("minimal",),
)
