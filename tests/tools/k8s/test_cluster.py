"""Reading a cluster: every failure is one sentence, nothing but GET is sent, and every answer is bounded."""

from __future__ import annotations

import ast
import asyncio
import json
import tracemalloc
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import Result
from holdfast.contract.enums import Failure
from holdfast.net.network_log import NetworkLog, read_log
from holdfast.tools.k8s import cluster
from holdfast.tools.k8s.kubeconfig import KubernetesSettings
from tests.runtime.support import run
from tests.soak import rounds
from tests.tools.k8s.api_server import (
    Answer,
    ApiServer,
    Object,
    Writer,
    deployment,
    encoded,
    kubeconfig,
    pod,
    running,
    serving,
    status,
)
from tests.tools.k8s.clusters import called, cluster_runtime, facts, rows
from tests.tools.web.certificates import authority

pytestmark = pytest.mark.spec("B10c")


def listed(folder: Path, server: ApiServer, tool: str = "k8s.pods", **args: Any) -> Result:
    return called(folder, tool, args, server)


def answering(answer: Answer, path: str = "/pods") -> ApiServer:
    server = ApiServer(pods=[pod("web-1")])
    server.instead = lambda seen: answer if seen.path.endswith(path) else None
    return server


def test_a_missing_permission_is_named(tmp_path: Path) -> None:
    server = ApiServer(denied={("list", "pods"), ("list", "deployments"), ("get", "pods"), ("get", "pods/log")})
    said = listed(tmp_path, server).text
    assert said == (
        "The user of the context 'dev' lacks a permission: the verb list on pods in the namespace 'default'. It says: "
        'pods is forbidden: User "viewer" cannot list resource "pods" in API group "" in the namespace "default".'
    )
    assert "list on pods in all namespaces" in listed(tmp_path, server, all_namespaces=True).text
    assert 'resource "deployments" in API group "apps"' in listed(tmp_path, server, "k8s.deployments").text
    assert "the verb get on pods/log" in listed(tmp_path, server, "k8s.logs", pod="web-1").text


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (status(401, "Unauthorized", "Unauthorized"), "Log in again."),
        (status(400, "BadRequest", "unable to parse requirement"), "status 400. It says: unable to parse requirement."),
        (Answer(429, b"", headers={"Retry-After": "7"}), "too busy. Try again in 7 seconds."),
        (status(500, "InternalError", "etcd is gone"), "status 500. It says: etcd is gone. Try again later."),
        (Answer(503, b"<html>Bad Gateway</html>", "text/html"), "failed with status 503. Try again later."),
        (Answer(418, b"I am a teapot\nand more", "text/plain"), "status 418. It says: I am a teapot."),
        (Answer(404, b'{"message": 5}'), "has no such object."),
        (Answer(200, b"<html></html>", "text/html"), "did not send a list of pods"),
        (Answer(200, b'{"items": 5}'), "is a Kubernetes API server."),
        (Answer(200, b'{"items": [{"metadata": {"name": 5}}]}'), "did not send a list of pods"),
        (Answer(200, b"[" * 100_000), "did not send a list of pods"),
        (Answer(200, b"\xff\xfe", ""), "did not send a list of pods"),
        (Answer(302, b"", headers={"Location": "https://192.0.2.1/login"}), "redirects to 192.0.2.1, which was not"),
        (Answer(200, b"x", headers={"Content-Encoding": "br"}), "content encoding 'br'"),
    ],
)  # fmt: skip
def test_every_answer_that_is_no_list_is_explained_in_a_sentence(tmp_path: Path, answer: Answer, words: str) -> None:
    result = listed(tmp_path, answering(answer))
    assert not result.success and words in result.text
    assert "\n" not in result.text and len(result.text) < 1200


def test_the_words_of_a_server_stay_on_one_short_line(tmp_path: Path) -> None:
    hostile = "no\n\x1b[2J\u2028Log in at https://evil.example " + "x" * 100_000
    said = listed(tmp_path, answering(status(403, "Forbidden", hostile))).text
    assert "\n" not in said and "\x1b" not in said and "\u2028" not in said and len(said) < 1000


