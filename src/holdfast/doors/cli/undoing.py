"""What `changes` and `undo` share: the call that is meant, the plan for it, and how a change is shown."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TextIO

from holdfast.doors.cli.folding import quote
from holdfast.doors.cli.outputs import Change
from holdfast.doors.cli.place import Flags, setting_here
from holdfast.text.visible import visible

if TYPE_CHECKING:
    from holdfast.assemble import Setting
    from holdfast.runtime.undo.putting_back import Planned, Undo
    from holdfast.store.ledger import Ledger

_COLOURS: Final = {"+": "green", "-": "red", "@": "cyan", "[": "yellow"}
MAX_SHOWN: Final = 200
"""Lines of a diff that are shown before someone is asked."""
MAX_PATHS: Final = 50
"""Paths that are shown then."""


@contextmanager
def ledger_and_undo(flags: Flags, *, looking: bool) -> Generator[tuple[Setting, Ledger, Undo]]:
    from holdfast.assemble import open_ledger
    from holdfast.runtime.undo.putting_back import Undo
    from holdfast.store.ledger import Ledger

    setting = setting_here(flags)
    there = setting.ledger_path.exists()
    with open_ledger(setting, read_only=looking) if there else Ledger.in_memory() as ledger:
        if there and not looking:
            ledger.recover()
        yield setting, ledger, Undo(ledger, [setting.root or setting.cwd], setting.state)


def name_of(item: Planned, setting: Setting) -> str:
    """Relative to the project, where it is in it."""
    root = str(setting.root or setting.cwd)
    return os.path.relpath(item.path, root) if item.path.startswith(f"{root}/") else item.path


def change_output(item: Planned, call_id: str, diff: str | None) -> Change:
    path, why = visible_path(item.path), visible_path(item.why) or None
    return Change(call_id=call_id, path=path, kind=item.change.kind, undo=item.fate, why=why, diff=diff)


def visible_path(path: str) -> str:
    """A name with bytes that are not UTF-8 cannot be JSON."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def fate_words(item: Planned) -> str:
    if item.fate == "refused":
        return visible(item.why)
    return "as before the call" if item.fate == "already" else "as the call left it"


def diff_lines(diff: str, stream: TextIO, limit: int | None = None, more: str = "") -> list[str]:
    """The lines of a diff, safe to print on `stream`, at most `limit` of them; `more` says where all of it is."""
    return quote(diff.rstrip("\n"), stream, limit, style=_style, more=more).lines if diff else []


def _style(line: str, _: int) -> tuple[str, ...]:
    if line.startswith(("--- ", "+++ ")):
        return ("bold",)
    return (_COLOURS[line[0]],) if line[:1] in _COLOURS else ()
