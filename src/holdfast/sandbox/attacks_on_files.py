"""Those attacks on the sandbox that are about files: reading, changing, moving, planting. See `attacks`."""

# Plain calls are the point here.
# ruff: noqa: PTH101, PTH104, PTH108, PTH120, PTH211, S103
from __future__ import annotations

import os
import stat
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.sandbox.attacks import Args, any_of, call, opening, writing
else:
    from attacks import any_of, call, opening, writing

SET_USER, SET_GROUP = 0o4755, 0o2755
FCHMODAT2, OPENAT2, HERE = 452, 437, -100


def read_denied(args: Args) -> str | None:
    link = f"{args['project']}/link-to-secret"
    os.symlink(args["secret"], link)
    places = (args["secret"], args["secret_file"], link, f"/proc/self/root{args['secret']}")
    attempts = {place: opening(place, os.O_RDONLY) for place in places}
    return any_of(attempts | {"hard link": lambda: os.link(args["secret"], f"{args['project']}/hard")})


def change_protected(args: Args) -> str | None:
    for path in args["protected"]:
        for attempt in (
            opening(path, os.O_WRONLY | os.O_TRUNC),
            lambda path=path: os.chmod(path, 0o777),
            lambda path=path: os.rename(path, path + ".away"),
            lambda path=path: os.unlink(path),
            writing(path),
        ):
            any_of({path: attempt})
    return None


def create_protected(args: Args) -> str | None:
    for path in args["absent"]:
        any_of({path: writing(path), "link": lambda path=path: os.symlink("/etc", path)})
    return None


def rename_parent(args: Args) -> str | None:
    for path in args["parents"]:
        any_of({path: lambda path=path: os.rename(path, path + "-moved")})
        any_of({path: writing(f"{path}/.git/hooks/pre-commit"), "b": writing(f"{path}/hooks/pre-commit")})
        any_of({path: writing(f"{path}/.git/config"), "b": writing(f"{path}/config")})
    return None


def links(args: Args) -> str | None:
    project, target = args["project"], args["canary"]

    def through_symlink() -> None:
        os.symlink(target, f"{project}/out")
        writing(f"{project}/out")()

    def through_hard_link() -> None:
        os.link(target, f"{project}/hard")
        writing(f"{project}/hard")()

    def through_root() -> None:
        writing(f"/proc/self/root{target}")()

    return any_of({"symlink": through_symlink, "hard link": through_hard_link, "root": through_root})


def move_away(args: Args) -> str | None:
    """Move every folder above what must stay, and put something else in its place."""
    for path in args["staying"]:
        above = os.path.dirname(path)
        while above != args["workshop"]:
            any_of({above: lambda above=above: os.rename(above, above + "-moved")})
            above = os.path.dirname(above)
        any_of({path: writing(path)})
    return None


def set_id(args: Args) -> str | None:
    path = f"{args['project']}/set-id"
    writing(path)()
    fd = os.open(path, os.O_RDONLY)
    how = struct.pack("=QQQ", os.O_WRONLY | os.O_CREAT, SET_USER, 0)
    return any_of(
        {
            "chmod": lambda: os.chmod(path, SET_USER),
            "chmod of the group": lambda: os.chmod(path, SET_GROUP),
            "fchmod": lambda: os.fchmod(fd, SET_USER),
            "fchmodat": lambda: os.chmod("set-id", SET_USER, dir_fd=os.open(args["project"], os.O_RDONLY)),
            "fchmodat2": lambda: call(FCHMODAT2, HERE, path.encode(), SET_USER, 0),
            "open": lambda: os.open(f"{path}-opened", os.O_WRONLY | os.O_CREAT, SET_USER),
            "temporary": lambda: os.open(args["project"], os.O_WRONLY | os.O_TMPFILE, SET_USER),
            "openat2": lambda: call(OPENAT2, HERE, f"{path}-opened-too".encode(), how, len(how)),
            "mknod": lambda: os.mknod(f"{path}-made", stat.S_IFREG | SET_USER),
        }
    )
