"""Resource limits of commands."""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast import Answer, Config, Result, Runtime
from holdfast.config.config import ApprovalConfig, SandboxConfig
from holdfast.contract.call import PendingCall
from holdfast.contract.command import Command
from holdfast.sandbox import limits
from holdfast.sandbox.landlock import Landlock
from holdfast.sandbox.launch import Backend, clean_up
from holdfast.sandbox.limits import ControlGroups, Limits, group_parents, rlimits
from holdfast.sandbox.sandbox import Sandbox
from holdfast.sandbox.supervisor.client import Supervisor
from holdfast.tools.shell import SHELL_EXEC
from tests.runtime.support import run as run_async
from tests.sandbox.sandboxed_commands import best_backend, bubblewraps, policy, run
from tests.sandbox.unprivileged_user import run_as_nobody
from tests.soak import rounds


@pytest.mark.spec("N2")
def test_limits_become_rlimits_and_never_exceed_the_hard_limit() -> None:
    found = dict(rlimits(Limits(memory=2**30, file_size=5, open_files=10**9, cpu_seconds=7)))
    assert found[resource.RLIMIT_CORE] == 0
    assert found[resource.RLIMIT_DATA] == 2**30
    assert found[resource.RLIMIT_FSIZE] == 5
    assert found[resource.RLIMIT_CPU] == 7
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    assert found[resource.RLIMIT_NOFILE] == (10**9 if hard == resource.RLIM_INFINITY else min(10**9, hard))
    assert dict(rlimits(Limits())) == {resource.RLIMIT_CORE: 0}


@pytest.mark.spec("N2")
def test_running_processes_do_not_count_against_a_command() -> None:
    assert dict(rlimits(Limits(processes=10)))[resource.RLIMIT_NPROC] > 10


@pytest.mark.spec("N2")
@pytest.mark.skipif(not group_parents(), reason="this user may not make control groups")
def test_control_groups_are_created_with_the_limits_and_removed() -> None:
    groups = ControlGroups(Limits(memory=2**28, processes=33))
    said = [file.read_text().strip() for folder in groups.folders for file in Path(folder).glob("pids.max")]
    assert groups.folders
    assert all(Path(folder).is_dir() for folder in groups.folders)
    assert said in ([], ["33"])
    groups.remove()
    assert not any(Path(folder).exists() for folder in groups.folders)
    groups.remove()


@pytest.mark.spec("N2")
def test_without_control_groups_rlimits_still_apply(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "group_parents", lambda: ())
    assert ControlGroups(Limits(memory=1, processes=1)).folders == ()


@pytest.mark.spec("N2")
@pytest.mark.parametrize(
    ("options", "script"),
    [
        ({"file_size": 4096}, "head -c 10000 /dev/zero > big"),
        ({"open_files": 20}, "exec 30>/dev/null"),
        ({"memory": 64 * 2**20}, "x=$(head -c 200000000 /dev/zero | tr '\\0' x); echo ${#x}"),
        ({"cpu_seconds": 1}, "while :; do :; done"),
    ],
)
def test_a_command_that_uses_too_much_fails(tmp_path: Path, options: dict[str, int], script: str) -> None:
    assert run(best_backend(), policy(tmp_path), "bash", "-c", "true", cwd=tmp_path).code == 0
    found = run(best_backend(), policy(tmp_path, tmp_path, **options), "bash", "-c", script, cwd=tmp_path)
    assert found.code != 0
    assert not (tmp_path / "big").exists() or (tmp_path / "big").stat().st_size <= 4096


MEMORY = 96 * 2**20
BACKENDS: list[Backend] = [*bubblewraps(), Landlock()]
GROUPED = any(controller == "memory" for _parent, files in group_parents() for controller, _file in files)


@pytest.fixture
def ungrouped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate a machine where this user may not create control groups."""
    monkeypatch.setattr(limits, "group_parents", lambda: ())


def python(backend: Backend, folder: Path, script: str, **options: Any) -> tuple[int, str]:
    """Run a script as a contained command; return its output."""
    argv = (sys.executable, "-I", "-S", "-c", script)
    done = run(backend, policy(folder, folder, **options), *argv, cwd=folder)
    return done.code, (done.out + done.err).strip()


MEMFD = """
import os, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
fd = os.memfd_create("x")
try:
    os.ftruncate(fd, 2 * {size})
except OSError as error:
    print(error.strerror)
