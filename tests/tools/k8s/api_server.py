"""`ApiServer`: a loopback Kubernetes API server with the real protocol: TLS, logins, RBAC, paging, log streams.

Its answers have the shapes of the real one; `test_api_server.py` lets another client read them.
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import yaml

from tests.tools.web.certificates import authority

Object = dict[str, Any]
Writer = asyncio.StreamWriter
TOKEN = "the-token-of-the-viewer"
NOW = "2026-01-02T03:04:05Z"


@dataclass
class Seen:
    """A request that arrived."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    user: str | None


@dataclass
class Answer:
    """`then` writes what follows the head, and ends the connection."""

    status: int
    body: bytes
    type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict[str, str])
    then: Callable[[Writer], Awaitable[None]] | None = None


def status(code: int, reason: str, message: str, **details: Any) -> Answer:
    """The answer to a request that failed, as the real server writes it."""
    body: Object = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "details": details,
        "code": code,
    }
    return Answer(code, json.dumps(body).encode())


@dataclass
class ApiServer:
    """Serves `pods`, `deployments` and `namespaces`. `denied` holds (verb, resource) that the user lacks."""

    pods: list[Object] = field(default_factory=list[Object])
    deployments: list[Object] = field(default_factory=list[Object])
    namespaces: list[str] = field(default_factory=lambda: ["default", "kube-system"])
    logs: dict[tuple[str, str, bool], Iterable[bytes]] = field(
        default_factory=dict[tuple[str, str, bool], Iterable[bytes]]
    )
    """By pod, container, and whether it is the previous instance. What it yields are chunks."""
    tokens: dict[str, str] = field(default_factory=lambda: {TOKEN: "viewer"})
    passwords: dict[str, str] = field(default_factory=dict[str, str])
    denied: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    expired_pages: int = 0
    """How many requests for a following page are answered with 410."""
    page: int = 500
    """The most objects of one page, whatever the limit."""
    instead: Callable[[Seen], Answer | None] = lambda seen: None
    """Answers in place of the server."""
    seen: list[Seen] = field(default_factory=list[Seen])
    scheme: str = "https"
    port: int = 0

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    @property
    def entry(self) -> str:
        return f"127.0.0.1:{self.port}"

    def asked(self, end: str) -> list[Seen]:
        return [seen for seen in self.seen if seen.path.endswith(end)]

    async def serve(self, reader: asyncio.StreamReader, writer: Writer) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").strip().split("\r\n")
                method, target, _ = head[0].split(" ")
                headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
                parts = urlsplit(target)
                query = {name: values[0] for name, values in parse_qs(parts.query).items()}
                seen = Seen(method, unquote(parts.path), query, headers, self._user(headers, writer))
                self.seen.append(seen)
                answer = self.instead(seen) or self._answer(seen)
                if not await _send(writer, answer):
                    return
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ssl.SSLError):
            return
        except asyncio.CancelledError:  # the test has ended
            return
        finally:
            writer.close()

    def _user(self, headers: dict[str, str], writer: Writer) -> str | None:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme == "Bearer":
            return self.tokens.get(given)
        if scheme == "Basic":
            name, _, password = base64.b64decode(given).decode().partition(":")
            return name if self.passwords.get(name) == password else None
        certificate: Any = writer.get_extra_info("peercert")
        if certificate:
            return next(value for pairs in certificate["subject"] for key, value in pairs if key == "commonName")
        return None

    def _answer(self, seen: Seen) -> Answer:
        if seen.method != "GET":
            return status(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
        if seen.user is None:
            return status(401, "Unauthorized", "Unauthorized")
        steps = seen.path.strip("/").split("/")
        if steps[:2] == ["api", "v1"]:
            steps = steps[2:]
        elif steps[:3] == ["apis", "apps", "v1"]:
            steps = steps[3:]
        else:
            return status(404, "NotFound", "the server could not find the requested resource")
        namespace = steps[1] if len(steps) > 2 and steps[0] == "namespaces" else None
        resource, *rest = steps[2:] if namespace is not None else steps
        name = rest[0] if rest else None
        part = "/".join([resource, *rest[1:]])
        verb = "list" if name is None else "get"
        if (verb, part) in self.denied:
            group = "apps" if resource == "deployments" else ""
            scope = "at the cluster scope" if namespace is None else f'in the namespace "{namespace}"'
            told = f'User "{seen.user}" cannot {verb} resource "{part}" in API group "{group}" {scope}'
            return status(403, "Forbidden", f"{resource} is forbidden: {told}", kind=resource)
        if part == "pods/log":
            return self._log(str(namespace), str(name), seen)
        objects = self._objects(resource)
        if objects is None:
            return status(404, "NotFound", "the server could not find the requested resource")
        if name is not None:
            found = next((each for each in objects if _is(each, namespace, name)), None)
            if found is None:
                return status(404, "NotFound", f'{resource} "{name}" not found', name=name, kind=resource)
            return Answer(200, json.dumps(found).encode())
        chosen = [each for each in objects if namespace is None or each["metadata"].get("namespace") == namespace]
        return self._list(resource, chosen, seen)

    def _objects(self, resource: str) -> list[Object] | None:
        kinds = {
            "pods": self.pods,
            "deployments": self.deployments,
            "namespaces": [
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in self.namespaces
            ],
        }
        return kinds.get(resource)

    def _list(self, resource: str, objects: list[Object], seen: Seen) -> Answer:
        label = seen.query.get("labelSelector")
        if label is not None and "=" not in label:
            return status(400, "BadRequest", f"unable to parse requirement: found '{label}', expected: '=', '!='")
        if label is not None:
            key, _, value = label.partition("=")
            objects = [each for each in objects if each["metadata"].get("labels", {}).get(key) == value]
        start = 0
        if token := seen.query.get("continue"):
            if self.expired_pages:
                self.expired_pages -= 1
                return status(
                    410, "Expired", "The provided continue parameter is too old to display a consistent list."
                )
            start = json.loads(base64.b64decode(token))["start"]
        limit = min(int(seen.query.get("limit") or self.page), self.page)
        end = start + limit
        metadata: Object = {"resourceVersion": "4711"}
        if end < len(objects):
            metadata["continue"] = base64.b64encode(json.dumps({"v": "x", "start": end}).encode()).decode()
            if label is None:
                metadata["remainingItemCount"] = len(objects) - end
        kind = {"pods": "PodList", "deployments": "DeploymentList", "namespaces": "NamespaceList"}[resource]
        version = "apps/v1" if resource == "deployments" else "v1"
        body = {"kind": kind, "apiVersion": version, "metadata": metadata, "items": objects[start:end]}
        return Answer(200, json.dumps(body).encode())

    def _log(self, namespace: str, name: str, seen: Seen) -> Answer:
        pod = next((each for each in self.pods if _is(each, namespace, name)), None)
        if pod is None:
            return status(404, "NotFound", f'pods "{name}" not found')
        containers = [each["name"] for each in pod["spec"]["containers"]]
        container = seen.query.get("container") or containers[0]
        if "container" not in seen.query and len(containers) > 1:
            told = f"a container name must be specified for pod {name}, choose one of: [{' '.join(containers)}]"
            return status(400, "BadRequest", told)
        previous = seen.query.get("previous") == "true"
        chunks = self.logs.get((name, container, previous))
        if chunks is None:
            kind = "previous terminated container" if previous else "container"
            return status(400, "BadRequest", f'{kind} "{container}" in pod "{name}" not found')

        async def send(writer: Writer) -> None:
            for chunk in chunks:
                writer.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
                await writer.drain()
            writer.write(b"0\r\n\r\n")
            await writer.drain()

        return Answer(200, b"", "text/plain", {"Transfer-Encoding": "chunked"}, send)


def _is(item: Object, namespace: str | None, name: str) -> bool:
    return item["metadata"]["name"] == name and item["metadata"].get("namespace") == namespace


async def _send(writer: Writer, answer: Answer) -> bool:
    """Write an answer; return whether the connection goes on."""
    length = {"Content-Length": str(len(answer.body))} if answer.then is None else {"Connection": "close"}
    fields = {"Content-Type": answer.type, **length, **answer.headers}
    lines = [f"HTTP/1.1 {answer.status} X", *(f"{name}: {value}" for name, value in fields.items() if value)]
    writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + answer.body)
    await writer.drain()
    if answer.then is not None:
        await answer.then(writer)
    return answer.then is None


