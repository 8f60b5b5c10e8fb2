"""`minio.sync`: the texts below a prefix into nested namespaces of the memory, incremental by ETag."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal, cast

from msgspec import Struct, convert, json

from holdfast.contract.call import Precondition, Proposal
from holdfast.contract.context import Context
from holdfast.contract.enums import Risk
from holdfast.contract.errors import HoldfastError
from holdfast.contract.json import Args
from holdfast.contract.memory import Memory, NewItem
from holdfast.contract.result import Result, fail, ok
from holdfast.text.escape import escape
from holdfast.text.preview import with_label
from holdfast.text.quote import TEXT_GUTTER
from holdfast.text.truncate import format_size
from holdfast.tools.schemas import (
    INTEGER,
    LABEL,
    STRING,
    array,
    nullable,
    strict_object,
    text,
)
from holdfast.tools.storage.ingest import DEFAULT_NAMESPACE, MAX_CHARS, reading_tool, write_mode
from holdfast.tools.storage.memory_items import Written, item_contents, store_text
from holdfast.tools.storage.object_text import NotText, read_text
from holdfast.tools.storage.s3_client import S3Client, StorageFailed, StoredObject
from holdfast.tools.storage.service import MARGIN, Storage
from holdfast.tools.storage.sync_plan import (
    DEFAULT_CHARS,
    DEFAULT_OBJECTS,
    MAX_LISTED,
    SHOWN,
    Skipped,
    SyncPlan,
    SyncRequest,
    make_plan,
    read_request,
)

DEFAULT_SECONDS: Final = 600.0
MAX_OBJECTS: Final = 1000

_DENIALS: Final = 10
"""Objects at the start of a run after which it stops if access to each of them was denied."""
_REASONS: Final = {
    401: "access to it is denied",
    403: "access to it is denied",
    404: "it vanished since this was proposed",
    412: "it changed since this was proposed",
}
Ending = Literal["complete", "limit", "time", "failed"]


# ---------------------------------------------------------------------- proposal


async def _propose(args: Args, ctx: Context) -> Proposal | Result:
    storage = ctx.service(Storage)
    try:
        request = read_request(args, storage)
        if ctx.dry_run:
            return _proposal(args, request, None)
        ctx.progress(f"listing {request.bucket}/{escape(request.prefix)}…")
        async with storage.client(ctx, request.bucket) as client:
            plan = await make_plan(request, storage, client)
        memory = ctx.service(Memory)
        namespaces = {request.source(each.key).namespace for each in plan.todo}
        await asyncio.to_thread(_check, memory, ctx, namespaces)
    except HoldfastError as error:
        return fail(str(error))
    if not plan.todo and not plan.skipped and not plan.vanished:  # nothing that a stranger named
        output = _output(request, plan, "complete")
        return ok(_text(output), structured=output)
    return _proposal(args, request, plan)


def _check(memory: Memory, ctx: Context, namespaces: Iterable[str]) -> None:
    """Raise `MemoryRefused` if a namespace is not allowed."""
    for namespace in namespaces:
        memory.check(ctx, NewItem(namespace=namespace, content="x"))


def _proposal(args: Args, request: SyncRequest, plan: SyncPlan | None) -> Proposal:
    where = f"{request.bucket}/{escape(request.prefix)}"
    risk = Risk.HIGH if request.mode == "replace" and (plan is None or plan.todo) else Risk.MEDIUM
    if plan is None:
        summary = f"remember the texts below {where} in {request.base}"
        return Proposal(tool_name="minio.sync", summary=summary, risk=risk, payload=args, preview=summary)
    size = format_size(sum(each.size for each in plan.todo))
    how = "replaces what earlier runs wrote for them" if request.mode == "replace" else "keeps what earlier runs wrote"
    lines = [
        f"Source:     {where} at {request.server}",
        f"Reads:      {_objects(len(plan.todo))}, {size}",
        f"Writes:     their texts into namespaces below {request.base}; {how}",
        f"Unchanged:  {plan.unchanged:,} since the last run",
        *([f"Later:      {plan.later:,} more than max_objects, in the next run"] if plan.later else []),
        *(
            [f"Vanished:   {plan.vanished_count:,} that were ingested before; their items stay"]
            if plan.vanished
            else []
        ),
        "",
        *(
            f"{TEXT_GUTTER}{escape(each.key)} ({format_size(each.size)}) → {request.source(each.key).namespace}"
            for each in plan.todo[:SHOWN]
        ),
        *_more(len(plan.todo)),
        *(["", f"Skipped:    {plan.skipped_count:,}"] if plan.skipped else []),
        *(f"{TEXT_GUTTER}{escape(each.key)}: {each.reason}" for each in plan.skipped),
        *_more(plan.skipped_count),
    ]
    return Proposal(
        tool_name="minio.sync",
        summary=f"remember the texts of {_objects(len(plan.todo))} below {where} ({size}) in {request.base}"
        if plan.todo
        else f"tell which objects below {where} are skipped or gone; there is nothing to read",
        risk=risk,
        payload=cast(Args, {**args, "bucket": request.bucket, "plan": json.decode(json.encode(plan))}),
        preview="\n".join(lines),
        preconditions=(Precondition(kind="objects", subject=where, value=plan.digest),),
    )


def _objects(count: int) -> str:
    return f"{count:,} object{'' if count == 1 else 's'}"


def _more(count: int) -> list[str]:
    return [f"… and {count - SHOWN:,} more"] if count > SHOWN else []


# ---------------------------------------------------------------------- run


class _Done(Struct, frozen=True):
    key: str
    namespace: str
    chars: int
    written: Written


class _Run:
    """One call's way through its objects."""

    def __init__(self, request: SyncRequest, storage: Storage, ctx: Context) -> None:
        self.request = request
        self.storage = storage
        self.ctx = ctx
        self.memory = ctx.service(Memory)
        self.done: list[_Done] = []
        self.skipped: list[Skipped] = []
        self.changed = 0
        """Of the skipped objects, those that the next run will read."""
        seconds = (DEFAULT_SECONDS if ctx.timeout is None else ctx.timeout) * (1 - MARGIN)
        self.deadline = time.monotonic() + seconds

    async def ingest_all(self, client: S3Client, todo: Sequence[StoredObject]) -> Ending:
        """Ingest the objects in order. Raises `HoldfastError` if the server, the memory or the records fail."""
        denied = 0
        for number, each in enumerate(todo):
            if time.monotonic() > self.deadline:
                return "time"
            self.ctx.progress(f"reading {escape(each.key)}", number, len(todo))
            try:
                await self._ingest(client, each)
            except StorageFailed as error:
                denied += error.status in (401, 403)
                if not error.answered or denied == number + 1 == _DENIALS:
                    raise
                await self._fail(each, error)
        return "complete"

    async def _fail(self, each: StoredObject, error: StorageFailed) -> None:
        """Skip an object that the server does not give: it must not keep the others from being read."""
        answer = f"the server answered {error.status} {error.code}".rstrip() if error.status else str(error).rstrip(".")
        reason = _REASONS.get(error.status, answer)
        self.skipped.append(Skipped(each.key, reason))
        if error.status == 412:
            self.changed += 1
        else:
            source = self.request.source(each.key)
            await asyncio.to_thread(self.storage.records.fail, source, etag=each.etag, reason=reason)

    async def _ingest(self, client: S3Client, each: StoredObject) -> None:
        request, storage, source = self.request, self.storage, self.request.source(each.key)
        most = storage.settings.max_object_bytes
        body = await client.get(request.bucket, each.key, each.etag, max_bytes=most)
        try:
            if body.cut:
                raise NotText("it is longer than the server announced")
            left = max(0.1, self.deadline - time.monotonic())
            found = await read_text(
                each.key, body, self.ctx, storage.extractor, force=request.force, seconds=left, programs=True
            )
        except NotText as error:
            self.skipped.append(Skipped(each.key, str(error)))
            if time.monotonic() < self.deadline:  # otherwise the parser had too little time, and may have more later
                await asyncio.to_thread(
                    storage.records.skip, source, etag=each.etag, reason=str(error), forced=request.force
                )
            return
        contents = item_contents(source, found.text[: request.chars], storage.settings.max_item_bytes)
        written = await asyncio.to_thread(
            store_text,
            self.memory,
            self.ctx,
            storage.records,
            source,
            contents,
            etag=each.etag,
            chars=request.chars,
            mode=request.mode,
            cancelled=lambda: self.ctx.cancelled,
        )
        self.done.append(_Done(each.key, source.namespace, min(len(found.text), request.chars), written))


