"""Calls of the `k8s` tools against a loopback API server, in a runtime whose user approves them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec.structs import replace

from holdfast import Config, Result, Runtime
from holdfast.config.config import ToolsConfig
from holdfast.net.network import Network
from holdfast.net.network_log import NetworkLog
from holdfast.net.urls import parse_url
from holdfast.tools.k8s.cluster import Kubernetes
from holdfast.tools.k8s.cluster_tool import reach_of
from holdfast.tools.k8s.deployments import K8S_DEPLOYMENTS
from holdfast.tools.k8s.kubeconfig import Access, Cluster, KubernetesSettings, User
from holdfast.tools.k8s.logs import K8S_LOGS
from holdfast.tools.k8s.pods import K8S_PODS
from tests.runtime.support import run, runtime_in, yes
from tests.tools.k8s.api_server import ApiServer, Object, kubeconfig, serving

ACCESS = Access(
    context="dev",
    url=parse_url("https://127.0.0.1:6443"),
    namespace="default",
    cluster=Cluster(),
    user_name="viewer",
    user=User(),
    folder=Path("/"),
)
"""A context for what is rendered without a server."""
FULL = Config(tools=ToolsConfig(profile="full"))


def cluster_runtime(
    folder: Path,
    settings: KubernetesSettings,
    *,
    answers: bool = True,
    log: NetworkLog | None = None,
    config: Config | None = None,
    hosts: tuple[str, ...] = (),
    service_account: Path | None = None,
    seconds: float = 50.0,
) -> Runtime:
    changes = {"reaches": reach_of(settings), "timeout": seconds}
    tools = [tool.with_(**changes) for tool in (K8S_PODS, K8S_DEPLOYMENTS, K8S_LOGS)]
    runtime = runtime_in(folder, *tools, nobody="pending", config=config or FULL)
    if answers:
        runtime.attach(yes())
    network = Network(hosts=hosts, log=log)
    account = folder / "service-account" if service_account is None else service_account
    runtime.services.offer(Network, network)
    runtime.services.offer(Kubernetes, Kubernetes(network, settings, runtime.redactor, service_account=account))
    return runtime


def called(
    folder: Path,
    name: str,
    args: dict[str, Any],
    server: ApiServer,
    *,
    settings: KubernetesSettings | None = None,
    certificate: str = "good",
    plain: bool = False,
    log: NetworkLog | None = None,
    config: Config | None = None,
    seconds: float = 50.0,
    **given: Any,
) -> Result:
    """Call one tool while the server runs; `given` goes to `kubeconfig`."""

    async def work() -> Result:
        async with serving(server, certificate=certificate, plain=plain):
            path = kubeconfig(folder, server, **given)
            chosen = replace(settings or KubernetesSettings(), kubeconfig=str(path))
            async with cluster_runtime(folder, chosen, log=log, config=config, seconds=seconds) as runtime:
                return await runtime.call(name, args)

    return run(work(), seconds + 10)


def facts(result: Result) -> dict[str, Any]:
    assert isinstance(result.structured, dict), result
    return dict(result.structured)


def rows(result: Result, key: str) -> list[Object]:
    return facts(result)[key]