@asynccontextmanager
async def serving(server: ApiServer, *, certificate: str = "good", plain: bool = False) -> AsyncGenerator[ApiServer]:
    """Serve on loopback, with TLS and optional client certificates."""
    tls = None if plain else authority().server(certificate)
    if tls is not None:
        tls.verify_mode = ssl.CERT_OPTIONAL
        tls.load_verify_locations(cadata=authority().certificate)
    server.scheme = "http" if plain else "https"
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=tls, limit=1 << 20)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def kubeconfig(
    folder: Path,
    server: ApiServer,
    *,
    user: Object | None = None,
    cluster: Object | None = None,
    namespace: str | None = None,
    name: str = "config",
) -> Path:
    """Write a kubeconfig with the contexts `dev` (the server) and `other` (nothing there)."""
    trust = {"certificate-authority-data": encoded(authority().certificate)}
    content: Object = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "dev",
        "preferences": {},
        "clusters": [
            {"name": "loopback", "cluster": {"server": server.url, **(trust if cluster is None else cluster)}},
            {"name": "nowhere", "cluster": {"server": "https://192.0.2.1:6443"}},
        ],
        "users": [{"name": "viewer", "user": {"token": TOKEN} if user is None else user}],
        "contexts": [
            {
                "name": "dev",
                "context": {"cluster": "loopback", "user": "viewer", **({"namespace": namespace} if namespace else {})},
            },
            {"name": "other", "context": {"cluster": "nowhere", "user": "viewer"}},
        ],
    }
    path = folder / name
    path.write_text(yaml.safe_dump(content))
    return path


