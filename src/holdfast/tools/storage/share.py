"""`minio.share`: upload a project file and return a link to it that expires.

What is uploaded is what was shown: the file is copied through its confined descriptor into a private file without a
name, and the copy is sent only if it has the digest of the preview, which is also part of the signature.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from tempfile import TemporaryFile
from typing import BinaryIO, Final, cast

from msgspec import Struct

from holdfast.contract.call import Precondition, Proposal
from holdfast.contract.context import Context
from holdfast.contract.enums import Risk
from holdfast.contract.errors import HoldfastError, OutcomeUnknown
from holdfast.contract.json import Args
from holdfast.contract.result import Result, fail, ok
from holdfast.fs.beneath import NotRegular, open_file_beneath
from holdfast.text.escape import escape, escape_name
from holdfast.text.preview import with_label
from holdfast.text.truncate import format_size
from holdfast.tools.files.file_state import ConfinedPath, os_error_reason, path_to_read
from holdfast.tools.files.pages import SNIFFED_BYTES, mime_type
from holdfast.tools.schemas import (
    BOOLEAN,
    INTEGER,
    LABEL,
    STRING,
    builtin_tool,
    needs_extra,
    non_blank,
    nullable,
    strict_object,
)
from holdfast.tools.storage.memory_items import Stopped
from holdfast.tools.storage.s3_client import StorageFailed, StoredObject, key_problem
from holdfast.tools.storage.service import MARGIN, Storage, no_reach

DEFAULT_SECONDS: Final = 600.0
DEFAULT_EXPIRY: Final = 3600
_BLOCK: Final = 1024 * 1024
_UNITS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DURATION: Final = re.compile(r"\s*([0-9]{1,9})\s*(s|m|h|d|w|)\s*", re.ASCII)
_CONTENT_TYPE: Final = re.compile(r"[\w.+-]{1,127}/[\w.+-]{1,127}(?:; ?charset=[\w-]{1,30})?", re.ASCII)


class _Upload(Struct, frozen=True, kw_only=True):
    """What a call would upload, and where."""

    target: ConfinedPath
    size: int
    digest: str
    bucket: str
    key: str
    content_type: str
    expires: int


class _FileChanged(HoldfastError):
    """The file is no longer the one that was shown."""


def parse_duration(given: str | int | None, most: int) -> int:
    """Return seconds from `3600`, `"90m"`, `"1h"` or `"7d"`. Raises `StorageFailed`."""
    found = _DURATION.fullmatch(str(DEFAULT_EXPIRY if given is None else given).lower())
    seconds = 0 if found is None else int(found[1]) * _UNITS[found[2]]
    if not 1 <= seconds <= most:
        raise StorageFailed(
            f"{escape_name(str(given)[:40])} is not a valid expiry. Use seconds or a time such as 30m, 1h or 7d, "
            f"at most {shown_duration(most)}."
        )
    return seconds


def shown_duration(seconds: int) -> str:
    """Return seconds in the largest whole unit: `90 minutes`, `1 day`."""
    for size, name in ((86_400, "day"), (3600, "hour"), (60, "minute")):
        if seconds % size == 0:
            return f"{seconds // size} {name}{'' if seconds == size else 's'}"
    return f"{seconds} second{'' if seconds == 1 else 's'}"


async def _propose(args: Args, ctx: Context) -> Proposal | Result:
    storage, given = ctx.service(Storage), cast(str, args["path"])
    try:
        upload = await _describe(args, ctx, storage)
        existing = None
        if not ctx.dry_run:
            async with storage.client(ctx, upload.bucket) as client:
                existing = await client.head(upload.bucket, upload.key)
        return _proposal(args, upload, existing, storage)
    except OSError as error:
        return fail(_unreadable(given, error))
    except HoldfastError as error:
        return fail(str(error))


async def _describe(args: Args, ctx: Context, storage: Storage, copy: BinaryIO | None = None) -> _Upload:
    """Read what a call asks for, and copy the file if told to. Raises `HoldfastError` or `OSError`."""
    settings = storage.settings
    bucket = storage.bucket(args)
    expires = parse_duration(cast("str | int | None", args.get("expires")), settings.max_link_seconds)
    target = path_to_read(ctx, cast(str, args["path"]))
    with open_file_beneath(target.root, target.path) as opened:
        size = os.fstat(opened).st_size
        if size > settings.max_upload_bytes:
            path, most = escape(target.relative), format_size(settings.max_upload_bytes)
            raise StorageFailed(
                f"{path} has {format_size(size)}; at most {most} are uploaded (minio.max_upload_bytes)."
            )
        digest = await asyncio.to_thread(_digest, opened, size, lambda: ctx.cancelled, copy)
        found = mime_type(os.pread(opened, SNIFFED_BYTES, 0), target.path.name)
    key = cast("str | None", args.get("object_key")) or f"shared/{digest[:16]}/{target.path.name}"
    if (problem := key_problem(key)) is not None or key.startswith("/") or "//" in key:
        raise StorageFailed(f"The object key {escape_name(key[:80])} {problem or 'has an empty segment'}.")
    content_type = cast("str | None", args.get("content_type")) or found or _text_type(target.path.name)
    if _CONTENT_TYPE.fullmatch(content_type) is None:
        raise StorageFailed(f"{escape_name(content_type[:80])} is not a content type such as text/plain.")
    return _Upload(
        target=ConfinedPath(target.root, target.path, target.requested, ctx.sandbox.is_path_secret(target.path)),
        size=size,
        digest=digest,
        bucket=bucket,
        key=key,
        content_type=content_type,
        expires=expires,
    )


def _text_type(name: str) -> str:
    """Return the content type of a text by its name."""
    from mimetypes import guess_type  # reads the tables of the system

    found = guess_type(name)[0] or "text/plain"
    return f"{found}; charset=utf-8" if found.startswith("text/") else found


def _digest(opened: int, size: int, cancelled: Callable[[], bool], copy: BinaryIO | None) -> str:
    """Return the SHA-256 of the first `size` bytes of a file, and copy them if told to."""
    found, at = sha256(), 0
    while at < size:
        if cancelled():
            raise Stopped("The call was stopped while the file was read.")
        block = os.pread(opened, min(_BLOCK, size - at), at)
        if not block:
            raise _FileChanged("The file became shorter while it was read. Try again.")
        found.update(block)
        if copy is not None:
            copy.write(block)
        at += len(block)
    return found.hexdigest()


def _proposal(args: Args, upload: _Upload, existing: StoredObject | None, storage: Storage) -> Proposal:
    settings, path = storage.settings, upload.target.relative
    lasts, key = shown_duration(upload.expires), escape(upload.key)
    lines = [
        f"Anyone who has the link can read the file, for {lasts} after the upload.",
        f"File:          {escape(path)} ({format_size(upload.size)})",
        f"SHA-256:       {upload.digest}",
        f"Content type:  {upload.content_type}",
        f"Server:        {settings.address().url.origin}",
        f"Bucket:        {upload.bucket}",
        f"Object:        {key}",
    ]
    if settings.public_endpoint is not None:
        lines.append(f"Link at:       {settings.public_address().url.origin}")
    if upload.target.secret:
        lines.append("Warning:       the file may contain secrets (sandbox.read_deny)")
    if existing is not None:
        lines.append(
            f"Replaces:      the object of {format_size(existing.size)} with ETag {escape(existing.etag)}; its content "
            "is lost"
        )
    replaces = ", replacing the object there" if existing is not None else ""
    seen = "absent" if existing is None else existing.etag
    risky = existing is not None or upload.target.secret
    return Proposal(
        tool_name="minio.share",
        summary=f"upload {escape(path)} as {upload.bucket}/{key}{replaces}, readable by link for {lasts}",
        risk=Risk.HIGH if risky else Risk.MEDIUM,
        payload={**args, "bucket": upload.bucket, "object_key": upload.key, "digest": upload.digest, "seen": seen},
        preview="\n".join(lines),
        preconditions=(
            Precondition(kind="file", subject=str(upload.target.path), value=upload.digest),
            Precondition(kind="object", subject=f"{upload.bucket}/{upload.key}", value=seen),
        ),
    )


async def _apply(payload: Args, ctx: Context) -> Result:
    storage, given = ctx.service(Storage), cast(str, payload["path"])
    deadline = time.monotonic() + (DEFAULT_SECONDS if ctx.timeout is None else ctx.timeout) * (1 - MARGIN)
    try:
        with TemporaryFile() as copy:
            return await _share(payload, ctx, storage, deadline, copy)
    except OSError as error:
        return fail(f"Nothing was uploaded. {_unreadable(given, error)}")
    except StorageFailed as error:
        if error.sent:
            raise OutcomeUnknown(
                f"{error} Whether {payload['bucket']}/{escape(str(payload['object_key']))} was written is not known: "
                "look for the object before you share the file again."
            ) from None
        return fail(f"Nothing was uploaded. {error}")
    except HoldfastError as error:
        return fail(f"Nothing was uploaded. {error}")


async def _share(payload: Args, ctx: Context, storage: Storage, deadline: float, copy: BinaryIO) -> Result:
    upload = await _describe(payload, ctx, storage, copy)
    seen = None if payload["seen"] == "absent" else cast(str, payload["seen"])
    if upload.digest != payload["digest"]:
        raise _FileChanged(f"{escape(upload.target.relative)} has changed since this was proposed. Propose it again.")
    async with storage.client(ctx, upload.bucket) as client:
        existing = await client.head(upload.bucket, upload.key)
        if (None if existing is None else existing.etag) != seen:
            raise StorageFailed(f"The object {escape_name(upload.key)} has changed. Propose the call again.")
        etag = await client.put(
            upload.bucket,
            upload.key,
            lambda: _blocks(copy, upload.size, ctx),
            size=upload.size,
            digest=upload.digest,
            content_type=upload.content_type,
            seen=seen,
            seconds=max(0.1, deadline - time.monotonic()),
        )
        now = datetime.now(UTC)
        link = client.link(storage.settings.public_address(), upload.bucket, upload.key, now, upload.expires)
    until = (now + timedelta(seconds=upload.expires)).isoformat(timespec="seconds")
    output: Args = {
        "url": link,
        "expires_at": until,
        "path": upload.target.relative,
        "bucket": upload.bucket,
        "object_key": upload.key,
        "size": upload.size,
        "sha256": upload.digest,
        "content_type": upload.content_type,
        "etag": etag,
        "replaced": seen is not None,
    }
    return ok(_text(output), structured=output)


async def _blocks(copy: BinaryIO, size: int, ctx: Context) -> AsyncIterator[bytes]:
    """Yield the copy of the file."""
    await asyncio.to_thread(copy.seek, 0)
    at = 0
    while block := await asyncio.to_thread(copy.read, _BLOCK):
        at += len(block)
        yield block
        ctx.progress(f"uploaded {format_size(at)} of {format_size(size)}", at, size)


def _unreadable(path: str, error: OSError) -> str:
    given = escape(path)
    if isinstance(error, NotRegular):
        return f"{given} {error}."
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return f"File not found: {given}"
    return f"{given} cannot be read: {os_error_reason(error)}."


def _text(output: Args) -> str:
    """Render the output."""
    size = format_size(cast(int, output["size"]))
    replaced = ", in place of the object that was there" if output["replaced"] else ""
    place = f"{output['bucket']}/{escape(str(output['object_key']))}"
    return (
        f"Uploaded {escape(str(output['path']))} ({size}) as {place}{replaced}.\n"
        f"Anyone with this link can read it until {output['expires_at']}:\n{output['url']}"
    )


def _touches(args: Args) -> list[str]:
    return [cast(str, args["path"])]


def _preview(args: Args, width: int) -> str:
    where = f" → {args['object_key']}" if args.get("object_key") else ""
    lasts = f"  ({args['expires']})" if args.get("expires") else ""
    return with_label(f"{args.get('path', '')}{where}{lasts}", args)


MINIO_SHARE: Final = builtin_tool(
    name="minio.share",
    description="Upload a local file to MinIO and return a temporary presigned download URL.",
    input_schema=strict_object(
        path=non_blank("The file, relative to the project root."),
        object_key=nullable("string", "Key of the object (default: shared/DIGEST/NAME)."),
        bucket=nullable("string", "Optional bucket override."),
        expires={
            "type": ["string", "integer", "null"],
            "description": "How long the link is valid: seconds, or such as 30m, 1h, 7d (default 1h, at most 7d).",
        },
        content_type=nullable("string", "Content type of the object (default: by content and name)."),
        label=LABEL,
    ),
    output_schema=strict_object(
        url=STRING,
        expires_at=STRING,
        path=STRING,
        bucket=STRING,
        object_key=STRING,
        size=INTEGER,
        sha256=STRING,
        content_type=STRING,
        etag=STRING,
        replaced=BOOLEAN,
    ),
    propose=_propose,
    apply=_apply,
    timeout=DEFAULT_SECONDS,
    risk=Risk.HIGH,
    effects=frozenset({"fs.read", "network", "external"}),
    touches=_touches,
    reaches=no_reach,
    sinks=("storage",),
    format_preview=_preview,
    groups=("minio",),
    unavailable=needs_extra("storage", "httpx2"),
)
