"""Webhook and ntfy against real loopback servers: what arrives, and every way to fail."""

from __future__ import annotations

import asyncio
import hmac
import json
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from holdfast.contract.errors import ConfigError, SecretUnavailable
from holdfast.net.network import Network
from holdfast.net.network_log import NetworkLog, read_log
from holdfast.notify.channel import ChannelFailed
from holdfast.notify.message import trial_message
from holdfast.notify.notifier import send_to
from holdfast.notify.remote import MAX_CALLS, MAX_NTFY_BYTES, NtfyChannel, WebhookChannel, parse_ntfy, parse_webhook
from holdfast.store.redact import Redactor
from tests.docs.programs import ROOT, blocks_of
from tests.notify.ntfy_server import NtfyTopics
from tests.notify.support import message_of, pending_call
from tests.runtime.support import run
from tests.tools.web.site import Page, Reply, Seen, Site, Writer, serving

pytestmark = pytest.mark.spec("E7n")
KEY = "the-signing-key"
TOKEN = "tk_the_access_token"


def secret(scope: str) -> str:
    return {"hook": KEY, "ntfy": TOKEN}[scope]


def webhook(site: Site, path: str = "/hook", *, now: float = 1_010.5) -> WebhookChannel:
    return WebhookChannel(Network(), f"{site.url}{path}", "hook", secret, clock=lambda: now)


def verified(seen: Seen, key: str = KEY) -> Any:
    """Check the signature as a receiver does; return the body."""
    signed = seen.headers["holdfast-timestamp"].encode() + b"." + seen.body
    wanted = f"v1={hmac.new(key.encode(), signed, sha256).hexdigest()}"
    assert hmac.compare_digest(seen.headers["holdfast-signature"], wanted)
    return json.loads(seen.body)


def test_a_webhook_gets_the_calls_as_signed_json() -> None:
    async def scenario() -> None:
        async with serving({"/hook": Reply("", None, 204)}) as site:
            await webhook(site).send(message_of(pending_call(), link="http://127.0.0.1:1/calls/c1"))
            (seen,) = site.seen
            assert seen.method == "POST" and seen.headers["content-type"] == "application/json"
            assert seen.headers["holdfast-timestamp"] == "1010"
            assert seen.headers["user-agent"].startswith("holdfast/")
            assert verified(seen) == {
                "event": "pending",
                "text": "holdfast: 1 call is pending\nshell.exec asks: rm -rf build (high risk), in web by coder",
                "link": "http://127.0.0.1:1/calls/c1",
                "count": 1,
                "calls": [
                    {
                        "id": "c1",
                        "tool": "shell.exec",
                        "summary": "rm -rf build",
                        "risk": "high",
                        "project": "web",
                        "agent": "coder",
                        "age": 10.5,
                        "digest": "d1",
                        "link": "http://127.0.0.1:1/calls/c1",
                        "expires_at": None,
                    }
                ],
            }

    run(scenario())


def test_the_program_of_the_guide_recognises_a_genuine_request() -> None:
    (program,) = (block.text for block in blocks_of(ROOT / "docs" / "notify.md") if block.language == "python")
    names: dict[str, Any] = {}
    exec(program, names)

    async def scenario() -> None:
        async with serving({"/hook": Reply("ok")}) as site:
            await webhook(site, now=time.time()).send(trial_message())
            await webhook(site, now=time.time() - 3600).send(trial_message())
            new, old = site.seen
            headers = [{name.title(): value for name, value in seen.headers.items()} for seen in (new, old)]
            assert names["is_genuine"](KEY, headers[0], new.body)
            assert not names["is_genuine"](KEY, headers[0], new.body + b" ")
            assert not names["is_genuine"]("another", headers[0], new.body)
            assert not names["is_genuine"](KEY, headers[1], old.body)

    run(scenario())


def test_a_receiver_with_another_key_refuses_the_signature() -> None:
    async def scenario() -> None:
        async with serving({"/hook": Reply("ok")}) as site:
            await webhook(site).send(trial_message())
            with pytest.raises(AssertionError):
                verified(site.seen[0], key="another")

    run(scenario())


