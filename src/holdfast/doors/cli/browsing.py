"""Addresses a person is asked to visit: what to know about them, and opening one when the person says so."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from holdfast.config.roots import find_root
from holdfast.doors.forms import fault_of_address
from holdfast.helper_process import NotStarted, person_command, person_environment, start
from holdfast.net.addresses import on_this_machine

_STARTING: Final = 5.0
"""Seconds in which a browser that cannot be started says so; one that stays is open."""


def caution_about(url: str) -> str | None:
    """What a person should know about an address without a fault before they go there."""
    if urlsplit(url).scheme == "http" and not on_this_machine(host_of(url)):
        return "It is not encrypted (http); it is not opened from here."
    return None


def host_of(url: str) -> str:
    return (urlsplit(url).hostname or "").rstrip(".")


async def open_address(url: str) -> str | None:
    """Open it in the person's browser; None, or why that could not be."""
    if fault_of_address(url) is not None or caution_about(url) is not None:
        return "It is not opened from here; open it yourself if you trust it."
    if sys.platform != "darwin" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return "There is no browser with a window here; copy the address."
    return await asyncio.to_thread(_start_browser, url)


def _start_browser(url: str) -> str | None:
    """None, or why none was started. Not by `webbrowser`, which takes what it finds on the whole PATH, a project's
    folders of programs included."""
    from subprocess import DEVNULL, TimeoutExpired

    project = find_root(Path.cwd()) or Path.cwd()
    environment = person_environment(project)
    chosen = [one for one in os.environ.get("BROWSER", "").split(os.pathsep) if one]
    fault = ""
    for command in (*chosen, *(("open",) if sys.platform == "darwin" else ("xdg-open", "x-www-browser"))):
        try:
            program, *words = person_command(command, project)
        except NotStarted as error:
            fault = fault or (f" (BROWSER: {error})" if command in chosen else "")
            continue
        argv = (program, *((word.replace("%s", url) for word in words) if "%s" in command else (*words, url)))
        with suppress(OSError):
            process = start(
                argv, env=environment, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL, start_new_session=True
            )
            try:
                failed = process.wait(_STARTING) != 0
            except TimeoutExpired:
                return None
            if not failed:
                return None
    return f"No browser could be started{fault}; copy the address."