"""
PRIVATE = "bytearray(2 * {size}); print('taken')"
SHARED = """
import mmap
taken = mmap.mmap(-1, 2 * {size}, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS)
for at in range(0, 2 * {size}, 4096):
    taken[at] = 1
print('taken')
"""
SIZES = "import os; print(*(os.statvfs(f).f_blocks * os.statvfs(f).f_frsize for f in ('/tmp', '/dev/shm')))"


@pytest.mark.spec("N2")
@pytest.mark.usefixtures("ungrouped")
@pytest.mark.parametrize("backend", BACKENDS, ids=lambda one: one.title)
def test_without_control_groups_private_memory_and_file_size_are_limited(backend: Backend, tmp_path: Path) -> None:
    said = python(backend, tmp_path, PRIVATE.format(size=MEMORY), memory=MEMORY)
    assert said[0] != 0 and "MemoryError" in said[1]
    assert python(backend, tmp_path, MEMFD.format(size=2**20), file_size=2**20) == (0, "File too large")


@pytest.mark.spec("N2")
@pytest.mark.usefixtures("ungrouped")
@pytest.mark.parametrize("backend", BACKENDS, ids=lambda one: one.title)
def test_without_control_groups_shared_maps_are_not_counted_as_documented(backend: Backend, tmp_path: Path) -> None:
    assert python(backend, tmp_path, SHARED.format(size=MEMORY), memory=MEMORY) == (0, "taken")


@pytest.mark.spec("N2")
@pytest.mark.skipif(not GROUPED, reason="this user may not make control groups of memory")
@pytest.mark.parametrize("backend", BACKENDS, ids=lambda one: one.title)
def test_with_control_groups_shared_maps_count(backend: Backend, tmp_path: Path) -> None:
    code, said = python(backend, tmp_path, SHARED.format(size=MEMORY), memory=MEMORY)
    assert code != 0 and "taken" not in said


@pytest.mark.spec("N2")
@pytest.mark.parametrize("backend", bubblewraps(), ids=lambda one: one.title)
def test_private_folders_have_a_size_limit(backend: Backend, tmp_path: Path) -> None:
    """Private folders are memory."""
    assert python(backend, tmp_path, SIZES) == (0, f"{2**30} {2**30}")
    code, said = python(backend, tmp_path, "open('/dev/shm/x', 'w').close(); open('/dev/x', 'w')")
    assert code != 0 and "Read-only file system: '/dev/x'" in said


@pytest.mark.spec("N2")
@pytest.mark.parametrize("backend", bubblewraps(), ids=lambda one: one.title)
def test_a_command_that_sees_only_the_project_cannot_write_next_to_it(backend: Backend, tmp_path: Path) -> None:
    """The folder around the project is an in-memory folder without a size limit."""
    argv = (sys.executable, "-I", "-S", "-c", "open('/x', 'w')")
    done = run(backend, policy(tmp_path, tmp_path), *argv, cwd=tmp_path, sees="project")
    assert done.code != 0 and "Read-only file system: '/x'" in done.err


@pytest.mark.spec("N2")
def test_landlock_denies_dev_shm(tmp_path: Path) -> None:
    code, said = python(Landlock(), tmp_path, "open('/dev/shm/x', 'w')")
    assert code != 0 and "Permission denied" in said


BOMB = """
import os, signal, sys, time
started = []
try:
    for _ in range(int(sys.argv[1])):
        pid = os.fork()
        if pid == 0:
            time.sleep(60)
            os._exit(0)
        started.append(pid)
except OSError:
    print("stopped")
for pid in started:
    os.kill(pid, signal.SIGKILL)
"""
AS_NOBODY = """
import json, sys
from pathlib import Path
from holdfast.config.config import SandboxConfig
from holdfast.contract.command import Command
from holdfast.sandbox import limits
from holdfast.sandbox.launch import run_launch
from holdfast.sandbox.sandbox import Sandbox
limits.group_parents = lambda: ()
bomb = {bomb!r}
ceiling = 2000 + int(Path("/proc/loadavg").read_text().split()[3].partition("/")[2])
found = {{}}
for mode in ("auto", "off"):
    sandbox = Sandbox(SandboxConfig(mode=mode, processes=20), root=Path.home())
    argv = (sys.executable, "-I", "-S", "-c", bomb, str(ceiling))
    found[mode] = run_launch(sandbox.launch(Command(argv=argv, cwd=Path.home())), 60)[1].decode()
