"""Logins: tokens, token files, certificates, passwords, impersonation; and what TLS refuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import Result
from holdfast.tools.k8s.credentials import Login
from holdfast.tools.k8s.kubeconfig import KubernetesSettings
from tests.tools.k8s.api_server import TOKEN, Answer, ApiServer, Object, Seen, encoded, pod, status
from tests.tools.k8s.clusters import called
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
    (tmp_path / "token").write_text("expired")
    server = one()

    def rotate(seen: Seen) -> Answer | None:
        (tmp_path / "token").write_text(TOKEN)
        return None

    server.instead = rotate
    assert listed(tmp_path, server, user={"tokenFile": "token"}).success
    assert [seen.user for seen in server.seen] == [None, "viewer"]


def test_a_token_that_has_expired_is_said_to_have(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("expired")
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


def test_the_server_cannot_send_the_token_back_to_the_model(tmp_path: Path) -> None:
    server = one()
    server.instead = lambda seen: status(403, "Forbidden", f"you sent {seen.headers['authorization']}")
    result = listed(tmp_path, server)
    assert TOKEN not in str(result) and "[credentials]" in result.text
    server = ApiServer(pods=[pod("web-1", phase="Failed", statuses=[], message=f"got {TOKEN}")])
    result = listed(tmp_path, server)
    assert TOKEN not in str(result) and "web-1: got [credentials]" in result.output


def test_short_values_are_not_masked() -> None:
    assert Login(secrets=("abcdef",)).masked("x abcdef y") == "x [credentials] y"
    assert Login().masked("text") == "text"
