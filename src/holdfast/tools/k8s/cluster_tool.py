"""What the `k8s` tools share: arguments, the host they reach, the proposal, and a cluster that is open for one call."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Final, cast

from holdfast.contract.call import Proposal
from holdfast.contract.context import Context
from holdfast.contract.enums import Risk
from holdfast.contract.errors import HoldfastError
from holdfast.contract.json import Args
from holdfast.contract.result import Result, fail
from holdfast.contract.tool import Reach
from holdfast.net.gateway import RefusedHost
from holdfast.text.escape import clip, clip_escaped
from holdfast.tools.k8s.cluster import ClusterReader, Kubernetes, Params
from holdfast.tools.k8s.kubeconfig import Access, KubernetesSettings, read_access
from holdfast.tools.schemas import LABEL, STRING, Schema, builtin_tool, needs_extra, nullable

DEFAULT_SECONDS: Final = 30.0
DEFAULT_LIMIT: Final = 200
MAX_LIMIT: Final = 1000
_MARGIN: Final = 0.1
_NOTE: Final = 300

CONTEXT: Final = nullable(
    "string", "Context of the kubeconfig (default: the configured or current one).", maxLength=500
)
NAMESPACE: Final = nullable("string", "Namespace", maxLength=253)
LIST_ARGUMENTS: Final[dict[str, Schema]] = {
    "namespace": NAMESPACE,
    "all_namespaces": nullable("boolean", "List all namespaces (default false)."),
    "selector": nullable("string", "Label selector (e.g. app=web,tier!=cache).", maxLength=1000),
    "field_selector": nullable("string", "Field selector (e.g. status.phase=Running).", maxLength=1000),
    "context": CONTEXT,
    "limit": nullable("integer", f"Most objects to list (default {DEFAULT_LIMIT}).", minimum=1, maximum=MAX_LIMIT),
    "label": LABEL,
}
LIST_OUTPUT: Final[dict[str, Schema]] = {
    "context": STRING,
    "server": STRING,
    "namespace": {"type": ["string", "null"], "description": "Null for all namespaces."},
    "more": {"type": "boolean", "description": "Whether there are more objects than were listed."},
    "remaining": {"type": ["integer", "null"], "description": "How many, if the server says so."},
}


def reach_of(settings: KubernetesSettings) -> Callable[[Args], Reach]:
    """Return `Tool.reaches` for a configuration. The kubeconfig is read when a call is looked at, not at start."""

    def reaches(args: Args) -> Reach:
        try:
            return Reach(read_access(settings, cast("str | None", args.get("context"))).hosts)
        except HoldfastError:
            return Reach(())  # the proposal says what is wrong

    return reaches


default_reach: Final = reach_of(KubernetesSettings())
cluster_tool: Final = partial(
    builtin_tool,
    timeout=DEFAULT_SECONDS,
    risk=Risk.MEDIUM,
    effects=frozenset({"network"}),
    reaches=default_reach,
    sources=("cluster",),
    groups=("k8s",),
    unavailable=needs_extra("k8s", "httpx2", "yaml"),
)


def proposal(args: Args, ctx: Context, describe: Callable[[Access], str]) -> Proposal | Result:
    """Return the proposal of a call: what is read, from which context and host."""
    service = ctx.service(Kubernetes)
    try:
        access = service.access(cast("str | None", args.get("context")))
        what = describe(access)
    except HoldfastError as error:
        return fail(str(error))
    url = access.proxy or access.url
    decision = service.network.gateway_to_origin(_name(ctx), url.origin).check(url.host, url.port)
    if isinstance(decision, RefusedHost):
        return fail(decision.reason)
    through = f" through the proxy {url.entry}" if access.proxy is not None else ""
    summary = f"{what} (context {clip_escaped(access.context, 80)}, {access.url.entry}{through})"
    return Proposal(tool_name=ctx.tool_name, summary=summary, risk=Risk.MEDIUM, payload=args, preview=summary)


@asynccontextmanager
async def opened(args: Args, ctx: Context) -> AsyncGenerator[ClusterReader]:
    """Open the cluster of a call. Raises `HoldfastError`."""
    service = ctx.service(Kubernetes)
    access = service.access(cast("str | None", args.get("context")))
    seconds = (DEFAULT_SECONDS if ctx.timeout is None else ctx.timeout) * (1 - _MARGIN)
    ctx.progress(f"waiting for {access.url.entry}…")
    async with service.open(access, by=_name(ctx), project=ctx.root or ctx.cwd, seconds=seconds) as cluster:
        yield cluster


def _name(ctx: Context) -> str:
    return f"{ctx.tool_name} {ctx.call_id}"


def listed_namespace(args: Args, access: Access) -> str | None:
    """Return the namespace of a list, None for all."""
    return None if args.get("all_namespaces") else cast("str | None", args.get("namespace")) or access.namespace


def where(args: Args, access: Access) -> str:
    namespace = listed_namespace(args, access)
    return "all namespaces" if namespace is None else f"namespace {clip_escaped(namespace, 80)}"


def list_preview(args: Args, width: int) -> str:
    parts = ["all namespaces"] if args.get("all_namespaces") else []
    parts += [
        f"{name}={args[name]}" for name in ("namespace", "selector", "field_selector", "context") if args.get(name)
    ]
    label = args.get("label")
    shown = " ".join(parts)
    return f"{shown}  # {label}" if isinstance(label, str) and label.strip() else shown


def list_params(args: Args) -> Params:
    wanted = {"labelSelector": args.get("selector"), "fieldSelector": args.get("field_selector")}
    return {name: str(value) for name, value in wanted.items() if value}


def list_limit(args: Args) -> int:
    return cast("int | None", args.get("limit")) or DEFAULT_LIMIT


def one_line(text: str | None) -> str | None:
    """Return a text of the cluster on one line, clipped; None if it is empty. It is escaped where it is rendered."""
    return clip(" ".join(text.split()), _NOTE) if text and text.strip() else None


def now() -> datetime:
    return datetime.fromtimestamp(time.time(), UTC)


def more_note(output: Args, shown: int, what: str) -> list[str]:
    """Return the line that says that a list is not complete."""
    if not output["more"]:
        return []
    left = output["remaining"]
    total = f"{shown} of {shown + left}" if isinstance(left, int) else f"the first {shown}"
    return [f"Only {total} {what} are listed. Use limit, a namespace or a selector to see others."]
