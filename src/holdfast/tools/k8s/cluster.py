"""`Kubernetes`: the service behind the `k8s` tools. It opens a cluster, which can be read and nothing else.

Every request is a GET through the network gateway. Every failure is one sentence.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Generic, Literal, TypeVar
from urllib.parse import quote, urlencode

import msgspec
from msgspec.structs import replace

from holdfast.contract.errors import HoldfastError
from holdfast.net.client import Headers, HttpClient, HttpRequest, HttpStream, Limits, RequestFailed
from holdfast.net.network import Network
from holdfast.net.urls import HttpUrl
from holdfast.text.escape import clip_escaped
from holdfast.text.suggest import did_you_mean
from holdfast.tools.k8s.credentials import Credentials, Login, Redactor, tls_context
from holdfast.tools.k8s.kubeconfig import (
    SERVICE_ACCOUNT,
    Access,
    KubernetesSettings,
    proxy_login,
    read_access,
    server_name,
)
from holdfast.tools.k8s.objects import NamedObject, ObjectList, Status, with_texts

Resource = Literal["pods", "pods/log", "deployments", "namespaces"]
Verb = Literal["get", "list"]
Params = dict[str, str]
PAGE: Final = 100
_PAGE_BYTES: Final = 8 * 1024 * 1024
"""More than a page of ordinary objects has. A larger one is asked for in smaller parts."""
_PAGE_VALUES: Final = 500_000
"""How many values a page may have: many small ones need far more memory than bytes. An ordinary pod has about 500."""
_STATUS_BYTES: Final = 256 * 1024
_MAX_PAGES: Final = 100
_MAX_NAMES: Final = 1000
_MAX_MESSAGE: Final = 600
_API: Final = {"pods": "api/v1", "pods/log": "api/v1", "namespaces": "api/v1", "deployments": "apis/apps/v1"}
_AGENT: Final = "holdfast (k8s tools, read only)"

T = TypeVar("T")


class Listing(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """The first objects of a list."""

    items: tuple[T, ...]
    more: bool = False
    remaining: int | None = None
    """How many objects are left out; None if the server does not say."""


class ClusterError(HoldfastError):
    """The cluster did not give what was asked for; the message is a sentence."""

    def __init__(self, message: str, *, code: int | None = None, said: str = "") -> None:
        super().__init__(message)
        self.code = code
        """The HTTP status of the answer, if there was one."""
        self.said = said
        """The message of the server, on one line."""


class Kubernetes:
    """One per runtime. Credentials that a plugin printed are kept in memory until they expire."""

    def __init__(
        self,
        network: Network,
        settings: KubernetesSettings,
        redactor: Redactor,
        *,
        service_account: Path = SERVICE_ACCOUNT,
    ) -> None:
        self.network = network
        self.settings = settings
        self.redactor = redactor
        self._service_account = service_account
        self._known: dict[str, Credentials] = {}
        """By context."""

    def access(self, context: str | None) -> Access:
        """Return what a context means. Raises `KubeconfigError`."""
        return read_access(self.settings, context, service_account=self._service_account)

    @asynccontextmanager
    async def open(self, access: Access, *, by: str, project: Path, seconds: float) -> AsyncGenerator[ClusterReader]:
        """Open a cluster for one call, which `by` names in the network log. Raises `HoldfastError`."""
        known = self._known.get(access.context)
        if known is None or known.access != access:  # the kubeconfig was edited
            known = self._known[access.context] = Credentials(access, project, self.redactor)
        reader = ClusterReader(self.network, known, self.redactor, by=by, seconds=seconds)
        try:
            yield reader
        finally:
            await reader.close()


class ClusterReader:
    """Reads objects and logs of one cluster, within one call."""

    def __init__(
        self, network: Network, credentials: Credentials, redactor: Redactor, *, by: str, seconds: float
    ) -> None:
        self.access = credentials.access
        self._redactor = redactor
        self._credentials = credentials
        self._network = network
        self._by = by
        self._deadline = time.monotonic() + seconds
        self._client: HttpClient | None = None
        self._login: Login | None = None
        self._renewed = False

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()
            self._client = None

    async def list(
        self, kind: type[T], resource: Resource, namespace: str | None, params: Params, most: int
    ) -> Listing[T]:
        """Return at most `most` objects, of all namespaces if none is given."""
        restarted = False
        while True:
            try:
                return await self._pages(kind, resource, namespace, params, most)
            except ClusterError as error:
                # The list that the next page belongs to is no longer kept. A second time means a server that is
                # overloaded or lies.
                if error.code != 410 or restarted:
                    raise
                restarted = True

    async def _pages(
        self, kind: type[T], resource: Resource, namespace: str | None, params: Params, most: int
    ) -> Listing[T]:
        found: list[T] = []
        size, token = min(PAGE, most), ""
        for _ in range(_MAX_PAGES):
            wanted = min(size, most - len(found))
            asked = {**params, "limit": str(wanted), **({"continue": token} if token else {})}
            body = await self._body("list", resource, namespace, None, asked)
            if body is None:  # larger than a page may be
                if wanted == 1:
                    raise ClusterError(f"{self._host} sent one of the {resource} with {_too_much()}.")
                size = max(1, wanted // 8)
                continue
            page = await self._decoded(body, ObjectList[kind], f"a list of {resource}")
            found += page.items or ()
            token = page.metadata.continue_ or ""
            if not token or len(found) >= most:
                left, surplus = page.metadata.remaining_item_count, len(found) - most  # a server can send too many
                if surplus <= 0 and not token:
                    return Listing(items=tuple(found), remaining=0)
                remaining = None if token and left is None else max(0, left or 0) + max(0, surplus)
                return Listing(items=tuple(found[:most]), more=True, remaining=remaining)
        raise ClusterError(
            f"{self._host} sent {_MAX_PAGES} pages of {resource} without an end. Use a selector or a namespace."
        )

    async def get(self, kind: type[T], resource: Resource, namespace: str | None, name: str) -> T:
        body = await self._body("get", resource, namespace, name, {})
        if body is None:
            raise ClusterError(f"{self._host} sent an object with {_too_much()}.")
        return await self._decoded(body, kind, "the object that was asked for")

    async def names(self, resource: Resource, namespace: str | None) -> list[str]:
        """Return names for a suggestion; none if they cannot be listed."""
        try:
            found = await self.list(NamedObject, resource, namespace, {}, _MAX_NAMES)
        except HoldfastError:
            return []
        return [item.metadata.name for item in found.items]

    async def missing_namespace(self, namespace: str) -> str | None:
        """Return a sentence if a namespace does not exist: an empty list does not say so."""
        try:
            await self.get(NamedObject, "namespaces", None, namespace)
        except ClusterError as error:
            if error.code != 404:
                return None  # it cannot be read; that is no reason to fail
            hint = suggestion(namespace, await self.names("namespaces", None), "namespaces")
            return f"There is no namespace {quoted(namespace)} in the cluster of {self.access.context}. {hint}"
        return None

    @asynccontextmanager
    async def log(self, namespace: str, pod: str, params: Params) -> AsyncGenerator[HttpStream]:
        """Yield the log of a container while it arrives."""
        request = self._request("pods/log", namespace, pod, params, "*/*")
        while True:
            client = await self._ready()
            async with client.stream(self._signed(request), self._limits()) as answer:
                if answer.status == 401 and await self._renew():
                    continue
                if answer.status != 200:
                    body = bytearray()
                    async for block in answer.blocks:
                        body += block[: _STATUS_BYTES - len(body)]
                        if len(body) >= _STATUS_BYTES:
                            break
                    raise self._failure(answer.status, answer.headers, bytes(body), "get", "pods/log", namespace)
                yield answer
                return

    async def _body(
        self, verb: Verb, resource: Resource, namespace: str | None, name: str | None, params: Params
    ) -> bytes | None:
        """Return an answer; None if it is larger than a page may be. Raises `ClusterError`."""
        request = self._request(resource, namespace, name, params, "application/json")
        while True:
            client = await self._ready()
            answer = await client.request(self._signed(request), self._limits(), may_follow=_follows_nothing)
            if answer.status == 401 and await self._renew():
                continue
            if answer.status != 200:
                raise self._failure(answer.status, answer.headers, answer.body, verb, resource, namespace)
            return None if answer.cut or _values(answer.body) > _PAGE_VALUES else answer.body

    def _request(
        self, resource: Resource, namespace: str | None, name: str | None, params: Params, accept: str
    ) -> HttpRequest:
        kind, _, part = resource.partition("/")
        steps = [_API[resource]]
        steps += ["namespaces", _segment(namespace)] if namespace is not None else []
        steps += [kind] + ([_segment(name)] if name is not None else []) + ([part] if part else [])
        query = f"?{urlencode(params, quote_via=quote)}" if params else ""
        base = self.access.url
        url = replace(base, target=f"{base.target}/{'/'.join(steps)}{query}")
        return HttpRequest(url=url, headers=(("Accept", accept),))

    def _signed(self, request: HttpRequest) -> HttpRequest:
        assert self._login is not None
        return replace(request, headers=(*request.headers, *self._login.headers))

    def _limits(self) -> Limits:
        return Limits(seconds=self._left(), max_bytes=_PAGE_BYTES)

    def _left(self) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise RequestFailed(f"{self._host} did not send everything in time.", timed_out=True)
        return left

    async def _ready(self) -> HttpClient:
        if self._client is None:
            self._login = await self._credentials.login(self._left())
            self._client = await self._connected(self._login)
        return self._client

    async def _connected(self, login: Login) -> HttpClient:
        access, proxy = self.access, self.access.proxy
        hosts = [_with_port(access.url if proxy is None else proxy)]
        gateway = self._network.gateway_to_listed(self._by, hosts, name="the kubeconfig")
        # Building a context reads files and parses certificates.
        tls = await asyncio.to_thread(tls_context, access, login)
        server = None
        if proxy is not None:
            from holdfast.net.http import HttpProxy

            server = HttpProxy(proxy.origin, proxy_login(access.cluster.proxy_url or ""))
        return HttpClient(gateway, user_agent=_AGENT, tls=tls, server_name=server_name(access), proxy=server)

    async def _renew(self) -> bool:
        """Log in again, once in a call. Returns False if there are no other credentials."""
        if self._renewed or self._login is None:
            return False
        self._renewed = True
        if await self._credentials.renewed(self._login, self._left()) is None:
            return False
        await self.close()
        return True

    @property
    def _host(self) -> str:
        return self.access.url.entry

    async def _decoded(self, body: bytes, kind: type[T], what: str) -> T:
        try:
            return await asyncio.to_thread(self._decode, body, kind)  # many objects take a while
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            told = clip_escaped(str(error), 200)
            raise ClusterError(
                f"{self._host} did not send {what}: {told}. Check that the server of the context "
                f"{quoted(self.access.context)} is a Kubernetes API server."
            ) from None

    def _decode(self, body: bytes, kind: type[T]) -> T:
        """Decode an answer, and redact what may be cut later: half a token would not be recognized."""
        return with_texts(msgspec.json.decode(body, type=kind), self._redactor.known)

    def _failure(
        self, code: int, headers: Headers, body: bytes, verb: Verb, resource: Resource, namespace: str | None
    ) -> ClusterError:
        """Explain an answer that is an error, with the words of the server."""
        said = self._message(body)
        told = f" It says: {said}" if said else ""
        told += "" if not told or told.endswith((".", "!", "?")) else "."
        context = quoted(self.access.context)
        if code == 401:
            who = f"the credentials of the context {context}"
            sentence = f"{self._host} does not accept {who}: they are wrong or have expired.{told} Log in again."
        elif code == 403:
            where = "in all namespaces" if namespace is None else f"in the namespace {quoted(namespace)}"
            needs = f"the verb {verb} on {resource} {where}" if resource != "namespaces" else f"{verb} on namespaces"
            sentence = f"The user of the context {context} lacks a permission: {needs}.{told}"
        elif code == 404:
            sentence = f"{self._host} has no such object.{told}"
        elif code == 410:
            sentence = f"The list changed while it was read.{told} Try again, or use a selector."
        elif code == 429:
            after = dict(headers).get("retry-after", "")
            when = f"in {after} seconds" if after.isascii() and after.isdigit() and len(after) < 6 else "later"
            sentence = f"{self._host} is too busy. Try again {when}.{told}"
        elif code >= 500:
            sentence = f"{self._host} failed with status {code}.{told} Try again later."
        else:
            sentence = f"{self._host} refused the request with status {code}.{told}"
        return ClusterError(sentence, code=code, said=said)

    def _message(self, body: bytes) -> str:
        """Return the message of a `Status`, or the first line of any other text."""
        try:
            text = self._decode(body, Status).message or ""
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            text = body[:2000].decode("utf-8", "replace").strip().partition("\n")[0]
            text = "" if text.startswith("<") else self._redactor.known(text, cut=len(body) > 2000)
        return clip_escaped(text.strip(), _MAX_MESSAGE)


def suggestion(name: str, known: Iterable[str], what: str) -> str:
    """Return what a missing name may have meant, or the names that there are."""
    names = list(known)
    if meant := did_you_mean(name, names):
        return f"Did you mean {quoted(meant)}?"
    if not names:
        return f"Use k8s.pods to see which {what} there are." if what == "pods" else "Check its spelling."
    shown = ", ".join(quoted(each) for each in names[:20])
    return f"There are: {shown}{f' and {len(names) - 20} more' if len(names) > 20 else ''}."


def quoted(text: str) -> str:
    return f"'{clip_escaped(text, 120)}'"


def _too_much() -> str:
    return f"more than {_PAGE_BYTES:,} bytes or {_PAGE_VALUES:,} values"


def _values(body: bytes) -> int:
    """Return at least the number of values in JSON, and little more."""
    return body.count(b",") + body.count(b"{") + body.count(b"[")


def _segment(text: str) -> str:
    if text in ("", ".", ".."):  # a server would resolve them to another path
        raise ClusterError(f"{quoted(text)} is not a name that an object can have.")
    return quote(text, safe="")


def _with_port(url: HttpUrl) -> str:
    return f"[{url.host}]:{url.port}" if ":" in url.host else f"{url.host}:{url.port}"


def _follows_nothing(source: HttpUrl, following: HttpRequest) -> str:
    return (
        f"{source.entry} redirects to {following.url.entry}, which was not followed: an API server does not redirect. "
        "Check the server in the kubeconfig."
    )
