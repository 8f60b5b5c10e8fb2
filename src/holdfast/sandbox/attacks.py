"""Attacks on the sandbox, run inside it: one function per attack. Started as a script, standard library only.

Each returns what it reached, or None; an `OSError` counts as contained. `escape_tests` also checks the host, since an
attack's own report is never enough.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import platform
import signal
import socket
import stat
import struct
import sys
import time
from collections.abc import Callable
from typing import Any

ARM = platform.machine() == "aarch64"
NEW = {"user": 0x10000000, "mount": 0x20000, "pid": 0x20000000, "net": 0x40000000}
TIOCSTI = 0x5412
SET_USER, SET_GROUP = 0o4755, 0o2755
FCHMODAT2, OPENAT2, HERE = 452, 437, -100
Args = dict[str, Any]
_libc = ctypes.CDLL(None, use_errno=True)


def syscall_number(x86: int, arm: int) -> int:
    return arm if ARM else x86


def syscall(nr: int, *args: int | bytes | None) -> int:
    """Make a system call; raises its error as `OSError`."""
    result = int(_libc.syscall(nr, *(ctypes.c_long(arg) if isinstance(arg, int) else arg for arg in args)))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def succeeded(attempts: dict[str, Callable[[], object]]) -> str | None:
    """Return the names of the attempts that raised no `OSError`, or None."""
    reached: list[str] = []
    for name, attempt in attempts.items():
        try:
            attempt()
        except OSError:
            continue
        reached.append(name)
    return ", ".join(reached) or None


def opener(path: str, flags: int = os.O_WRONLY) -> Callable[[], object]:
    return lambda: os.close(os.open(path, flags, 0o600))


def writer(path: str, text: str = "planted\n") -> Callable[[], object]:
    def write() -> None:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    return write


def usable(args: Args) -> str | None:
    for folder in (args["project"], os.environ["HOME"]):
        writer(f"{folder}/usable.txt", "yes")()
    pair = socket.socketpair()
    pair[0].send(b"x")
    assert pair[1].recv(1) == b"x"
    for end in pair:
        end.close()
    return None


def write_outside(args: Args) -> str | None:
    succeeded({path: writer(path) for path in args["outside"]})
    return None  # it may have written to a private tmpfs: only the host shows whether it escaped


def remount(args: Args) -> str | None:
    def remount_root() -> None:
        if _libc.mount(b"none", b"/", None, 0x20 | 0x1000, None):
            raise OSError(ctypes.get_errno(), "mount")

    def bind_over_project() -> None:
        if _libc.mount(b"/tmp", args["project"].encode(), None, 0x1000, None):
            raise OSError(ctypes.get_errno(), "mount")

    return succeeded(
        {"remount": remount_root, "bind": bind_over_project, "open_tree": lambda: syscall(428, -100, b"/", 1)}
    )


def unshare(args: Args) -> str | None:
    nr = syscall_number(272, 97)
    return succeeded({name: lambda flag=flag: syscall(nr, flag) for name, flag in NEW.items()})


def nested(args: Args) -> str | None:
    def cloned(flags: int) -> None:
        pid = syscall(syscall_number(56, 220), flags | signal.SIGCHLD, 0, 0, 0, 0)
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)

    def cloned3() -> None:
        about = NEW["user"].to_bytes(8, "little") + bytes(24) + int(signal.SIGCHLD).to_bytes(8, "little") + bytes(24)
        pid = syscall(435, about, len(about))
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)

    return succeeded({"clone": lambda: cloned(NEW["user"]), "clone3": cloned3, "clone net": lambda: cloned(NEW["net"])})


def setns(args: Args) -> str | None:
    def enter(pid: int, kind: str) -> None:
        fd = os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY)
        try:
            syscall(syscall_number(308, 268), fd, 0)
        finally:
            os.close(fd)

    pids = (1, os.getppid(), args["victim"])
    return succeeded(
        {f"{kind} of {pid}": lambda p=pid, k=kind: enter(p, k) for pid in pids for kind in ("mnt", "user")}
    )


def trace(args: Args) -> str | None:
    nr, victim = syscall_number(101, 117), args["victim"]
    return succeeded(
        {
            "attach": lambda: syscall(nr, 16, victim, 0, 0),
            "seize": lambda: syscall(nr, 0x4206, victim, 0, 0),
            "its memory": opener(f"/proc/{victim}/mem", os.O_RDONLY),
            "signal": lambda: os.kill(victim, 0),
        }
    )


def first_process(args: Args) -> str | None:
    """Reach into the sandbox's own processes, which report how a command ended and kill its leftovers."""

    def write_memory(pid: int) -> None:
        vector = ctypes.addressof(ctypes.create_string_buffer(16)).to_bytes(8, sys.byteorder) + bytes(8)
        syscall(syscall_number(311, 271), pid, vector, 1, vector, 1, 0)

    def take_descriptor(pid: int) -> None:
        fd = os.pidfd_open(pid)
        try:
            os.close(syscall(438, fd, 0, 0))
        finally:
            os.close(fd)

    attempts: dict[str, Callable[[], object]] = {}
    for pid in {1, os.getppid()}:
        for name in ("mem", "task/{}/mem", "environ", "fd/0", "fd/1", "fd/3", "fd/4", "root", "maps", "exe"):
            path = f"/proc/{pid}/{name.format(pid)}"
            attempts[f"{name} of {pid}"] = opener(path, os.O_RDWR if name.endswith("mem") else os.O_RDONLY)
        attempts[f"attach to {pid}"] = lambda pid=pid: syscall(syscall_number(101, 117), 16, pid, 0, 0)
        attempts[f"seize {pid}"] = lambda pid=pid: syscall(syscall_number(101, 117), 0x4206, pid, 0, 0)
        attempts[f"write into {pid}"] = lambda pid=pid: write_memory(pid)
        attempts[f"a file of {pid}"] = lambda pid=pid: take_descriptor(pid)
    return succeeded(attempts)


