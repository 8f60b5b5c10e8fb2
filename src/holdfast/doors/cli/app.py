"""Runs one command line: finds the command, and turns whatever it raises into one sentence and an exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.contract.errors import HoldfastError
from holdfast.doors.cli import failures

if TYPE_CHECKING:
    import click


def run(argv: Sequence[str]) -> int:
    """The exit code of `holdfast ARGV…`."""
    options = argv[: argv.index("--")] if "--" in argv else argv
    as_json, debug = "--json" in options, "--debug" in options
    try:
        code = _dispatch(argv)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return failures.report("interrupted", "Interrupted.", failures.INTERRUPTED, as_json=as_json)
    except BrokenPipeError:
        return failures.hush()
    except HoldfastError as error:
        return _last_words(lambda: failures.report_error(error, as_json=as_json))
    except Exception as error:
        return failures.report_unexpected(error, as_json=as_json, debug=debug)
    return code


def _dispatch(argv: Sequence[str]) -> int:
    from holdfast.doors.cli.quick import quick_call

    code = quick_call(argv)
    return _run_click(list(argv)) if code is None else code
