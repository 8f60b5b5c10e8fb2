"""The `holdfast` command. Asking for the version loads nothing else."""

from __future__ import annotations

import sys


def main(argv: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if argv is None else argv
    if arguments == ["--version"]:
        from holdfast import __version__

        sys.stdout.write(f"holdfast {__version__}\n")
        return 0
    from holdfast.doors.cli.app import run

    return run(arguments)


if __name__ == "__main__":
    sys.exit(main())
