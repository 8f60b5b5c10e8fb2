"""Scopes and addresses of the families."""

from __future__ import annotations

import pytest

from holdfast.net.urls import BadUrl
from holdfast.tools.google.endpoints import FAMILIES, SCOPES, endpoints, families_of, scopes_of


def test_families_and_scopes_are_translated_both_ways() -> None:
    assert families_of(scopes_of(FAMILIES)) == FAMILIES
    assert scopes_of(("gtasks", "gmail")) == (SCOPES["gmail"], SCOPES["gtasks"])
    assert families_of(["openid", SCOPES["gcal"], "x"]) == ("gcal",)


@pytest.mark.parametrize("base", ["https://google.example.org", "https://google.example.org/", "http://127.0.0.1:8/"])
def test_an_endpoint_takes_the_place_of_every_host(base: str) -> None:
    made = endpoints(base)
    (host,) = {url.host for url in (made.login, made.token, made.revoke, *made.apis.values())}
    assert host in base and str(made.token) == f"{base.rstrip('/')}/token"


def test_an_endpoint_keeps_its_path() -> None:
    made = endpoints("https://example.org/google/")
    assert str(made.login) == "https://example.org/google/o/oauth2/v2/auth"
    assert made.apis["gmail"].target == "/google"


@pytest.mark.parametrize(
    "base",
    ["google.example.org", "http://google.example.org", "https://a@b.example/", "https://example.org/?x=1", "ftp://a/"],
)
def test_an_address_that_is_not_one_is_refused(base: str) -> None:
    with pytest.raises(BadUrl, match=r"google\.endpoint"):
        endpoints(base)
