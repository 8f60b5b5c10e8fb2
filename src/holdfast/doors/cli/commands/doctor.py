"""`holdfast doctor`: what works here and what does not, with the next step."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

import click

from holdfast.assemble import Setting, load_setting, open_ledger
from holdfast.contract.errors import HoldfastError
from holdfast.doors.cli import screen
from holdfast.doors.cli.commands.ledger import counted
from holdfast.doors.cli.failures import FAILED
from holdfast.doors.cli.folding import sentence
from holdfast.doors.cli.outputs import Finding
from holdfast.doors.cli.place import Flags
from holdfast.doors.cli.root import common
from holdfast.helper_process import system_program
from holdfast.store.ledger import Ledger
from holdfast.text.visible import visible

if TYPE_CHECKING:
    from holdfast.sandbox.sandbox import Sandbox

_COLOURS: Final = {"ok": "green", "note": "yellow", "bad": "red"}
_BESIDE: Final = 16
"""Columns of the status and the name before what was found."""


@click.command()
@common
def doctor(flags: Flags, as_json: bool) -> int:
    """Check that everything works here."""
    with screen.progress() as tell:
        findings = list(_findings(flags, tell))
    for finding in findings:
        if as_json:
            screen.put_json(finding)
        else:
            status = screen.paint(f"{finding.status:<4}", _COLOURS[finding.status])
            words = "\n".join(sentence(visible(finding.text), sys.stdout, first=_BESIDE))
            screen.say(f"{status}  {finding.name:<9} {words}")
    return FAILED if any(finding.status == "bad" for finding in findings) else 0


def _findings(flags: Flags, tell: Callable[[str], None]) -> Iterator[Finding]:
    yield _python()
    setting = _configuration(flags)
    if isinstance(setting, Finding):
        yield setting
    else:
        yield from _place(setting)
    yield _terminal()
    yield _git()
    if not isinstance(setting, Finding):
        yield _mcp(setting)
    if not isinstance(setting, Finding):
        yield from _sandbox(setting, tell)


def _place(setting: Setting) -> Iterator[Finding]:
    loaded = setting.loaded
    files = ", ".join(layer.path for layer in loaded.layers if layer.path) or "no files, the defaults hold"
    yield Finding("config", "ok", files)
    for notice in loaded.notices:
        yield Finding("config", "note", notice)
    if setting.root is None:
        yield Finding("project", "note", "none here, so no tool can write files; run `holdfast init` in its folder")
    else:
        yield Finding("project", "ok", str(setting.root))
    yield _checked("state", lambda: _state(setting))
    yield from _ledger(setting)


def _checked(name: str, look: Callable[[], Finding]) -> Finding:
    try:
        return look()
    except HoldfastError as error:
        return Finding(name, "bad", str(error))
    except OSError as error:
        return Finding(name, "bad", f"{error.filename}: {error.strerror}; check its permissions")


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    good = sys.version_info >= (3, 11)
    return Finding("python", "ok" if good else "bad", version if good else f"{version}; holdfast needs 3.11 or newer")


def _configuration(flags: Flags) -> Setting | Finding:
    try:
        return load_setting(flags=flags or None)
    except HoldfastError as error:
        return Finding("config", "bad", str(error))


def _state(setting: Setting) -> Finding:
    folder = setting.state
    while not folder.exists():
        folder = folder.parent
    if not os.access(folder, os.W_OK | os.X_OK):
        return Finding("state", "bad", f"{folder} cannot be written; check its permissions or set XDG_STATE_HOME")
    return Finding("state", "ok", str(setting.state))


def _ledger(setting: Setting) -> Iterator[Finding]:
    if not setting.loaded.config.ledger.enabled:
        yield Finding("ledger", "note", "switched off (ledger.enabled = false): nothing is recorded, nothing can wait")
    elif not setting.ledger_path.exists():
        yield Finding("ledger", "ok", "not there yet; the first call makes it")
    else:
        try:
            with open_ledger(setting, read_only=True) as ledger:
                yield _verified(ledger)
                for call_id in ledger.unreadable_pending():
                    text = f"call {call_id} waits and cannot be read: `holdfast reject {call_id}` ends it"
                    yield Finding("ledger", "bad", text)
        except HoldfastError as error:
            yield Finding("ledger", "bad", str(error))


def _verified(ledger: Ledger) -> Finding:
    found = ledger.verify()
    if found.ok:
        return Finding("ledger", "ok", f"whole, {counted(found.entries)}")
    if found.unreadable:
        text = "Nobody changed it and everything else works; the call goes when `holdfast ledger prune` takes old ones."
        return Finding("ledger", "bad", f"{found.problem} {text}")
    return Finding("ledger", "bad", f"{found.problem} Keep {ledger.path} and find out who changed it.")


def _terminal() -> Finding:
    if screen.can_ask():
        return Finding("terminal", "ok", "you are asked here about calls that need a person")
    return Finding("terminal", "note", "none: calls that need a person are parked for `holdfast approve`")


def _git() -> Finding:
    found = system_program("git")
    return Finding("git", "ok", found) if found else Finding("git", "note", "not found; the git tools need it")


def _mcp(setting: Setting) -> Finding:
    """Nothing is started: `holdfast mcp servers` does that."""
    servers = setting.loaded.config.mcp.servers
    on = [name for name, server in servers.items() if server.enabled]
    if find_spec("mcp") is None:
        wanted = f"but {len(on)} configured, so their tools are missing; " if on else "so nothing here speaks MCP; "
        return Finding("mcp", "bad" if on else "note", f"the SDK is not installed, {wanted}pip install 'holdfast[mcp]'")
    if not servers:
        return Finding("mcp", "ok", "no servers configured; `holdfast mcp install` sets up a client of these tools")
    off = f" ({len(servers) - len(on)} switched off)" if len(on) < len(servers) else ""
    return Finding("mcp", "ok", f"configured: {', '.join(servers)}{off}; `holdfast mcp servers` starts and checks them")


def _sandbox(setting: Setting, tell: Callable[[str], None]) -> Iterator[Finding]:
    """Every backend with what it held just now, and what follows for commands. Nothing of it is remembered."""
    from holdfast.sandbox.sandbox import Sandbox

    config = setting.loaded.config
    try:
        sandbox = Sandbox(
            config.sandbox, root=setting.root, state=setting.state, extra_protected=config.protected, cwd=setting.cwd,
            remember=False,
        )
        if sandbox.mode == "off":
            yield Finding("sandbox", "note", 'switched off (sandbox.mode = "off"): commands run bare')
            return
        yield from _battery(sandbox, tell)
        yield _consequence(sandbox)
    except HoldfastError as error:
        yield Finding("sandbox", "bad", str(error))


def _battery(sandbox: Sandbox, tell: Callable[[str], None]) -> Iterator[Finding]:
    """The backends in their order, down to the first that holds everything."""
    enough = False
    for backend in sandbox.backends():
        fault = backend.available()
        if fault is not None or enough:
            reason = fault or f"not tried, the one above holds (`holdfast --set sandbox.backend={backend.name} doctor`)"
            yield Finding("battery", "note", f"{backend.title}: {reason}")
            continue
        tell(f"attacking the sandbox ({backend.title})…")
        found = sandbox.examine(backend)
        held = [case.name for case in found if case.held]
        enough = len(held) == len(found)
        text = f"{backend.title} held {len(held)} of {len(found)} attacks for user {os.geteuid()}: {', '.join(held)}"
        yield Finding("battery", "ok" if enough else "note", text)
        for case in found:
            if not case.held:
                yield Finding("battery", "note", f"{backend.title} does not hold {case.name}: {case.detail}")


def _consequence(sandbox: Sandbox) -> Finding:
    backend = sandbox.backend()
    if backend is None and sandbox.mode == "required":
        text = 'sandbox.mode is "required" and nothing here can contain commands, so all are refused'
        return Finding("sandbox", "bad", f"{text} ({sandbox.why_not()}); install bubblewrap")
    if backend is None:
        text = "nothing here can contain commands: a person is asked about each, it runs bare, and none is approved"
        return Finding("sandbox", "note", f"{text} for being sandboxed ({sandbox.why_not()}); install bubblewrap")
    if not sandbox.held():
        text = f"commands run in {backend.title}, which does not hold everything ({sandbox.why_not()})"
        return Finding("sandbox", "note", f"{text}: none is approved for being sandboxed")
    return Finding("sandbox", "ok", f"commands run in {backend.title}")
