"""`k8s.deployments`: the deployments of a namespace, their ready replicas, and why a rollout does not progress."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final, Literal

from holdfast.contract.json import Args, Json
from holdfast.text.escape import clip
from holdfast.tools.k8s.list_view import Item, ListView, one_line
from holdfast.tools.k8s.objects import Condition, Deployment, format_age, parse_time
from holdfast.tools.schemas import INTEGER, STRING, STRING_OR_NULL, array, strict_object

State = Literal["Ready", "Progressing", "Stalled", "Paused", "Unavailable", "ScaledToZero"]
_STATES: Final = ("Ready", "Progressing", "Stalled", "Paused", "Unavailable", "ScaledToZero")
_MAX_IMAGES: Final = 20
_MAX_CONDITIONS: Final = 10
_WELL: Final = {"Available": "True", "Progressing": "True", "ReplicaFailure": "False"}
"""The status of each condition while all is well."""


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


def _row(item: Item) -> tuple[str, ...]:
    counts = (f"{item['ready']}/{item['desired']}", str(item["updated"]), str(item["available"]))
    return (*counts, item["status"], item["age"], ", ".join(item["images"]))


def _details(item: Item) -> Iterable[str]:
    for condition in item["conditions"]:
        reason = f" ({clip(condition['reason'], 80)})" if condition["reason"] is not None else ""
        told = f": {condition['message']}" if condition["message"] is not None else ""
        yield f"{condition['type']} is {condition['status']}{reason}{told}"


DEPLOYMENTS: Final = ListView(
    resource="deployments",
    kind=Deployment,
    as_json=_as_json,
    header=("READY", "UP-TO-DATE", "AVAILABLE", "STATUS", "AGE", "IMAGES"),
    row=_row,
    details=_details,
)
K8S_DEPLOYMENTS: Final = DEPLOYMENTS.tool(
    "List Kubernetes deployments with replica readiness summary",
    status={"enum": [*_STATES]},
    ready=INTEGER,
    desired=INTEGER,
    updated=INTEGER,
    available=INTEGER,
    conditions=array(strict_object(type=STRING, status=STRING, reason=STRING_OR_NULL, message=STRING_OR_NULL)),
    images=array(STRING),
    age=STRING,
    created=STRING_OR_NULL,
)
