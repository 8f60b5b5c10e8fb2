"""The `holdfast` command. Imports are inside functions, so that `--version` loads nothing else."""

from __future__ import annotations

import atexit
import gc
import os
import sys

from holdfast import __version__


def main() -> int:
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write(f"holdfast {__version__}\n")
        return 0
    from holdfast.import_path import remove_projects

    remove_projects(sys.argv[1:])  # before most imports
    gc.set_threshold(100_000, 50, 50)  # imports create no garbage, so frequent collections would only cost time
    from holdfast.cli.app import run

    code = run(sys.argv[1:])
    _leave(code)
    return code


def _leave(code: int) -> None:
    """Exit without finalizing the interpreter, which is slower than a call. Exit handlers run."""
    atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage]
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            code = code or 1
    os._exit(code)


if __name__ == "__main__":
    if not sys.flags.safe_path:
        del sys.path[0]  # the working directory, added by `-m`
    sys.exit(main())
