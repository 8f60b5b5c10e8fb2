"""The messages between the runtime and the process that controls the browser: frames of MessagePack on its pipes."""

from __future__ import annotations

import asyncio
from typing import Final, Literal

import msgspec
from msgspec import Struct

MAX_FRAME: Final = 64 * 1024 * 1024
MAX_URL: Final = 4000
"""Characters of the URL of a page; a page can make its own much longer."""
_LENGTH: Final = 4


class Launch(Struct, frozen=True, kw_only=True):
    """The first message to the process: how to start Chromium."""

    executable: str
    arguments: tuple[str, ...]
    headless: bool
    sandboxed: bool
    """Whether Chromium's own sandbox is on; it cannot be for root."""
    folder: str
    """A private folder for the profile and unfinished downloads."""
    proxy: str
    username: str
    password: str
    user_agent: str | None
    navigation_seconds: float
    action_seconds: float
    download_bytes: int
    """Bytes of one download; a larger one is cancelled."""
    downloads: int
    """Number of downloads in the session."""


class Target(Struct, frozen=True, kw_only=True):
    """An element: by reference, or by role and name."""

    ref: str | None = None
    role: str | None = None
    name: str | None = None


class Operation(Struct, frozen=True, tag=True):
    """What the process shall do."""


class Navigate(Operation, frozen=True):
    url: str


class Back(Operation, frozen=True):
    pass


class Read(Operation, frozen=True, kw_only=True):
    """Returns the page, or one element of it, as a snapshot or as plain text."""

    target: Target | None = None
    plain: bool = False


class Locate(Operation, frozen=True):
    """Returns an element without acting on it."""

    target: Target


class Act(Operation, frozen=True, kw_only=True):
    """Acts on an element that was located before, if it and its page are still the same."""

    kind: Literal["click", "type", "select"]
    element: Located
    text: str = ""
    secrets: tuple[str, ...] = ()
    """The secrets in the text."""
    submit: bool = False
    values: tuple[str, ...] = ()


class Wait(Operation, frozen=True, kw_only=True):
    text: str | None = None
    gone: str | None = None
    seconds: float


class Screenshot(Operation, frozen=True, kw_only=True):
    target: Target | None = None
    full_page: bool = False


class FrameSeen(Struct, frozen=True):
    """A frame of the page, with the document in it."""

    url: str
    document: int
    """Counts the documents of all frames, so that another one with the same URL is noticed."""


class Located(Struct, frozen=True, kw_only=True):
    """An element as it is now."""

    ref: str
    role: str
    name: str
    url: str
    """The URL of the page."""
    document: int
    """Counts the documents that the browser has loaded, so that another one with the same URL is noticed."""
    frames: tuple[FrameSeen, ...] = ()
    """The frames around the element, the innermost first; empty if it is in the page itself."""
    link: str = ""
    """Where a link leads."""
    description: str
    """Such as `button «Pay»`."""
    field_type: str = ""
    """The type of an input field, such as `password`."""
    autocomplete: str = ""
    submits: bool = False
    """Whether a click on it submits a form."""
    sends: bool = False
    """Whether that form is sent with POST."""


class PageEvent(Struct, frozen=True):
    """Something that happened beside the answer."""

    kind: Literal["dialog", "blocked", "window", "download", "error", "file", "browser"]
    text: str


class Download(Struct, frozen=True):
    """A finished download that is still in the folder of the process."""

    name: str
    """As the page suggests it."""
    path: str
    url: str


class PageView(Struct, frozen=True, kw_only=True):
    """The page after an operation."""

    url: str = "about:blank"
    title: str = ""
    status: int | None = None
    document: int = 0
    lines: tuple[str, ...] = ()
    omitted: int = 0
    """Lines of a very large page that were not kept."""


class Reply(Struct, frozen=True, kw_only=True):
    id: int
    error: str | None = None
    stale: bool = False
    """The error is that the page has changed since the element was located."""
    page: PageView | None = None
    located: Located | None = None
    image: bytes = b""
    mime_type: str = "image/png"
    events: tuple[PageEvent, ...] = ()
    downloads: tuple[Download, ...] = ()


class Request(Struct, frozen=True, kw_only=True):
    id: int
    operation: Navigate | Back | Read | Locate | Act | Wait | Screenshot | None
    """None cancels the operation with this id."""
    hosts: tuple[str, ...] = ()
    """The hosts whose pages may be opened."""
    asked: tuple[str, ...] = ()
    """Those among them to which pages of other hosts may send data: the user was asked about them."""


def frame(message: Struct) -> bytes:
    body = msgspec.msgpack.encode(message)
    if len(body) > MAX_FRAME:
        raise ValueError(f"message of {len(body)} bytes")
    return len(body).to_bytes(_LENGTH, "big") + body


async def read_frame(reader: asyncio.StreamReader) -> bytes | None:
    """Return the next frame; None at the end. Raises `ValueError` for one that is too long."""
    try:
        size = int.from_bytes(await reader.readexactly(_LENGTH), "big")
        if size > MAX_FRAME:
            raise ValueError(f"frame of {size} bytes")
        return await reader.readexactly(size)
    except asyncio.IncompleteReadError:
        return None
