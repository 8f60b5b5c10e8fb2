"""The Landlock backend, for machines without bubblewrap. It uses no namespaces, so it contains less.

It cannot protect paths inside a writable folder, and it cannot hide the processes of the host.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct

from holdfast import privileges, seccomp
from holdfast.contract.command import Command
from holdfast.contract.errors import SandboxRefused
from holdfast.fs.temporary import make_temporary_folder, remove_temporary_folder
from holdfast.sandbox.launch import Launch, Overlay, find_program
from holdfast.sandbox.limits import ControlGroups, rlimits
from holdfast.sandbox.policy import SandboxPolicy, command_environment, installation_folders

READ: Final = privileges.EXECUTE | privileges.READ_FILE | privileges.READ_DIR
WRITE: Final = privileges.file_rights(5) & ~privileges.MAKE_DEVICES
_DEVICES: Final = ("null", "zero", "full", "random", "urandom")
_HIDDEN_FOLDERS: Final = tuple(map(Path, ("/run", "/tmp", "/var/tmp", "/dev", "/sys")))  # noqa: S108
_MIN_ABI: Final = 3
"""The first version that controls truncation."""
NOT_CONTAINED: Final = frozenset({"change-protected", "create-protected", "rename-parent", "host-processes"})


class Landlock(Struct, frozen=True, kw_only=True):
    name: str = "landlock"
    priority: int = 10

    @property
    def title(self) -> str:
        return f"landlock version {privileges.landlock_abi()}"

    @property
    def identity(self) -> str:
        return f"landlock {privileges.landlock_abi()} {platform.machine()}"

    @property
    def guarantees(self) -> frozenset[str]:
        from holdfast.sandbox.escape_tests import ESCAPE_TESTS  # only the conformance suite needs it

        return frozenset(ESCAPE_TESTS) - NOT_CONTAINED

    def available(self) -> str | None:
        if not seccomp.supported():
            return "there is no seccomp filter for this processor"
        abi = privileges.landlock_abi()
        if abi < _MIN_ABI:
            return f"the kernel has Landlock version {abi}, and at least {_MIN_ABI} is needed"
        return None

    def launch(self, policy: SandboxPolicy, command: Command, overlays: tuple[Overlay, ...]) -> Launch:
        if overlays:
            raise SandboxRefused("The Landlock backend does not support overlays.")
        if isinstance(policy.network, tuple) and not command.read_only:
            raise SandboxRefused(
                "The Landlock backend cannot restrict commands to some hosts. "
                'Set sandbox.network to "off" or "on", or install bubblewrap.'
            )
        cwd = os.path.realpath(command.cwd or policy.root or Path.cwd())
        home = _Home()
        try:
            environment = {**command_environment(policy, command, home=home.path), "TMPDIR": home.path, **command.env}
            program = find_program(command.argv[0], environment["PATH"], cwd)
            rules = tuple(_rules(policy, command, program, cwd, home.path))
        except BaseException:
            home.remove()
            raise
        groups = ControlGroups(policy.limits)
        offline = policy.network != "on" or command.read_only
        return Launch(
            argv=(program, *command.argv[1:]),
            cwd=cwd,
            env=environment,
            rlimits=rlimits(policy.limits),
            cgroups=groups.folders,
            landlock=rules,
            landlock_net=offline,
            seccomp=seccomp.filter_program(sockets=not offline),
            contained=True,
            cleanup=(home.remove, groups.remove),
        )


class _Home:
    """A private home and temporary folder for one command."""

    def __init__(self) -> None:
        self.path = str(make_temporary_folder("home"))
        git = Path.home() / ".gitconfig"
        if git.exists():
            Path(self.path, ".gitconfig").symlink_to(git)

    def remove(self) -> None:
        remove_temporary_folder(Path(self.path))


def _rules(policy: SandboxPolicy, command: Command, program: str, cwd: str, home: str) -> Iterator[tuple[str, int]]:
    root = () if policy.root is None else (policy.root,)
    seen: Iterable[Path]
    if command.sees == "project":
        programs = map(Path, ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix", "/etc", "/proc"))
        seen = (*programs, *root, *command.shows)
        if any(Path(os.path.realpath(program)).is_relative_to(folder) for folder in installation_folders()):
            seen = (*seen, *installation_folders())
    else:
        seen = (Path("/"), *root, Path(cwd), *installation_folders())
    denied = (*policy.read_deny, *policy.pattern_matches)
    # A Landlock right covers everything below its path and cannot be revoked there. A folder with hidden files is
    # therefore granted file by file; listing it still shows their names.
    for folder in {path.parent for path in policy.pattern_matches if not path.is_dir()}:
        if not any(path.is_dir() and path.is_relative_to(folder) for path in denied):
            yield str(folder), privileges.READ_DIR
    for path in seen:
        for allowed in _around(path, (*denied, *(() if path != Path("/") else _HIDDEN_FOLDERS))):
            yield str(allowed), READ
    for path in policy.granted:
        for allowed in _around(path, denied):
            yield str(allowed), READ
    for place in {program, os.path.realpath(program)}:
        yield place, READ
    for name in _DEVICES:
        yield f"/dev/{name}", READ | privileges.WRITE_FILE
    yield home, WRITE
    if not command.read_only:
        for folder in policy.writable:
            for allowed in _around(folder, (*denied, *policy.installation)):
                yield str(allowed), WRITE if allowed == folder or allowed.is_dir() else WRITE & privileges.FILE_RIGHTS


def _around(folder: Path, denied: Iterable[Path]) -> Iterator[Path]:
    """Yield the folder, or, if it contains a denied path, its entries except that path: rights cannot be revoked
    below."""
    inside = [path for path in denied if path.is_relative_to(folder)]
    if folder in inside:
        return
    if not inside:
        yield folder
        return
    try:
        names = sorted(os.listdir(folder))  # noqa: PTH208
    except OSError:
        return
    for name in names:
        if not (folder / name).is_symlink():
            yield from _around(folder / name, inside)