async def _apply(payload: Args, ctx: Context) -> Result:
    storage, problem = ctx.service(Storage), ""
    plan = convert(payload["plan"], SyncPlan)
    try:
        request = read_request(payload, storage)
        run = _Run(request, storage, ctx)
        async with storage.client(ctx, request.bucket) as client:
            try:
                ending = await run.ingest_all(client, plan.todo)
            except HoldfastError as error:
                ending, problem = "failed", str(error)
    except HoldfastError as error:
        return fail(str(error))
    output = _output(request, plan, "limit" if ending == "complete" and plan.later else ending, run)
    if problem:
        return Result(False, _text(output), f"The sync stopped: {problem}", output)
    return ok(_text(output), structured=output)


def _output(request: SyncRequest, plan: SyncPlan, ending: Ending, run: _Run | None = None) -> Args:
    """Return what a run did with its plan; without a run, that there was nothing to do."""
    done, skipped = ([], []) if run is None else (run.done, run.skipped)
    left = 0 if run is None else len(plan.todo) - len(done) - len(skipped) + run.changed
    ingested: list[dict[str, Any]] = [
        {
            "object_key": each.key,
            "namespace": each.namespace,
            "chars": each.chars,
            "items": each.written.items,
            "added": each.written.added,
            "forgotten": each.written.forgotten,
        }
        for each in done[:SHOWN]
    ]
    notes = [_UNLISTED[plan.unlisted]] if plan.unlisted else []
    output: dict[str, Any] = {
        "bucket": request.bucket,
        "prefix": request.prefix,
        "namespace_base": request.base,
        "mode": request.mode,
        "ending": ending,
        "ingested": ingested,
        "ingested_count": len(done),
        "skipped": [{"object_key": each.key, "reason": each.reason} for each in (*skipped, *plan.skipped)][:SHOWN],
        "skipped_count": len(skipped) + plan.skipped_count,
        "unchanged_count": plan.unchanged,
        "vanished": list(plan.vanished),
        "vanished_count": plan.vanished_count,
        "remaining_count": plan.later + left,
        "notes": notes,
    }
    return cast(Args, output)


