"""How the text of an object becomes items of the memory: its namespace, its division, and what a write replaces."""

from __future__ import annotations

import re
from base64 import b32encode
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Final, Literal

from msgspec import Struct

from holdfast.contract.context import Context
from holdfast.contract.errors import HoldfastError, MemoryRefused
from holdfast.contract.memory import MAX_NAMESPACE, MAX_PARTS, Memory, NewItem, check_namespace
from holdfast.text.escape import escape
from holdfast.tools.storage.records import Record, Records, Source

Mode = Literal["append", "replace"]
ITEM_BYTES: Final = 4000
"""The size of an item: small enough that a search by meaning sees most of it, large enough to be understood alone."""
_HASH_CHARS: Final = 26
_HASHED: Final = re.compile(r"(?:.*-)?[a-z2-7]{26}", re.ASCII)
"""A part that looks like one with a hash of ours."""
_NOT_ALLOWED: Final = re.compile(r"[^a-z0-9_.]+")
_BREAKS: Final = ("\n\n", "\n", ". ", " ")
"""Where a text is divided, best first: paragraphs, lines, sentences, words."""
_PAGE: Final = 200


class Stopped(HoldfastError):
    """The call was cancelled between two items."""


# ---------------------------------------------------------------------- namespaces


def object_namespace(base: str, bucket: str, key: str) -> str:
    """Return the namespace of an object below a base: `base/bucket/key`, if that is a valid namespace.

    Otherwise what is not allowed becomes `-`, and the last part ends with a hash of bucket and key. No two objects have
    the same namespace: a part that only looks like such a hash gets one of its own.
    """
    whole = f"{base}/{bucket}/{key}"
    if _HASHED.fullmatch(whole.rpartition("/")[2]) is None:
        try:
            return check_namespace(whole)
        except MemoryRefused:
            pass
    digest = sha256(f"{bucket}\0{key}".encode()).digest()[:16]
    mark = b32encode(digest).decode("ascii").rstrip("=").lower()
    *folders, name = [_slug(part) for part in (bucket, *key.split("/"))]
    room = min(MAX_PARTS - base.count("/") - 2, len(folders))
    parts = [part for part in folders[:room] if part]
    last = f"{name[: 63 - _HASH_CHARS]}-{mark}".lstrip("-._")
    while parts and len("/".join((base, *parts, last))) > MAX_NAMESPACE:
        parts.pop()
    return check_namespace("/".join((base, *parts, last)))


def _slug(part: str) -> str:
    """Return a part of a key with only characters that a namespace may have, perhaps none."""
    text = re.sub(r"\.{2,}", ".", _NOT_ALLOWED.sub("-", part.lower()))
    return text.strip("-._")[:40].strip("-._")


def check_base(base: str) -> str:
    """Return a base namespace that has room for objects. Raises `MemoryRefused`."""
    check_namespace(base)
    if base.count("/") + 1 > MAX_PARTS - 1 or len(base) > MAX_NAMESPACE - 70:
        raise MemoryRefused(f"The namespace '{base}' is too deep or too long to have namespaces below it.")
    return base


# ---------------------------------------------------------------------- division


def divide(text: str, most: int) -> Iterator[str]:
    """Yield parts of at most `most` bytes that together are the text, divided at the best place near the limit."""
    at = 0
    while at < len(text):
        end = _fitting(text, at, most)
        if end < len(text):
            end = _best_break(text, at, end)
        yield text[at:end]
        at = end


def _fitting(text: str, at: int, most: int) -> int:
    """Return the end of the longest part from `at` that has at most `most` bytes, and at least one character."""
    window = text[at : at + most]
    if window.isascii():
        return at + len(window)
    encoded = window.encode("utf-8", "surrogatepass")[:most]
    return at + max(1, len(encoded.decode("utf-8", "ignore")))


def _best_break(text: str, at: int, end: int) -> int:
    """Return the end of the last paragraph, line, sentence or word in the second half of a part."""
    earliest = at + (end - at) // 2
    for mark in _BREAKS:
        found = text.rfind(mark, earliest, end)
        if found >= 0:
            return found + len(mark)
    return end


def item_contents(source: Source, text: str, max_item_bytes: int) -> list[str]:
    """Return the contents of the items: each part with a line that names the object."""
    head = f"From s3://{source.bucket}/{escape(source.key)}:\n\n"
    if len(head.encode()) > max_item_bytes // 4:
        head = ""
    most = max(4, min(ITEM_BYTES, max_item_bytes - len(head.encode())))
    parts = (part.strip("\n") for part in divide(text, most))
    return list(dict.fromkeys(f"{head}{part}" for part in parts if part.strip()))


# ---------------------------------------------------------------------- writing


class Written(Struct, frozen=True):
    """What a write did to the memory."""

    items: int
    """Items that hold the text now."""
    added: int
    forgotten: int


def earlier_items(memory: Memory, ctx: Context, record: Record | None) -> tuple[str, ...]:
    """Return the ids of the items that came from earlier states of an object, those of crashed calls included."""
    if record is None:
        return ()
    found = dict.fromkeys(record.items)
    if record.calls:
        calls, offset = frozenset(record.calls), 0
        while True:
            page = memory.page(ctx, record.namespace, offset=offset, limit=_PAGE, history=True)
            found |= dict.fromkeys(item.id for item in page.items if item.provenance.call in calls)
            offset += len(page.items)
            if not page.items or offset >= page.total:
                break
    return tuple(found)


def store_text(
    memory: Memory,
    ctx: Context,
    records: Records,
    source: Source,
    contents: list[str],
    *,
    etag: str,
    chars: int,
    mode: Mode,
    cancelled: Callable[[], bool] = lambda: False,
) -> Written:
    """Write the items of an object; with `replace`, forget those of its earlier states afterwards.

    Repeating it after a crash at any point leads to the same items. Raises `MemoryRefused`, `MemoryUnavailable`,
    `RecordsUnavailable` or `Stopped`.
    """
    record = records.find(source)
    earlier = earlier_items(memory, ctx, record)
    records.begin(source, ctx.call_id)
    ours: list[str] = []
    added = 0
    for content in contents:
        if cancelled():
            raise Stopped("The call was stopped. What was written stays; the next call completes it.")
        same = memory.find_same(ctx, source.namespace, content)
        if same is None:
            ours.append(memory.write(ctx, NewItem(namespace=source.namespace, content=content)).id)
            added += 1
        elif same.id in earlier:  # otherwise someone else wrote exactly this, and it stays theirs
            ours.append(same.id)
    kept = [each for each in earlier if each not in ours]
    forgotten = 0
    if mode == "replace":
        forgotten = sum(_forget(memory, ctx, each) for each in kept)
        kept = []
    records.finish(source, call=ctx.call_id, etag=etag, chars=chars, items=(*kept, *ours), earlier=record)
    return Written(len(contents), added, forgotten)


def _forget(memory: Memory, ctx: Context, item_id: str) -> bool:
    """Forget an item; False if it is gone already."""
    try:
        item = memory.get(ctx, item_id)
    except MemoryRefused:
        return False
    memory.forget(ctx, item_id, item.digest)
    return True
