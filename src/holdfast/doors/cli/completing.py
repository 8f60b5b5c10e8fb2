"""What the shell offers to complete. A setting that cannot be read offers nothing."""

from __future__ import annotations

from holdfast.contract.errors import HoldfastError
from holdfast.doors.cli.place import grants_here, ledger_here, runtime_here, setting_here


def tool_names(begin: str) -> list[str]:
    try:
        with runtime_here({}, looking=True) as runtime:
            return [tool.name for tool in runtime.visible() if tool.name.startswith(begin)]
    except HoldfastError:
        return []


def pending_ids(begin: str) -> list[str]:
    try:
        with ledger_here({}) as ledger:
            return [held.call.id for held in ledger.pending() if held.call.id.startswith(begin)]
    except HoldfastError:
        return []


def call_ids(begin: str) -> list[str]:
    try:
        with ledger_here({}) as ledger:
            return [record.call.id for record in ledger.calls() if record.call.id.startswith(begin)]
    except HoldfastError:
        return []


def grant_ids(begin: str) -> list[str]:
    try:
        with grants_here({}, looking=True) as book:
            return [grant.id for grant in book.list(every=True) if grant.id.startswith(begin)]
    except HoldfastError:
        return []


def server_names(begin: str) -> list[str]:
    try:
        return [name for name in setting_here({}).loaded.config.mcp.servers if name.startswith(begin)]
    except HoldfastError:
        return []
