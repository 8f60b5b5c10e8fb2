"""`k8s.pods`: the pods of a namespace with their state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final, cast

from holdfast.contract.call import Proposal
from holdfast.contract.context import Context
from holdfast.contract.errors import HoldfastError
from holdfast.contract.json import Args
from holdfast.contract.result import Result, fail, ok
from holdfast.text.escape import clip, clip_escaped, escape
from holdfast.text.table import render_table
from holdfast.tools.k8s.cluster import Listing
from holdfast.tools.k8s.cluster_tool import (
    LIST_ARGUMENTS,
    LIST_OUTPUT,
    cluster_tool,
    list_limit,
    list_params,
    list_preview,
    listed_namespace,
    more_note,
    now,
    one_line,
    opened,
    proposal,
    where,
)
from holdfast.tools.k8s.kubeconfig import Access
from holdfast.tools.k8s.objects import Pod, format_age, parse_time
from holdfast.tools.k8s.pod_status import Failure, summarize_pod
from holdfast.tools.schemas import INTEGER, INTEGER_OR_NULL, STRING, STRING_OR_NULL, array, strict_object

_MAX_DETAILS: Final = 50


async def _propose(args: Args, ctx: Context) -> Proposal | Result:
    return proposal(args, ctx, lambda access: f"list pods in {where(args, access)}")


async def _apply(args: Args, ctx: Context) -> Result:
    try:
        async with opened(args, ctx) as cluster:
            namespace = listed_namespace(args, cluster.access)
            found = await cluster.list(Pod, "pods", namespace, list_params(args), list_limit(args))
            if not found.items and namespace is not None:
                missing = await cluster.missing_namespace(namespace)
                if missing is not None:
                    return fail(missing)
            access, at = cluster.access, now()
    except HoldfastError as error:
        return fail(str(error))
    output = pods_output(access, namespace, found, at)
    return ok(render_pods(output), structured=output)


def pods_output(access: Access, namespace: str | None, found: Listing[Pod], at: datetime) -> Args:
    """Return the typed output for a list of pods."""
    return {
        "context": access.context,
        "server": access.url.origin,
        "namespace": namespace,
        "more": found.more,
        "remaining": found.remaining,
        "pods": [_as_json(pod, at) for pod in found.items],
    }


def _as_json(pod: Pod, at: datetime) -> Args:
    summary, created = summarize_pod(pod), parse_time(pod.metadata.creation_timestamp)
    failure = summary.last_failure
    return {
        "namespace": clip(pod.metadata.namespace or "", 253),
        "name": clip(pod.metadata.name, 253),
        "status": clip(summary.status, 100),
        "ready": summary.ready,
        "containers": summary.containers,
        "restarts": summary.restarts,
        "last_restart": None if summary.last_restart is None else format_age(summary.last_restart, at),
        "last_failure": None if failure is None else _failure_as_json(failure, at),
        "message": None if summary.is_well else one_line(summary.message),
        "age": format_age(created, at),
        "created": None if created is None else created.isoformat(),
        "node": one_line(pod.spec.node_name),
    }


def _failure_as_json(failure: Failure, at: datetime) -> Args:
    return {
        "container": clip(failure.container, 253),
        "reason": one_line(failure.reason),
        "exit_code": failure.exit_code,
        "signal": failure.signal,
        "ended": None if failure.finished_at is None else format_age(failure.finished_at, at),
        "message": one_line(failure.message),
    }


def render_pods(output: Args) -> str:
    """Render the output: a line of counts, a table, and what is wrong with the pods that need attention."""
    pods = cast("list[dict[str, Any]]", output["pods"])
    everywhere = output["namespace"] is None
    place = "all namespaces" if everywhere else f"namespace {clip_escaped(str(output['namespace']), 80)}"
    place += f" of context {clip_escaped(str(output['context']), 80)}"
    if not pods:
        return f"No pods found in {place}."
    counts = Counter(str(pod["status"]) for pod in pods)
    told = escape(", ".join(f"{count} {status}" for status, count in counts.most_common(12)))
    lines = [f"{len(pods)} {'pod' if len(pods) == 1 else 'pods'} in {place}: {told}"]
    lines += more_note(output, len(pods), "pods")
    header = ("NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE", "NODE")
    rows = [_row(pod) for pod in pods]
    start = 0 if everywhere else 1
    lines += ["", *render_table(header[start:], [row[start:] for row in rows])]
    details = [line for pod in pods for line in _details(pod, everywhere)]
    if details:
        lines += ["", *map(escape, details[:_MAX_DETAILS])]
        if len(details) > _MAX_DETAILS:
            lines.append(f"({len(details) - _MAX_DETAILS} more in the structured output)")
    return "\n".join(lines)


def _row(pod: dict[str, Any]) -> tuple[str, ...]:
    ago = f" ({pod['last_restart']} ago)" if pod["last_restart"] is not None else ""
    ready = f"{pod['ready']}/{pod['containers']}"
    restarts = f"{pod['restarts']}{ago}"
    return (pod["namespace"], pod["name"], ready, pod["status"], restarts, pod["age"], pod["node"] or "")


def _details(pod: dict[str, Any], everywhere: bool) -> Iterable[str]:
    name = clip(f"{pod['namespace']}/{pod['name']}" if everywhere else str(pod["name"]), 120)
    if pod["message"] is not None:
        yield f"{name}: {pod['message']}"
    failure = pod["last_failure"]
    if failure is not None:
        facts = [f"exit code {failure['exit_code']}"]
        facts += [f"signal {failure['signal']}"] if failure["signal"] is not None else []
        facts += [clip(failure["reason"], 80)] if failure["reason"] is not None else []
        facts += [f"{failure['ended']} ago"] if failure["ended"] is not None else []
        told = f": {failure['message']}" if failure["message"] is not None else ""
        yield f"{name}: container {clip(failure['container'], 80)} failed with {', '.join(facts)}{told}"


K8S_PODS: Final = cluster_tool(
    name="k8s.pods",
    description="List Kubernetes pods with status summary",
    input_schema=strict_object(**LIST_ARGUMENTS),
    output_schema=strict_object(
        **LIST_OUTPUT,
        pods=array(
            strict_object(
                namespace=STRING,
                name=STRING,
                status=STRING,
                ready=INTEGER,
                containers=INTEGER,
                restarts=INTEGER,
                last_restart=STRING_OR_NULL,
                last_failure={
                    **strict_object(
                        container=STRING,
                        reason=STRING_OR_NULL,
                        exit_code=INTEGER,
                        signal=INTEGER_OR_NULL,
                        ended=STRING_OR_NULL,
                        message=STRING_OR_NULL,
                    ),
                    "type": ["object", "null"],
                },
                message=STRING_OR_NULL,
                age=STRING,
                created=STRING_OR_NULL,
                node=STRING_OR_NULL,
            )
        ),
    ),
    propose=_propose,
    apply=_apply,
    format_preview=list_preview,
)
