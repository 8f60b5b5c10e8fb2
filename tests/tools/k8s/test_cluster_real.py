"""The `k8s` tools against a real API server: `make test-k8s K8S=FOLDER`, see `scripts/k8s_cluster.py`.

Pods get their status through the status subresource, as from a kubelet; deployments are reconciled by the real
controller manager. The API server prints pods for kubectl itself, and our summary must say the same.
"""

from __future__ import annotations

import asyncio
import json
import os
import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from holdfast import Result
from holdfast.tools.k8s.kubeconfig import KubernetesSettings
from tests.runtime.support import run
from tests.tools.k8s.api_server import Object, pod
from tests.tools.k8s.clusters import cluster_runtime, facts, rows
from tests.tools.k8s.test_pod_status import CASES
from tests.tools.web.certificates import authority

KUBECONFIG = os.environ.get("HOLDFAST_KUBECONFIG", "")
pytestmark = [
    pytest.mark.skipif(not KUBECONFIG, reason="needs a real API server: make test-k8s"),
    pytest.mark.spec("B10"),
]
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
VIEWS: dict[str, Any] = {
    "Role": {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "pods"},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "get"]}],
    },
    "RoleBinding": {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "pods"},
        "subjects": [{"kind": "User", "name": "viewer", "apiGroup": "rbac.authorization.k8s.io"}],
        "roleRef": {"kind": "Role", "name": "pods", "apiGroup": "rbac.authorization.k8s.io"},
    },
}


