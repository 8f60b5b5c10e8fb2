"""Error reports of commands: one sentence or one JSON object, and the exit code."""

from __future__ import annotations

import os
import sys
from typing import Final

from holdfast.cli.console import print_err, print_json
from holdfast.cli.layout import print_message
from holdfast.contract import errors
from holdfast.text.escape import escape_block_once

FAILED: Final = 1
USAGE: Final = 2
REJECTED: Final = 3
PENDING: Final = 4
INTERRUPTED: Final = 130
PIPE_CLOSED: Final = 141

_WRONG_INPUT: Final = (
    errors.ToolError,
    errors.ArgumentsError,
    errors.ConfigError,
    errors.GrantRefused,
    errors.CallError,
    errors.MemoryRefused,
)
_LANGUAGE: Final = "Unsupported frontmatter language: "


class UsageProblem(errors.HoldfastError):
    """The command line asks for something impossible; exit code 2."""


class Cancelled(Exception):
    """The person pressed Ctrl-C at a prompt, before anything ran."""


CANCELLED: Final = "Cancelled. Nothing ran."


def report_cancelled(*, as_json: bool) -> int:
    if as_json:
        return report("cancelled", CANCELLED, INTERRUPTED, as_json=True)
    print_err(CANCELLED)
    return INTERRUPTED


def exit_code_of(error: errors.HoldfastError) -> int:
    if isinstance(error, errors.StaleApproval):
        return PENDING
    return USAGE if isinstance(error, (UsageProblem, *_WRONG_INPUT)) else FAILED


def kind_of(error: BaseException) -> str:
    """Return the class name in snake case: `UnknownCall` is `unknown_call`."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in type(error).__name__)[1:]


def report(kind: str, message: str, exit_code: int, *, as_json: bool = False) -> int:
    """Print the error and return the exit code."""
    if as_json:
        from holdfast.json_output import ErrorOutput, FailedOutput

        print_json(FailedOutput(error=ErrorOutput(kind=kind, message=message, exit_code=exit_code)))
    else:
        print_message(escape_block_once(message), "Error:", "red")
    return exit_code


def report_error(error: errors.HoldfastError, *, as_json: bool) -> int:
    message = str(error) or kind_of(error)
    if isinstance(error, errors.ConfigError) and _LANGUAGE in message:
        message = f"{message} Write it in toml, json or lua."
    return report(kind_of(error), message, exit_code_of(error), as_json=as_json)


def report_os_error(error: OSError, *, as_json: bool, debug: bool) -> int:
    """Report an error of the operating system, with the file it is about."""
    if error.strerror is None or debug:
        return report_unexpected(error, as_json=as_json, debug=debug)
    where = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
    message = f"{where}{error.strerror}. Check the disk and the permissions, then try again."
    return report("system", message, FAILED, as_json=as_json)


def report_unexpected(error: BaseException, *, as_json: bool, debug: bool) -> int:
    """Report a bug in holdfast or in a module it loaded; the traceback is printed with `--debug` only."""
    if debug:
        import traceback

        print_err(escape_block_once(traceback.format_exc()))
    what = str(error).partition("\n")[0][:200]
    hint = "" if debug else " Run it again with --debug for the traceback."
    message = f"Internal error: {type(error).__name__}{f': {what}' if what else ''}.{hint}"
    return report("internal", message, FAILED, as_json=as_json)


def silence_stdout() -> int:
    """Handle a broken pipe: point stdout at /dev/null, so that the interpreter's flush at exit does not fail too."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)
    return PIPE_CLOSED