def terminal(args: Args) -> str | None:
    try:
        fd = os.openpty()[1]
    except OSError:
        fd = 0
    return succeeded({"typing": lambda: fcntl.ioctl(fd, TIOCSTI, b"x"), "the terminal": opener("/dev/tty", os.O_RDWR)})


def connector(family: int, kind: int, address: Any) -> Callable[[], object]:
    def connect() -> None:
        with socket.socket(family, kind) as one:
            one.settimeout(2)
            one.connect(short_address(address))
            one.send(b"reached")

    return connect


def reconnector(address: Any, kind: int = socket.SOCK_DGRAM) -> Callable[[], object]:
    """Reconnect one end of a socket pair to a name: pairs may be allowed where named sockets are not."""

    def connect() -> None:
        one, other = socket.socketpair(socket.AF_UNIX, kind)
        with one, other:
            one.connect(short_address(address))
            one.send(b"reached")

    return connect


def short_address(address: Any) -> Any:
    """Change to the socket's folder and return its bare name: an address holds only 107 bytes."""
    if not isinstance(address, str) or not address.startswith("/"):
        return address
    os.chdir(os.path.dirname(address))
    return os.path.basename(address)


def unix_socket(args: Args) -> str | None:
    stream, packet = socket.SOCK_STREAM, socket.SOCK_DGRAM
    attempts = {path: connector(socket.AF_UNIX, stream, path) for path in args["streams"]}
    attempts |= {path: connector(socket.AF_UNIX, packet, path) for path in args["packets"]}
    attempts |= {f"pair to {path}": reconnector(path) for path in args["packets"]}
    return succeeded(attempts | {f"raw pair to {path}": reconnector(path, socket.SOCK_RAW) for path in args["packets"]})


def abstract_socket(args: Args) -> str | None:
    name = "\0" + args["abstract"]
    stream = connector(socket.AF_UNIX, socket.SOCK_STREAM, name)
    raw = reconnector(name + "-packet", socket.SOCK_RAW)
    return succeeded({"stream": stream, "pair": reconnector(name + "-packet"), "raw pair": raw})


