"""What the `k8s` tools share: the host they reach decides about approval, and the kubeconfig is read late."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast import Config, Result
from holdfast.config.config import ToolsConfig
from holdfast.config.tool_families import K8sConfig, NetworkConfig
from holdfast.contract.call import PendingCall
from holdfast.contract.enums import State
from holdfast.factory.builtin import configured_tools
from holdfast.text.preview import preview
from holdfast.tools.k8s.cluster_tool import default_reach, reach_of
from holdfast.tools.k8s.deployments import K8S_DEPLOYMENTS
from holdfast.tools.k8s.kubeconfig import KubernetesSettings
from holdfast.tools.k8s.logs import K8S_LOGS
from holdfast.tools.k8s.pods import K8S_PODS
from tests.runtime.support import run
from tests.tools.k8s.api_server import ApiServer, kubeconfig, pod, serving
from tests.tools.k8s.clusters import cluster_runtime

pytestmark = pytest.mark.spec("B10g")
TOOLS = (K8S_PODS, K8S_DEPLOYMENTS, K8S_LOGS)


def test_a_call_reaches_the_server_of_its_context(tmp_path: Path) -> None:
    reaches = reach_of(KubernetesSettings(kubeconfig=str(kubeconfig(tmp_path, ApiServer(port=7443)))))
    assert reaches({}).hosts == ("127.0.0.1:7443",) and not reaches({}).sends
    assert reaches({"context": "other"}).hosts == ("192.0.2.1:6443",)
    assert reaches({"context": "none"}).hosts == ()


def test_without_an_approval_nothing_is_sent_and_the_question_names_context_and_host(tmp_path: Path) -> None:
    server = ApiServer(pods=[pod("web-1")])

    async def work() -> tuple[Result, PendingCall]:
        async with serving(server):
            settings = KubernetesSettings(kubeconfig=str(kubeconfig(tmp_path, server)))
            async with cluster_runtime(tmp_path, settings, answers=False) as runtime:
                result = await runtime.call("k8s.pods", {"namespace": "team"})
                return result, runtime.pending.list()[0]

    result, pending = run(work())
    assert result.state is State.PENDING and not server.seen
    assert pending.proposal is not None
    assert pending.proposal.summary == f"list pods in namespace team (context dev, {server.entry})"


def test_a_host_in_network_hosts_is_read_without_asking(tmp_path: Path) -> None:
    server = ApiServer(pods=[pod("web-1")])

    async def work() -> Result:
        async with serving(server):
            settings = KubernetesSettings(kubeconfig=str(kubeconfig(tmp_path, server)))
            config = Config(tools=ToolsConfig(profile="full"), network=NetworkConfig(hosts=(server.entry,)))
            async with cluster_runtime(tmp_path, settings, answers=False, config=config) as runtime:
                return await runtime.call("k8s.pods", {})

    assert run(work()).success


def test_what_is_wrong_with_the_kubeconfig_is_said_before_anybody_is_asked(tmp_path: Path) -> None:
    async def work() -> Result:
        settings = KubernetesSettings(kubeconfig=str(tmp_path / "gone"))
        async with cluster_runtime(tmp_path, settings, answers=False) as runtime:
            return await runtime.call("k8s.pods", {})

    result = run(work())
    assert result.state is State.FAILED and "Correct k8s.kubeconfig" in result.text


def test_the_configuration_decides_which_hosts_a_tool_reaches(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, ApiServer(port=7443))
    config = Config(k8s=K8sConfig(kubeconfig=str(path), context="other"))
    made = {tool.name: tool for tool in configured_tools(config)}
    for tool in TOOLS:
        assert tool.reaches is default_reach
        reaches = made[tool.name].reaches
        assert reaches is not None and reaches({}).hosts == ("192.0.2.1:6443",)


def test_the_tools_only_read_and_belong_to_their_group() -> None:
    for tool in TOOLS:
        assert not tool.mutates_with({}) and tool.sources == ("cluster",) and tool.groups == ("k8s",)
        assert not tool.profiles and not tool.presets and not tool.strict_problems()


def test_previews_name_what_is_asked_for() -> None:
    args = {"all_namespaces": True, "selector": "app=web", "context": "prod", "label": "why is it slow"}
    shown = preview("k8s.pods", args, 80, K8S_PODS.format_preview)
    assert shown == "k8s.pods: all namespaces selector=app=web context=prod  # why is it slow"


def test_starting_reads_no_kubeconfig_and_imports_no_client(tmp_path: Path) -> None:
    code = (
        "import sys, holdfast\n"
        "from holdfast.config.config import Config\n"
        "from holdfast.factory.builtin import configured_tools\n"
        "configured_tools(Config())\n"
        "print(sorted({'yaml', 'httpx2', 'lightkube'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"
