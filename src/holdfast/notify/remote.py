"""The channels that leave the machine: a signed webhook, and ntfy. Both post JSON to one configured origin."""

from __future__ import annotations

import asyncio
import hmac
import re
import time
from collections.abc import Callable
from hashlib import sha256
from importlib.util import find_spec
from typing import Any, Final

import msgspec

from holdfast import __version__
from holdfast.contract.errors import ConfigError, HoldfastError
from holdfast.net.addresses import is_loopback
from holdfast.net.client import Headers, HttpClient, HttpRequest, Limits
from holdfast.net.network import Network
from holdfast.net.urls import BadUrl, HttpUrl, parse_url
from holdfast.notify.channel import SEND_SECONDS, ChannelFailed
from holdfast.notify.message import Message, Question

SIGNATURE: Final = "Holdfast-Signature"
TIMESTAMP: Final = "Holdfast-Timestamp"
MAX_CALLS: Final = 100
"""Calls in the body of one webhook request; `count` says how many there are."""
MAX_NTFY_BYTES: Final = 3_800
"""ntfy turns a message above 4,096 bytes into an attachment."""
_TOPIC: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_LIMITS: Final = Limits(seconds=SEND_SECONDS, idle=SEND_SECONDS)

GetSecret = Callable[[str], str]
"""Returns the secret of a scope; it may block, and raises `HoldfastError`."""


def missing_packages() -> str:
    """Return what to install for requests; empty if nothing is missing."""
    return "" if find_spec("httpx2") is not None else "it needs `pip install 'holdfast[serve]'`"


def parse_webhook(url: str) -> HttpUrl:
    return _parse("notify.webhook", url)


def parse_ntfy(url: str, *, has_token: bool) -> tuple[HttpUrl, str]:
    """Return the address that takes messages as JSON, and the topic."""
    found = _parse("notify.ntfy", url)
    folder, _, topic = found.target.rpartition("/")
    if not _TOPIC.fullmatch(topic):
        raise ConfigError(
            "notify.ntfy does not end with a topic of up to 64 letters, digits, '-' and '_'. Write it like "
            "https://ntfy.example.org/my-topic."
        )
    if has_token and found.scheme == "http" and not is_loopback(found.host):
        raise ConfigError("notify.ntfy_token would be sent without encryption. Use an https:// address in notify.ntfy.")
    return msgspec.structs.replace(found, target=f"{folder}/"), topic


def _parse(option: str, url: str) -> HttpUrl:
    try:
        return parse_url(url)
    except BadUrl as error:
        raise ConfigError(f"{option}: {error}") from None


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """Return the value of `Holdfast-Signature`: HMAC-SHA256 over the timestamp, a dot and the body."""
    return f"v1={hmac.new(secret.encode(), timestamp.encode() + b'.' + body, sha256).hexdigest()}"


class WebhookChannel:
    name: str = "webhook"

    def __init__(
        self, network: Network, url: str, scope: str, secret: GetSecret, *, clock: Callable[[], float] = time.time
    ) -> None:
        """`scope` names the secret that signs; it is fetched for each message, so that a new one counts at once."""
        self._post = _Poster(network, parse_webhook(url), "webhook")
        self._scope = scope
        self._secret = secret
        self._clock = clock

    @property
    def target(self) -> str:
        return self._post.url.origin

    async def send(self, message: Message) -> None:
        key = await _fetch(self._secret, self._scope)
        now = self._clock()
        timestamp = str(int(now))
        body = msgspec.json.encode(_webhook_body(message, now))
        await self._post(body, ((TIMESTAMP, timestamp), (SIGNATURE, signature(key, timestamp, body))))


class NtfyChannel:
    name: str = "ntfy"

    def __init__(self, network: Network, url: str, scope: str | None, secret: GetSecret) -> None:
        """`scope` names the secret with the access token, if the topic needs one."""
        address, self._topic = parse_ntfy(url, has_token=scope is not None)
        self._post = _Poster(network, address, "ntfy")
        self._scope = scope
        self._secret = secret

    @property
    def target(self) -> str:
        return self._post.url.origin  # not the topic: who knows it can read the messages

    async def send(self, message: Message) -> None:
        headers: Headers = ()
        if self._scope is not None:
            token = await _fetch(self._secret, self._scope)
            if not token.isascii() or not token.isprintable() or " " in token:
                raise ChannelFailed(f"The secret '{self._scope}' is not an access token of ntfy.")
            headers = (("Authorization", f"Bearer {token}"),)
        # As JSON: in the other form, title and link are headers, which carry no Unicode.
        body: dict[str, Any] = {
            "topic": self._topic,
            "title": message.title,
            "message": _clip_bytes("\n".join(message.lines), MAX_NTFY_BYTES),
            "priority": 4 if message.urgent else 3,
        }
        if message.link:
            body["click"] = message.link
        await self._post(msgspec.json.encode(body), headers)


def _webhook_body(message: Message, now: float) -> dict[str, Any]:
    return {
        "event": message.event,
        "text": "\n".join((message.title, *message.lines)),
        "link": message.link,
        "count": len(message.questions),
        "calls": [_call_body(question, now) for question in message.questions[:MAX_CALLS]],
    }


def _call_body(question: Question, now: float) -> dict[str, Any]:
    return {
        "id": question.id,
        "tool": question.tool,
        "summary": question.summary,
        "risk": question.risk,
        "project": question.project,
        "agent": question.agent,
        "age": max(0.0, round(now - question.held_at, 3)),
        "digest": question.digest,
        "link": question.link,
        "expires_at": question.expires_at,
    }


def _clip_bytes(text: str, most: int) -> str:
    encoded = text.encode("utf-8", "replace")
    return encoded.decode() if len(encoded) <= most else encoded[: most - 3].decode("utf-8", "ignore") + "…"


async def _fetch(secret: GetSecret, scope: str) -> str:
    try:
        return await asyncio.to_thread(secret, scope)  # it may run a command
    except HoldfastError as error:
        raise ChannelFailed(str(error)) from None


class _Poster:
    """Posts JSON to one address. The user configured its host, so it is reached whatever its addresses are; no other
    host is, and a redirect is not followed."""

    def __init__(self, network: Network, url: HttpUrl, name: str) -> None:
        self.url = url
        self._gateway = network.gateway_to_origin(f"notify {name}", url.origin)

    async def __call__(self, body: bytes, headers: Headers) -> None:
        if missing := missing_packages():
            raise ChannelFailed(f"{self.url.entry} cannot be reached: {missing}.")
        request = HttpRequest(
            url=self.url, method="POST", headers=(("Content-Type", "application/json"), *headers), body=body
        )
        try:
            async with (
                HttpClient(self._gateway, user_agent=f"holdfast/{__version__}") as client,
                client.stream(request, _LIMITS) as answer,
            ):
                status = answer.status  # the body is not read: it can be of any length
        except HoldfastError as error:
            raise ChannelFailed(str(error).replace(str(self.url), self.url.origin)) from None
        if 300 <= status < 400:
            raise ChannelFailed(
                f"{self.url.entry} redirects ({status}), which is not followed. Configure the final address."
            )
        if not 200 <= status < 300:
            hint = {401: "; check its token", 403: "; check its token", 404: "; check its address"}.get(status, "")
            raise ChannelFailed(f"{self.url.entry} answered with status {status}{hint}.")
