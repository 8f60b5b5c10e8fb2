"""What a `minio.sync` has to do: the objects below a prefix, compared with the records of earlier runs."""

from __future__ import annotations

import asyncio
from hashlib import sha256
from typing import Final, Literal, cast

from msgspec import Struct

from holdfast.contract.json import Args
from holdfast.tools.storage.ingest import DEFAULT_NAMESPACE, limit_of, too_large, write_mode
from holdfast.tools.storage.memory_items import Mode, check_base, object_namespace
from holdfast.tools.storage.object_text import name_problem
from holdfast.tools.storage.records import Record, Source
from holdfast.tools.storage.s3_client import MAX_KEY_BYTES, S3Client, StorageFailed, StoredObject, key_problem
from holdfast.tools.storage.service import Storage

DEFAULT_OBJECTS: Final = 100
DEFAULT_CHARS: Final = 100_000
MAX_LISTED: Final = 100_000
"""Keys that are looked at below one prefix."""
_MAX_PAGES: Final = 200
SHOWN: Final = 100
"""Objects of each kind that a preview or an output names."""


class SyncRequest(Struct, frozen=True, kw_only=True):
    """What a call asks for."""

    server: str
    bucket: str
    prefix: str
    base: str
    mode: Mode
    objects: int
    chars: int
    force: bool

    def source(self, key: str) -> Source:
        return Source(self.server, self.bucket, key, object_namespace(self.base, self.bucket, key))


class Skipped(Struct, frozen=True):
    key: str
    reason: str


class SyncPlan(Struct, frozen=True, kw_only=True):
    """What a listing and the records say that there is to do."""

    todo: tuple[StoredObject, ...]
    """At most `max_objects`."""
    later: int
    """Objects that wait for the next run."""
    unchanged: int
    skipped: tuple[Skipped, ...]
    """The first of them."""
    skipped_count: int
    vanished: tuple[str, ...]
    """The first keys that were ingested and are no longer there."""
    vanished_count: int
    unlisted: Literal["", "many", "endless"] = ""
    """Why not every key below the prefix was listed: there are too many, or the list of the server does not end."""

    @property
    def digest(self) -> str:
        lines = (f"{each.key}\0{each.etag}\0{each.size}" for each in self.todo)
        return sha256("\n".join(lines).encode()).hexdigest()


def read_request(args: Args, storage: Storage) -> SyncRequest:
    """Read the arguments. Raises `HoldfastError`."""
    prefix = cast(str, args["prefix"])
    try:
        size = len(prefix.encode())
    except UnicodeEncodeError:
        raise StorageFailed("The prefix contains a lone surrogate, which UTF-8 cannot express.") from None
    if size > MAX_KEY_BYTES:
        raise StorageFailed(f"The prefix has {size:,} bytes; at most {MAX_KEY_BYTES:,} are allowed.")
    return SyncRequest(
        server=storage.settings.address().url.origin,
        bucket=storage.bucket(args),
        prefix=prefix,
        base=check_base(cast("str | None", args.get("namespace_base")) or DEFAULT_NAMESPACE),
        mode=write_mode(args, "replace"),
        objects=limit_of(args, "max_objects", DEFAULT_OBJECTS),
        chars=limit_of(args, "max_chars_per_object", DEFAULT_CHARS),
        force=bool(args.get("force")),
    )


async def make_plan(request: SyncRequest, storage: Storage, client: S3Client) -> SyncPlan:
    """List the objects and compare them with the records. Raises `StorageFailed` or `RecordsUnavailable`."""
    known = await asyncio.to_thread(storage.records.below, request.server, request.bucket, request.prefix)
    records = {(record.key, record.namespace): record for record in known}
    todo: list[StoredObject] = []
    skipped: list[Skipped] = []
    failed: dict[str, float] = {}
    seen: set[str] = set()
    unchanged, token, tokens = 0, None, set[str]()
    while True:
        page = await client.list_page(request.bucket, request.prefix, token)
        for each in page.objects:
            if each.key in seen or not each.key.startswith(request.prefix):
                continue  # a server that sends an object twice, or one that was not asked for
            seen.add(each.key)
            problem = _problem(each, request, storage)
            record = None if problem is not None else records.get((each.key, request.source(each.key).namespace))
            if problem is not None:
                skipped.append(Skipped(each.key, problem))
            elif not _is_current(record, each, request):
                todo.append(each)
                if record is not None and record.state == "failed":
                    failed[each.key] = record.at
            elif record is not None and record.state == "skipped":
                skipped.append(Skipped(each.key, f"{record.reason} (as before)"))
            else:
                unchanged += 1
        token = page.next
        # A hostile server could send the same token, or another one with no new keys, for ever.
        if token is None or token in tokens or len(seen) >= MAX_LISTED or len(tokens) >= _MAX_PAGES:
            break
        tokens.add(token)
    unlisted = "" if token is None else "many" if len(seen) >= MAX_LISTED else "endless"
    todo.sort(key=lambda each: failed.get(each.key, 0.0))  # what failed comes last, or it could starve the others
    base = f"{request.base}/"
    gone = {
        record.key
        for record in known
        if not unlisted and record.has_items and record.key not in seen and record.namespace.startswith(base)
    }
    return SyncPlan(
        todo=tuple(todo[: request.objects]),
        later=max(0, len(todo) - request.objects),
        unchanged=unchanged,
        skipped=tuple(skipped[:SHOWN]),
        skipped_count=len(skipped),
        vanished=tuple(sorted(gone)[:SHOWN]),
        vanished_count=len(gone),
        unlisted=unlisted,
    )


def _problem(each: StoredObject, request: SyncRequest, storage: Storage) -> str | None:
    """Return why an object is skipped without reading it, or None."""
    if (problem := key_problem(each.key)) is not None:
        return f"its key {problem}"
    if (problem := name_problem(each.key, force=request.force)) is not None:
        return problem
    most = storage.settings.max_object_bytes
    if each.size > most:
        return too_large(each.size, most)
    if not each.etag:
        return "the server names no ETag for it, so a change would go unnoticed"
    return "it is empty" if not each.size else None


def _is_current(record: Record | None, each: StoredObject, request: SyncRequest) -> bool:
    """Whether the object was ingested, or skipped for what it is, in the state that it has now."""
    if record is None or record.etag != each.etag:
        return False
    if record.state == "skipped":
        return record.forced or not request.force
    return record.state == "ingested" and record.chars == request.chars