def tcp(args: Args) -> str | None:
    return succeeded({"loopback": connector(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", args["port"]))})


def udp(args: Args) -> str | None:
    succeeded({"loopback": connector(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", args["port"]))})
    return None  # sending UDP always succeeds: only the host shows whether it arrived


def host_processes(args: Args) -> str | None:
    files = ("cmdline", "environ", "cwd", "root")
    return succeeded({name: lambda n=name: os.stat(f"/proc/{args['victim']}/{n}") for name in files})


def kernel_settings(args: Args) -> str | None:
    names = ("sys/kernel/core_pattern", "sys/kernel/hostname", "sys/vm/drop_caches", "sysrq-trigger", "sys/fs/file-max")
    return succeeded({name: opener(f"/proc/{name}") for name in names})


def system_folder(args: Args) -> str | None:
    attempts = {path: opener(path) for path in args["sys"]}
    return succeeded(attempts | {"a control group": lambda: os.mkdir(f"/sys/fs/cgroup/{args['id']}")})


def orphans(args: Args) -> str | None:
    """Leave a daemonised process behind that ignores signals; its file lock tells whether it is alive."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for one in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                signal.signal(one, signal.SIG_IGN)
            lock = os.open(args["lock"], os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(lock, fcntl.LOCK_EX)
            os.write(lock, b"locked")
            for stream in (0, 1, 2):
                os.close(stream)
            time.sleep(60)
        os._exit(0)
    while not (os.path.exists(args["lock"]) and os.path.getsize(args["lock"])):
        time.sleep(0.01)
    if args["lingers"]:
        time.sleep(60)
    return None


def secrets(args: Args) -> str | None:
    wanted = bytes.fromhex(args["reversed"])[::-1]
    texts = {"variables": repr(dict(os.environ)).encode()}
    for pid in ("self", "1", str(os.getppid()), str(args["victim"]), str(args["runner"])):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                texts[f"environ of {pid}"] = file.read()
        except OSError:
            continue
    return ", ".join(name for name, text in texts.items() if wanted in text) or None


def capabilities(args: Args) -> str | None:
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        fields = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    wanted = {"CapEff": 0, "CapPrm": 0, "CapInh": 0, "CapAmb": 0, "NoNewPrivs": 1, "Seccomp": 2}
    wrong = [f"{name} {fields[name]}" for name, value in wanted.items() if int(fields[name], 16) != value]
    return ", ".join(wrong) or None


def devices(args: Args) -> str | None:
    made = f"{args['project']}/device"
    names = ("mem", "kmsg", "sda", "vda", "nvme0n1", "kvm", "fuse", "net/tun", "loop-control", "uinput")
    attempts: dict[str, Callable[[], object]] = {name: opener(f"/dev/{name}", os.O_RDWR) for name in names}
    attempts["block"] = lambda: os.mknod(made, stat.S_IFBLK | 0o600, os.makedev(8, 0))
    attempts["character"] = lambda: os.mknod(made, stat.S_IFCHR | 0o600, os.makedev(1, 1))
    return succeeded(attempts)


def keys(args: Args) -> str | None:
    return succeeded(
        {
            "keyctl": lambda: syscall(syscall_number(250, 219), 0, -4, 1),
            "add_key": lambda: syscall(syscall_number(248, 217), b"user\0", b"holdfast\0", b"x", 1, -4),
        }
    )


def system_calls(args: Args) -> str | None:
    numbers = {
        "bpf": syscall_number(321, 280),
        "io_uring_setup": 425,
        "perf_event_open": syscall_number(298, 241),
        "userfaultfd": syscall_number(323, 282),
        "chroot": syscall_number(161, 51),
        "pivot_root": syscall_number(155, 41),
        "init_module": syscall_number(175, 105),
        "kexec_load": syscall_number(246, 104),
        "process_vm_readv": syscall_number(310, 270),
    }
    reached: list[str] = []
    for name, nr in numbers.items():
        try:
            syscall(nr, 0, 0, 0, 0, 0)
        except PermissionError:
            continue
        except OSError:
            pass  # another errno: the kernel looked at the arguments, so the filter let it through
        reached.append(name)
    return ", ".join(reached) or None


def resources(args: Args) -> str | None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    reached = succeeded({"file size": writer(f"{args['project']}/big", "x" * args["file_size"] * 2)})
    try:
        bytearray(args["memory"] * 2)
    except MemoryError:
        pass
    else:
        reached = f"{reached or ''} memory"
    files: list[int] = []
    try:
        files.extend(os.open("/dev/null", os.O_RDONLY) for _ in range(args["open_files"] + 1))
    except OSError:
        return reached
    return f"{reached or ''} open files"


def fork_bomb(args: Args) -> str | None:
    started: list[int] = []
    try:
        for _ in range(args["ceiling"]):
            pid = os.fork()
            if pid == 0:
                time.sleep(30)
                os._exit(0)
            started.append(pid)
    except OSError:
        return None
    finally:
        for pid in started:
            os.kill(pid, signal.SIGKILL)
    return f"{len(started)} processes"


def read_denied(args: Args) -> str | None:
    link = f"{args['project']}/link-to-secret"
    os.symlink(args["secret"], link)
    places = (args["secret"], args["secret_file"], link, f"/proc/self/root{args['secret']}")
    attempts = {place: opener(place, os.O_RDONLY) for place in places}
    return succeeded(attempts | {"hard link": lambda: os.link(args["secret"], f"{args['project']}/hard")})


def change_protected(args: Args) -> str | None:
    for path in args["protected"]:
        for attempt in (
            opener(path, os.O_WRONLY | os.O_TRUNC),
            lambda path=path: os.chmod(path, 0o777),
            lambda path=path: os.rename(path, path + ".away"),
            lambda path=path: os.unlink(path),
            writer(path),
        ):
            succeeded({path: attempt})
    return None


def create_protected(args: Args) -> str | None:
    for path in args["absent"]:
        succeeded({path: writer(path), "link": lambda path=path: os.symlink("/etc", path)})
    return None


def rename_parent(args: Args) -> str | None:
    for path in args["parents"]:
        succeeded({path: lambda path=path: os.rename(path, path + "-moved")})
        succeeded({path: writer(f"{path}/.git/hooks/pre-commit"), "b": writer(f"{path}/hooks/pre-commit")})
        succeeded({path: writer(f"{path}/.git/config"), "b": writer(f"{path}/config")})
    return None


def links(args: Args) -> str | None:
    project, target = args["project"], args["canary"]

    def through_symlink() -> None:
        os.symlink(target, f"{project}/out")
        writer(f"{project}/out")()

    def through_hard_link() -> None:
        os.link(target, f"{project}/hard")
        writer(f"{project}/hard")()

    def through_root() -> None:
        writer(f"/proc/self/root{target}")()

    return succeeded({"symlink": through_symlink, "hard link": through_hard_link, "root": through_root})


def move_away(args: Args) -> str | None:
    """Move every folder above the paths that must stay, and put something else in its place."""
    for path in args["staying"]:
        above = os.path.dirname(path)
        while above != args["workshop"]:
            succeeded({above: lambda above=above: os.rename(above, above + "-moved")})
            above = os.path.dirname(above)
        succeeded({path: writer(path)})
    return None


def set_id(args: Args) -> str | None:
    path = f"{args['project']}/set-id"
    writer(path)()
    fd = os.open(path, os.O_RDONLY)
    how = struct.pack("=QQQ", os.O_WRONLY | os.O_CREAT, SET_USER, 0)
    return succeeded(
        {
            "chmod": lambda: os.chmod(path, SET_USER),
            "chmod g+s": lambda: os.chmod(path, SET_GROUP),
            "fchmod": lambda: os.fchmod(fd, SET_USER),
            "fchmodat": lambda: os.chmod("set-id", SET_USER, dir_fd=os.open(args["project"], os.O_RDONLY)),
            "fchmodat2": lambda: syscall(FCHMODAT2, HERE, path.encode(), SET_USER, 0),
            "open": lambda: os.open(f"{path}-opened", os.O_WRONLY | os.O_CREAT, SET_USER),
            "temporary": lambda: os.open(args["project"], os.O_WRONLY | os.O_TMPFILE, SET_USER),
            "openat2": lambda: syscall(OPENAT2, HERE, f"{path}-opened-too".encode(), how, len(how)),
            "mknod": lambda: os.mknod(f"{path}-made", stat.S_IFREG | SET_USER),
        }
    )


def main() -> None:
    name, args = sys.argv[1], json.loads(sys.argv[2])
    try:
        reached = globals()[name](args)
    except OSError as error:
        reached = None if name != "usable" else str(error)
    sys.stdout.write(json.dumps({"reached": reached}) + "\n")


if __name__ == "__main__":
    main()