def pod(
    name: str,
    *,
    namespace: str = "default",
    containers: Iterable[str] = ("app",),
    statuses: Iterable[Object] | None = None,
    phase: str = "Running",
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    init: Iterable[Object] = (),
    init_statuses: Iterable[Object] = (),
    conditions: Iterable[Object] = (),
    deleted: bool = False,
    node: str | None = "node-1",
    **more: Any,
) -> Object:
    """A pod as the server shows it; by default every container runs."""
    names = list(containers)
    metadata: Object = {
        "name": name,
        "namespace": namespace,
        "uid": f"uid-{name}",
        "resourceVersion": "1",
        "creationTimestamp": NOW,
        "labels": labels or {"app": name.partition("-")[0]},
        **({"annotations": annotations} if annotations else {}),
        **({"deletionTimestamp": NOW, "deletionGracePeriodSeconds": 30} if deleted else {}),
    }
    shown = [running(each) for each in names] if statuses is None else list(statuses)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {
            "containers": [{"name": each, "image": f"registry.example/{each}:1", "resources": {}} for each in names],
            **({"initContainers": list(init)} if init else {}),
            **({"nodeName": node} if node else {}),
            "restartPolicy": "Always",
        },
        "status": {
            "phase": phase,
            "conditions": list(conditions),
            "containerStatuses": shown,
            **({"initContainerStatuses": list(init_statuses)} if init_statuses else {}),
            "podIP": "10.0.0.1",
            **more,
        },
    }


def container_status(name: str, state: Object, *, ready: bool = False, restarts: int = 0, **more: Any) -> Object:
    return {
        "name": name,
        "image": f"registry.example/{name}:1",
        "imageID": "",
        "ready": ready,
        "restartCount": restarts,
        "state": state,
        "lastState": {},
        **more,
    }


def running(name: str, **more: Any) -> Object:
    return container_status(name, {"running": {"startedAt": NOW}}, ready=True, started=True, **more)


def waiting(name: str, reason: str, message: str | None = None, **more: Any) -> Object:
    told = {"message": message} if message else {}
    return container_status(name, {"waiting": {"reason": reason, **told}}, **more)


def ended(code: int, reason: str = "Error", *, at: str = NOW, **more: Any) -> Object:
    return {"terminated": {"exitCode": code, "reason": reason, "startedAt": at, "finishedAt": at, **more}}


def deployment(
    name: str,
    *,
    namespace: str = "default",
    desired: int = 3,
    ready: int = 3,
    updated: int = 3,
    conditions: Iterable[Object] = (),
    images: Iterable[str] = ("registry.example/app:1",),
    **spec: Any,
) -> Object:
    numbers = {"replicas": updated, "updatedReplicas": updated, "readyReplicas": ready, "availableReplicas": ready}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}",
            "generation": 2,
            "creationTimestamp": NOW,
            "labels": {"app": name},
        },
        "spec": {
            "replicas": desired,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": f"c{at}", "image": image} for at, image in enumerate(images)]},
            },
            **spec,
        },
        "status": {
            "observedGeneration": 2,
            **{key: value for key, value in numbers.items() if value},
            "conditions": list(conditions),
        },
    }