def test_the_body_of_a_large_burst_is_bounded() -> None:
    async def scenario() -> None:
        async with serving({"/hook": Reply("ok")}) as site:
            await webhook(site).send(message_of(*(pending_call(f"c{number}") for number in range(MAX_CALLS + 50))))
            body = verified(site.seen[0])
            assert (body["count"], len(body["calls"])) == (MAX_CALLS + 50, MAX_CALLS)

    run(scenario())


async def _stall(_: Writer) -> None:
    await asyncio.sleep(600)


async def _flood(writer: Writer) -> None:
    while True:
        writer.write(b"x" * 1_000_000)
        await writer.drain()


HUGE = b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n"


@pytest.mark.parametrize(
    ("page", "words"),
    [
        (Reply("no", status=500), "answered with status 500."),
        (Reply("no", status=404), "answered with status 404; check its address."),
        (Reply("", status=302, headers={"Location": "/elsewhere"}), "redirects (302), which is not followed."),
        (
            Reply("", status=307, headers={"Location": "http://127.0.0.1:1/x"}),
            "redirects (307), which is not followed.",
        ),
        (Reply(raw=b"SSH-2.0-OpenSSH\r\n\r\n"), "its answer is not valid HTTP"),
        (Reply(raw=b"", then=_stall), "did not take the message within 0.5 seconds."),
    ],
    ids=["broken", "missing", "redirect", "redirect away", "another protocol", "silent"],
)
def test_a_webhook_that_does_not_work_is_a_failure_with_a_reason(page: Page, words: str) -> None:
    async def scenario() -> None:
        async with serving({"/hook/T0P-SECRET-PATH": page, "/elsewhere": Reply("ok")}) as site:
            channel = webhook(site, "/hook/T0P-SECRET-PATH")
            done = await send_to(channel, trial_message(), seconds=0.5 if "0.5" in words else 60)
            assert done.outcome == "failed" and words in done.reason
            assert "T0P-SECRET-PATH" not in f"{done.reason}{done.target}" and KEY not in done.reason
            assert [seen.path for seen in site.seen] == ["/hook/T0P-SECRET-PATH"]

    run(scenario())


def test_an_answer_without_end_is_not_read() -> None:
    async def scenario() -> None:
        async with serving({"/hook": Reply(raw=HUGE, then=_flood)}) as site:
            assert (await send_to(webhook(site), trial_message(), seconds=60)).outcome == "sent"

    run(scenario())


def test_a_webhook_that_refuses_connections_is_a_failure() -> None:
    async def scenario() -> None:
        async with serving() as site:
            pass
        with pytest.raises(ChannelFailed, match="cannot be reached: it refused the connection"):
            await webhook(site).send(trial_message())

    run(scenario())


def test_an_environment_proxy_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")

    async def scenario() -> None:
        async with serving({"/hook": Reply("ok")}) as site:
            await webhook(site).send(trial_message())
            assert len(site.seen) == 1

    run(scenario())


def test_a_secret_that_cannot_be_fetched_sends_nothing() -> None:
    def missing(scope: str) -> str:
        raise SecretUnavailable(f"The secret '{scope}' has no value.")

    async def scenario() -> None:
        async with serving({"/hook": Reply("ok")}) as site:
            channel = WebhookChannel(Network(), f"{site.url}/hook", "hook", missing)
            with pytest.raises(ChannelFailed, match="The secret 'hook' has no value"):
                await channel.send(trial_message())
            assert site.connections == 0

    run(scenario())


def test_connections_are_in_the_network_log(tmp_path: Path) -> None:
    async def scenario() -> None:
        network = Network(log=NetworkLog(tmp_path / "network.log"))
        async with serving({"/hook": Reply("ok")}) as site:
            await WebhookChannel(network, f"{site.url}/hook", "hook", secret).send(trial_message())
            network.close()
            (entry,) = read_log(tmp_path / "network.log")
            assert entry is not None
            assert (entry.by, entry.port, entry.outcome) == ("notify webhook", site.port, "allowed")

    run(scenario())


def published(topics: NtfyTopics, send: Callable[[Site], Any]) -> None:
    async def scenario() -> None:
        async with serving(topics.pages) as site:
            await send(site)

    run(scenario())


