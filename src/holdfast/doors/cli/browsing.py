"""Addresses a person is asked to visit: what is wrong with them, and opening one when the person says so."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

_CLEAN: Final = re.compile(r"[!-~]+")
_ODD: Final = frozenset("\\`\"'<>{}|^")


class Address(Struct, frozen=True):
    host: str
    text: str = ""
    """What a person should know about it."""
    refused: bool = False
    openable: bool = False


def fault_of_address(url: str) -> Address:
    """Whether an address can be shown as a place to go to, and whether it may be opened from here."""
    scheme = url.partition(":")[0].lower()
    if scheme not in ("http", "https"):
        return Address("", "That is no web address.", refused=True)
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").rstrip(".")
        _ = parts.port
    except ValueError:
        return Address("", "That is no web address.", refused=True)
    if not host or not _CLEAN.fullmatch(url) or _ODD & set(url):
        return Address(host, "The address has characters that programs read differently.", refused=True)
    if parts.username is not None or parts.password is not None:
        return Address(host, "The address has a name or a password before its host, which hides where it leads.", True)
    if scheme == "http" and not is_loopback(host):
        return Address(host, "It is not encrypted (http); it is not opened from here.")
    return Address(host, openable=True)


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
    if not fault_of_address(url).openable:
        return "It is not opened from here; open it yourself if you trust it."
    if sys.platform != "darwin" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return "There is no browser with a window here; copy the address."
    import webbrowser

    opened = await asyncio.to_thread(webbrowser.open, url)
    return None if opened else "No browser could be started; copy the address."
