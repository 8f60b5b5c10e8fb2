"""`k8s.deployments`: readiness of replicas, and why a rollout does not progress."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.tools.k8s.cluster import Listing
from holdfast.tools.k8s.deployments import DEPLOYMENTS as VIEW
from holdfast.tools.k8s.deployments import K8S_DEPLOYMENTS, deployment_state
from holdfast.tools.k8s.objects import Deployment
from tests.soak import rounds
from tests.tools.k8s.api_server import ApiServer, Object, deployment
from tests.tools.k8s.clusters import ACCESS, called, rows
from tests.tools.k8s.object_strategies import DEPLOYMENTS

pytestmark = pytest.mark.spec("B10b")
DONE = {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable", "message": "done"}
STUCK = {
    "type": "Progressing",
    "status": "False",
    "reason": "ProgressDeadlineExceeded",
    "message": 'ReplicaSet "api-5d" has timed out progressing.',
}
QUOTA = {
    "type": "ReplicaFailure",
    "status": "True",
    "reason": "FailedCreate",
    "message": 'pods "api-5d-" is forbidden: exceeded quota',
}
AVAILABLE = {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable", "message": "ok"}


def test_deployments_are_listed_with_replicas_images_and_reasons(tmp_path: Path) -> None:
    api = deployment(
        "api", ready=1, updated=2, conditions=[AVAILABLE, STUCK, QUOTA], images=("reg/api:2", "reg/sidecar:1")
    )
    server = ApiServer(deployments=[api, deployment("web", conditions=[AVAILABLE, DONE])])
    result = called(tmp_path, "k8s.deployments", {}, server)
    assert result.success, result.error
    first, second = rows(result, "deployments")
    assert (first["status"], first["ready"], first["desired"], first["updated"]) == ("Stalled", 1, 3, 2)
    assert [each["reason"] for each in first["conditions"]] == ["ProgressDeadlineExceeded", "FailedCreate"]
    assert first["images"] == ["reg/api:2", "reg/sidecar:1"]
    assert (second["status"], second["conditions"]) == ("Ready", [])
    lines = result.output.splitlines()
    assert lines[0] == "2 deployments in namespace default of context dev: 1 Stalled, 1 Ready"
    assert lines[3].split()[:5] == ["api", "1/3", "2", "1", "Stalled"]
    assert any("exceeded quota" in line for line in lines[5:])
    assert result.metadata["untrusted"] == ["cluster"]
    assert {seen.method for seen in server.seen} == {"GET"}


@pytest.mark.parametrize(
    ("item", "state"),
    [
        (deployment("d"), "Ready"),
        (deployment("d", ready=1), "Progressing"),
        (deployment("d", ready=1, conditions=[DONE]), "Unavailable"),
        (deployment("d", ready=1, conditions=[STUCK]), "Stalled"),
        (deployment("d", updated=1), "Progressing"),
        (deployment("d", desired=1), "Ready"),
        (deployment("d", desired=0, ready=0, updated=0), "ScaledToZero"),
        (deployment("d", ready=0, paused=True), "Paused"),
        (deployment("d") | {"metadata": {"name": "d", "generation": 3}}, "Progressing"),
    ],
)
def test_the_state_follows_the_rollout(item: Object, state: str) -> None:
    assert deployment_state(msgspec.convert(item, Deployment)) == state


@given(DEPLOYMENTS)
def test_any_deployment_has_a_state(item: dict[str, Any]) -> None:
    state = deployment_state(msgspec.convert(item, Deployment))
    assert state in ("Ready", "Progressing", "Stalled", "Paused", "Unavailable", "ScaledToZero")


@settings(max_examples=rounds(40, 5000))
@given(st.lists(DEPLOYMENTS, max_size=4))
def test_any_deployments_are_rendered_as_one_line_each(items: list[Object]) -> None:
    found = Listing(items=tuple(msgspec.convert(items, list[Deployment])))
    output = VIEW.output(ACCESS, None, found, datetime(2026, 5, 6, tzinfo=UTC))
    assert K8S_DEPLOYMENTS.output_validator is not None
    assert not K8S_DEPLOYMENTS.output_validator.violations(output)
    lines = VIEW.render(output).split("\n")
    assert not any(char in line for line in lines for char in "\r\x1b\x85\u2028\x00")
    assert not items or len(lines) >= len(items) + 3
