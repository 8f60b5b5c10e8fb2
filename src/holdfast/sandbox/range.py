"""The ground an attack of the battery is run on: canaries, listeners and a victim on the host, made anew for each."""

from __future__ import annotations

import fcntl
import os
import secrets
import socket
import subprocess
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final, Self

from holdfast import helper_process
from holdfast.fs.temporary import make_folder, remove_folder
from holdfast.sandbox.limits import Limits
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
            "ceiling": (_LIMITS.processes or 0) + _tasks() + 500,
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


def _tasks() -> int:
    return int(Path("/proc/loadavg").read_text(encoding="ascii").split()[3].partition("/")[2])
