"""What the `k8s` tools share: arguments, the host they reach, the proposal, and a cluster that is open for one call."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
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
from holdfast.text.escape import clip_escaped
from holdfast.tools.k8s.cluster import ClusterReader, Kubernetes
from holdfast.tools.k8s.kubeconfig import Access, KubernetesSettings, read_access
from holdfast.tools.schemas import builtin_tool, needs_extra, nullable

DEFAULT_SECONDS: Final = 30.0
_MARGIN: Final = 0.1

CONTEXT: Final = nullable(
    "string", "Context of the kubeconfig (default: the configured or current one).", maxLength=500
)
NAMESPACE: Final = nullable("string", "Namespace", maxLength=253)


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
