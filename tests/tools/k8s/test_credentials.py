"""Logins: tokens, token files, certificates, passwords, impersonation; and what TLS refuses."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast import Result
from holdfast.store.redact import Redactor
from holdfast.tools.k8s.credentials import Credentials
from holdfast.tools.k8s.kubeconfig import Cluster, KubernetesSettings
from tests.runtime.support import run
from tests.tools.k8s.api_server import (
    TOKEN,
    Answer,
    ApiServer,
    Object,
    Seen,
    encoded,
    kubeconfig,
    pod,
    serving,
    status,
)
from tests.tools.k8s.clusters import ACCESS, called, cluster_runtime
from tests.tools.web.certificates import authority

pytestmark = pytest.mark.spec("B10e")


def listed(folder: Path, server: ApiServer, **given: Any) -> Result:
    return called(folder, "k8s.pods", {}, server, **given)


def one() -> ApiServer:
    return ApiServer(pods=[pod("web-1")])


def files(folder: Path) -> Object:
    certificate, key = authority().client_certificate("ann")
    (folder / "ann.crt").write_text(certificate)
    (folder / "ann.key").write_text(key)
    return {"client-certificate": "ann.crt", "client-key": "ann.key"}


def inline(folder: Path) -> Object:
    certificate, key = authority().client_certificate("ann")
    return {"client-certificate-data": encoded(certificate), "client-key-data": encoded(key)}


def token(folder: Path) -> Object:
    return {"token": TOKEN}


def password(folder: Path) -> Object:
    return {"username": "bob", "password": "s3cret-word"}


def token_file(folder: Path) -> Object:
    (folder / "token").write_text(f"{TOKEN}\n")
    return {"tokenFile": "token", "token": "old"}


@pytest.mark.parametrize(
    ("user", "name"),
    [
        (token, "viewer"),
        (token_file, "viewer"),
        (files, "ann"),
        (inline, "ann"),
        (password, "bob"),
    ],
    ids=["token", "token file", "certificate files", "inline certificate", "password"],
)
def test_every_way_to_log_in_is_used(tmp_path: Path, user: Callable[[Path], Object], name: str) -> None:
    server = one()
    server.passwords["bob"] = "s3cret-word"
    result = listed(tmp_path, server, user=user(tmp_path))
    assert result.success, result.error
    assert server.seen[0].user == name


def test_impersonation_is_sent_and_never_left_out(tmp_path: Path) -> None:
    server = one()
    assert listed(tmp_path, server, user={"token": TOKEN, "as": "low", "as-groups": ["a"], "as-uid": "7"}).success
    sent = server.seen[0].headers
    assert (sent["impersonate-user"], sent["impersonate-group"], sent["impersonate-uid"]) == ("low", "a", "7")
    assert "but not `as`" in listed(tmp_path, server, user={"token": TOKEN, "as-groups": ["a"]}).text


def test_a_token_file_is_read_again_once_when_the_server_refuses_the_token(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("an-old-token")
    server = one()

    def rotate(seen: Seen) -> Answer | None:
        (tmp_path / "token").write_text(TOKEN)
        return None

    server.instead = rotate
    assert listed(tmp_path, server, user={"tokenFile": "token"}).success
    assert [seen.user for seen in server.seen] == [None, "viewer"]


def test_a_token_that_has_expired_is_said_to_have(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("an-old-token")
    server = one()
    result = listed(tmp_path, server, user={"tokenFile": "token"})
    assert "does not accept the credentials of the context 'dev': they are wrong or have expired." in result.text
    assert len(server.seen) == 1  # the file holds the same token, so there is nothing else to try


@pytest.mark.parametrize(
    ("certificate", "words"),
    [
        ("self-signed", "self-signed certificate"),
        ("expired", "certificate has expired"),
        ("other-host", "mismatch"),
    ],
)
def test_a_certificate_that_is_not_valid_is_refused_before_the_token_is_sent(
    tmp_path: Path, certificate: str, words: str
) -> None:
    server = one()
    result = listed(tmp_path, server, certificate=certificate)
    assert not result.success and "The certificate of 127.0.0.1:" in result.text and words in result.text.lower()
    assert not server.seen


def test_a_server_without_a_configured_authority_is_checked_with_those_of_the_system(tmp_path: Path) -> None:
    server = one()
    assert "The certificate of" in listed(tmp_path, server, cluster={}).text
    assert not server.seen


def test_the_check_is_skipped_only_with_both_settings(tmp_path: Path) -> None:
    server = one()
    skip: Object = {"insecure-skip-tls-verify": True}
    assert "k8s.insecure" in listed(tmp_path, server, cluster=skip).text and not server.seen
    assert listed(tmp_path, server, cluster=skip, settings=KubernetesSettings(insecure=True)).success


def test_the_name_of_the_certificate_can_be_another_one(tmp_path: Path) -> None:
    server = one()
    trust = {"certificate-authority-data": encoded(authority().certificate)}
    other = called(
        tmp_path, "k8s.pods", {}, server, certificate="other-host", cluster={**trust, "tls-server-name": "192.0.2.1"}
    )
    assert other.success, other.error
    wrong = listed(tmp_path, server, cluster={**trust, "tls-server-name": "k.example"})
    assert "mismatch" in wrong.text.lower()


@pytest.mark.parametrize(
    ("user", "cluster", "words"),
    [
        ({"tokenFile": "gone"}, None, "token file"),
        ({"client-certificate-data": "%%%"}, None, "not base64"),
        ({"client-certificate-data": encoded("no"), "client-key-data": encoded("no")}, None, "cannot be loaded"),
        ({"client-certificate-data": encoded("no")}, None, "needs a client certificate and its key"),
        ({"token": "a\nb"}, None, "cannot be sent"),
        (None, {"certificate-authority-data": encoded("no")}, "not in PEM"),
        (None, {"certificate-authority": "gone.pem"}, "certificate-authority"),
    ],
)
def test_credentials_that_cannot_be_used_are_explained(
    tmp_path: Path, user: Object | None, cluster: Object | None, words: str
) -> None:
    server = one()
    result = listed(tmp_path, server, user=user, cluster=cluster)
    assert not result.success and words in result.text
    assert not server.seen


def test_a_key_with_a_passphrase_does_not_ask_on_the_terminal(tmp_path: Path) -> None:
    certificate, key = authority().client_certificate("ann", passphrase=b"hidden")
    data = {"client-certificate-data": encoded(certificate), "client-key-data": encoded(key)}
    assert "has a passphrase" in listed(tmp_path, one(), user=data).text


@pytest.mark.spec("B10d")
def test_the_server_cannot_send_the_token_back_to_the_model(tmp_path: Path) -> None:
    server = one()
    server.instead = lambda seen: status(403, "Forbidden", f"you sent {seen.headers['authorization']}")
    result = listed(tmp_path, server)
    assert TOKEN not in str(result) and "you sent Bearer [secret k8s]" in result.text
    server = ApiServer(pods=[pod("web-1", phase="Failed", statuses=[], message=f"got {TOKEN}")])
    result = listed(tmp_path, server)
    assert TOKEN not in str(result) and "web-1: got [secret k8s]" in result.output


LONG = "a1b2c3d4e5" * 110
"""A token that is longer than what is shown of a message."""


@pytest.mark.spec("B10d")
@pytest.mark.parametrize("place", ["error", "plain error", "message", "name"])
def test_no_part_of_a_token_remains_where_a_text_is_cut(tmp_path: Path, place: str) -> None:
    server = ApiServer(tokens={LONG: "viewer"}, pods=[pod("web-1")])
    if place == "error":
        server.instead = lambda seen: status(500, "x", f"bad token {LONG} sorry")
    elif place == "plain error":
        server.instead = lambda seen: Answer(500, (f"{'x' * 1500} {LONG} sorry").encode(), "text/plain")
    elif place == "message":
        server.pods = [pod("web-1", phase="Failed", statuses=[], message=f"got {LONG}")]
    else:
        server.pods = [pod(LONG)]
    result = listed(tmp_path, server, user={"token": LONG})
    assert LONG[:10] not in str(result)
    assert "[secret k8s]" in result.text or place == "plain error"  # which is cut before


@pytest.mark.spec("B10d")
def test_a_password_is_redacted_however_json_spells_it(tmp_path: Path) -> None:
    word = "p&ss<word>1"
    found: Object = {
        "items": [pod("web-1", phase="Failed", statuses=[], message=f"login with {word} now")],
        "metadata": {},
    }
    body = json.dumps(found).replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    server = ApiServer(passwords={"bob": word}, instead=lambda seen: Answer(200, body.encode()))
    result = listed(tmp_path, server, user={"username": "bob", "password": word})
    assert word not in str(result) and "login with [secret k8s] now" in result.output


@pytest.mark.spec("B10d")
def test_a_password_that_is_the_name_of_a_field_hides_no_field(tmp_path: Path) -> None:
    server = ApiServer(passwords={"bob": "status"}, pods=[pod("web-1")])
    result = listed(tmp_path, server, user={"username": "bob", "password": "status"})
    assert result.success and "1 Running" in result.output


@pytest.mark.spec("B10d")
def test_a_client_key_and_the_login_of_a_proxy_are_redacted(tmp_path: Path) -> None:
    certificate, key = authority().client_certificate("ann")
    data = {"client-certificate-data": encoded(certificate), "client-key-data": encoded(key)}
    line = key.splitlines()[1]
    server = ApiServer(pods=[pod("web-1", phase="Failed", statuses=[], message=f"key {line}")])
    result = listed(tmp_path, server, user=data)
    assert result.success and line not in str(result) and "key [secret k8s]" in result.output
    redactor = Redactor()
    access = replace(ACCESS, cluster=Cluster(proxy_url="http://me:proxy%20word@proxy.example:3128"))
    run(Credentials(access, tmp_path, redactor).login(5.0))
    pair = b64encode(b"me:proxy word").decode()
    assert redactor.known(f"a proxy%20word b proxy word c {pair}") == "a [secret k8s] b [secret k8s] c [secret k8s]"


def test_calls_at_once_share_a_token_that_was_replaced(tmp_path: Path) -> None:
    """Each of them is refused with the old token; the first reads the file, the others use what it read."""
    (tmp_path / "token").write_text("old-token-000")
    server = ApiServer(pods=[pod("web-1")], tokens={"old-token-000": "viewer"})

    async def work() -> list[Result]:
        async with serving(server):
            path = kubeconfig(tmp_path, server, user={"tokenFile": "token"})
            async with cluster_runtime(tmp_path, KubernetesSettings(kubeconfig=str(path))) as runtime:
                assert (await runtime.call("k8s.pods", {})).success
                (tmp_path / "token").write_text("new-token-111")
                server.tokens = {"new-token-111": "viewer"}
                return await asyncio.gather(*(runtime.call("k8s.pods", {}) for _ in range(4)))

    results = run(work())
    assert [result.error for result in results] == [None] * 4
