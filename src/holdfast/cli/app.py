"""Runs one command line, and turns every exception into an error message and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from holdfast.cli import errors
from holdfast.cli.console import can_ask
from holdfast.contract.errors import HoldfastError


def run_quick_call(argv: Sequence[str]) -> int | None:
    """Run a plain `holdfast call TOOL ARGUMENTS` without importing click; return None if click has to parse it."""
    if len(argv) < 2 or argv[0] != "call":
        return None
    words = [word for word in argv[1:] if word != "--json"]
    if not words or any(word.startswith("-") and word != "-" for word in words):
        return None
    from holdfast.cli.call_runner import run_call  # `--help` and most commands do not need it

    return run_call(words[0], words[1:], as_json=len(words) < len(argv) - 1)


PROGRAM: Final = "holdfast"
COMPLETION: Final = "_HOLDFAST_COMPLETE"
"""The variable that the shell sets when it asks for completions."""


def run(argv: Sequence[str]) -> int:
    """Run `holdfast ARGV…` and return the exit code."""
    _restore_ctrl_c()
    options = argv[: argv.index("--")] if "--" in argv else argv
    as_json, debug = "--json" in options, "--debug" in options
    try:
        code = _run(argv, as_json=as_json, debug=debug)
        sys.stdout.flush()
    except BrokenPipeError:
        return errors.silence_stdout()
    except OSError as error:
        errors.silence_stdout()
        with suppress(OSError):  # standard error is gone too, as after a hang-up
            errors.report("output", f"Cannot write to standard output: {error.strerror}.", errors.FAILED)
        return errors.FAILED
    return code


def _restore_ctrl_c() -> None:
    """Make Ctrl-C interrupt a command that can prompt, even if its parent had SIGINT ignored.

    A script's `command &`, `trap '' INT` and some programs hand that disposition down, and Python then installs no
    handler: Ctrl-C at a prompt would do nothing. A command that cannot prompt leaves SIGINT ignored, as asked.
    """
    if not can_ask():
        return
    import signal

    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _run(argv: Sequence[str], *, as_json: bool, debug: bool) -> int:
    try:
        code = None if COMPLETION in os.environ else run_quick_call(argv)
        return _run_click(list(argv), as_json=as_json) if code is None else code
    except KeyboardInterrupt:
        text = "Interrupted. `holdfast ledger` shows how the call ended."
        return errors.report("interrupted", text, errors.INTERRUPTED, as_json=as_json)
    except errors.Cancelled:
        return errors.report_cancelled(as_json=as_json)
    except HoldfastError as error:
        return errors.report_error(error, as_json=as_json)
    except BrokenPipeError:
        raise
    except OSError as error:
        return errors.report_os_error(error, as_json=as_json, debug=debug)
    except Exception as error:
        return errors.report_unexpected(error, as_json=as_json, debug=debug)


def _run_click(argv: list[str], *, as_json: bool) -> int:
    import click

    from holdfast.cli.root import holdfast

    if COMPLETION in os.environ:
        holdfast.main(argv, prog_name=PROGRAM, complete_var=COMPLETION)
    try:
        with holdfast.make_context(PROGRAM, argv) as ctx:
            code = holdfast.invoke(ctx)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.ClickException as error:
        return errors.report("usage", _usage_message(error), errors.USAGE, as_json=as_json)
    return code if isinstance(code, int) else 0


def _usage_message(error: object) -> str:
    """Return click's message as a sentence, with a pointer to `--help`."""
    import click

    assert isinstance(error, click.ClickException)
    text = " ".join(error.format_message().split())
    text = text if text.endswith((".", "?", "!")) else f"{text}."
    context = error.ctx if isinstance(error, click.UsageError) else None
    command = PROGRAM if context is None else context.command_path
    return text if "`" in text or text.endswith("?") else f"{text} See `{command} --help`."
