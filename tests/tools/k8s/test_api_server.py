"""The loopback API server of these tests speaks the real protocol: another client, lightkube, reads its answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lightkube import ApiError, AsyncClient
from lightkube.config.kubeconfig import KubeConfig
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.core_v1 import Pod

from tests.runtime.support import run
from tests.tools.k8s.api_server import ApiServer, deployment, ended, kubeconfig, pod, running, serving, waiting

pytestmark = pytest.mark.spec("B10")


def test_another_client_reads_lists_pages_logs_and_errors(tmp_path: Path) -> None:
    ready = [running("i")]
    looping = waiting("app", "CrashLoopBackOff", restarts=2, lastState=ended(1))
    server = ApiServer(
        pods=[
            pod("a-1"),
            pod("a-2", statuses=[looping]),
            pod("a-3", init=[{"name": "i"}], init_statuses=ready),
        ],
        deployments=[deployment("a")],
        logs={("a-1", "app", False): (b"one\ntwo\n",)},
        denied={("list", "namespaces")},
    )

    async def work() -> dict[str, Any]:
        async with serving(server):
            config = KubeConfig.from_file(kubeconfig(tmp_path, server))
            client: Any = AsyncClient(config, trust_env=False)
            pods = [item async for item in client.list(Pod, chunk_size=2)]
            deployments = [item async for item in client.list(Deployment)]
            lines = [line async for line in client.log("a-1", newlines=False)]
            with pytest.raises(ApiError) as missing:
                await client.get(Pod, "none")
            await client.close()
            return {"pods": pods, "deployments": deployments, "lines": lines, "missing": missing.value.status}

    found = run(work())
    assert [item.metadata.name for item in found["pods"]] == ["a-1", "a-2", "a-3"]
    assert found["pods"][1].status.containerStatuses[0].lastState.terminated.exitCode == 1
    assert found["deployments"][0].status.readyReplicas == 3
    assert found["lines"] == ["one", "two"]
    assert (found["missing"].code, found["missing"].reason) == (404, "NotFound")
    assert len(server.asked("/pods")) == 2
