"""Run Python as a user without rights, also where the interpreter lies in a folder only root may enter."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

NOBODY = 200_000 + os.getpid()
"""A user of this process alone: the kernel counts the processes of a user on the whole machine."""
SEEN_AT = "/mnt"
"""Where that user finds its folder: those of tests are closed to others."""


def run_as_nobody(script: str, folder: Path, timeout: float = 100) -> subprocess.CompletedProcess[str]:
    """`script` run by a user that may write only in `folder`; by this user if it is not root."""
    argv = [sys.executable, "-c", script]
    home = folder / "home"
    home.mkdir()
    if os.geteuid() == 0:
        folder.chmod(0o755)
        os.chown(home, NOBODY, NOBODY)
        ids = f"--reuid={NOBODY} --regid={NOBODY}"
        steps = [*_reachable(folder), f"exec setpriv {ids} --clear-groups {shlex.join(argv)}"]
        argv = ["unshare", "-m", "--propagation", "private", "sh", "-ec", "; ".join(steps)]
        home = Path(SEEN_AT, "home")
    env = {"PATH": "/usr/bin:/bin", "HOME": str(home), "TMPDIR": str(home), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(argv, env=env, cwd="/", capture_output=True, text=True, timeout=timeout, check=False)


def _reachable(folder: Path) -> list[str]:
    """Mounts, in a namespace of their own, that put the folder and the interpreter where everybody can enter."""
    steps = [f"mount --rbind {shlex.quote(str(folder))} {SEEN_AT}"]
    prefix = Path(os.path.realpath(sys.base_prefix))
    closed = [place for place in prefix.parents if not place.stat().st_mode & 0o001]
    if closed:
        stand_in = folder / "stand-in"
        inside = stand_in / prefix.relative_to(closed[-1])
        inside.mkdir(parents=True)
        steps += [f"mount --rbind {prefix} {shlex.quote(str(inside))}", f"mount --rbind {stand_in} {closed[-1]}"]
    return steps
