"""What a call leaves behind outside the project: before-images and outputs too long to show."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from holdfast.contract.errors import CallError, LedgerError, UnknownCall
from holdfast.contract.result import Result
from holdfast.text import truncate

if TYPE_CHECKING:
    from holdfast.config.model import OutputConfig
    from holdfast.contract.tool import Tool
    from holdfast.store.ledger import Ledger
    from holdfast.store.spill import Spill


_NOTICE_LINES: Final = 40
_NOTICE_BYTES: Final = 8192
"""What a tool may add below an output it has cut to the limits itself."""


class CallKeeper:
    """Satisfies the `Keeper` protocol for one call."""

    __slots__ = ("_call_id", "_ledger")

    def __init__(self, call_id: str, ledger: Ledger | None) -> None:
        self._call_id = call_id
        self._ledger = ledger

    def before_image(self, path: Path, content: bytes | None, mode: int | None = None) -> None:
        if self._ledger is not None:
            self._ledger.before_image(self._call_id, path, content, mode)

    def after_image(self, path: Path, content: bytes | None, mode: int | None = None) -> None:
        if self._ledger is not None:
            self._ledger.after_image(self._call_id, path, content, mode)

    def read_spill(self, call_id: str, offset: int, limit: int) -> tuple[str, int]:
        if self._ledger is None:
            raise CallError("This runtime keeps no ledger, so nothing was kept.")
        result = self._ledger.result(call_id)
        if result is None:
            raise UnknownCall(f"No call '{call_id}' has ended; `holdfast ledger` lists the calls.")
        reference = result.metadata.get("spill")
        if not isinstance(reference, str):
            raise CallError(f"The output of '{call_id}' was shown whole: nothing more was kept.")
        text, total = self._ledger.blobs.read_lines(reference, offset, limit)
        told = result.metadata.get("spilled_lines")
        if not isinstance(told, int) or told >= total:
            return text, total
        return "\n".join(text.split("\n", told - offset + 1)[: max(0, told - offset + 1)]), told


def bound(result: Result, tool: Tool, limits: OutputConfig, call_id: str, ledger: Ledger | None) -> Result:
    """Cut an output that is too long; keep all of it (up to `max_spill`) and say what is hidden."""
    text = result.output
    if result.metadata.get("truncated") is True and _nearly_fits(text, limits):
        return _cut_bytes(result, limits)
    cut = (truncate.head if tool.keeps == "head" else truncate.tail)(text, limits.max_lines, limits.max_bytes)
    if not cut.truncated:
        return _cut_bytes(result, limits)
    metadata = dict(result.metadata)
    where = None
    kept = _spill(text, limits, ledger)
    if kept is not None:
        metadata |= {"spill": kept.reference, "spilled_bytes": kept.size, "spilled_lines": cut.total_lines}
        where = f"output.read call={call_id}" + (f", first {truncate.format_size(kept.size)}" if kept.dropped else "")
    elif ledger is not None:
        where = "could not be kept"
    shown = truncate.with_notice(cut, tool.keeps, where, limits.max_bytes)
    structured = None if isinstance(result.structured, str) else result.structured
    return _cut_bytes(replace(result, output=shown, structured=structured, metadata=metadata), limits)


def _nearly_fits(text: str, limits: OutputConfig) -> bool:
    """The tool has cut the output itself, and said so below it."""
    lines, size = limits.max_lines + _NOTICE_LINES, limits.max_bytes + _NOTICE_BYTES
    return text.count("\n") < lines and truncate.byte_size(text) <= size


def _spill(text: str, limits: OutputConfig, ledger: Ledger | None) -> Spill | None:
    """Keep the whole output. That it cannot be kept is no reason to lose the result."""
    if ledger is None:
        return None
    try:
        return ledger.blobs.spill(text, limits.max_spill)
    except LedgerError:
        return None


def _cut_bytes(result: Result, limits: OutputConfig) -> Result:
    if limits.max_output_bytes is None or len(result.output) * 4 <= limits.max_output_bytes:
        return result
    return replace(result, output=truncate.cut_bytes(result.output, limits.max_output_bytes))