def test_ntfy_gets_a_message_with_title_priority_and_link() -> None:
    topics = NtfyTopics(tokens={"calls": TOKEN})
    message = message_of(pending_call(command="echo naïve 漢字"), link="http://127.0.0.1:1/calls/c1")
    published(topics, lambda site: NtfyChannel(Network(), f"{site.url}/calls", "ntfy", secret).send(message))
    assert topics.published == [
        {
            "topic": "calls",
            "title": "holdfast: 1 call is pending",
            "message": "shell.exec asks: echo naïve 漢字 (high risk), in web by coder",
            "priority": 4,
            "click": "http://127.0.0.1:1/calls/c1",
        }
    ]


def test_ntfy_works_without_a_token_and_below_a_path() -> None:
    topics = NtfyTopics()
    published(topics, lambda site: NtfyChannel(Network(), f"{site.url}/ntfy/a-b", None, secret).send(trial_message()))
    assert [(each["topic"], each["priority"], "click" in each) for each in topics.published] == [("a-b", 3, False)]


def test_a_topic_that_refuses_the_token_is_a_failure_that_names_neither() -> None:
    async def send(site: Site) -> None:
        channel = NtfyChannel(Network(), f"{site.url}/private-topic", "ntfy", secret)
        with pytest.raises(ChannelFailed, match=r"answered with status 403; check its token\.$") as found:
            await channel.send(trial_message())
        assert TOKEN not in str(found.value) and "private-topic" not in f"{found.value}{channel.target}"

    topics = NtfyTopics(tokens={"private-topic": "another"})
    published(topics, send)
    assert topics.published == []


@pytest.mark.parametrize("token", ["tk two", "tk_\r\nX: y", "tk_é"])
def test_a_token_that_is_no_header_is_not_sent(token: str) -> None:
    async def send(site: Site) -> None:
        with pytest.raises(ChannelFailed, match="is not an access token") as found:
            await NtfyChannel(Network(), f"{site.url}/calls", "ntfy", lambda _: token).send(trial_message())
        assert token not in str(found.value) and site.connections == 0

    published(NtfyTopics(), send)


def test_a_long_message_stays_below_the_limit_of_ntfy() -> None:
    calls = [pending_call(f"c{number}", text=f"shell.exec: {'漢' * 2000}") for number in range(9)]
    topics = NtfyTopics()
    published(topics, lambda site: NtfyChannel(Network(), f"{site.url}/t", None, secret).send(message_of(*calls)))
    (message,) = topics.published
    assert len(message["message"].encode()) <= MAX_NTFY_BYTES


def test_a_secret_in_the_arguments_appears_in_no_request() -> None:
    redactor = Redactor()
    redactor.add("db", "hunter2-correct-horse")
    message = message_of(pending_call(command="psql 'password=hunter2-correct-horse'"), redactor=redactor)

    async def scenario() -> None:
        topics = NtfyTopics()
        async with serving({**topics.pages, "/hook": Reply("ok")}) as site:
            await webhook(site).send(message)
            await NtfyChannel(Network(), f"{site.url}/t", None, secret).send(message)
            assert len(site.seen) == 2
            for seen in site.seen:
                assert b"hunter2" not in seen.body and b"[secret db]" in seen.body
                assert KEY not in str(seen) and TOKEN not in str(seen)

    run(scenario())


@pytest.mark.parametrize("url", ["https://ntfy.example/", "https://ntfy.example/a b", "https://ntfy.example/a?x=1"])
def test_an_address_without_a_topic_is_an_error(url: str) -> None:
    with pytest.raises(ConfigError, match=r"^notify\.ntfy"):
        parse_ntfy(url, has_token=False)


def test_a_token_is_not_sent_without_encryption() -> None:
    with pytest.raises(ConfigError, match=r"Use an https:// address in notify\.ntfy"):
        parse_ntfy("http://ntfy.example/topic", has_token=True)
    assert parse_ntfy("http://127.0.0.1:8080/topic", has_token=True)[1] == "topic"
    assert parse_ntfy("http://ntfy.example/topic", has_token=False)[1] == "topic"


@pytest.mark.parametrize("url", ["ftp://hook.example/", "hook.example", "https://ada:pass@hook.example/"])
def test_an_address_that_cannot_be_requested_is_an_error(url: str) -> None:
    with pytest.raises(ConfigError, match=r"^notify\.webhook: "):
        parse_webhook(url)
