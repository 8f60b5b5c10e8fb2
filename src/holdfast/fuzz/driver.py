"""Runs inside the sandbox: executes commands one after another in a small project and reports what each of them did.

Standard library only, as it runs as an isolated script. Reads JSON from standard input, writes JSON to standard output.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

Trace = dict[str, tuple[int, ...]]
Snapshot = dict[Path, "tuple[int, bytes | str | None]"]
_LIMIT = 3.0
_WATCHED = ("/tmp", "/dev/shm", "/var/tmp")  # noqa: S108


def main() -> None:
    base, job = Path(sys.argv[1]), json.load(sys.stdin)
    saved = _snapshot(base)
    before = _trace(base)
    found: list[list[str]] = []
    for command in job["commands"]:
        output = _run(command, job["shell"], base, job["env"])
        after = _trace(base)
        harm = [] if after == before else _changes(before, after, base)
        harm += [f"it printed {name}" for name, token in job["secrets"].items() if _shows(output, token)]
        if after != before:
            _restore(base, saved)
            before = _trace(base)
        found.append(harm)
    json.dump(found, sys.stdout)


def _run(command: str, shell: str, base: Path, env: dict[str, str]) -> bytes:
    try:
        process = subprocess.Popen(
            [shell, "-c", command], cwd=base / "project", env={**env, "HOME": str(base / "home")},
            start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
    except ValueError:  # an argument with a NUL cannot be passed to a process, so nothing runs
        return b""
    try:
        return process.communicate(timeout=_LIMIT)[0]
    except subprocess.TimeoutExpired:
        return b""
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _shows(output: bytes, token: str) -> bool:
    plain = output.lower()
    return token.lower().encode() in plain or token[::-1].lower().encode() in plain


def _trace(base: Path) -> Trace:
    """The metadata of everything under the watched folders. The git index is skipped, because reading refreshes it.

    Other mounts are skipped: only processes outside the sandbox can change them.
    """
    found: Trace = {}
    for top in (str(base), *_WATCHED):
        device = os.lstat(top).st_dev
        for folder, folders, files in os.walk(top):
            inner = ((name, os.path.join(folder, name)) for name in folders)  # noqa: PTH118
            folders[:] = [name for name, path in inner if path != str(base) and os.lstat(path).st_dev == device]
            for name in (*folders, *files):
                path = os.path.join(folder, name)  # noqa: PTH118
                if path.endswith(("/.git", "/.git/index", "/.git/index.lock")):
                    continue
                stat = os.lstat(path)
                size = stat.st_size if name in files else 0
                when = stat.st_mtime_ns if name in files else 0
                found[path] = (stat.st_mode, stat.st_ino, size, when)
    return found


def _changes(before: Trace, after: Trace, base: Path) -> list[str]:
    changed = sorted(path for path in {*before, *after} if before.get(path) != after.get(path))
    descriptions = [f"it changed {path.removeprefix(f'{base}/')}" for path in changed[:3]]
    return ["it ran a planted program"] if any(path.endswith("/marks/ran") for path in changed) else descriptions


def _snapshot(base: Path) -> Snapshot:
    return {path: state for path in sorted(base.rglob("*")) if (state := _state(path)) is not None}


def _state(path: Path) -> tuple[int, bytes | str | None] | None:
    """The mode and the content, link target or None for a folder; None if the path cannot be read."""
    try:
        mode = path.lstat().st_mode
        if path.is_symlink():
            return mode, str(path.readlink())
        return mode, None if path.is_dir() else path.read_bytes() if path.is_file() else ""
    except OSError:
        return None


def _restore(base: Path, saved: Snapshot) -> None:
    for path in sorted(base.rglob("*"), reverse=True):
        if path not in saved:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
    for path, (mode, content) in saved.items():
        if _state(path) == (mode, content):
            continue
        if path.is_dir() and not path.is_symlink() and content is not None:
            shutil.rmtree(path)
        elif content is not None or not path.is_dir():
            path.unlink(missing_ok=True)
        if content is None:
            path.mkdir(exist_ok=True)
            path.chmod(mode & 0o7777)
        elif isinstance(content, str):
            path.symlink_to(content)
        else:
            path.write_bytes(content)
            path.chmod(mode & 0o7777)


if __name__ == "__main__":
    main()
