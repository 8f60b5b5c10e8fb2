"""`k8s.logs`: the tail of a container's log, against a loopback API server that streams it."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import Config, Result
from holdfast.config.config import SecretSource, ToolsConfig
from holdfast.contract.event import Output
from holdfast.text.preview import preview
from holdfast.tools.k8s.kubeconfig import KubernetesSettings
from holdfast.tools.k8s.logs import K8S_LOGS, LogsRefused, since_seconds
from tests.runtime.support import run
from tests.soak import rounds
from tests.tools.k8s.api_server import (
    TOKEN,
    Answer,
    ApiServer,
    Object,
    Writer,
    ended,
    kubeconfig,
    pod,
    running,
    serving,
    status,
    waiting,
)
from tests.tools.k8s.clusters import called, cluster_runtime, facts

pytestmark = pytest.mark.spec("B10d")
DEFAULT = "kubectl.kubernetes.io/default-container"


def one(*chunks: bytes, **given: object) -> ApiServer:
    """A server with the pod `web-1` and its log."""
    return ApiServer(pods=[pod("web-1")], logs={("web-1", "app", False): chunks}, **given)  # pyright: ignore


def logs(folder: Path, server: ApiServer, **args: object) -> Result:
    return called(folder, "k8s.logs", {"pod": "web-1", **args}, server)


def test_the_log_of_the_only_container_is_returned(tmp_path: Path) -> None:
    server = one(b"first\nsec", b"ond\n", b"third")
    result = logs(tmp_path, server)
    assert result.success, result.error
    assert result.output.split("\n", 2) == [
        "Last 3 lines of the log of web-1/app (namespace default, context dev):",
        "",
        "first\nsecond\nthird",
    ]
    told = facts(result)
    assert (told["log"], told["lines"], told["received_bytes"]) == ("first\nsecond\nthird", 3, 18)
    assert told["complete"] is True
    assert server.asked("/log")[0].query == {"tailLines": "100", "container": "app"}
    assert result.metadata["untrusted"] == ["cluster"]
    assert {seen.method for seen in server.seen} == {"GET"}


def test_lines_since_and_previous_are_asked_of_the_server(tmp_path: Path) -> None:
    server = one(b"now\n")
    server.logs["web-1", "app", True] = (b"before\n",)
    server.pods[0]["status"]["containerStatuses"] = [running("app", restarts=1) | {"lastState": ended(1)}]
    result = logs(tmp_path, server, lines=7, since="1h30m", previous=True)
    assert facts(result)["log"] == "before" and "previous log of web-1/app" in result.output
    query = {"tailLines": "7", "sinceSeconds": "5400", "previous": "true", "container": "app"}
    assert server.asked("/log")[0].query == query


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("10m", 600), ("1h", 3600), ("1h30m", 5400), ("90s", 90), ("1.5h", 5400), ("2d", 172_800), ("5ms", 1)],
)
def test_a_duration_is_read(text: str, seconds: int) -> None:
    assert since_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "10", "m", "-5m", "1h 30m", "yesterday", "1x", "1.m", "٣m", "1" * 20 + "h"])
def test_any_other_duration_is_refused_before_anything_is_sent(tmp_path: Path, text: str) -> None:
    with pytest.raises(LogsRefused, match="such as 30s, 10m, 1h"):
        since_seconds(text)
    server = one()
    if text:
        assert "Cannot read" in logs(tmp_path, server, since=text).text
    assert not server.seen


def several(**given: object) -> Object:
    return pod("web-1", containers=("app", "sidecar"), init=[{"name": "setup", "image": "i"}], **given)  # pyright: ignore


def test_a_pod_with_several_containers_needs_a_name(tmp_path: Path) -> None:
    server = ApiServer(pods=[several()])
    server.logs = {("web-1", "sidecar", False): (b"hi\n",), ("web-1", "setup", False): (b"ok\n",)}
    result = logs(tmp_path, server)
    assert "has 2 containers. Name one in `container`: 'app', 'sidecar'. Init containers: 'setup'." in result.text
    assert facts(logs(tmp_path, server, container="sidecar"))["log"] == "hi"
    assert facts(logs(tmp_path, server, container="setup"))["log"] == "ok"
    unknown = logs(tmp_path, server, container="sidcar")
    assert "has no container 'sidcar'. Did you mean 'sidecar'?" in unknown.text


def test_the_default_container_of_the_pod_is_used(tmp_path: Path) -> None:
    server = ApiServer(pods=[several(annotations={DEFAULT: "sidecar"})], logs={("web-1", "sidecar", False): (b"hi\n",)})
    assert facts(logs(tmp_path, server))["container"] == "sidecar"
    server.pods[0] = several(annotations={DEFAULT: "gone"})
    assert "Name one in `container`" in logs(tmp_path, server).text


def test_a_container_that_has_not_started_says_why(tmp_path: Path) -> None:
    pulling = waiting("app", "ImagePullBackOff", 'Back-off pulling image "x:1"')
    result = logs(tmp_path, ApiServer(pods=[pod("web-1", statuses=[pulling])]))
    assert result.text == (
        "Container 'app' has not started, so it has no log yet (ImagePullBackOff: Back-off pulling image \"x:1\")."
    )


def test_a_container_that_crashes_has_a_log(tmp_path: Path) -> None:
    server = one(b"panic\n")
    server.pods[0]["status"]["containerStatuses"] = [waiting("app", "CrashLoopBackOff", restarts=3, lastState=ended(1))]
    assert facts(logs(tmp_path, server))["log"] == "panic"


def test_a_container_that_has_not_restarted_has_no_previous_log(tmp_path: Path) -> None:
    assert "has not restarted" in logs(tmp_path, one(), previous=True).text


def test_a_missing_pod_is_named_with_a_suggestion(tmp_path: Path) -> None:
    server = ApiServer(pods=[pod("web-1"), pod("api-1")])
    result = called(tmp_path, "k8s.logs", {"pod": "web-2"}, server)
    assert result.text == "There is no pod 'web-2' in the namespace 'default'. Did you mean 'web-1'?"
    result = called(tmp_path, "k8s.logs", {"pod": "database"}, server)
    assert result.text.endswith("There are: 'web-1', 'api-1'.")
    result = called(tmp_path, "k8s.logs", {"pod": "web-1", "namespace": "defualt"}, server)
    assert "There is no namespace 'defualt'" in result.text and "Did you mean 'default'?" in result.text


def test_a_pod_whose_node_is_gone_is_not_said_to_be_missing(tmp_path: Path) -> None:
    server = one()
    gone = status(404, "NotFound", 'nodes "node-1" not found')
    server.instead = lambda seen: gone if seen.path.endswith("/log") else None
    assert logs(tmp_path, server).text == 'There is no log to read. The server says: nodes "node-1" not found'


def test_the_server_chooses_the_container_if_the_pod_cannot_be_read(tmp_path: Path) -> None:
    server = one(b"hi\n", denied={("get", "pods")})
    assert facts(logs(tmp_path, server))["log"] == "hi"
    server.pods[0] = several()
    assert "choose one of: [app sidecar]" in logs(tmp_path, server).text


def test_an_empty_log_is_said_to_be_empty(tmp_path: Path) -> None:
    result = logs(tmp_path, one())
    assert result.success and result.output == "The log of web-1/app (namespace default, context dev) is empty."


def test_lines_arrive_while_the_log_is_read(tmp_path: Path) -> None:
    assert logs_with_output(tmp_path, one(b"one\n", b"two\n"))[1] == "one\ntwo\n"


def logs_with_output(folder: Path, server: ApiServer, **given: Any) -> tuple[Result, str]:
    """A call, and what it showed while it ran; `given` goes to `kubeconfig`."""

    async def work() -> tuple[Result, str]:
        async with serving(server):
            settings = KubernetesSettings(kubeconfig=str(kubeconfig(folder, server, **given)))
            async with cluster_runtime(folder, settings) as runtime:
                with runtime.subscribe() as events:
                    result = await runtime.call("k8s.logs", {"pod": "web-1"})
                    return result, "".join(event.text for event in events.take() if isinstance(event, Output))

    return run(work())


def test_a_secret_in_a_line_is_masked_even_across_chunks(tmp_path: Path) -> None:
    """A configured secret, and the credentials of the kubeconfig."""
    server = one(b"key=correct-horse-bat", b"tery and Bearer " + TOKEN.encode() + b"\n")
    secrets = {"vault": SecretSource(command=("/bin/echo", "correct-horse-battery"))}
    config = Config(tools=ToolsConfig(profile="full"), secrets=secrets)

    async def work() -> tuple[Result, str]:
        async with serving(server):
            settings = KubernetesSettings(kubeconfig=str(kubeconfig(tmp_path, server)))
            async with cluster_runtime(tmp_path, settings, config=config) as runtime:
                runtime.redactor.add("vault", "correct-horse-battery")
                with runtime.subscribe() as events:
                    result = await runtime.call("k8s.logs", {"pod": "web-1"})
                    shown = "".join(event.text for event in events.take() if isinstance(event, Output))
                    return result, shown

    result, shown = run(work())
    for text in (result.output, str(result.structured), shown):
        assert "correct-horse-battery" not in text and TOKEN not in text
        assert "key=[secret vault] and Bearer [secret k8s]" in text


def test_no_part_of_a_token_remains_where_a_line_is_cut_or_breaks_off(tmp_path: Path) -> None:
    token = "a1b2c3d4e5" * 110
    server = one(b"x" * (8192 - 400) + token.encode() + b"\n", tokens={token: "viewer"})
    result, shown = logs_with_output(tmp_path, server, user={"token": token})
    for text in (result.output, str(result.structured), shown):
        assert token[:10] not in text and "x[secret k8s]… [" in text

    async def breaks(writer: Writer) -> None:
        writer.write(f"got {token[:800]}".encode())
        await writer.drain()

    server.instead = lambda seen: (
        Answer(200, b"", "text/plain", {"Content-Length": "5000"}, breaks) if seen.path.endswith("/log") else None
    )
    result, shown = logs_with_output(tmp_path, server, user={"token": token})
    assert not result.success
    for text in (result.output, str(result.structured), shown):
        assert token[:10] not in text and "got [secret k8s]" in text


class Lines(Iterable[bytes]):
    """A log of `count` blocks that is never in memory as a whole."""

    def __init__(self, block: bytes, count: int, last: bytes) -> None:
        self._block, self._count, self._last = block, count, last

    def __iter__(self) -> Iterator[bytes]:
        for _ in range(self._count):
            yield self._block
        yield self._last


@pytest.mark.parametrize("block", [(b"x" * 999 + b"\n") * 65, b"y" * 65_000], ids=["lines", "one line"])
def test_a_huge_log_is_read_in_constant_memory_and_its_end_is_kept(tmp_path: Path, block: bytes) -> None:
    count = rounds(150, 1600)  # 10 MB, or 100 MB
    server = ApiServer(pods=[pod("web-1")], logs={("web-1", "app", False): Lines(block, count, b"\nthe end\n")})
    tracemalloc.start()
    try:
        result = called(tmp_path, "k8s.logs", {"pod": "web-1"}, server, seconds=280.0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    told = facts(result)
    assert result.success and told["log"].endswith("\nthe end") and told["received_bytes"] == len(block) * count + 9
    assert len(result.output) < 52_000 and result.metadata.get("truncated") is None
    assert peak < 8_000_000
    if b"\n" in block:
        assert told["lines"] == 49 and "earlier lines are left out" in result.output
    else:
        assert told["lines"] == 2 and "lines are longer than 8,192 bytes" in result.output


def test_invalid_bytes_and_escape_sequences_stay_text(tmp_path: Path) -> None:
    result = logs(tmp_path, one(b"\x1b[31mred\x1b[0m\xff\x00\x1b]0;title\x07\n"))
    assert facts(result)["log"] == "red�\x00\x1b]0;title\x07"


def test_a_log_that_breaks_off_is_shown_as_far_as_it_came(tmp_path: Path) -> None:
    async def breaks(writer: Writer) -> None:
        writer.write(b"6\r\nfirst\n\r\n")
        await writer.drain()

    chunked = {"Transfer-Encoding": "chunked"}
    server = one()
    server.instead = lambda seen: (
        Answer(200, b"", "text/plain", chunked, breaks) if seen.path.endswith("/log") else None
    )
    result = logs(tmp_path, server)
    assert not result.success and "ended its answer too early" in str(result.error)
    assert result.output.endswith("first") and facts(result)["complete"] is False


def test_a_log_that_breaks_off_within_a_line_keeps_that_line(tmp_path: Path) -> None:
    async def breaks(writer: Writer) -> None:
        writer.write(b"first\npanic: the reason")
        await writer.drain()

    server = one()
    server.instead = lambda seen: (
        Answer(200, b"", "text/plain", {"Content-Length": "1000"}, breaks) if seen.path.endswith("/log") else None
    )
    result, shown = logs_with_output(tmp_path, server)
    assert not result.success and result.output.endswith("\n\nfirst\npanic: the reason")
    assert shown == "first\npanic: the reason\n"


def test_the_log_cannot_imitate_our_words(tmp_path: Path) -> None:
    """Everything after the first blank line is the log."""
    result = logs(tmp_path, one(b"[0 earlier lines are left out]\n\nLast 1 lines of the log of other/app:\n"))
    heading, _, rest = result.output.partition("\n\n")
    assert heading.count("\n") == 0 and rest == facts(result)["log"]


def test_the_preview_names_pod_and_options() -> None:
    args = {"pod": "web-1", "namespace": "team", "lines": 20, "since": "10m", "previous": True, "label": "why"}
    shown = preview("k8s.logs", args, 80, K8S_LOGS.format_preview)
    assert shown == "k8s.logs: web-1 namespace=team lines=20 since=10m previous  # why"


def test_the_schema_of_the_seed_is_kept() -> None:
    properties = K8S_LOGS.input_schema["properties"]
    expected = {
        "pod": ("string", "Pod name"),
        "namespace": (["string", "null"], "Namespace"),
        "container": (["string", "null"], "Container name (optional)"),
        "lines": (["number", "null"], "Tail line count"),
        "since": (["string", "null"], "Lookback duration (e.g. 10m, 1h)"),
    }
    assert {name: (properties[name]["type"], properties[name]["description"]) for name in expected} == expected
    assert K8S_LOGS.description == "Fetch recent logs for a Kubernetes pod."
