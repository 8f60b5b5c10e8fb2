"""Run Python as an unprivileged user, even if only root may enter the interpreter's folder."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

NOBODY = 200_000 + os.getpid()
"""A user id for this process alone: the kernel counts processes per user for the whole machine."""
SEEN_AT = "/mnt"
"""The folder's mount point for that user: other users cannot enter the folders of tests."""


def run_as_nobody(script: str, folder: Path, timeout: float = 100) -> subprocess.CompletedProcess[str]:
    """Run `script` as a user that may write only in `folder`; as this user if it is not root."""
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
    """Commands that bind-mount the folder and the interpreter, in a private namespace, where any user can enter."""
    steps = [f"mount --rbind {shlex.quote(str(folder))} {SEEN_AT}"]
    prefix = Path(os.path.realpath(sys.base_prefix))
    closed = [place for place in prefix.parents if not place.stat().st_mode & 0o001]
    if closed:
        stand_in = folder / "stand-in"
        inside = stand_in / prefix.relative_to(closed[-1])
        inside.mkdir(parents=True)
        steps += [f"mount --rbind {prefix} {shlex.quote(str(inside))}", f"mount --rbind {stand_in} {closed[-1]}"]
    return steps
