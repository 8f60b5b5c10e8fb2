"""Credential plugins: real programs that print credentials, isolated from the project and with limits."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast import Result
from holdfast.tools.k8s.exec_plugin import ask_plugin
from holdfast.tools.k8s.kubeconfig import ExecPlugin, KubeconfigError, KubernetesSettings, Variable
from tests.runtime.support import run
from tests.tools.k8s.api_server import TOKEN, ApiServer, Object, kubeconfig, pod, serving
from tests.tools.k8s.clusters import ACCESS, cluster_runtime
from tests.tools.web.certificates import authority

pytestmark = pytest.mark.spec("B10f")
API = "client.authentication.k8s.io/v1"
RUNS = KubernetesSettings(exec_plugins=True)


def program(folder: Path, body: str, name: str = "login") -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def credential(version: str = API, **status: Any) -> str:
    return json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status})


def printing(text: str) -> str:
    return f"cat <<'END'\n{text}\nEND"


def asked(folder: Path, body: str, seconds: float = 60, **plugin: Any) -> Any:
    path = program(folder, body)
    made = ExecPlugin(api_version=plugin.pop("api_version", API), command=str(path), **plugin)
    return run(ask_plugin(ACCESS, made, folder / "project", seconds))


def refused(folder: Path, body: str, seconds: float = 60, **plugin: Any) -> str:
    with pytest.raises(KubeconfigError) as error:
        asked(folder, body, seconds, **plugin)
    return str(error.value)


def listed(folder: Path, server: ApiServer, plugin: Object, times: int = 1, seconds: float = 50.0) -> list[Result]:
    async def work() -> list[Result]:
        async with serving(server):
            path = kubeconfig(folder, server, user={"exec": {"apiVersion": API, **plugin}})
            async with cluster_runtime(folder, replace(RUNS, kubeconfig=str(path)), seconds=seconds) as runtime:
                return [await runtime.call("k8s.pods", {}) for _ in range(times)]

    return run(work())


def test_the_token_of_a_plugin_is_used_and_kept(tmp_path: Path) -> None:
    """Two calls, one run: the path is relative to the kubeconfig."""
    program(tmp_path, f"echo run >> {tmp_path}/runs\n{printing(credential(token=TOKEN))}")
    server = ApiServer(pods=[pod("web-1")])
    results = listed(tmp_path, server, {"command": "./login"}, times=2)
    assert all(result.success for result in results), results
    assert (tmp_path / "runs").read_text() == "run\n"


def test_a_plugin_is_asked_again_when_its_token_has_expired(tmp_path: Path) -> None:
    soon = credential(token=TOKEN, expirationTimestamp="2020-01-01T00:00:00Z")
    program(tmp_path, f"echo run >> {tmp_path}/runs\n{printing(soon)}")
    listed(tmp_path, ApiServer(pods=[pod("web-1")]), {"command": "./login"}, times=2)
    assert (tmp_path / "runs").read_text() == "run\nrun\n"


def test_a_plugin_is_asked_again_once_when_the_server_refuses_its_token(tmp_path: Path) -> None:
    body = f"""if [ -e {tmp_path}/second ]; then {printing(credential(token=TOKEN))}
    else touch {tmp_path}/second; {printing(credential(token="old-token"))}
    fi"""
    program(tmp_path, body)
    server = ApiServer(pods=[pod("web-1")])
    assert listed(tmp_path, server, {"command": "./login"})[0].success
    assert [seen.user for seen in server.seen] == [None, "viewer"]


def test_a_plugin_can_give_a_client_certificate(tmp_path: Path) -> None:
    certificate, key = authority().client_certificate("robot")
    (tmp_path / "out").write_text(credential(clientCertificateData=certificate, clientKeyData=key))
    program(tmp_path, f"cat {tmp_path}/out")
    server = ApiServer(pods=[pod("web-1")])
    assert listed(tmp_path, server, {"command": "./login"})[0].success
    assert server.seen[0].user == "robot"


def test_arguments_variables_and_the_cluster_are_given_to_the_plugin(tmp_path: Path) -> None:
    body = f"""echo "$1 $MODE" > {tmp_path}/given; echo "$KUBERNETES_EXEC_INFO" > {tmp_path}/info
    {printing(credential(token="t0ken"))}"""
    asked(tmp_path, body, env=(Variable("MODE", "test"),), args=("--now",), wants_cluster=True)
    assert (tmp_path / "given").read_text() == "--now test\n"
    info = json.loads((tmp_path / "info").read_text())
    assert info["spec"]["interactive"] is False and "cluster" in info["spec"] and info["apiVersion"] == API


def test_nothing_of_the_project_reaches_a_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tmp_path / "project"
    project.mkdir()
    program(project, "echo trapped", "jq")
    monkeypatch.setenv("PATH", f"{project}:{os.environ['PATH']}")
    monkeypatch.setenv("BASH_ENV", str(project / "jq"))
    monkeypatch.chdir(project)
    asked(tmp_path, f"pwd > {tmp_path}/where; env > {tmp_path}/env; {printing(credential(token='t0ken'))}")
    assert (tmp_path / "where").read_text() == "/\n"
    assert str(project) not in (tmp_path / "env").read_text()
    inside = ExecPlugin(api_version=API, command=str(project / "jq"))
    with pytest.raises(KubeconfigError, match="is in the project, so it is not run"):
        run(ask_plugin(ACCESS, inside, project))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("exit 3", "failed with exit code 3"),
        ("echo first >&2; echo please log in >&2; exit 1", "exit code 1: please log in"),
        ("echo no", "did not print an ExecCredential in JSON"),
        (printing("{}"), "did not print an ExecCredential of the version"),
        (printing(credential("client.authentication.k8s.io/v1beta1", token="x")), "of the version"),
        (printing(credential(token="")), "neither a token nor a client certificate"),
        ("head -c 3000000 /dev/zero", "printed more than 1024 KB"),
    ],
)
def test_a_plugin_that_fails_is_explained(tmp_path: Path, body: str, words: str) -> None:
    assert words in refused(tmp_path, body)


def test_an_unknown_interface_a_terminal_and_a_missing_program_are_refused(tmp_path: Path) -> None:
    assert "v1alpha1" in refused(tmp_path, "exit 0", api_version="client.authentication.k8s.io/v1alpha1")
    assert "needs a terminal" in refused(tmp_path, "exit 0", interactive="Always")
    missing = ExecPlugin(api_version=API, command="no-such-login", install_hint="brew install login")
    with pytest.raises(KubeconfigError, match=r"not found on PATH.* brew install login"):
        run(ask_plugin(ACCESS, missing, tmp_path))


def test_a_plugin_that_hangs_is_killed_with_everything_it_started(tmp_path: Path) -> None:
    """A process that waits for a writer holds the pipe open; when all are gone, opening it for writing fails."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    body = f"exec 3<>{pipe}; cat {pipe} & touch {tmp_path}/started; cat {pipe}"
    assert "did not end within 5 seconds" in refused(tmp_path, body, seconds=5)
    assert (tmp_path / "started").exists()
    with pytest.raises(OSError, match="No such device"):
        os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)


def test_the_option_is_needed_to_run_a_plugin(tmp_path: Path) -> None:
    program(tmp_path, f"touch {tmp_path}/ran; {printing(credential(token=TOKEN))}")
    server = ApiServer(pods=[pod("web-1")])

    async def work() -> Result:
        async with serving(server):
            path = kubeconfig(tmp_path, server, user={"exec": {"apiVersion": API, "command": "./login"}})
            async with cluster_runtime(tmp_path, KubernetesSettings(kubeconfig=str(path))) as runtime:
                return await runtime.call("k8s.pods", {})

    assert "Set k8s.exec_plugins = true" in run(work()).text
    assert not (tmp_path / "ran").exists() and not server.seen


def test_a_plugin_that_does_not_end_is_named_before_the_call_runs_out_of_time(tmp_path: Path) -> None:
    path = program(tmp_path, "exec sleep 600")
    (result,) = listed(tmp_path, ApiServer(), {"command": str(path)}, seconds=3.0)
    assert f"'{path}', with which the context 'dev' logs in, did not end within 2." in result.text
