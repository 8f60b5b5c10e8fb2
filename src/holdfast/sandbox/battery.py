"""The escape battery: every attack run for real through a backend, and the host looked at afterwards."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from holdfast.contract.command import Command
from holdfast.contract.errors import HoldfastError
from holdfast.helper_process import isolated_python
from holdfast.sandbox.backend import Backend, Held
from holdfast.sandbox.launch import Launch
from holdfast.sandbox.range import Range
from holdfast.sandbox.running import finish, run_launch, started, stop

TIMEOUT: Final = 20.0
_ATTACKS: Final = str(Path(__file__).with_name("attacks.py"))


class Case(Struct, frozen=True, kw_only=True):
    attack: str
    says: str
    """What holds if it is contained."""
    look: Callable[[Range], str | None] = lambda _range: None
    """What is wrong on the host afterwards."""
    alone: bool = False
    """It uses up what other cases need."""


CASES: Final[dict[str, Case]] = {
    "usable": Case(attack="usable", says="commands run and can write in the writable folders", look=Range.unwritten),
    "write-outside": Case(attack="write_outside", says="nothing else can be written", look=Range.written_outside),
    "links": Case(attack="links", says="links do not lead writes outside", look=Range.written_outside),
    "read-denied": Case(attack="read_denied", says="denied paths cannot be read"),
    "change-protected": Case(
        attack="change_protected", says="protected paths cannot be changed", look=Range.changed_protected
    ),
    "create-protected": Case(
        attack="create_protected", says="absent protected paths cannot be made", look=Range.planted
    ),
    "rename-parent": Case(attack="rename_parent", says="moving a parent plants nothing", look=Range.moved),
    "own-installation": Case(
        attack="move_away", says="holdfast and its interpreter cannot be replaced", look=Range.replaced
    ),
    "denied-stays": Case(attack="move_away", says="denied paths cannot be moved", look=Range.moved_away),
    "set-id": Case(attack="set_id", says="no file lends its owner's rights", look=Range.with_set_id),
    "remount": Case(attack="remount", says="nothing can be mounted"),
    "unshare": Case(attack="unshare", says="no new namespaces"),
    "nested-namespaces": Case(attack="nested", says="no nested namespaces"),
    "setns": Case(attack="setns", says="no way into other namespaces"),
    "trace": Case(attack="trace", says="other processes cannot be traced or signalled"),
    "first-process": Case(attack="first_process", says="the sandbox's own processes cannot be read or changed"),
    "terminal": Case(attack="terminal", says="nothing can be typed into a terminal"),
    "unix-socket": Case(attack="unix_socket", says="services of the host cannot be reached", look=Range.called),
    "abstract-socket": Case(attack="abstract_socket", says="abstract sockets cannot be reached", look=Range.called),
    "tcp": Case(attack="tcp", says="no connections", look=Range.called),
    "udp": Case(attack="udp", says="no packets", look=Range.called),
    "host-processes": Case(attack="host_processes", says="processes of the host cannot be seen"),
    "kernel-settings": Case(attack="kernel_settings", says="/proc/sys cannot be written"),
    "system-folder": Case(attack="system_folder", says="/sys cannot be written"),
    "secrets": Case(attack="secrets", says="variables that are not allowed are not there"),
    "capabilities": Case(attack="capabilities", says="no capabilities, and no way to get them"),
    "devices": Case(attack="devices", says="no devices"),
    "keys": Case(attack="keys", says="no kernel keyrings"),
    "system-calls": Case(attack="system_calls", says="dangerous system calls are refused"),
    "resources": Case(attack="resources", says="memory, files and their size are limited"),
    "orphans": Case(attack="orphans", says="nothing is left running", look=Range.alive),
    "killed-orphans": Case(attack="orphans", says="nothing survives a kill", look=Range.alive),
    "fork-bomb": Case(attack="fork_bomb", says="processes are limited", alone=True),
}
PROBE: Final = ("usable", "write-outside", "capabilities", "secrets")


def run(backend: Backend, names: Collection[str] | None = None) -> tuple[Held, ...]:
    """Every case, or those named, in the order of `CASES`."""
    chosen = [name for name in CASES if names is None or name in names]
    together = [name for name in chosen if not CASES[name].alone]
    with ThreadPoolExecutor(max_workers=min(4, 2 * (os.cpu_count() or 1))) as pool:
        found = dict(zip(together, pool.map(partial(attack, backend), together), strict=True))
    found |= {name: attack(backend, name) for name in chosen if CASES[name].alone}
    return tuple(found[name] for name in chosen)


def attack(backend: Backend, name: str) -> Held:
    """One case on ground of its own."""
    case = CASES[name]
    try:
        with Range() as ground:
            args = ground.told(stays=name == "killed-orphans")
            argv = isolated_python(_ATTACKS, case.attack, msgspec.json.encode(args).decode())
            fault = _run(backend, Command(argv=argv, cwd=ground.project), ground, killed=args["stays"])
            fault = fault or case.look(ground)
    except (HoldfastError, OSError) as error:
        fault = f"it could not be run: {error}"
    return Held(name=name, held=fault is None, detail=fault or case.says)


def _run(backend: Backend, command: Command, ground: Range, *, killed: bool) -> str | None:
    launch = backend.launch(ground.policy, command, ())
    if killed:
        return _run_and_kill(launch, ground)
    code, out, err = run_launch(launch, TIMEOUT)
    return _verdict(code, out, err)


def _run_and_kill(launch: Launch, ground: Range) -> str | None:
    try:
        with started(launch) as process:
            locked = ground.wait_for_lock(TIMEOUT)
            stop(process)
    finally:
        finish(launch)
    return None if locked else "the attack did not start"


def _verdict(code: int, out: bytes, err: bytes) -> str | None:
    """What was reached. An attack that did not get to its end counts as reached: nobody knows what it did."""
    try:
        reached = msgspec.json.decode(out, type=dict[str, str | None])["reached"]
    except (msgspec.MsgspecError, KeyError):
        said = err.decode("utf-8", "replace").strip().splitlines()
        return f"it ended with {code} and no answer{f': {said[-1][:200]}' if said else ''}"
    return f"reached {reached}" if reached else None
