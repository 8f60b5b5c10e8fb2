"""Where a command works: the project around the current directory, its configuration, its ledger, its runtime."""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from holdfast.contract.errors import BadJson, LedgerError, LedgerUnavailable
from holdfast.contract.values import Json, parse_json
from holdfast.doors.cli.failures import UsageProblem
from holdfast.doors.cli.folding import note_folded
from holdfast.doors.cli.screen import shown_block
from holdfast.text.visible import visible

if TYPE_CHECKING:
    from holdfast.assemble import Setting
    from holdfast.runtime.runtime import Runtime
    from holdfast.store.ledger import Grants, Ledger

Flags = Mapping[str, Json]


def read_flags(settings: Sequence[str]) -> Flags:
    """`--set OPTION=VALUE`; a value that is not JSON is text."""
    flags: dict[str, Json] = {}
    for setting in settings:
        key, sign, value = setting.partition("=")
        if not sign or not key:
            raise UsageProblem(f"--set wants OPTION=VALUE, such as tools.profile=full, not '{visible(setting)}'.")
        try:
            flags[key] = parse_json(value)
        except BadJson:
            flags[key] = value
    return flags


def setting_here(flags: Flags) -> Setting:
    """The setting, with what a person should know about it said on standard error."""
    from holdfast.assemble import load_setting

    setting = load_setting(flags=flags or None)
    for notice in setting.loaded.notices:
        note_folded(shown_block(notice), "Note:")
    return setting


@contextmanager
def ledger_here(flags: Flags, *, expire: bool = False) -> Generator[Ledger]:
    """The ledger to read, whoever else writes to it; an empty one where nothing was recorded yet.

    With `expire`, calls that have waited too long end first.
    """
    setting = setting_here(flags)
    if expire and setting.ledger_path.exists():
        _end_expired(setting)
    with _ledger_to_look_at(setting) as ledger:
        yield ledger


def _end_expired(setting: Setting) -> None:
    from holdfast.assemble import open_ledger
    from holdfast.runtime.pending import Lifetimes

    with suppress(LedgerError), open_ledger(setting) as ledger:  # what is wrong with it is said where it is read
        Lifetimes(setting.loaded.config).expire(ledger)


@contextmanager
def runtime_here(
    flags: Flags, *, entry_points: bool = True, looking: bool = False, servers: Collection[str] | None = ()
) -> Generator[Runtime]:
    """The runtime of this place. With `looking` nothing is written and a missing ledger stays missing.

    Of the MCP servers only `servers` are there, None: all of them.
    """
    with runtime_in(setting_here(flags), entry_points=entry_points, looking=looking, servers=servers) as runtime:
        yield runtime


@contextmanager
def runtime_in(
    setting: Setting, *, entry_points: bool = True, looking: bool = False, servers: Collection[str] | None = ()
) -> Generator[Runtime]:
    from holdfast.assemble import build_runtime

    show_warnings()
    keeps = setting.loaded.config.ledger.enabled
    runtime = build_runtime(
        setting,
        ledger=_ledger_to_look_at(setting) if looking and keeps else None,
        nobody="park" if keeps else "deny",
        door="cli",
        entry_points=entry_points,
        servers=servers,
    )
    try:
        yield runtime
    finally:
        if runtime.ledger is not None:
            runtime.ledger.close()


def is_builtin(name: str) -> bool:
    """Whether a tool of this name comes with holdfast, so that installed packages need not be searched for it."""
    from holdfast.tools import builtin_tools

    return any(name in (*tool.names, tool.api_name) for tool in builtin_tools())


def servers_for(tool: str) -> Collection[str] | None:
    """The MCP servers a tool of this name may come from; None: any of them."""
    from holdfast.contract.finding import TOOL_SEARCH
    from holdfast.contract.names import from_api_name, server_of

    name = tool if ":" in tool else from_api_name(tool)
    if TOOL_SEARCH in (tool, name):
        return None
    if is_builtin(tool):
        return ()
    if name is None:
        return None
    server = server_of(name)
    return () if server is None else (server,)


@contextmanager
def grants_here(flags: Flags, *, looking: bool = False) -> Generator[Grants]:
    """The grants of this project and of the user."""
    from holdfast.assemble import open_ledger

    setting = setting_here(flags)
    with _ledger_to_look_at(setting) if looking else open_ledger(setting) as ledger:
        book = ledger.grants.with_user(setting.user_db)
        try:
            yield book
        finally:
            book.close()


def kept_ledger(runtime: Runtime) -> Ledger:
    if runtime.ledger is None:
        raise LedgerUnavailable("The ledger is switched off (ledger.enabled = false), so nothing can wait here.")
    return runtime.ledger


def whoami(name: str | None = None) -> str:
    """Who answers, as the ledger names them."""
    if name is None:
        import os
        from getpass import getuser

        try:
            name = getuser()
        except (KeyError, OSError):
            name = f"uid {os.getuid()}"
    return f"cli:{name}"


def _ledger_to_look_at(setting: Setting) -> Ledger:
    from holdfast.assemble import open_ledger
    from holdfast.store.ledger import Ledger

    return open_ledger(setting, read_only=True) if setting.ledger_path.exists() else Ledger.in_memory()


def show_warnings() -> None:
    """Warnings of our own rooms go to standard error, made visible."""
    import logging

    class Shown(logging.Handler):
        def emit(self, record: Any) -> None:
            note_folded(shown_block(record.getMessage()), "Warning:")

    logger = logging.getLogger("holdfast")
    if not logger.handlers:
        logger.addHandler(Shown())
        logger.propagate = False
