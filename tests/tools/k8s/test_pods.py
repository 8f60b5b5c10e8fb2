"""`k8s.pods`: the pods of a cluster, against a loopback API server."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.tools.k8s.cluster import Listing
from holdfast.tools.k8s.kubeconfig import KubernetesSettings
from holdfast.tools.k8s.objects import Pod
from holdfast.tools.k8s.pods import K8S_PODS
from holdfast.tools.k8s.pods import PODS as VIEW
from tests.soak import rounds
from tests.tools.k8s.api_server import ApiServer, Object, ended, pod, waiting
from tests.tools.k8s.clusters import ACCESS, called, facts, rows
from tests.tools.k8s.object_strategies import PODS

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


def test_a_namespace_a_selector_and_all_namespaces_choose_the_pods(tmp_path: Path) -> None:
    server = crashing()
    other = called(tmp_path, "k8s.pods", {"namespace": "kube-system"}, server)
    assert [each["name"] for each in rows(other, "pods")] == ["dns-1"]
    everywhere = called(tmp_path, "k8s.pods", {"all_namespaces": True}, server)
    assert len(rows(everywhere, "pods")) == 3 and facts(everywhere)["namespace"] is None
    assert "NAMESPACE" in everywhere.output and "kube-system  dns-1" in everywhere.output
    chosen = called(tmp_path, "k8s.pods", {"selector": "app=web", "field_selector": "spec.nodeName=node-1"}, server)
    assert [each["name"] for each in rows(chosen, "pods")] == ["web-1", "web-2"]
    assert server.seen[-1].query["fieldSelector"] == "spec.nodeName=node-1"


def test_the_namespace_is_that_of_the_call_the_configuration_or_the_context(tmp_path: Path) -> None:
    server = crashing()
    called(tmp_path, "k8s.pods", {}, server, namespace="team")
    called(tmp_path, "k8s.pods", {}, server, namespace="team", settings=KubernetesSettings(namespace="mine"))
    called(tmp_path, "k8s.pods", {"namespace": "kube-system"}, server, namespace="team")
    asked = [seen.path for seen in server.asked("/pods")]
    assert asked == [f"/api/v1/namespaces/{name}/pods" for name in ("team", "mine", "kube-system")]


@pytest.mark.spec("B10c")
def test_an_empty_list_of_a_namespace_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    server = ApiServer(namespaces=["default", "payments"])
    result = called(tmp_path, "k8s.pods", {"namespace": "paymets"}, server)
    assert not result.success
    assert "There is no namespace 'paymets'" in result.text and "Did you mean 'payments'?" in result.text
    empty = called(tmp_path, "k8s.pods", {"namespace": "payments"}, server)
    assert empty.success and empty.output == "No pods found in namespace payments of context dev."
    server.denied.add(("get", "namespaces"))
    assert called(tmp_path, "k8s.pods", {"namespace": "paymets"}, server).success


@pytest.mark.spec("B10c")
def test_a_long_list_is_read_in_pages_and_says_what_is_left_out(tmp_path: Path) -> None:
    server = ApiServer(pods=[pod(f"web-{number:03}") for number in range(250)])
    result = called(tmp_path, "k8s.pods", {"limit": 220}, server)
    assert [each["name"] for each in rows(result, "pods")] == [f"web-{number:03}" for number in range(220)]
    assert (facts(result)["more"], facts(result)["remaining"]) == (True, 30)
    assert "Only 220 of 250 pods are listed." in result.output
    assert [seen.query["limit"] for seen in server.asked("/pods")] == ["100", "100", "20"]
    complete = called(tmp_path, "k8s.pods", {"limit": 250}, server)
    assert (facts(complete)["more"], facts(complete)["remaining"]) == (False, 0)


@settings(max_examples=rounds(40, 5000))
@given(st.lists(PODS, max_size=4), st.booleans())
def test_any_pods_are_rendered_as_one_line_each(items: list[Object], everywhere: bool) -> None:
    found = Listing(items=tuple(msgspec.convert(items, list[Pod])))
    output = VIEW.output(ACCESS, None if everywhere else "n", found, datetime(2026, 5, 6, tzinfo=UTC))
    assert K8S_PODS.output_validator is not None
    assert not K8S_PODS.output_validator.violations(output)
    lines = VIEW.render(output).split("\n")
    assert not any(char in line for line in lines for char in "\r\x1b\x85\u2028\x00")
    assert not items or len(lines) >= len(items) + 3
