"""The escape battery: every attack run for real through a backend, and the host looked at afterwards."""

from __future__ import annotations

import fcntl
import os
import secrets
import socket
import subprocess
import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

import msgspec
from msgspec import Struct

from holdfast import helper_process
from holdfast.contract.command import Command
from holdfast.contract.errors import HoldfastError
from holdfast.fs.temporary import make_folder, remove_folder
from holdfast.helper_process import isolated_python
from holdfast.sandbox.launch import Backend, Held, Progress, finish, run_launch, started, stop
from holdfast.sandbox.limits import Limits, running_tasks
from holdfast.sandbox.policy import Policy

_CANARY: Final = "untouched\n"
_ENVIRONMENT: Final = ("PATH", "LANG", "LC_*")
_LIMITS: Final = Limits(memory=512 * 2**20, processes=64, file_size=2**20, open_files=256, cpu_seconds=60)


class Range:
    def __init__(self) -> None:
        self._stack = ExitStack()
        self._id = f"holdfast-battery-{secrets.token_hex(8)}"
        self._secret = secrets.token_hex(16)

    def __enter__(self) -> Self:
        try:
            self._make()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _make(self) -> None:
        self.base = make_folder("battery")
        self._stack.callback(remove_folder, self.base)
        self.project = self.base / "project"
        self._protected = {
            self.project / ".git" / "config": "[core]\n",
            self.project / ".git" / "hooks" / "pre-commit": "#!/bin/sh\n",
            self.project / "Makefile": "all:\n",
            self.project / "sub" / ".git" / "config": "[core]\n",
            self.project / "sub" / ".git" / "hooks" / "post-checkout": "#!/bin/sh\n",
            self.project / "sub" / "deep" / ".envrc": "true\n",
        }
        self.workshop = self.base / "workshop"
        self._installed = self.workshop / "server" / "venv" / "python"
        self._kept = self.workshop / "deploy" / "production" / "keys"
        more = {self.base / "canary": _CANARY, self._denied[0]: "key", self._installed: "python", self._kept: "key"}
        for path, text in {**self._protected, **more}.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        self._denied[1].write_text("key", encoding="utf-8")
        self._listen()
        env = {"PATH": os.environ.get("PATH", ""), "HOLDFAST_BATTERY_SECRET": self._secret}
        pipe, none = subprocess.PIPE, subprocess.DEVNULL  # it ends with its input, and that with this process
        self._victim = helper_process.start(("/bin/cat",), env=env, stdin=pipe, stdout=none, stderr=none)
        self._stack.callback(_end, self._victim)
        name = f"HOLDFAST_BATTERY_{self._id[-16:].upper()}"
        os.environ[name] = self._secret
        self._stack.callback(os.environ.pop, name, None)

    def _listen(self) -> None:
        self._streams = [str(self.project / "stream"), str(self.base / "stream")]
        self._packets = [str(self.project / "packet")]
        unix, stream, packet = socket.AF_UNIX, socket.SOCK_STREAM, socket.SOCK_DGRAM
        places: list[tuple[int, int, Any]] = [
            *((unix, stream, path) for path in (*self._streams, f"\0{self._id}")),
            *((unix, packet, path) for path in (*self._packets, f"\0{self._id}-packet")),
            (socket.AF_INET, stream, ("127.0.0.1", 0)),
        ]
        self._sockets: list[socket.socket] = []
        for family, kind, address in places:
            self._sockets.append(self._bound(family, kind, address))
        self._port = self._sockets[-1].getsockname()[1]
        self._sockets.append(self._bound(socket.AF_INET, packet, ("127.0.0.1", self._port)))

    def _bound(self, family: int, kind: int, address: Any) -> socket.socket:
        one = self._stack.enter_context(socket.socket(family, kind))
        one.bind(self._short(address) if isinstance(address, str) else address)
        one.setblocking(False)
        if kind == socket.SOCK_STREAM:
            one.listen(8)
        return one

    def _short(self, address: str) -> str:
        """A path is too long for a socket soon; from an open folder it is not."""
        if not address.startswith("/"):
            return address
        folder = os.open(os.path.dirname(address), os.O_PATH | os.O_DIRECTORY)  # noqa: PTH120
        self._stack.callback(os.close, folder)
        return f"/proc/self/fd/{folder}/{os.path.basename(address)}"  # noqa: PTH119

    @property
    def _denied(self) -> tuple[Path, Path]:
        return self.base / "secret" / "key", self.base / "secret-file"

    @property
    def _absent(self) -> list[Path]:
        names = (".envrc", ".vscode/tasks.json", ".bashrc", "sub/.envrc", "sub/.git/config.worktree")
        more = (".GIT/hooks/pre-commit", "new/.git/hooks/pre-commit", "new/sitecustomize.py", ".git/config.worktree")
        return [self.project / name for name in (*names, *more)]

    @property
    def policy(self) -> Policy:
        return Policy(
            root=self.base,
            writable=(self.project, self.workshop),
            read_deny=(self._denied[0].parent, self._denied[1], self._kept),
            own=(self._installed.parent,),
            network="off",
            environment=_ENVIRONMENT,
            limits=_LIMITS,
        )

    def told(self, *, stays: bool) -> dict[str, Any]:
        """What the attack knows: everything but the secret itself."""
        outside = [self.base / "canary", self.base / "new", Path.home() / self._id]
        outside += [Path(folder, self._id) for folder in ("/usr", "/etc", "/var/lib", "/")]
        own = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
        groups = [f"/sys/fs/cgroup/{line.split(':')[1]}/cgroup.procs" for line in own]
        return {
            "id": self._id,
            "project": str(self.project),
            "workshop": str(self.workshop),
            "staying": [str(self._installed), str(self._kept)],
            "canary": str(self.base / "canary"),
            "outside": [str(path) for path in outside],
            "secret": str(self._denied[0]),
            "secret_file": str(self._denied[1]),
            "protected": [str(path) for path in self._protected],
            "absent": [str(path) for path in self._absent],
            "parents": [str(self.project / name) for name in ("sub", "sub/.git", ".git")],
            "victim": self._victim.pid,
            "battery": os.getpid(),
            "streams": self._streams,
            "packets": self._packets,
            "abstract": self._id,
            "port": self._port,
            "sys": ["/sys/kernel/uevent_helper", "/sys/power/state", "/sys/kernel/mm/ksm/run", *groups],
            "lock": str(self.project / "lock"),
            "stays": stays,
            "reversed": self._secret.encode()[::-1].hex(),
            "memory": _LIMITS.memory,
            "file_size": _LIMITS.file_size,
            "open_files": _LIMITS.open_files,
            "ceiling": (_LIMITS.processes or 0) + running_tasks() + 500,
        }

    def unwritten(self) -> str | None:
        return None if (self.project / "usable.txt").is_file() else "what a command writes does not arrive"

    def written_outside(self) -> str | None:
        if (self.base / "canary").read_text(encoding="utf-8") != _CANARY:
            return "a file outside was changed"
        made = [path for path in map(Path, self.told(stays=False)["outside"][1:]) if path.exists()]
        for path in made:
            with suppress(OSError):
                path.unlink()
        return f"{made[0]} was made" if made else None

    def changed_protected(self) -> str | None:
        for path, text in self._protected.items():
            if not path.is_file() or path.read_text(encoding="utf-8") != text or path.stat().st_mode & 0o022:
                return f"{path.relative_to(self.project)} was changed"
        return None

    def planted(self) -> str | None:
        made = [str(path.relative_to(self.project)) for path in self._absent if os.path.lexists(path)]
        return f"made {', '.join(made)}" if made else None

    def moved(self) -> str | None:
        hooks = [self.project / name / "hooks" / "pre-commit" for name in ("sub/.git", ".git")]
        planted = [path for path in hooks if path.exists() and path not in self._protected]
        return f"planted {planted[0].relative_to(self.project)}" if planted else self.changed_protected()

    def replaced(self) -> str | None:
        same = self._installed.is_file() and self._installed.read_text(encoding="utf-8") == "python"
        return None if same else "the installation was replaced"

    def moved_away(self) -> str | None:
        same = self._kept.is_file() and self._kept.read_text(encoding="utf-8") == "key"
        return None if same else "what is denied was moved"

    def with_set_id(self) -> str | None:
        found = [path.name for path in self.project.iterdir() if path.lstat().st_mode & 0o6000]
        return f"{found[0]} lends rights" if found else None

    def called(self) -> str | None:
        for one in self._sockets:
            with suppress(OSError):
                if one.type == socket.SOCK_STREAM:
                    one.accept()[0].close()
                else:
                    one.recv(100)
                return "it was reached"
        return None

    def alive(self) -> str | None:
        with (self.project / "lock").open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return "a process is still running"
        return None

    def wait_for_lock(self, timeout: float) -> bool:
        end = time.monotonic() + timeout
        lock = self.project / "lock"
        while time.monotonic() < end:
            if lock.exists() and lock.stat().st_size:
                return True
            time.sleep(0.01)
        return False


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()