def test_an_unreachable_server_and_an_unknown_host_are_explained(tmp_path: Path) -> None:
    async def work(url: str) -> str:
        path = kubeconfig(tmp_path, ApiServer(), cluster={"server": url})
        async with cluster_runtime(tmp_path, KubernetesSettings(kubeconfig=str(path))) as runtime:
            return (await runtime.call("k8s.pods", {})).text

    assert "127.0.0.1:1 cannot be reached: it refused the connection." in run(work("https://127.0.0.1:1"))
    assert "cannot be reached" in run(work("https://cluster.invalid:6443"))


def test_a_server_that_does_not_answer_ends_the_call_in_time(tmp_path: Path) -> None:
    async def silent(writer: Writer) -> None:
        await asyncio.sleep(60)

    server = answering(Answer(200, b"", headers={"Content-Length": "5"}, then=silent))

    async def work() -> Result:
        async with serving(server):
            path = kubeconfig(tmp_path, server)
            async with cluster_runtime(tmp_path, KubernetesSettings(kubeconfig=str(path)), seconds=1.0) as runtime:
                return await runtime.call("k8s.pods", {})

    said = run(work()).text
    assert "sent only 0 bytes of its answer, and not the rest, within" in said


def test_a_list_that_expires_between_pages_is_read_again_once(tmp_path: Path) -> None:
    server = ApiServer(pods=[pod(f"p-{number}") for number in range(150)], expired_pages=1)
    result = listed(tmp_path, server)
    assert len(rows(result, "pods")) == 150 and len({each["name"] for each in rows(result, "pods")}) == 150
    server = ApiServer(pods=server.pods, expired_pages=2)
    assert "The list changed while it was read." in listed(tmp_path, server).text


def test_a_server_that_never_ends_its_list_is_left(tmp_path: Path) -> None:
    endless = Answer(200, json.dumps({"items": [], "metadata": {"continue": "again"}}).encode())
    server = answering(endless)
    assert "sent 100 pages of pods without an end" in listed(tmp_path, server).text
    assert len(server.seen) == 100


def test_a_server_that_sends_more_than_was_asked_for_is_cut(tmp_path: Path) -> None:
    many: Object = {"items": [pod(f"p-{number}") for number in range(300)], "metadata": {}}
    result = listed(tmp_path, answering(Answer(200, json.dumps(many).encode())), limit=5)
    assert len(rows(result, "pods")) == 5
    assert (facts(result)["more"], facts(result)["remaining"]) == (True, 295)


def test_a_page_that_is_too_large_is_asked_for_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_PAGE_BYTES", 20_000)
    server = ApiServer(pods=[pod(f"p-{number}") for number in range(40)])
    result = listed(tmp_path, server)
    assert len(rows(result, "pods")) == 40
    assert [seen.query["limit"] for seen in server.seen][:2] == ["100", "12"]
    monkeypatch.setattr(cluster, "_PAGE_BYTES", 100)
    assert "with more than 100 bytes or" in listed(tmp_path, server).text


@pytest.mark.parametrize("tool", ["k8s.pods", "k8s.deployments"])
def test_a_page_of_very_many_small_objects_is_not_decoded(tmp_path: Path, tool: str) -> None:
    """Two million empty objects have 6 MB, and would need a hundred times as much in memory."""
    many = Answer(200, b'{"items":[' + b",".join([b"{}"] * 2_000_000) + b"]}")
    tracemalloc.start()
    try:
        said = listed(tmp_path, answering(many, "s"), tool, limit=2).text
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "with more than 8,388,608 bytes or 500,000 values" in said
    assert peak < 50_000_000


HUGE = "9" * 4300


@pytest.mark.parametrize(
    "page",
    [
        f'{{"items": [], "metadata": {{"continue": "x", "remainingItemCount": {HUGE}}}}}',
        f'{{"items": [{{"status": {{"containerStatuses": [{{"restartCount": {HUGE}}}]}}}}]}}',
        f'{{"items": [{{"status": {{"containerStatuses": [{{"restartCount": {10**30}}}]}}}}]}}',
        f'{{"items": [{{"status": {{"initContainerStatuses": [{{"restartCount": -{HUGE}}}]}}}}]}}',
        f'{{"items": [{{"metadata": {{"generation": {HUGE}}}}}]}}',
    ],
)
def test_a_number_that_no_cluster_has_is_refused_in_a_sentence(tmp_path: Path, page: str) -> None:
    result = listed(tmp_path, answering(Answer(200, page.encode())))
    assert "did not send a list of pods" in result.text and "\n" not in result.text
    assert result.failure is Failure.TOOL_ERROR


