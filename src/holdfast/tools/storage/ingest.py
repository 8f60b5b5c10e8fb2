"""`minio.ingest`: the text of one object into a namespace of the memory."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from hashlib import sha256
from typing import Final, cast

from msgspec import Struct

from holdfast.contract.call import Precondition, Proposal
from holdfast.contract.context import Context
from holdfast.contract.enums import Risk
from holdfast.contract.errors import HoldfastError
from holdfast.contract.json import Args
from holdfast.contract.memory import Memory, NewItem, check_namespace
from holdfast.contract.result import Result, fail, ok
from holdfast.text.escape import escape, escape_name
from holdfast.text.preview import with_label
from holdfast.text.quote import TEXT_GUTTER
from holdfast.text.truncate import format_size
from holdfast.tools.schemas import (
    BOOLEAN,
    INTEGER,
    LABEL,
    STRING,
    array,
    builtin_tool,
    needs_extra,
    non_blank,
    nullable,
    strict_object,
)
from holdfast.tools.storage.memory_items import Mode, earlier_items, item_contents, store_text
from holdfast.tools.storage.object_text import NotText, ObjectText, name_problem, read_text
from holdfast.tools.storage.records import Source
from holdfast.tools.storage.s3_client import StorageFailed, key_problem
from holdfast.tools.storage.service import MARGIN, Storage, no_reach

DEFAULT_SECONDS: Final = 120.0
DEFAULT_NAMESPACE: Final = "global/knowledge"
DEFAULT_CHARS: Final = 200_000
MAX_CHARS: Final = 2_000_000
_SHOWN_LINES: Final = 30
_SHOWN_CHARS: Final = 3000


class _Found(Struct, frozen=True, kw_only=True):
    """An object that can be ingested."""

    source: Source
    etag: str
    size: int
    digest: str
    """The SHA-256 of the body."""
    text: ObjectText
    chars: int
    """How much of the text is ingested."""
    contents: list[str]

    @property
    def cut(self) -> bool:
        """Whether the text is longer than `max_chars`."""
        return self.chars < len(self.text.text)


async def _propose(args: Args, ctx: Context) -> Proposal | Result:
    storage = ctx.service(Storage)
    try:
        source = _source(args, storage)
        mode = write_mode(args, "append")
        if ctx.dry_run:
            return _unread_proposal(args, source, mode)
        found = await _find(args, ctx, storage, source, programs=False)
        memory = ctx.service(Memory)
        record = await asyncio.to_thread(storage.records.find, source)
        earlier = await asyncio.to_thread(earlier_items, memory, ctx, record) if mode == "replace" else ()
        await asyncio.to_thread(_check, memory, ctx, found)
    except HoldfastError as error:
        return fail(str(error))
    replaced = f"; forgets {_items(len(earlier))} of an earlier ingest" if earlier else ""
    what = f"{source.bucket}/{escape(source.key)}"
    lines = [
        f"Object:     {what} ({format_size(found.size)}, {found.text.kind}, ETag {escape(found.etag)})",
        f"Namespace:  {source.namespace}",
        f"Writes:     {_counted(found)}",
        *([f"Forgets:    {_items(len(earlier))} that an earlier ingest of this object wrote"] if earlier else []),
        *(f"[{note}]" for note in _notes(found)),
        "",
        *_quoted(found.text.text),
    ]
    return Proposal(
        tool_name="minio.ingest",
        summary=f"remember the text of {what} in {source.namespace}: {_counted(found)}{replaced}",
        risk=Risk.HIGH if earlier else Risk.MEDIUM,
        payload={**args, "bucket": source.bucket, "etag": found.etag, "sha256": found.digest},
        preview="\n".join(lines),
        preconditions=(
            Precondition(kind="object", subject=f"{source.bucket}/{source.key}", value=found.etag),
            Precondition(kind="sha256", subject=f"{source.bucket}/{source.key}", value=found.digest),
        ),
    )


def _unread_proposal(args: Args, source: Source, mode: Mode) -> Proposal:
    summary = f"remember the text of {source.bucket}/{escape(source.key)} in {source.namespace}"
    risk = Risk.HIGH if mode == "replace" else Risk.MEDIUM
    return Proposal(tool_name="minio.ingest", summary=summary, risk=risk, payload=args, preview=summary)


def _source(args: Args, storage: Storage) -> Source:
    """Return the object and the namespace of a call. Raises `HoldfastError`."""
    key, namespace = cast(str, args["object_key"]), cast("str | None", args.get("namespace")) or DEFAULT_NAMESPACE
    if (problem := key_problem(key)) is not None:
        raise StorageFailed(f"The object key {escape_name(key[:80])} {problem}.")
    server = storage.settings.address().url.origin
    return Source(server, storage.bucket(args), key, check_namespace(namespace))


def write_mode(args: Args, default: Mode) -> Mode:
    return cast("Mode | None", args.get("mode")) or default


def too_large(size: int, most: int) -> str:
    return f"it has {format_size(size)}, and at most {format_size(most)} are read (minio.max_object_bytes)"


def limit_of(args: Args, name: str, default: int) -> int:
    """Return an optional limit, which JSON may give as a number with a fraction."""
    return int(cast("float | None", args.get(name)) or default)


async def _find(args: Args, ctx: Context, storage: Storage, source: Source, *, programs: bool) -> _Found:
    """Read an object, in the state of the ETag and the digest if they are given. Raises `HoldfastError`."""
    etag, shown_digest = args.get("etag"), args.get("sha256")
    force, most = bool(args.get("force")), storage.settings.max_object_bytes
    seconds = (DEFAULT_SECONDS if ctx.timeout is None else ctx.timeout) * (1 - MARGIN)
    deadline = time.monotonic() + seconds
    shown = escape_name(source.key)
    if (problem := name_problem(source.key, force=force)) is not None:
        raise StorageFailed(f"{shown} was not ingested: {problem}.")
    async with storage.client(ctx, source.bucket) as client:
        stored = await client.head(source.bucket, source.key)
        if stored is None:
            raise StorageFailed(f"The bucket {source.bucket} has no object {shown}. Check the key.")
        if etag is not None and stored.etag != etag:
            raise StorageFailed(f"The object {shown} has changed since this was proposed. Propose it again.")
        if stored.size > most:
            raise StorageFailed(f"{shown} was not ingested: {too_large(stored.size, most)}.")
        ctx.progress(f"reading {source.bucket}/{escape(source.key)}…")
        body = await client.get(source.bucket, source.key, stored.etag, max_bytes=most)
    digest = sha256(body.body).hexdigest()
    if shown_digest not in (None, digest):  # the server chooses the ETag, and can give it to another text
        raise StorageFailed(f"The object {shown} has changed since this was proposed. Propose it again.")
    try:
        if body.cut:
            raise NotText(f"it is longer than the {format_size(most)} that the server announced")
        left = max(0.1, deadline - time.monotonic())
        text = await read_text(source.key, body, ctx, storage.extractor, force=force, seconds=left, programs=programs)
    except NotText as error:
        raise StorageFailed(f"{shown} was not ingested: {error}.") from None
    kept = text.text[: limit_of(args, "max_chars", DEFAULT_CHARS)]
    return _Found(
        source=source,
        etag=stored.etag,
        size=stored.size,
        digest=digest,
        text=text,
        chars=len(kept),
        contents=item_contents(source, kept, storage.settings.max_item_bytes),
    )


def _check(memory: Memory, ctx: Context, found: _Found) -> None:
    """Raise `MemoryRefused` if the items could not be written."""
    for content in found.contents:
        memory.check(ctx, NewItem(namespace=found.source.namespace, content=content))


def _counted(found: _Found) -> str:
    if not found.text.text:
        return "its text"
    return f"{found.chars:,} characters in {_items(len(found.contents))}"


def _items(count: int) -> str:
    return f"{count:,} item{'' if count == 1 else 's'}"


def _notes(found: _Found) -> list[str]:
    notes = list(found.text.notes)
    if found.cut:
        notes.append(f"The text has {len(found.text.text):,} characters; only its beginning is ingested (max_chars).")
    return notes


def _quoted(text: str) -> list[str]:
    """Return the beginning of a text behind the gutter, where it cannot imitate our own lines."""
    lines = text[:_SHOWN_CHARS].splitlines()[:_SHOWN_LINES]
    more = [f"{TEXT_GUTTER}…"] if len("\n".join(lines)) < len(text.rstrip()) else []
    return [*(f"{TEXT_GUTTER}{escape(line)}" for line in lines), *more]


async def _apply(payload: Args, ctx: Context) -> Result:
    storage, memory = ctx.service(Storage), ctx.service(Memory)
    mode = write_mode(payload, "append")
    try:
        found = await _find(payload, ctx, storage, _source(payload, storage), programs=True)
        written = await asyncio.to_thread(
            store_text,
            memory,
            ctx,
            storage.records,
            found.source,
            found.contents,
            etag=found.etag,
            chars=limit_of(payload, "max_chars", DEFAULT_CHARS),
            mode=mode,
            cancelled=lambda: ctx.cancelled,
        )
    except HoldfastError as error:
        return fail(str(error))
    output: Args = {
        "bucket": found.source.bucket,
        "object_key": found.source.key,
        "etag": found.etag,
        "namespace": found.source.namespace,
        "mode": mode,
        "kind": found.text.kind,
        "chars": found.chars,
        "items": written.items,
        "added": written.added,
        "forgotten": written.forgotten,
        "truncated": found.cut,
        "notes": [*_notes(found)],
    }
    return ok(_text(output), structured=output)


def _text(output: Args) -> str:
    """Render the output."""
    what = f"{output['bucket']}/{escape(str(output['object_key']))}"
    items, added, forgotten = (cast(int, output[name]) for name in ("items", "added", "forgotten"))
    had = f", of which {items - added:,} were there already" if added < items else ""
    lost = f" Forgot {_items(forgotten)} of an earlier ingest." if forgotten else ""
    counted = f"{_items(items)}{had}.{lost}"
    told = f"Ingested {what} ({output['kind']}, {output['chars']:,} characters) into '{output['namespace']}': {counted}"
    return "\n".join((told, *(f"[{note}]" for note in cast("list[str]", output["notes"]))))


def _preview(args: Args, width: int) -> str:
    bucket = f"{args['bucket']}/" if args.get("bucket") else ""
    into = args.get("namespace") or DEFAULT_NAMESPACE
    return with_label(f"{bucket}{args.get('object_key', '')} → {into}  ({write_mode(args, 'append')})", args)


reading_tool: Final = partial(
    builtin_tool,
    risk=Risk.MEDIUM,
    effects=frozenset({"network", "fs.write"}),
    reaches=no_reach,
    sources=("storage",),
    groups=("minio",),
    unavailable=needs_extra("storage", "httpx2"),
)
"""A tool that reads objects into the memory."""

MINIO_INGEST: Final = reading_tool(
    name="minio.ingest",
    description="Read a text-like object from MinIO and ingest it into memory namespace for later retrieval/search.",
    input_schema=strict_object(
        object_key=non_blank("Key of the object."),
        bucket=nullable("string", "Optional bucket override"),
        namespace=nullable("string", "Memory namespace (default: global/knowledge)"),
        mode=nullable("string", "Write mode (default append)", enum=["append", "replace", None]),
        max_chars=nullable(
            "number", f"Maximum characters to ingest (default {DEFAULT_CHARS})", minimum=1, maximum=MAX_CHARS
        ),
        force=nullable("boolean", "Override non-text extension/content safety checks"),
        label=LABEL,
    ),
    output_schema=strict_object(
        bucket=STRING,
        object_key=STRING,
        etag=STRING,
        namespace=STRING,
        mode={"enum": ["append", "replace"]},
        kind={"enum": ["text", "html", "pdf", "docx"]},
        chars=INTEGER,
        items=INTEGER,
        added=INTEGER,
        forgotten=INTEGER,
        truncated=BOOLEAN,
        notes=array(STRING),
    ),
    propose=_propose,
    apply=_apply,
    timeout=DEFAULT_SECONDS,
    format_preview=_preview,
)