TIMEOUT: Final = 20.0
_ATTACKS: Final = str(Path(__file__).with_name("attacks.py"))


class Case(Struct, frozen=True):
    attack: str
    says: str
    """What holds if it is contained."""
    look: Callable[[Range], str | None] = lambda _range: None
    """What is wrong on the host afterwards."""
    alone: bool = False
    """It uses up what other cases need."""


CASES: Final[dict[str, Case]] = {
    "usable": Case("usable", "commands run and can write in the writable folders", Range.unwritten),
    "write-outside": Case("write_outside", "nothing else can be written", Range.written_outside),
    "links": Case("links", "links do not lead writes outside", Range.written_outside),
    "read-denied": Case("read_denied", "denied paths cannot be read"),
    "change-protected": Case("change_protected", "protected paths cannot be changed", Range.changed_protected),
    "create-protected": Case("create_protected", "absent protected paths cannot be made", Range.planted),
    "rename-parent": Case("rename_parent", "moving a parent plants nothing", Range.moved),
    "own-installation": Case("move_away", "holdfast and its interpreter cannot be replaced", Range.replaced),
    "denied-stays": Case("move_away", "denied paths cannot be moved", Range.moved_away),
    "set-id": Case("set_id", "no file lends its owner's rights", Range.with_set_id),
    "remount": Case("remount", "nothing can be mounted"),
    "unshare": Case("unshare", "no new namespaces"),
    "nested-namespaces": Case("nested", "no nested namespaces"),
    "setns": Case("setns", "no way into other namespaces"),
    "trace": Case("trace", "other processes cannot be traced or signalled"),
    "first-process": Case("first_process", "the sandbox's own processes cannot be read or changed"),
    "terminal": Case("terminal", "nothing can be typed into a terminal"),
    "unix-socket": Case("unix_socket", "services of the host cannot be reached", Range.called),
    "abstract-socket": Case("abstract_socket", "abstract sockets cannot be reached", Range.called),
    "tcp": Case("tcp", "no connections", Range.called),
    "udp": Case("udp", "no packets", Range.called),
    "host-processes": Case("host_processes", "processes of the host cannot be seen"),
    "kernel-settings": Case("kernel_settings", "/proc/sys cannot be written"),
    "system-folder": Case("system_folder", "/sys cannot be written"),
    "secrets": Case("secrets", "variables that are not allowed are not there"),
    "capabilities": Case("capabilities", "no capabilities, and no way to get them"),
    "devices": Case("devices", "no devices"),
    "keys": Case("keys", "no kernel keyrings"),
    "system-calls": Case("system_calls", "dangerous system calls are refused"),
    "resources": Case("resources", "memory, files and their size are limited"),
    "orphans": Case("orphans", "nothing is left running", Range.alive),
    "killed-orphans": Case("orphans", "nothing survives a kill", Range.alive),
    "fork-bomb": Case("fork_bomb", "processes are limited", alone=True),
}
PROBE: Final = ("usable", "write-outside", "capabilities", "secrets")


def run(backend: Backend, names: Collection[str] | None = None, done: Progress | None = None) -> tuple[Held, ...]:
    """Every case, or those named, in the order of `CASES`; `done` is told how many of them are over."""
    chosen = [name for name in CASES if names is None or name in names]
    together = [name for name in chosen if not CASES[name].alone]
    found: dict[str, Held] = {}

    def note(name: str, held: Held) -> None:
        found[name] = held
        if done is not None:
            done(len(found), len(chosen))

    with ThreadPoolExecutor(max_workers=min(4, 2 * (os.cpu_count() or 1))) as pool:
        for name, held in zip(together, pool.map(partial(attack, backend), together), strict=True):
            note(name, held)
    for name in chosen:
        if CASES[name].alone:
            note(name, attack(backend, name))
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
    if not killed:
        return _verdict(*run_launch(launch, TIMEOUT))
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
