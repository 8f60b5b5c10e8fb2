"""`k8s.pods`: the pods of a namespace with their state."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from holdfast.contract.json import Args
from holdfast.text.escape import clip
from holdfast.tools.k8s.list_view import Item, ListView, one_line
from holdfast.tools.k8s.objects import Pod, format_age, parse_time
from holdfast.tools.k8s.pod_status import Failure, summarize_pod
from holdfast.tools.schemas import INTEGER, INTEGER_OR_NULL, STRING, STRING_OR_NULL, strict_object


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


def _row(pod: Item) -> tuple[str, ...]:
    ago = f" ({pod['last_restart']} ago)" if pod["last_restart"] is not None else ""
    ready = f"{pod['ready']}/{pod['containers']}"
    return (ready, pod["status"], f"{pod['restarts']}{ago}", pod["age"], pod["node"] or "")


def _details(pod: Item) -> Iterable[str]:
    if pod["message"] is not None:
        yield pod["message"]
    failure = pod["last_failure"]
    if failure is not None:
        facts = [f"exit code {failure['exit_code']}"]
        facts += [f"signal {failure['signal']}"] if failure["signal"] is not None else []
        facts += [clip(failure["reason"], 80)] if failure["reason"] is not None else []
        facts += [f"{failure['ended']} ago"] if failure["ended"] is not None else []
        told = f": {failure['message']}" if failure["message"] is not None else ""
        yield f"container {clip(failure['container'], 80)} failed with {', '.join(facts)}{told}"


PODS: Final = ListView(
    resource="pods",
    kind=Pod,
    as_json=_as_json,
    header=("READY", "STATUS", "RESTARTS", "AGE", "NODE"),
    row=_row,
    details=_details,
)
K8S_PODS: Final = PODS.tool(
    "List Kubernetes pods with status summary",
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
