"""Addresses a person is asked to visit: what to know about them, and opening one when the person says so."""

from __future__ import annotations

import asyncio
import os
import sys
from urllib.parse import urlsplit

from holdfast.doors.forms import fault_of_address


def caution_about(url: str) -> str | None:
    """What a person should know about an address without a fault before they go there."""
    if _is_plain(url) and not is_loopback(host_of(url)):
        return "It is not encrypted (http); it is not opened from here."
    return None


def host_of(url: str) -> str:
    return (urlsplit(url).hostname or "").rstrip(".")


def _is_plain(url: str) -> bool:
    return urlsplit(url).scheme == "http"


def is_loopback(host: str) -> bool:
    from ipaddress import ip_address

    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


async def open_address(url: str) -> str | None:
    """Open it in the person's browser; None, or why that could not be."""
    if fault_of_address(url) is not None or caution_about(url) is not None:
        return "It is not opened from here; open it yourself if you trust it."
    if sys.platform != "darwin" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return "There is no browser with a window here; copy the address."
    import webbrowser

    opened = await asyncio.to_thread(webbrowser.open, url)
    return None if opened else "No browser could be started; copy the address."