class Admin:
    """Creates what the tools then read."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self._client = client

    async def create(self, path: str, body: Object) -> Object:
        answer = await self._client.post(path, json=body)
        assert answer.status_code in (200, 201, 409), answer.text
        return answer.json()

    async def pod(self, namespace: str, item: Object, name: str) -> None:
        """Create a pod, give it the status of `item`, and delete it if it has a time of deletion."""
        place = f"/api/v1/namespaces/{namespace}/pods"
        spec = {**item["spec"], "terminationGracePeriodSeconds": 300}
        made = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        await self.create(place, made)
        answer = await self._client.patch(
            f"{place}/{name}/status",
            content=json.dumps({"status": item["status"]}),
            headers={"Content-Type": "application/merge-patch+json"},
        )
        assert answer.status_code == 200, answer.text
        if "deletionTimestamp" in item["metadata"]:
            assert (await self._client.delete(f"{place}/{name}")).status_code == 200

    async def get(self, path: str, **options: Any) -> Object:
        return (await self._client.get(path, **options)).json()

    async def until(self, path: str, holds: Callable[[Object], bool]) -> None:
        """Watch an object until a condition holds."""
        name = path.rpartition("/")[2]
        watch = {"watch": "true", "fieldSelector": f"metadata.name={name}", "timeoutSeconds": "120"}
        async with self._client.stream("GET", path.removesuffix(f"/{name}"), params=watch) as events:
            async for line in events.aiter_lines():
                if holds(json.loads(line)["object"]):
                    return
        raise AssertionError(f"{path} did not get there in time")


def configuration() -> Object:
    return json.loads(Path(KUBECONFIG).read_text())


@asynccontextmanager
async def administrator() -> AsyncGenerator[Admin]:
    config = configuration()
    trusted = ssl.create_default_context(cafile=str(Path(KUBECONFIG).parent / "ca.pem"))
    headers = {"Authorization": f"Bearer {config['users'][0]['user']['token']}"}
    server = config["clusters"][0]["cluster"]["server"]
    async with httpx2.AsyncClient(
        base_url=server, verify=trusted, trust_env=False, headers=headers, timeout=60
    ) as client:
        yield Admin(client)


async def call(folder: Path, name: str, args: dict[str, Any]) -> Result:
    async with cluster_runtime(folder, KubernetesSettings(kubeconfig=KUBECONFIG)) as runtime:
        return await runtime.call(name, args)


OWN = {"no phase"}
"""We write a word where the server prints nothing."""
NEWER = {"gated": 26, "initialized": 28}
"""The minor version of Kubernetes from which on a case is printed as we print it."""


def test_pods_are_summarized_as_the_api_server_prints_them(tmp_path: Path) -> None:
    async def work() -> tuple[int, Object, Result]:
        async with administrator() as admin:
            await admin.create("/api/v1/namespaces", {"metadata": {"name": "cases"}})
            for number, (_, item, _, _) in enumerate(CASES):
                await admin.pod("cases", item, f"case-{number}")
            printed = await admin.get("/api/v1/namespaces/cases/pods", headers=TABLE)
            version = int((await admin.get("/version"))["minor"].rstrip("+"))
            return version, printed, await call(tmp_path, "k8s.pods", {"namespace": "cases"})

    version, printed, result = run(work(), 280)
    assert result.success, result.error
    columns = [column["name"] for column in printed["columnDefinitions"]]
    ready, status, restarts = (columns.index(name) for name in ("Ready", "Status", "Restarts"))
    theirs = {
        row["cells"][columns.index("Name")]: (
            row["cells"][ready],
            row["cells"][status],
            str(row["cells"][restarts]).split()[0],
        )
        for row in printed["rows"]
    }
    ours = {
        each["name"]: (f"{each['ready']}/{each['containers']}", each["status"], str(each["restarts"]))
        for each in rows(result, "pods")
    }
    others = {f"case-{at}" for at, case in enumerate(CASES) if case[0] in OWN or NEWER.get(case[0], 0) > version}
    at_once = {"deleted at its end"}  # the server removes such a pod when it is deleted
    assert theirs.keys() == ours.keys() == {f"case-{at}" for at, case in enumerate(CASES) if case[0] not in at_once}
    assert {name: (theirs[name], ours[name]) for name in theirs if theirs[name] != ours[name]}.keys() <= others
    assert len(others) <= 3


def test_a_deployment_is_reconciled_and_summarized(tmp_path: Path) -> None:
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "app", "image": "registry.example/app:1"}]},
    }
    made = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    }
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    place = "/apis/apps/v1/namespaces/rollouts/deployments"

    async def work() -> tuple[Result, Result]:
        async with administrator() as admin:
            await admin.create("/api/v1/namespaces", {"metadata": {"name": "rollouts"}})
            await admin.create(place, made)
            await admin.until(f"{place}/web", lambda item: item["status"].get("updatedReplicas") == 2)
            before = await call(tmp_path / "a", "k8s.deployments", {"namespace": "rollouts"})
            pods = (await admin.get("/api/v1/namespaces/rollouts/pods"))["items"]
            for each in pods:
                await admin.pod("rollouts", {**each, "status": ready}, each["metadata"]["name"])
            await admin.until(f"{place}/web", lambda item: item["status"].get("availableReplicas") == 2)
            return before, await call(tmp_path / "b", "k8s.deployments", {"namespace": "rollouts"})

    before, after = run(work(), 280)
    [first], [second] = rows(before, "deployments"), rows(after, "deployments")
    assert (first["ready"], first["desired"], first["status"]) == (0, 2, "Progressing")
    assert [each["type"] for each in first["conditions"]] == ["Available"]
    assert (second["ready"], second["available"], second["status"]) == (2, 2, "Ready")


def test_lists_are_paged_and_selected(tmp_path: Path) -> None:
    async def work() -> list[Result]:
        async with administrator() as admin:
            await admin.create("/api/v1/namespaces", {"metadata": {"name": "many"}})
            for number in range(120):
                item = {
                    "metadata": {"name": f"p-{number:03}", "labels": {"odd": str(number % 2)}},
                    "spec": pod("p")["spec"],
                }
                await admin.create("/api/v1/namespaces/many/pods", item)
            many: dict[str, Any] = {"namespace": "many"}
            asked = (
                {"limit": 110},
                {"selector": "odd=1"},
                {"field_selector": "metadata.name=p-007"},
                {"selector": "a b"},
            )
            return [await call(tmp_path / str(at), "k8s.pods", {**many, **args}) for at, args in enumerate(asked)]

    pages, odd, one, wrong = run(work(), 280)
    assert (len(rows(pages, "pods")), facts(pages)["more"], facts(pages)["remaining"]) == (110, True, 10)
    assert len(rows(odd, "pods")) == 60 and [each["name"] for each in rows(one, "pods")] == ["p-007"]
    assert "status 400. It says: unable to parse requirement" in wrong.text


def test_permissions_names_and_credentials_are_explained(tmp_path: Path) -> None:
    async def work() -> list[Result]:
        async with administrator() as admin:
            base = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
            await admin.create(f"{base}/roles", VIEWS["Role"])
            await admin.create(f"{base}/rolebindings", VIEWS["RoleBinding"])
            viewer: dict[str, Any] = {"context": "viewer"}
            found = [
                await call(tmp_path / "1", "k8s.deployments", viewer),
                await call(tmp_path / "2", "k8s.pods", {**viewer, "all_namespaces": True}),
                await call(tmp_path / "3", "k8s.pods", {"namespace": "defualt"}),
                await call(tmp_path / "4", "k8s.logs", {"pod": "nothing"}),
            ]
            await admin.pod("default", pod("web-1"), "web-1")
            return [
                *found,
                await call(tmp_path / "5", "k8s.logs", {"pod": "web-2"}),
                await call(tmp_path / "6", "k8s.logs", {"pod": "web-1"}),
                await call(tmp_path / "7", "k8s.logs", {"pod": "web-1", **viewer}),
            ]

    deployments, everywhere, namespace, missing, similar, log, forbidden = run(work(), 280)
    assert "the verb list on deployments in the namespace 'default'" in deployments.text
    assert 'User "viewer" cannot list resource "deployments" in API group "apps"' in deployments.text
    assert "the verb list on pods in all namespaces" in everywhere.text
    assert "There is no namespace 'defualt'" in namespace.text and "Did you mean 'default'?" in namespace.text
    assert "There is no pod 'nothing' in the namespace 'default'." in missing.text
    assert "Did you mean 'web-1'?" in similar.text
    assert log.text.startswith("There is no log to read. The server says: ") and '"node-1" not found' in log.text
    assert "the verb get on pods/log" in forbidden.text


def test_a_log_comes_through_the_api_server(tmp_path: Path) -> None:
    """The API server asks the kubelet of the pod's node, which is a loopback server here."""
    asked: list[str] = []

    async def kubelet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        target = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1].decode()
        asked.append(target)
        lines = b"".join(b"line %d\n" % number for number in range(5000))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n" + lines)
        await writer.drain()
        writer.close()

    async def work() -> tuple[Result, Result]:
        listener = await asyncio.start_server(kubelet, "127.0.0.1", 0, ssl=authority().server("good"))
        async with listener, administrator() as admin:
            port = listener.sockets[0].getsockname()[1]
            endpoints = {"kubeletEndpoint": {"Port": port}}
            status = {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}], "daemonEndpoints": endpoints}
            await admin.create("/api/v1/nodes", {"metadata": {"name": "node-logs"}, "status": status})
            await admin.pod("default", pod("logs-1", containers=("app", "proxy"), node="node-logs"), "logs-1")
            args = {"pod": "logs-1", "container": "app", "lines": 50, "since": "1h"}
            return await call(tmp_path / "1", "k8s.logs", args), await call(
                tmp_path / "2", "k8s.logs", {"pod": "logs-1"}
            )

    log, unnamed = run(work(), 280)
    assert log.success, log.error
    assert facts(log)["log"].splitlines()[-1] == "line 4999"
    assert (facts(log)["lines"], facts(log)["received_lines"]) == (50, 5000)
    assert asked == ["/containerLogs/default/logs-1/app?sinceSeconds=3600&tailLines=50"]
    assert "Name one in `container`: 'app', 'proxy'." in unnamed.text
