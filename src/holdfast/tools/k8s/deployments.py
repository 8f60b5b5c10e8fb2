"""`k8s.deployments`: the deployments of a namespace, their ready replicas, and why a rollout does not progress."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final, Literal, cast

from holdfast.contract.call import Proposal
from holdfast.contract.context import Context
from holdfast.contract.errors import HoldfastError
from holdfast.contract.json import Args, Json
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
from holdfast.tools.k8s.objects import Condition, Deployment, format_age, parse_time
from holdfast.tools.schemas import INTEGER, STRING, STRING_OR_NULL, array, strict_object

State = Literal["Ready", "Progressing", "Stalled", "Paused", "Unavailable", "ScaledToZero"]
_STATES: Final = ("Ready", "Progressing", "Stalled", "Paused", "Unavailable", "ScaledToZero")
_MAX_IMAGES: Final = 20
_MAX_CONDITIONS: Final = 10
_MAX_DETAILS: Final = 50
_WELL: Final = {"Available": "True", "Progressing": "True", "ReplicaFailure": "False"}
"""The status of each condition while all is well."""


async def _propose(args: Args, ctx: Context) -> Proposal | Result:
    return proposal(args, ctx, lambda access: f"list deployments in {where(args, access)}")


async def _apply(args: Args, ctx: Context) -> Result:
    try:
        async with opened(args, ctx) as cluster:
            namespace = listed_namespace(args, cluster.access)
            found = await cluster.list(Deployment, "deployments", namespace, list_params(args), list_limit(args))
            if not found.items and namespace is not None:
                missing = await cluster.missing_namespace(namespace)
                if missing is not None:
                    return fail(missing)
            access, at = cluster.access, now()
    except HoldfastError as error:
        return fail(str(error))
    output = deployments_output(access, namespace, found, at)
    return ok(render_deployments(output), structured=output)


def deployments_output(access: Access, namespace: str | None, found: Listing[Deployment], at: datetime) -> Args:
    """Return the typed output for a list of deployments."""
    return {
        "context": access.context,
        "server": access.url.origin,
        "namespace": namespace,
        "more": found.more,
        "remaining": found.remaining,
        "deployments": [_as_json(deployment, at) for deployment in found.items],
    }


def desired_replicas(deployment: Deployment) -> int:
    """Return how many replicas are wanted. The server fills in 1 if the author left it out."""
    return 1 if deployment.spec.replicas is None else deployment.spec.replicas


def deployment_state(deployment: Deployment) -> State:
    """Return how far a rollout is, by the rules of `kubectl rollout status`."""
    status, desired = deployment.status, desired_replicas(deployment)
    progress = next((each for each in status.conditions or () if each.type == "Progressing"), None)
    observed = status.observed_generation or 0
    if deployment.spec.paused:
        return "Paused"
    if observed < (deployment.metadata.generation or 0):
        return "Progressing"  # the controller has not seen the latest change
    if progress is not None and progress.reason == "ProgressDeadlineExceeded":
        return "Stalled"
    if status.updated_replicas < desired or status.replicas > status.updated_replicas:
        return "Progressing"
    if desired == 0:
        return "ScaledToZero"
    if status.available_replicas < desired:
        # The rollout was finished before, and replicas have failed since, or it is still waiting for them.
        return "Unavailable" if progress is not None and progress.reason == "NewReplicaSetAvailable" else "Progressing"
    return "Ready"


def _as_json(deployment: Deployment, at: datetime) -> Args:
    metadata, status = deployment.metadata, deployment.status
    created = parse_time(metadata.creation_timestamp)
    containers = deployment.spec.template.spec.containers or ()
    images: list[Json] = [image for each in containers if (image := one_line(each.image)) is not None]
    why: list[Json] = [_condition(each) for each in status.conditions or () if _tells_why(each)]
    return {
        "namespace": clip(metadata.namespace or "", 253),
        "name": clip(metadata.name, 253),
        "status": deployment_state(deployment),
        "ready": status.ready_replicas,
        "desired": desired_replicas(deployment),
        "updated": status.updated_replicas,
        "available": status.available_replicas,
        "conditions": why[:_MAX_CONDITIONS],
        "images": images[:_MAX_IMAGES],
        "age": format_age(created, at),
        "created": None if created is None else created.isoformat(),
    }


def _tells_why(condition: Condition) -> bool:
    return condition.status != _WELL.get(condition.type, "True")


def _condition(condition: Condition) -> Args:
    return {
        "type": clip(condition.type, 100),
        "status": clip(condition.status, 20),
        "reason": one_line(condition.reason),
        "message": one_line(condition.message),
    }


def render_deployments(output: Args) -> str:
    """Render the output: a line of counts, a table, and the conditions that say why replicas are missing."""
    found = cast("list[dict[str, Any]]", output["deployments"])
    everywhere = output["namespace"] is None
    place = "all namespaces" if everywhere else f"namespace {clip_escaped(str(output['namespace']), 80)}"
    place += f" of context {clip_escaped(str(output['context']), 80)}"
    if not found:
        return f"No deployments found in {place}."
    counts = Counter(str(each["status"]) for each in found)
    told = ", ".join(f"{count} {status}" for status, count in counts.most_common())
    lines = [f"{len(found)} {'deployment' if len(found) == 1 else 'deployments'} in {place}: {told}"]
    lines += more_note(output, len(found), "deployments")
    header = ("NAMESPACE", "NAME", "READY", "UP-TO-DATE", "AVAILABLE", "STATUS", "AGE", "IMAGES")
    rows = [_row(each) for each in found]
    start = 0 if everywhere else 1
    lines += ["", *render_table(header[start:], [row[start:] for row in rows])]
    details = [line for each in found for line in _details(each, everywhere)]
    if details:
        lines += ["", *map(escape, details[:_MAX_DETAILS])]
        if len(details) > _MAX_DETAILS:
            lines.append(f"({len(details) - _MAX_DETAILS} more in the structured output)")
    return "\n".join(lines)


def _row(item: dict[str, Any]) -> tuple[str, ...]:
    ready = f"{item['ready']}/{item['desired']}"
    images = ", ".join(item["images"])
    counts = (str(item["updated"]), str(item["available"]))
    return (item["namespace"], item["name"], ready, *counts, item["status"], item["age"], images)


def _details(item: dict[str, Any], everywhere: bool) -> Iterable[str]:
    name = clip(f"{item['namespace']}/{item['name']}" if everywhere else str(item["name"]), 120)
    for condition in item["conditions"]:
        reason = f" ({clip(condition['reason'], 80)})" if condition["reason"] is not None else ""
        told = f": {condition['message']}" if condition["message"] is not None else ""
        yield f"{name}: {condition['type']} is {condition['status']}{reason}{told}"


K8S_DEPLOYMENTS: Final = cluster_tool(
    name="k8s.deployments",
    description="List Kubernetes deployments with replica readiness summary",
    input_schema=strict_object(**LIST_ARGUMENTS),
    output_schema=strict_object(
        **LIST_OUTPUT,
        deployments=array(
            strict_object(
                namespace=STRING,
                name=STRING,
                status={"enum": [*_STATES]},
                ready=INTEGER,
                desired=INTEGER,
                updated=INTEGER,
                available=INTEGER,
                conditions=array(
                    strict_object(type=STRING, status=STRING, reason=STRING_OR_NULL, message=STRING_OR_NULL)
                ),
                images=array(STRING),
                age=STRING,
                created=STRING_OR_NULL,
            )
        ),
    ),
    propose=_propose,
    apply=_apply,
    format_preview=list_preview,
)
