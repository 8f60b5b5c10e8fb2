"""The desktop channel: `notify-send` of the freedesktop notification specification."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from contextlib import suppress
from html import escape as escape_markup
from pathlib import Path
from typing import Final

from holdfast import helper_process
from holdfast.notify.channel import ChannelFailed
from holdfast.notify.message import Message
from holdfast.text.escape import clip, escape_once

PROGRAM: Final = "notify-send"
_SESSION: Final = ("DBUS_SESSION_BUS_ADDRESS", "WAYLAND_DISPLAY", "DISPLAY")
_MAX_ERROR: Final = 2_000


def missing_desktop(environment: Mapping[str, str], project: Path) -> str:
    """Return why there is no desktop to notify; empty if there is one."""
    try:
        helper_process.user_program(PROGRAM, project)
    except helper_process.ProgramRefused:
        return f"{PROGRAM} is not installed"
    bus = Path(environment.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}", "bus")
    has_session = any(environment.get(name) for name in _SESSION) or bus.exists()
    return "" if has_session else "there is no desktop session"


def command(message: Message) -> tuple[str, ...]:
    """Return the arguments. Servers read markup in the body, so that is escaped; `--` ends the options."""
    lines = (*message.lines, *((message.link,) if message.link else ()))
    body = "\n".join(escape_markup(line, quote=False) for line in lines)
    urgency = "critical" if message.urgent else "normal"
    return ("--app-name=holdfast", f"--urgency={urgency}", "--", message.title, body)


class DesktopChannel:
    name: str = "desktop"
    target: str = PROGRAM

    def __init__(self, project: Path) -> None:
        """A program in the project is never run."""
        self._project = project

    async def send(self, message: Message) -> None:
        try:
            program = helper_process.user_program(PROGRAM, self._project)
            process = await helper_process.start_async(
                (program, *command(message)),
                env=helper_process.user_environment(self._project),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            raise ChannelFailed(f"{PROGRAM} cannot be started: {error.strerror or error}.") from None
        try:
            stderr = process.stderr
            said = b"" if stderr is None else await stderr.read(_MAX_ERROR)
            code = await process.wait()
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        if code != 0:
            reason = clip(escape_once(said.decode("utf-8", "replace").strip()), 200)
            raise ChannelFailed(f"{PROGRAM} failed with exit code {code}{f': {reason}' if reason else '.'}")
