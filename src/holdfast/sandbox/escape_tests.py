"""The escape tests: real attacks run through a backend, followed by checks of what they did to the host.

`HostFixture` prepares what the attacks in `attacks.py` try to reach. A backend contains an attack only if the attack
itself reports no success and the host shows no trace of it.
"""

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
from holdfast.fs.temporary import make_temporary_folder, remove_temporary_folder
from holdfast.helper_process import isolated_python
from holdfast.sandbox.launch import (
    Backend,
    EscapeTestResult,
    Progress,
    clean_up,
    run_launch,
    start_launch,
    stop_process,
)
from holdfast.sandbox.limits import Limits, running_tasks
from holdfast.sandbox.policy import SandboxPolicy

_CANARY: Final = "untouched\n"
_ENVIRONMENT: Final = ("PATH", "LANG", "LC_*")
_LIMITS: Final = Limits(memory=512 * 2**20, processes=64, file_size=2**20, open_files=256, cpu_seconds=60)


class HostFixture:
    """A temporary project with canaries around it: files, sockets, a victim process and a secret variable."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._id = f"holdfast-escape-test-{secrets.token_hex(8)}"
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
        self.base = make_temporary_folder("escape-test")
        self._stack.callback(remove_temporary_folder, self.base)
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
        env = {"PATH": os.environ.get("PATH", ""), "HOLDFAST_ESCAPE_TEST_SECRET": self._secret}
        pipe, none = subprocess.PIPE, subprocess.DEVNULL  # cat ends when its stdin does, that is with this process
        self._victim = helper_process.start(("/bin/cat",), env=env, stdin=pipe, stdout=none, stderr=none)
        self._stack.callback(_end, self._victim)
        name = f"HOLDFAST_ESCAPE_TEST_{self._id[-16:].upper()}"
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
        """Return a short path through an open folder: a Unix socket address holds only 107 bytes."""
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
    def policy(self) -> SandboxPolicy:
        return SandboxPolicy(
            root=self.base,
            writable=(self.project, self.workshop),
            read_deny=(self._denied[0].parent, self._denied[1], self._kept),
            installation=(self._installed.parent,),
            network="off",
            environment=_ENVIRONMENT,
            limits=_LIMITS,
        )

    def attack_arguments(self, *, lingers: bool) -> dict[str, Any]:
        """Return what the attack knows: everything except the secret itself."""
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
            "runner": os.getpid(),
            "streams": self._streams,
            "packets": self._packets,
            "abstract": self._id,
            "port": self._port,
            "sys": ["/sys/kernel/uevent_helper", "/sys/power/state", "/sys/kernel/mm/ksm/run", *groups],
            "lock": str(self.project / "lock"),
            "lingers": lingers,
            "reversed": self._secret.encode()[::-1].hex(),
            "memory": _LIMITS.memory,
            "file_size": _LIMITS.file_size,
            "open_files": _LIMITS.open_files,
            "ceiling": (_LIMITS.processes or 0) + running_tasks() + 500,
        }

    def check_usable(self) -> str | None:
        return None if (self.project / "usable.txt").is_file() else "written files do not reach the project"

    def check_outside(self) -> str | None:
        if (self.base / "canary").read_text(encoding="utf-8") != _CANARY:
            return "a file outside was changed"
        created = [path for path in map(Path, self.attack_arguments(lingers=False)["outside"][1:]) if path.exists()]
        for path in created:
            with suppress(OSError):
                path.unlink()
        return f"{created[0]} was created" if created else None

    def check_protected(self) -> str | None:
        for path, text in self._protected.items():
            if not path.is_file() or path.read_text(encoding="utf-8") != text or path.stat().st_mode & 0o022:
                return f"{path.relative_to(self.project)} was changed"
        return None

    def check_absent(self) -> str | None:
        created = [str(path.relative_to(self.project)) for path in self._absent if os.path.lexists(path)]
        return f"created {', '.join(created)}" if created else None

    def check_hooks(self) -> str | None:
        hooks = [self.project / name / "hooks" / "pre-commit" for name in ("sub/.git", ".git")]
        planted = [path for path in hooks if path.exists() and path not in self._protected]
        return f"planted {planted[0].relative_to(self.project)}" if planted else self.check_protected()

    def check_installation(self) -> str | None:
        same = self._installed.is_file() and self._installed.read_text(encoding="utf-8") == "python"
        return None if same else "the installation was replaced"

    def check_denied(self) -> str | None:
        same = self._kept.is_file() and self._kept.read_text(encoding="utf-8") == "key"
        return None if same else "a denied path was moved"

    def check_set_id(self) -> str | None:
        found = [path.name for path in self.project.iterdir() if path.lstat().st_mode & 0o6000]
        return f"{found[0]} is set-user-ID or set-group-ID" if found else None

    def check_sockets(self) -> str | None:
        for one in self._sockets:
            with suppress(OSError):
                if one.type == socket.SOCK_STREAM:
                    one.accept()[0].close()
                else:
                    one.recv(100)
                return "a socket of the host was reached"
        return None

    def check_orphans(self) -> str | None:
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


class EscapeTest(Struct, frozen=True):
    attack: str
    """The name of a function in `attacks.py`."""
    claim: str
    """The guarantee, if the attack is contained."""
    check: Callable[[HostFixture], str | None] = lambda _host: None
    """Checks the host afterwards and returns what is wrong."""
    exclusive: bool = False
    """It exhausts resources, so it does not run beside other tests."""


ESCAPE_TESTS: Final[dict[str, EscapeTest]] = {
    "usable": EscapeTest("usable", "commands run and can write in the writable folders", HostFixture.check_usable),
    "write-outside": EscapeTest("write_outside", "nothing else can be written", HostFixture.check_outside),
    "links": EscapeTest("links", "symlinks and hard links do not lead writes outside", HostFixture.check_outside),
    "read-denied": EscapeTest("read_denied", "denied paths cannot be read"),
    "change-protected": EscapeTest(
        "change_protected", "protected paths cannot be changed", HostFixture.check_protected
    ),
    "create-protected": EscapeTest(
        "create_protected", "missing protected paths cannot be created", HostFixture.check_absent
    ),
    "rename-parent": EscapeTest("rename_parent", "moving a parent folder plants nothing", HostFixture.check_hooks),
    "own-installation": EscapeTest(
        "move_away", "holdfast and its interpreter cannot be replaced", HostFixture.check_installation
    ),
    "denied-lingers": EscapeTest("move_away", "denied paths cannot be moved", HostFixture.check_denied),
    "set-id": EscapeTest("set_id", "no set-user-ID or set-group-ID files", HostFixture.check_set_id),
    "remount": EscapeTest("remount", "nothing can be mounted"),
    "unshare": EscapeTest("unshare", "no new namespaces"),
    "nested-namespaces": EscapeTest("nested", "no nested namespaces"),
    "setns": EscapeTest("setns", "other namespaces cannot be entered"),
    "trace": EscapeTest("trace", "other processes cannot be traced or signalled"),
    "first-process": EscapeTest("first_process", "the sandbox's own processes cannot be read or changed"),
    "terminal": EscapeTest("terminal", "no input can be injected into a terminal"),
    "unix-socket": EscapeTest("unix_socket", "Unix sockets of the host cannot be reached", HostFixture.check_sockets),
    "abstract-socket": EscapeTest("abstract_socket", "abstract sockets cannot be reached", HostFixture.check_sockets),
    "tcp": EscapeTest("tcp", "no TCP connections", HostFixture.check_sockets),
    "udp": EscapeTest("udp", "no UDP packets", HostFixture.check_sockets),
    "host-processes": EscapeTest("host_processes", "processes of the host cannot be seen"),
    "kernel-settings": EscapeTest("kernel_settings", "/proc/sys cannot be written"),
    "system-folder": EscapeTest("system_folder", "/sys cannot be written"),
    "secrets": EscapeTest("secrets", "only allow-listed variables are visible"),
    "capabilities": EscapeTest("capabilities", "no capabilities, and no way to get them"),
    "devices": EscapeTest("devices", "no devices"),
    "keys": EscapeTest("keys", "no kernel keyrings"),
    "system-calls": EscapeTest("system_calls", "dangerous system calls are refused"),
    "resources": EscapeTest("resources", "memory, open files and file size are limited"),
    "orphans": EscapeTest("orphans", "no process is left running", HostFixture.check_orphans),
    "killed-orphans": EscapeTest("orphans", "no process survives a kill", HostFixture.check_orphans),
    "fork-bomb": EscapeTest("fork_bomb", "the number of processes is limited", exclusive=True),
}
PROBE_TESTS: Final = ("usable", "write-outside", "capabilities", "secrets")


def run_escape_tests(
    backend: Backend, names: Collection[str] | None = None, done: Progress | None = None
) -> tuple[EscapeTestResult, ...]:
    """Run all tests, or those named, and return the results in the order of `ESCAPE_TESTS`."""
    chosen = [name for name in ESCAPE_TESTS if names is None or name in names]
    together = [name for name in chosen if not ESCAPE_TESTS[name].exclusive]
    found: dict[str, EscapeTestResult] = {}

    def record(name: str, result: EscapeTestResult) -> None:
        found[name] = result
        if done is not None:
            done(len(found), len(chosen))

    with ThreadPoolExecutor(max_workers=min(4, 2 * (os.cpu_count() or 1))) as pool:
        for name, result in zip(together, pool.map(partial(run_escape_test, backend), together), strict=True):
            record(name, result)
    for name in chosen:
        if ESCAPE_TESTS[name].exclusive:
            record(name, run_escape_test(backend, name))
    return tuple(found[name] for name in chosen)


def run_escape_test(backend: Backend, name: str) -> EscapeTestResult:
    """Run one test against a fresh `HostFixture`."""
    case = ESCAPE_TESTS[name]
    try:
        with HostFixture() as host:
            args = host.attack_arguments(lingers=name == "killed-orphans")
            argv = isolated_python(_ATTACKS, case.attack, msgspec.json.encode(args).decode())
            problem = _run(backend, Command(argv=argv, cwd=host.project), host, killed=args["lingers"])
            problem = problem or case.check(host)
    except (HoldfastError, OSError) as error:
        problem = f"it could not be run: {error}"
    return EscapeTestResult(name=name, contained=problem is None, detail=problem or case.claim)


def _run(backend: Backend, command: Command, host: HostFixture, *, killed: bool) -> str | None:
    launch = backend.launch(host.policy, command, ())
    if not killed:
        return _success(*run_launch(launch, TIMEOUT))
    try:
        with start_launch(launch) as process:
            locked = host.wait_for_lock(TIMEOUT)
            stop_process(process)
    finally:
        clean_up(launch)
    return None if locked else "the attack did not start"


def _success(code: int, out: bytes, err: bytes) -> str | None:
    """Return what the attack reached, or None. An attack that crashed counts as a success: what it did is unknown."""
    try:
        reached = msgspec.json.decode(out, type=dict[str, str | None])["reached"]
    except (msgspec.MsgspecError, KeyError):
        lines = err.decode("utf-8", "replace").strip().splitlines()
        return f"it ended with {code} and no answer{f': {lines[-1][:200]}' if lines else ''}"
    return f"reached {reached}" if reached else None
