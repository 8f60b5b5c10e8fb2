"""`k8s.pods`: the pods of a cluster, against a loopback API server."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.k8s.api_server import ApiServer, ended, pod, waiting
from tests.tools.k8s.clusters import called, rows

pytestmark = pytest.mark.spec("B10a")


def crashing() -> ApiServer:
    looping = waiting(
        "app",
        "CrashLoopBackOff",
        "back-off 5m0s restarting failed container=app",
        restarts=7,
        lastState=ended(137, "OOMKilled", message="killed\nby the kernel"),
    )
    return ApiServer(pods=[pod("web-1"), pod("web-2", statuses=[looping]), pod("dns-1", namespace="kube-system")])


def test_pods_are_listed_with_their_state_and_the_last_failure(tmp_path: Path) -> None:
    server = crashing()
    result = called(tmp_path, "k8s.pods", {}, server)
    assert result.success, result.error
    first, second = rows(result, "pods")
    assert (first["name"], first["status"], first["ready"], first["containers"]) == ("web-1", "Running", 1, 1)
    assert (second["status"], second["ready"], second["restarts"]) == ("CrashLoopBackOff", 0, 7)
    assert second["last_failure"]["exit_code"] == 137 and second["last_failure"]["reason"] == "OOMKilled"
    lines = result.output.splitlines()
    assert lines[0] == "2 pods in namespace default of context dev: 1 Running, 1 CrashLoopBackOff"
    assert lines[2].split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE", "NODE"]
    assert lines[3].split()[:3] == ["web-1", "1/1", "Running"]
    assert "web-2: container app: back-off 5m0s restarting failed container=app" in lines
    assert any("container app failed with exit code 137, OOMKilled" in line and "killed by" in line for line in lines)
    assert result.metadata["untrusted"] == ["cluster"]
    assert {seen.method for seen in server.seen} == {"GET"}