print(json.dumps(found))
"""


@pytest.mark.spec("N2")
def test_without_control_groups_processes_of_an_ordinary_user_are_limited_in_every_mode(tmp_path: Path) -> None:
    done = run_as_nobody(AS_NOBODY.format(bomb=BOMB), tmp_path)
    assert done.stdout.strip() == '{"auto": "stopped\\n", "off": "stopped\\n"}', done.stderr


def bare(folder: Path, command: str, **options: Any) -> Result:
    """Run with the sandbox off, through the supervisor."""
    config = Config(sandbox=SandboxConfig(mode="off", **options), approval=ApprovalConfig(auto_approve=("shell.exec",)))

    async def main() -> Result:
        async with Runtime(tools=[SHELL_EXEC], root=folder, config=config, asker=_yes) as runtime:
            return await runtime.call("shell.exec", {"command": command})

    return run_async(main(), 60)


async def _yes(held: PendingCall) -> Answer:
    return Answer(kind="approve", by="test")


@pytest.mark.spec("N2")
@pytest.mark.parametrize(
    ("options", "command", "found"),
    [
        ({"open_files": 77}, "ulimit -n; ulimit -Hn; ulimit -n 78 2>/dev/null || echo stays", "77\n77\nstays"),
        ({"file_size": 8192}, "ulimit -Hf; (head -c 9999 /dev/zero > big; :) 2>/dev/null; stat -c %s big", "8\n8192"),
        ({}, "echo core $(ulimit -Hc)", "core 0"),
        ({"memory": 64 * 2**20}, "ulimit -Hd", "65536"),
        ({"cpu_seconds": 1}, "bash -c 'while :; do :; done'; echo ended $?", "ended 137"),
    ],
    ids=["open files", "file size", "core", "memory", "processor"],
)
def test_limits_apply_with_the_sandbox_off(tmp_path: Path, options: dict[str, int], command: str, found: str) -> None:
    result = bare(tmp_path, command, **options)
    assert found in result.output + (result.error or ""), result


@pytest.mark.spec("N2")
@pytest.mark.skipif(not group_parents(), reason="this user may not make control groups")
def test_processes_are_limited_with_the_sandbox_off(tmp_path: Path) -> None:
    (tmp_path / "bomb.py").write_text(BOMB)
    result = bare(tmp_path, f"{sys.executable} -I -S bomb.py 200", processes=30)
    assert "stopped" in result.output + (result.error or ""), result


def read_at_once(folder: Path, times: int, **options: Any) -> set[tuple[str, str]]:
    """Start a program several times; return the open-file hard limit and the groups that /proc shows right after the
    start."""
    sandbox = Sandbox(SandboxConfig(mode="off", **options), root=folder)
    command = Command(argv=("/bin/cat", "/proc/self/limits", "/proc/self/cgroup"), cwd=folder)
    supervisor = Supervisor()

    def once() -> tuple[str, str]:
        launch = sandbox.launch(command)
        said.truncate(0)

        async def main() -> None:
            job = supervisor.run(launch, nothing.fileno(), said.fileno(), said.fileno())
            assert (await job.wait()).code == 0

        run_async(main(), 60)
        clean_up(launch)
        text = Path(said.name).read_text()
        groups = [group for group in launch.cgroups if f"/{Path(group).name}\n" in text]
        hard = next(line.split()[4] for line in text.splitlines() if line.startswith("Max open files"))
        return hard, f"in {len(groups)} of {len(launch.cgroups)} groups"

    with (folder / "said").open("a") as said, Path(os.devnull).open() as nothing:
        try:
            return {once() for _ in range(times)}
        finally:
            supervisor.close()


@pytest.mark.spec("N2")
@pytest.mark.parametrize("options", [{}, {"cpu_seconds": 60}, {"processes": 1}, {"memory": 2**20}], ids=str)
def test_limits_apply_from_the_first_instruction(tmp_path: Path, options: dict[str, int]) -> None:
    """If limits were set later, the program could start unlimited children before."""
    groups = sum(any(kind in ("memory", "pids") for kind, _ in files) for _, files in group_parents())
    found = read_at_once(tmp_path, rounds(25, 3000), open_files=77, **options)
    assert found == {("77", f"in {groups} of {groups} groups")}


@pytest.mark.spec("N2")
def test_the_supervisor_itself_is_not_limited(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    own = Path("/proc/self/cgroup").read_text()
    back = f"""grep -q 'Max open files *{soft} *{hard} ' /proc/$PPID/limits && cat /proc/$PPID/cgroup"""
    result = bare(tmp_path, f"for _ in $(seq 1000); do {back} && break; sleep 0.01; done", open_files=20)
    assert result.output.strip() == own.strip(), result