def test_the_largest_numbers_of_the_api_are_shown(tmp_path: Path) -> None:
    many = [running("app", restarts=2**63 - 1), running("b", restarts=2**63 - 1)]
    result = listed(tmp_path, ApiServer(pods=[pod("web-1", statuses=many)]))
    assert rows(result, "pods")[0]["restarts"] == 2**64 - 2


@pytest.mark.parametrize("place", ["error", "name", "message"])
def test_characters_without_a_width_make_no_long_output(tmp_path: Path, place: str) -> None:
    hidden = "a" + "\u200b\u200c" * 400_000
    found: Object = {"items": [pod(hidden)], "metadata": {}}
    if place == "message":
        found = {"items": [pod("web-1", phase="Failed", statuses=[], message=hidden)], "metadata": {}}
    if place == "error":
        found = {"kind": "Status", "message": hidden}
    body = json.dumps(found, ensure_ascii=False).encode()
    result = listed(tmp_path, answering(Answer(500 if place == "error" else 200, body)))
    assert result.success is (place != "error")
    assert len(result.text) < 3000 and len(str(result.structured)) < 20_000


def test_names_cannot_leave_their_place_in_the_path(tmp_path: Path) -> None:
    server = ApiServer(pods=[pod("web-1")])
    result = listed(tmp_path, server, "k8s.logs", pod="../../../secrets/x?y=#z", namespace="a/b")
    assert not result.success
    assert server.seen[0].path == "/api/v1/namespaces/a/b/pods/../../../secrets/x?y=#z"  # one segment each, decoded
    assert not server.seen[0].query
    seen = len(server.seen)
    for name in (".", ".."):
        assert f"'{name}' is not a name" in listed(tmp_path, server, namespace=name).text
        assert f"'{name}' is not a name" in listed(tmp_path, server, "k8s.logs", pod=name).text
    assert len(server.seen) == seen


@pytest.mark.spec("B10g")
def test_the_server_sees_only_get_requests(tmp_path: Path) -> None:
    """Whatever is called, and whatever the server answers."""
    server = ApiServer(pods=[pod("web-1")], deployments=[deployment("web")], logs={("web-1", "app", False): (b"x\n",)})
    for tool, args in (
        ("k8s.pods", {}),
        ("k8s.deployments", {}),
        ("k8s.logs", {"pod": "web-1"}),
        ("k8s.logs", {"pod": "x"}),
    ):
        called(tmp_path, tool, args, server)
    moved = Answer(307, b"", headers={"Location": "/api/v1/namespaces/default/pods?x=1"})
    other = answering(moved)
    listed(tmp_path, other)
    seen = [*server.seen, *other.seen]
    assert len(seen) > 6 and {each.method for each in seen} == {"GET"}


@pytest.mark.spec("B10g")
def test_a_redirect_is_not_followed_even_at_the_same_server(tmp_path: Path) -> None:
    server = answering(Answer(302, b"", headers={"Location": "/api/v1/namespaces/default/secrets"}))
    assert "redirects to" in listed(tmp_path, server).text
    assert [seen.path for seen in server.seen] == ["/api/v1/namespaces/default/pods"]


@pytest.mark.spec("B10g")
def test_the_code_names_no_method_that_changes_anything() -> None:
    """`HttpRequest` is a GET unless a method is named, and no module of the family names one."""
    folder = Path(cluster.__file__).parent
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                assert not any(word.arg == "method" for word in node.keywords), path
            if isinstance(node, ast.Constant):
                assert node.value not in ("POST", "PUT", "PATCH", "DELETE"), path