_UNLISTED: Final[dict[str, str]] = {
    "many": f"At most {MAX_LISTED:,} objects are looked at. Use a longer prefix for the others.",
    "endless": "The list of the server does not end, so that objects may be missing. Use a longer prefix.",
}
_ENDINGS: Final[dict[str, str]] = {
    "complete": "",
    "limit": "Stopped at max_objects.",
    "time": "Stopped at the time limit of the call.",
    "failed": "Stopped, because of the error.",
}


def _text(output: Args) -> str:
    """Render the output."""
    facts = cast("dict[str, Any]", output)
    where = f"{facts['bucket']}/{escape(facts['prefix'])}"
    counted = f"{facts['unchanged_count']:,} unchanged, {facts['skipped_count']:,} skipped"
    into = f"into '{facts['namespace_base']}'"
    lines = [f"Ingested {_objects(facts['ingested_count'])} below {where} {into}; {counted}."]
    if facts["remaining_count"]:
        remain = f"{_objects(facts['remaining_count'])} remain{'s' if facts['remaining_count'] == 1 else ''}"
        lines.append(f"{_ENDINGS[facts['ending']]} {remain}: call it again to continue.".lstrip())
    lines += [f"[{note}]" for note in facts["notes"]]
    for each in facts["ingested"]:
        lost = f", {each['forgotten']:,} forgotten" if each["forgotten"] else ""
        items = f"{each['items']:,} item{'' if each['items'] == 1 else 's'}"
        lines.append(f"+ {escape(each['object_key'])} → {each['namespace']} ({items}{lost})")
    lines += _more(facts["ingested_count"])
    lines += [f"- {escape(each['object_key'])}: {each['reason']}" for each in facts["skipped"]]
    lines += _more(facts["skipped_count"])
    if facts["vanished_count"]:
        lines.append(
            f"No longer there: {_objects(facts['vanished_count'])} of earlier runs. The items stay in the memory; use "
            "memory.forget to remove them:"
        )
        lines += [f"? {escape(key)}" for key in facts["vanished"]]
        lines += _more(facts["vanished_count"])
    return "\n".join(lines)


def _preview(args: Args, width: int) -> str:
    bucket = f"{args['bucket']}/" if args.get("bucket") else ""
    into = args.get("namespace_base") or DEFAULT_NAMESPACE
    return with_label(f"{bucket}{args.get('prefix', '')}* → {into}  ({write_mode(args, 'replace')})", args)


_COUNTED: Final = strict_object(
    object_key=STRING, namespace=STRING, chars=INTEGER, items=INTEGER, added=INTEGER, forgotten=INTEGER
)

MINIO_SYNC: Final = reading_tool(
    name="minio.sync",
    description="Sync text-like objects below a MinIO prefix into nested memory namespaces, if they changed.",
    input_schema=strict_object(
        prefix=text("MinIO object prefix to sync recursively"),
        bucket=nullable("string", "Optional bucket override"),
        namespace_base=nullable("string", "Base memory namespace (default: global/knowledge)"),
        mode=nullable("string", "Write mode per object namespace (default replace)", enum=["append", "replace", None]),
        max_objects=nullable(
            "number",
            f"Maximum objects to ingest in this run (default {DEFAULT_OBJECTS})",
            minimum=1,
            maximum=MAX_OBJECTS,
        ),
        max_chars_per_object=nullable(
            "number", f"Maximum characters of each object (default {DEFAULT_CHARS})", minimum=1, maximum=MAX_CHARS
        ),
        force=nullable("boolean", "Override non-text extension/content safety checks"),
        label=LABEL,
    ),
    output_schema=strict_object(
        bucket=STRING,
        prefix=STRING,
        namespace_base=STRING,
        mode={"enum": ["append", "replace"]},
        ending={"enum": ["complete", "limit", "time", "failed"]},
        ingested=array(_COUNTED),
        ingested_count=INTEGER,
        skipped=array(strict_object(object_key=STRING, reason=STRING)),
        skipped_count=INTEGER,
        unchanged_count=INTEGER,
        vanished=array(STRING),
        vanished_count=INTEGER,
        remaining_count=INTEGER,
        notes=array(STRING),
    ),
    propose=_propose,
    apply=_apply,
    timeout=DEFAULT_SECONDS,
    format_preview=_preview,
)
