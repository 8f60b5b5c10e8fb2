"""`memory.read`, `memory.write`, `memory.search`, `memory.forget` and `memory.list`: what agents remember.

Stored text may be hostile, so every line of it stands behind a gutter, where it cannot imitate an id or a date.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, time
from typing import Final, cast

from holdfast.contract.call import Precondition, Proposal
from holdfast.contract.context import Context
from holdfast.contract.enums import Risk
from holdfast.contract.errors import MemoryRefused, MemoryUnavailable
from holdfast.contract.json import Args
from holdfast.contract.memory import Memory, MemoryHit, MemoryItem, NamespaceSummary, NewItem
from holdfast.contract.result import Result, fail, ok
from holdfast.text.diff import unified_diff
from holdfast.text.preview import with_label
from holdfast.text.quote import TEXT_GUTTER, behind_gutter
from holdfast.text.truncate import byte_size, format_size
from holdfast.tools.schemas import (
    INTEGER,
    LABEL,
    STRING,
    STRING_OR_NULL,
    Schema,
    array,
    builtin_tool,
    non_blank,
    nullable,
    read_only_tool,
    strict_object,
    text,
)

DEFAULT_HITS: Final = 10
DEFAULT_PAGE: Final = 50
MAX_PAGE: Final = 200
_SUMMARY_CHARS: Final = 100
_LISTED: Final = ("id", "namespace", "created", "updated", "expires", "superseded_by", "shared")
"""What a list tells about an item, besides a summary."""


# ---------------------------------------------------------------------- rendering


def format_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _item_output(item: MemoryItem) -> Args:
    made_by = item.provenance
    return {
        "id": item.id,
        "namespace": item.namespace,
        "content": item.content,
        "created": format_time(item.created),
        "updated": format_time(item.updated),
        "expires": None if item.expires is None else format_time(item.expires),
        "supersedes": item.supersedes,
        "superseded_by": item.superseded_by,
        "shared": item.shared,
        "provenance": {
            "interface": made_by.interface,
            "agent": made_by.agent,
            "provider": made_by.provider,
            "skill": made_by.skill,
            "session": made_by.session,
            "document": made_by.document,
            "call": made_by.call,
            "parent": made_by.parent,
        },
    }


def _heading(item: MemoryItem) -> str:
    marks = [f"superseded by {item.superseded_by}" if item.superseded_by is not None else ""]
    marks += [f"expires {format_time(item.expires)}" if item.expires is not None else ""]
    told = "".join(f"; {mark}" for mark in marks if mark)
    return f"{item.id}  {item.namespace}  {format_time(item.created)}  ({item.provenance}{told})"


def _rendered(items: Iterable[MemoryItem]) -> str:
    return "\n\n".join(f"{_heading(item)}\n{behind_gutter(item.content)}" for item in items)


def _page_note(shown: int, offset: int, total: int) -> str:
    last = offset + shown
    more = f" Use offset={last} to continue." if last < total else ""
    return f"\n\n[Items {offset + 1}-{last} of {total}, newest first.{more}]" if more or offset else ""


def _fitting(items: Iterable[MemoryItem], ctx: Context) -> Iterator[MemoryItem]:
    """Yield the items that fit into the output, at least one."""
    room = ctx.truncate.MAX_BYTES // 2  # the structured output has the same text once more
    for number, item in enumerate(items):
        room -= byte_size(item.content) + 200
        if room < 0 and number:
            return
        yield item


# ---------------------------------------------------------------------- read, list, search


def _read(args: Args, ctx: Context) -> Result:
    namespace, offset = cast(str, args["namespace"]), cast(int, args.get("offset") or 0)
    limit = cast(int, args.get("limit") or DEFAULT_PAGE)
    try:
        page = ctx.service(Memory).page(ctx, namespace, offset=offset, limit=limit, history=bool(args.get("history")))
    except (MemoryRefused, MemoryUnavailable) as error:
        return fail(str(error))
    items = list(_fitting(page.items, ctx))
    structured: Args = {
        "namespace": namespace,
        "items": [_item_output(item) for item in items],
        "offset": offset,
        "total": page.total,
    }
    if not items:
        past = f" It has {page.total} items." if page.total else ""
        return ok(f"There are no items in '{namespace}'{f' from offset {offset}' if offset else ''}.{past}",
                  structured=structured)  # fmt: skip
    return ok(_rendered(items) + _page_note(len(items), offset, page.total), structured=structured)


def _list(args: Args, ctx: Context) -> Result:
    namespace, offset = cast(str | None, args.get("namespace")), cast(int, args.get("offset") or 0)
    limit = cast(int, args.get("limit") or DEFAULT_PAGE)
    memory = ctx.service(Memory)
    try:
        namespaces = memory.namespaces(ctx, namespace)
        page = None if namespace is None else memory.page(
            ctx, namespace, offset=offset, limit=limit, history=True, below=True
        )  # fmt: skip
    except (MemoryRefused, MemoryUnavailable) as error:
        return fail(str(error))
    items, total = ((), 0) if page is None else (page.items, page.total)
    structured: Args = {
        "namespaces": [_namespace_output(each) for each in namespaces],
        "items": [_listed_output(item) for item in items],
        "offset": offset,
        "total": total,
    }
    if not namespaces:
        return ok("Nothing is remembered here yet." if namespace is None else f"There are no items in '{namespace}'.",
                  structured=structured)  # fmt: skip
    lines = [
        f"{each.namespace}  {each.items} item{'' if each.items == 1 else 's'}, last change {format_time(each.updated)}"
        f"{' (shared by all projects)' if each.shared else ''}"
        for each in namespaces
    ]
    if page is not None:
        lines += ["", *(f"{_heading(item)}\n{TEXT_GUTTER}{_summary(item.content)}" for item in items)]
    return ok("\n".join(lines) + _page_note(len(items), offset, total), structured=structured)


def _namespace_output(each: NamespaceSummary) -> Args:
    return {
        "namespace": each.namespace, "items": each.items, "updated": format_time(each.updated), "shared": each.shared
    }  # fmt: skip


def _listed_output(item: MemoryItem) -> Args:
    whole = _item_output(item)
    return {name: whole[name] for name in _LISTED} | {"summary": _summary(item.content)}


def _summary(content: str) -> str:
    words = " ".join(content.split())
    return words if len(words) <= _SUMMARY_CHARS else f"{words[: _SUMMARY_CHARS - 1]}…"


def _search(args: Args, ctx: Context) -> Result:
    query, limit = cast(str, args["query"]), cast(int, args.get("limit") or DEFAULT_HITS)
    try:
        found = ctx.service(Memory).search(
            ctx,
            query,
            namespace=cast(str | None, args.get("namespace")),
            limit=limit,
            keyword_only=bool(args.get("keywordOnly")),
        )
    except (MemoryRefused, MemoryUnavailable) as error:
        return fail(str(error))
    fitting = {item.id for item in _fitting((hit.item for hit in found.hits), ctx)}
    hits = [hit for hit in found.hits if hit.item.id in fitting]
    structured: Args = {
        "hits": [_item_output(hit.item) | _scores(hit) for hit in hits],
        "embedder": found.embedder,
        "notes": list(found.notes),
    }
    body = "\n\n".join(f"{_score_words(hit)}  {_heading(hit.item)}\n{behind_gutter(hit.item.content)}" for hit in hits)
    notes = [*found.notes]
    if len(hits) < len(found.hits):
        notes.append(
            f"{len(found.hits) - len(hits)} more do not fit into the output; use a smaller limit or memory.read."
        )
    told = "".join(f"\n[{note}]" for note in notes)
    return ok((body or "Nothing was found.") + (f"\n{told}" if told else ""), structured=structured)


def _scores(hit: MemoryHit) -> Args:
    meaning = None if hit.meaning is None else round(hit.meaning, 3)
    similarity = None if hit.similarity is None else round(hit.similarity, 3)
    return {
        "score": round(hit.score, 3),
        "keyword": round(hit.keyword, 3),
        "meaning": meaning,
        "similarity": similarity,
    }


def _score_words(hit: MemoryHit) -> str:
    meaning = "" if hit.meaning is None else f", meaning {hit.meaning:.2f}"
    meaning += "" if hit.similarity is None else f" (similarity {hit.similarity:.2f})"
    return f"{hit.score:.2f} (keywords {hit.keyword:.2f}{meaning})"


# ---------------------------------------------------------------------- write


def _propose_write(args: Args, ctx: Context) -> Proposal | Result:
    memory = ctx.service(Memory)
    try:
        new = _new_item(args)
        memory.check(ctx, new)
        old = None if new.supersedes is None else memory.get(ctx, new.supersedes)
        same = memory.find_same(ctx, new.namespace, new.content)
    except (MemoryRefused, MemoryUnavailable) as error:
        return fail(str(error))
    if same is not None and (old is None or old.id == same.id):
        if same.expires == new.expires:
            told = f"'{new.namespace}' has exactly this already, as {same.id}."
            return ok(told, structured=_written(same, "unchanged"))
        return _proposed_expiry(args, same, new.expires)
    if old is not None and old.superseded_by is not None and _is_kept(memory, ctx, old.superseded_by):
        return fail(f"Item {old.id} was superseded by {old.superseded_by} already. Supersede that one.")
    what = "" if old is None else f" in place of {old.id}"
    until = "" if new.expires is None else f", until {format_time(new.expires)}"
    seen = "absent" if old is None else old.digest
    return Proposal(
        tool_name="memory.write",
        summary=f"remember {format_size(byte_size(new.content))} in {new.namespace}{what}{until}",
        risk=Risk.MEDIUM,
        payload={**args, "seen": seen},
        preview=_diff(None if old is None else old.content, new.content, new.namespace),
        preview_kind="diff",
        preconditions=(Precondition(kind="memory", subject=new.supersedes or new.namespace, value=seen),),
    )


def _is_kept(memory: Memory, ctx: Context, item_id: str) -> bool:
    try:
        memory.get(ctx, item_id)
    except MemoryRefused:
        return False
    return True


def _proposed_expiry(args: Args, item: MemoryItem, expires: float | None) -> Proposal:
    """Propose to keep an item for longer, or for less time."""
    before, after = ("never" if at is None else format_time(at) for at in (item.expires, expires))
    return Proposal(
        tool_name="memory.write",
        summary=f"change when {item.id} of {item.namespace} expires: {after}, not {before}",
        risk=Risk.MEDIUM,
        payload={**args, "seen": item.digest},
        preview=_diff(f"expires: {before}\n{item.content}", f"expires: {after}\n{item.content}", item.namespace),
        preview_kind="diff",
        preconditions=(Precondition(kind="memory", subject=item.id, value=item.digest),),
    )


def _apply_write(payload: Args, ctx: Context) -> Result:
    memory = ctx.service(Memory)
    new = _new_item(payload, seen=cast(str, payload["seen"]))
    try:
        same = memory.find_same(ctx, new.namespace, new.content)
        item = memory.write(ctx, new)
    except (MemoryRefused, MemoryUnavailable) as error:
        return fail(f"Nothing was remembered. {error}")
    outcome = "unchanged" if same is not None and same.id == item.id and same.expires == item.expires else "written"
    return ok(f"Remembered as {item.id} in '{item.namespace}'.", structured=_written(item, outcome))


def _new_item(args: Args, seen: str | None = None) -> NewItem:
    supersedes, expires = cast(str | None, args.get("supersedes")), cast(str | None, args.get("expires"))
    return NewItem(
        namespace=cast(str, args["namespace"]),
        content=cast(str, args["content"]),
        supersedes=supersedes,
        seen=seen if supersedes is not None else None,
        expires=None if expires is None else _expiry(expires),
    )


def _expiry(given: str) -> float:
    """Return the end of a date, or a time; UTC unless it has a zone."""
    try:
        if len(given) == len("2026-01-01"):
            moment = datetime.combine(date.fromisoformat(given), time(23, 59, 59), UTC)
        else:
            moment = datetime.fromisoformat(given)
        moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        seconds = float(int(moment.timestamp()))  # as it is shown, so that what was read can be written again
    except (ValueError, OverflowError):
        raise MemoryRefused(f"Cannot read {given[:80]!a} as a date. Use 2026-01-31 or 2026-01-31T12:00:00Z.") from None
    if moment <= datetime.now(UTC):
        raise MemoryRefused(f"The expiry {given} is in the past. Use a later date, or leave it out.")
    return seconds


def _written(item: MemoryItem, outcome: str) -> Args:
    expires = None if item.expires is None else format_time(item.expires)
    return {
        "id": item.id,
        "namespace": item.namespace,
        "outcome": outcome,
        "supersedes": item.supersedes,
        "expires": expires,
    }


def _diff(before: str | None, after: str | None, namespace: str) -> str:
    return unified_diff(before, after, f"memory/{namespace}", max_lines=None)


# ---------------------------------------------------------------------- forget


def _propose_forget(args: Args, ctx: Context) -> Proposal | Result:
    try:
        item = ctx.service(Memory).get(ctx, cast(str, args["id"]))
    except (MemoryRefused, MemoryUnavailable) as error:
        return fail(str(error))
    return Proposal(
        tool_name="memory.forget",
        summary=f"forget {item.id} of {item.namespace} ({format_size(byte_size(item.content))}); this cannot be undone",
        risk=Risk.HIGH,
        payload={**args, "seen": item.digest},
        preview=_diff(item.content, None, item.namespace),
        preview_kind="diff",
        preconditions=(Precondition(kind="memory", subject=item.id, value=item.digest),),
    )


def _apply_forget(payload: Args, ctx: Context) -> Result:
    memory, item_id = ctx.service(Memory), cast(str, payload["id"])
    try:
        item = memory.get(ctx, item_id)
        erased = memory.forget(ctx, item_id, cast(str, payload["seen"]))
    except (MemoryRefused, MemoryUnavailable) as error:
        return fail(f"Nothing was forgotten. {error}")
    notes = (
        [] if erased else ["Another process is still reading the memory; its text leaves the log with the next change."]
    )
    if item.supersedes is not None:
        notes.append(f"It superseded {item.supersedes}, which is forgotten separately.")
    structured: Args = {"id": item_id, "namespace": item.namespace, "erased": erased, "supersedes": item.supersedes}
    return ok(" ".join((f"Forgot {item_id} of '{item.namespace}'.", *notes)), structured=structured)


# ---------------------------------------------------------------------- definitions


def _namespace_preview(args: Args, width: int) -> str:
    return with_label(str(args.get("namespace") or ""), args)


def _write_preview(args: Args, width: int) -> str:
    size = format_size(len(str(args.get("content", "")).encode(errors="replace")))
    return with_label(f"{args.get('namespace', '')}  ({size})", args)


def _search_preview(args: Args, width: int) -> str:
    where = f"  in {args['namespace']}" if args.get("namespace") else ""
    return with_label(f"{str(args.get('query', ''))[:200]}{where}", args)


def _forget_preview(args: Args, width: int) -> str:
    return with_label(str(args.get("id", "")), args)


_NAMESPACE: Final = "The namespace: parts of lower-case letters, digits, '_', '.' and '-', joined by '/'."
_PROVENANCE: Final[Schema] = strict_object(
    interface=STRING,
    agent=STRING_OR_NULL,
    provider=STRING_OR_NULL,
    skill=STRING_OR_NULL,
    session=STRING_OR_NULL,
    document=STRING_OR_NULL,
    call=STRING,
    parent=STRING_OR_NULL,
)
_ITEM: Final[dict[str, Schema]] = {
    "id": STRING,
    "namespace": STRING,
    "content": STRING,
    "created": STRING,
    "updated": STRING,
    "expires": STRING_OR_NULL,
    "supersedes": STRING_OR_NULL,
    "superseded_by": STRING_OR_NULL,
    "shared": {"type": "boolean"},
    "provenance": _PROVENANCE,
}
_SCORE: Final[Schema] = {"type": "number"}
_SCORE_OR_NULL: Final[Schema] = {"type": ["number", "null"]}
_PAGE: Final[dict[str, Schema]] = {
    "limit": nullable("integer", f"Number of items (default {DEFAULT_PAGE}).", minimum=1, maximum=MAX_PAGE),
    "offset": nullable("integer", "Number of items to skip (default 0).", minimum=0),
}

MEMORY_READ: Final = read_only_tool(
    name="memory.read",
    description="Read what is remembered in a namespace, newest first.",
    input_schema=strict_object(
        namespace=non_blank("The namespace to read from."),
        **_PAGE,
        history=nullable("boolean", "Also read items that were superseded (default false)."),
        label=LABEL,
    ),
    output_schema=strict_object(namespace=STRING, items=array(strict_object(**_ITEM)), offset=INTEGER, total=INTEGER),
    execute=_read,
    sources=("memory",),
    format_preview=_namespace_preview,
    groups=("memory",),
    profiles=("messaging", "coding"),
)
MEMORY_LIST: Final = read_only_tool(
    name="memory.list",
    description="List the namespaces of the memory; with a namespace, also its items and those below it.",
    input_schema=strict_object(
        namespace=nullable("string", "List this namespace and those below it."), **_PAGE, label=LABEL
    ),
    output_schema=strict_object(
        namespaces=array(strict_object(namespace=STRING, items=INTEGER, updated=STRING, shared={"type": "boolean"})),
        items=array(strict_object(**{name: _ITEM[name] for name in _LISTED}, summary=STRING)),
        offset=INTEGER,
        total=INTEGER,
    ),
    execute=_list,
    sources=("memory",),
    format_preview=_namespace_preview,
    groups=("memory",),
    profiles=("messaging", "coding"),
)
MEMORY_SEARCH: Final = read_only_tool(
    name="memory.search",
    description="Search the memory by keywords and by meaning. Results carry ids for memory.forget and supersedes.",
    input_schema=strict_object(
        query=non_blank("What to look for, in words or as a question."),
        namespace=nullable("string", "Search only this namespace and those below it."),
        limit=nullable("integer", f"Number of results (default {DEFAULT_HITS}).", minimum=1, maximum=100),
        keywordOnly=nullable("boolean", "Search by keywords only, not by meaning (default false)."),
        label=LABEL,
    ),
    output_schema=strict_object(
        hits=array(
            strict_object(**_ITEM, score=_SCORE, keyword=_SCORE, meaning=_SCORE_OR_NULL, similarity=_SCORE_OR_NULL)
        ),
        embedder=STRING,
        notes=array(STRING),
    ),
    execute=_search,
    sources=("memory",),
    format_preview=_search_preview,
    groups=("memory",),
    profiles=("messaging", "coding"),
)
MEMORY_WRITE: Final = builtin_tool(
    name="memory.write",
    description="Remember something in a namespace, for later conversations. One fact per item is found best.",
    input_schema=strict_object(
        namespace=non_blank(_NAMESPACE),
        content=text("What to remember, as text that is clear without this conversation."),
        supersedes=nullable("string", "The id of the item that this one replaces."),
        expires=nullable("string", "The date (2026-01-31) or time after which it is removed; never by default."),
        label=LABEL,
    ),
    output_schema=strict_object(
        id=STRING,
        namespace=STRING,
        outcome={"enum": ["written", "unchanged"]},
        supersedes=STRING_OR_NULL,
        expires=STRING_OR_NULL,
    ),
    propose=_propose_write,
    apply=_apply_write,
    sinks=("memory",),
    risk=Risk.MEDIUM,
    effects=frozenset({"fs.write"}),
    format_preview=_write_preview,
    groups=("memory",),
    profiles=("messaging", "coding"),
)
MEMORY_FORGET: Final = builtin_tool(
    name="memory.forget",
    description="Forget an item of the memory for good: its text, its keywords and its vector.",
    input_schema=strict_object(id=non_blank("The id of the item, from memory.search or memory.list."), label=LABEL),
    output_schema=strict_object(id=STRING, namespace=STRING, erased={"type": "boolean"}, supersedes=STRING_OR_NULL),
    propose=_propose_forget,
    apply=_apply_forget,
    risk=Risk.HIGH,
    effects=frozenset({"fs.write"}),
    format_preview=_forget_preview,
    groups=("memory",),
    profiles=("messaging", "coding"),
)