@pytest.mark.spec("B10g")
def test_every_connection_is_decided_by_the_gateway_and_logged(tmp_path: Path) -> None:
    log = NetworkLog(tmp_path / "network.jsonl")
    server = ApiServer(pods=[pod("web-1")])
    assert called(tmp_path, "k8s.pods", {}, server, log=log).success
    log.close()
    entries = [entry for entry in read_log(tmp_path / "network.jsonl") if entry is not None]
    assert {(entry.host, entry.port, entry.outcome) for entry in entries} == {("127.0.0.1", server.port, "allowed")}
    assert all(entry.by.startswith("k8s.pods ") for entry in entries)


@pytest.mark.spec("B10g")
def test_a_proxy_of_the_kubeconfig_is_used_for_the_connection(tmp_path: Path) -> None:
    """A real CONNECT proxy: TLS goes through it to the server, and the log names the proxy."""
    server, asked, ended = ApiServer(pods=[pod("web-1")]), list[bytes](), asyncio.Event()
    log = NetworkLog(tmp_path / "network.jsonl")

    async def relay(reader: asyncio.StreamReader, writer: Writer) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        inner, outer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await asyncio.gather(_copy(reader, outer), _copy(inner, writer))
        ended.set()

    async def work() -> tuple[Result, int]:
        proxy = await asyncio.start_server(relay, "127.0.0.1", 0)
        async with proxy, serving(server):
            port = proxy.sockets[0].getsockname()[1]
            extra = {
                "proxy-url": f"http://me:pw@127.0.0.1:{port}",
                "certificate-authority-data": encoded(authority().certificate),
            }
            path = kubeconfig(tmp_path, server, cluster=extra)
            async with cluster_runtime(tmp_path, KubernetesSettings(kubeconfig=str(path)), log=log) as runtime:
                result = await runtime.call("k8s.pods", {})
            await ended.wait()
            return result, port

    result, port = run(work())
    assert result.success, result.error
    assert (
        asked[0].startswith(f"CONNECT 127.0.0.1:{server.port} ".encode()) and b"Proxy-Authorization: Basic" in asked[0]
    )
    log.close()
    assert {entry.port for entry in read_log(tmp_path / "network.jsonl") if entry is not None} == {port}


async def _copy(reader: asyncio.StreamReader, writer: Writer) -> None:
    while block := await reader.read(65_536):
        writer.write(block)
        await writer.drain()
    writer.close()
    await writer.wait_closed()


def test_cancelling_a_call_closes_the_connection(tmp_path: Path) -> None:
    opened, closed = asyncio.Event(), asyncio.Event()

    async def spaces(writer: Writer) -> None:
        """An answer without an end."""
        opened.set()
        try:
            while True:
                writer.write(b"1\r\n \r\n")
                await writer.drain()
                await asyncio.sleep(0)
        except ConnectionError:
            closed.set()

    server = answering(Answer(200, b"", headers={"Transfer-Encoding": "chunked"}, then=spaces))

    async def work() -> None:
        async with serving(server):
            path = kubeconfig(tmp_path, server)
            async with cluster_runtime(tmp_path, KubernetesSettings(kubeconfig=str(path))) as runtime:
                task = asyncio.create_task(runtime.call("k8s.pods", {}))
                await opened.wait()
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                await closed.wait()

    run(work())


@settings(max_examples=rounds(15, 2000))
@given(st.binary(max_size=60) | st.sampled_from([b'{"items":[{}]}', b"null", b"{}", b'{"metadata":{"continue":7}}']))
def test_any_body_is_a_list_or_a_sentence(body: bytes) -> None:
    with TemporaryDirectory() as folder:
        result = listed(Path(folder), answering(Answer(200, body)))
    assert result.success or ("did not send a list of pods" in result.text and "\n" not in result.text)


def test_two_contexts_have_credentials_of_their_own(tmp_path: Path) -> None:
    server = ApiServer(pods=[pod("web-1")])

    async def work() -> list[Result]:
        async with serving(server):
            path = kubeconfig(tmp_path, server)
            path.write_text(path.read_text().replace("https://192.0.2.1:6443", server.url))
            async with cluster_runtime(tmp_path, KubernetesSettings(kubeconfig=str(path))) as runtime:
                return [await runtime.call("k8s.pods", {"context": name}) for name in ("dev", "other", "dev")]

    first, other, again = run(work())
    assert first.success and again.success and facts(first)["context"] == "dev"
    assert "The certificate of" in other.text  # that cluster has no authority of its own
