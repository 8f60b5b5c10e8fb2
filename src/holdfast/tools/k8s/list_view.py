"""`ListView`: what the tools that list objects of a namespace share: arguments, the request, the output, the table."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, Final, Generic, TypeVar, cast

from msgspec import Struct

from holdfast.contract.call import Proposal
from holdfast.contract.context import Context
from holdfast.contract.errors import HoldfastError
from holdfast.contract.json import Args, Json
from holdfast.contract.result import Result, fail, ok
from holdfast.contract.tool import Tool
from holdfast.text.escape import CHARS_PER_COLUMN, clip, clip_escaped, escape
from holdfast.text.preview import with_label
from holdfast.text.table import render_table
from holdfast.tools.k8s.cluster import Listing, Params, Resource
from holdfast.tools.k8s.cluster_tool import CONTEXT, NAMESPACE, cluster_tool, opened, proposal
from holdfast.tools.k8s.kubeconfig import Access
from holdfast.tools.schemas import LABEL, STRING, Schema, array, nullable, strict_object

DEFAULT_LIMIT: Final = 200
MAX_LIMIT: Final = 1000
_NOTE: Final = 300
_MAX_DETAILS: Final = 50
_DETAIL: Final = 800
_MAX_COUNTS: Final = 12
_ARGUMENTS: Final[dict[str, Schema]] = {
    "namespace": NAMESPACE,
    "all_namespaces": nullable("boolean", "List all namespaces (default false)."),
    "selector": nullable("string", "Label selector (e.g. app=web,tier!=cache).", maxLength=1000),
    "field_selector": nullable("string", "Field selector (e.g. status.phase=Running).", maxLength=1000),
    "context": CONTEXT,
    "limit": nullable("integer", f"Most objects to list (default {DEFAULT_LIMIT}).", minimum=1, maximum=MAX_LIMIT),
    "label": LABEL,
}
_OUTPUT: Final[dict[str, Schema]] = {
    "context": STRING,
    "server": STRING,
    "namespace": {"type": ["string", "null"], "description": "Null for all namespaces."},
    "more": {"type": "boolean", "description": "Whether there are more objects than were listed."},
    "remaining": {"type": ["integer", "null"], "description": "How many, if the server says so."},
}

T = TypeVar("T")
Item = dict[str, Any]
"""An object in the typed output."""


class ListView(Struct, Generic[T], frozen=True, kw_only=True):
    """How objects of one kind are listed."""

    resource: Resource
    kind: type[T]
    as_json: Callable[[T, datetime], Args]
    """The fields of the output at a time; `namespace`, `name` and `status` are among them."""
    header: tuple[str, ...]
    row: Callable[[Item], tuple[str, ...]]
    """The cells below the header."""
    details: Callable[[Item], Iterable[str]]
    """What needs attention, for lines below the table."""

    def tool(self, description: str, **fields: Schema) -> Tool:
        """Return the tool, with the schema of the fields after `namespace` and `name`."""
        items = array(strict_object(namespace=STRING, name=STRING, **fields))
        return cluster_tool(
            name=f"k8s.{self.resource}",
            description=description,
            input_schema=strict_object(**_ARGUMENTS),
            output_schema=strict_object(**_OUTPUT, **{self.resource: items}),
            propose=self._propose,
            apply=self._apply,
            format_preview=_preview,
        )

    async def _propose(self, args: Args, ctx: Context) -> Proposal | Result:
        return proposal(args, ctx, lambda access: f"list {self.resource} in {_place(_namespace(args, access))}")

    async def _apply(self, args: Args, ctx: Context) -> Result:
        most = cast("int | None", args.get("limit")) or DEFAULT_LIMIT
        try:
            async with opened(args, ctx) as cluster:
                namespace = _namespace(args, cluster.access)
                found = await cluster.list(self.kind, self.resource, namespace, _params(args), most)
                if not found.items and namespace is not None:
                    missing = await cluster.missing_namespace(namespace)
                    if missing is not None:
                        return fail(missing)
        except HoldfastError as error:
            return fail(str(error))
        output = self.output(cluster.access, namespace, found, datetime.fromtimestamp(time.time(), UTC))
        return ok(self.render(output), structured=output)

    def output(self, access: Access, namespace: str | None, found: Listing[T], at: datetime) -> Args:
        """Return the typed output for a list."""
        items: list[Json] = [self.as_json(item, at) for item in found.items]
        return {
            "context": access.context,
            "server": access.url.origin,
            "namespace": namespace,
            "more": found.more,
            "remaining": found.remaining,
            self.resource: items,
        }

    def render(self, output: Args) -> str:
        """Render the output: a line of counts, a table, and what is wrong with the objects that need attention."""
        items = cast("list[Item]", output[self.resource])
        namespace = cast("str | None", output["namespace"])
        everywhere = namespace is None
        place = f"{_place(namespace)} of context {clip_escaped(str(output['context']), 80)}"
        if not items:
            return f"No {self.resource} found in {place}."
        counts = Counter(str(item["status"]) for item in items)
        told = escape(", ".join(f"{count} {status}" for status, count in counts.most_common(_MAX_COUNTS)))
        what = self.resource.removesuffix("s") if len(items) == 1 else self.resource
        lines = [f"{len(items)} {what} in {place}: {told}"]
        lines += self._more_note(output, len(items))
        rows = [(item["namespace"], item["name"], *self.row(item)) for item in items]
        start = 0 if everywhere else 1
        header = ("NAMESPACE", "NAME", *self.header)
        lines += ["", *render_table(header[start:], [row[start:] for row in rows])]
        details = [f"{_name(item, everywhere)}: {told}" for item in items for told in self.details(item)]
        if details:
            lines += ["", *(clip_escaped(line, _DETAIL) for line in details[:_MAX_DETAILS])]
            if len(details) > _MAX_DETAILS:
                lines.append(f"({len(details) - _MAX_DETAILS} more in the structured output)")
        return "\n".join(lines)

    def _more_note(self, output: Args, shown: int) -> list[str]:
        """Return the line that says that a list is not complete."""
        if not output["more"]:
            return []
        left = output["remaining"]
        total = f"{shown} of {shown + left}" if isinstance(left, int) else f"the first {shown}"
        return [f"Only {total} {self.resource} are listed. Use limit, a namespace or a selector to see others."]


def one_line(text: str | None) -> str | None:
    """Return a text of the cluster on one line, clipped; None if it is empty. It is escaped where it is rendered."""
    words = (text or "")[: _NOTE * CHARS_PER_COLUMN].split()
    return clip(" ".join(words), _NOTE) if words else None


def _namespace(args: Args, access: Access) -> str | None:
    """Return the namespace of a list, None for all."""
    return None if args.get("all_namespaces") else cast("str | None", args.get("namespace")) or access.namespace


def _place(namespace: str | None) -> str:
    return "all namespaces" if namespace is None else f"namespace {clip_escaped(namespace, 80)}"


def _name(item: Item, everywhere: bool) -> str:
    return clip(f"{item['namespace']}/{item['name']}" if everywhere else str(item["name"]), 120)


def _params(args: Args) -> Params:
    wanted = {"labelSelector": args.get("selector"), "fieldSelector": args.get("field_selector")}
    return {name: str(value) for name, value in wanted.items() if value}


def _preview(args: Args, width: int) -> str:
    parts = ["all namespaces"] if args.get("all_namespaces") else []
    named = ("namespace", "selector", "field_selector", "context")
    return with_label(" ".join([*parts, *(f"{name}={args[name]}" for name in named if args.get(name))]), args)
