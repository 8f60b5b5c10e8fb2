"""The gate: which requests reach the application, and what every reply carries."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope, Send

from holdfast.contract.errors import ConfigError
from holdfast.serve.security import HEADERS, MAX_BODY, PERSON, STILL, Gate, Origins, check_origin, session_secrets
from holdfast.store.people import People

PORT = 4632


class App:
    """Remembers what reaches it."""

    def __init__(self) -> None:
        self.scopes: list[Scope] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scopes.append(scope)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"in"})


class Visitor:
    def __init__(self, folder: Path, *, local: bool = False, trusted: tuple[str, ...] = ()) -> None:
        self.people = People(folder / "people.db")
        self.app = App()
        self.gate = Gate(self.app, self.people, Origins.of(PORT, trusted), port=PORT, local=local)

    def ask(self, method: str = "GET", path: str = "/", **headers: str | list[str]) -> tuple[int, dict[str, str]]:
        given: dict[str, str | list[str]] = {"host": f"127.0.0.1:{PORT}"} | headers
        pairs = [
            (name.replace("_", "-").lower().encode(), value.encode("latin-1"))
            for name, values in given.items()
            for value in ([values] if isinstance(values, str) else values)
        ]
        scope: Scope = {
            "type": "http", "method": method, "path": path, "headers": pairs, "query_string": b"", "client": ("x", 1),
        }  # fmt: skip
        sent: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Message) -> None:
            sent.append(message)

        asyncio.run(self.gate(scope, receive, send))
        start = sent[0]
        return start["status"], {name.decode(): value.decode() for name, value in start["headers"]}


@pytest.fixture
def visitor(tmp_path: Path) -> Visitor:
    return Visitor(tmp_path)


FORM = {"content_type": "application/x-www-form-urlencoded"}


@pytest.mark.spec("E3c")
@pytest.mark.parametrize("host", [f"127.0.0.1:{PORT}", f"localhost:{PORT}", f"LOCALHOST:{PORT}", f"[::1]:{PORT}"])
def test_its_own_addresses_are_answered(visitor: Visitor, host: str) -> None:
    token = visitor.people.add("ann")
    assert visitor.ask(host=host, authorization=f"Bearer {token}")[0] == 200


@pytest.mark.spec("E3c")
@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1",
        f"127.0.0.1.evil.example:{PORT}",
        "",
        [f"127.0.0.1:{PORT}", "evil"],
        [],
        "127.0.0.1:1",
    ],
)
def test_no_other_host_is_answered_whoever_asks(visitor: Visitor, host: str | list[str]) -> None:
    token = visitor.people.add("ann")
    assert visitor.ask(host=host, authorization=f"Bearer {token}")[0] == 421
    assert visitor.app.scopes == []


@pytest.mark.spec("E3c")
@pytest.mark.parametrize("path", ["/", "/login", "/api/pending", "/static/x"])
def test_every_reply_confines_the_page(visitor: Visitor, path: str) -> None:
    for token in ("", visitor.people.add("ann")):
        _, headers = visitor.ask(path=path, authorization=f"Bearer {token}")
        assert {name.lower(): value for name, value in HEADERS.items()}.items() <= headers.items()
        visitor.people.remove("ann")
    policy = HEADERS["Content-Security-Policy"]
    for part in (
        "default-src 'none'",
        "script-src 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'self'",
    ):
        assert part in policy
    assert "unsafe" not in policy and "http" not in policy


@pytest.mark.spec("E3c")
def test_a_navigation_from_another_site_gets_a_page_that_only_asks_to_continue(visitor: Visitor) -> None:
    session = visitor.people.log_in(visitor.people.create_code())
    assert session is not None
    cookie = f"holdfast-{PORT}={session[0]}"
    navigation = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "cookie": cookie}
    assert visitor.ask(path="/calls/x/y", **navigation)[0] == 200
    assert visitor.ask(path="/api/pending", **navigation)[0] == 403
    assert visitor.ask("POST", "/calls/x/y/approve", **navigation, **FORM)[0] == 403
    assert visitor.app.scopes == []


@pytest.mark.spec("E3c")
def test_a_form_by_cookie_must_say_which_page_sends_it(visitor: Visitor) -> None:
    session = visitor.people.log_in(visitor.people.create_code())
    assert session is not None
    cookie = {"cookie": f"holdfast-{PORT}={session[0]}"}
    own = f"http://127.0.0.1:{PORT}"
    assert visitor.ask("POST", "/x", **cookie, **FORM)[0] == 403
    assert visitor.ask("POST", "/x", origin="null", **cookie, **FORM)[0] == 403
    assert visitor.ask("POST", "/x", origin=[own, "http://evil"], **cookie, **FORM)[0] == 403
    assert visitor.ask("POST", "/x", origin=own, sec_fetch_site="same-site", **cookie, **FORM)[0] == 403
    assert visitor.app.scopes == []
    assert visitor.ask("POST", "/x", origin=own, **cookie, **FORM)[0] == 200
    assert visitor.ask("POST", "/x", sec_fetch_site="same-origin", **cookie, **FORM)[0] == 200


@pytest.mark.spec("E3c")
@pytest.mark.parametrize("size", ["x", "-1", str(MAX_BODY + 1), "\xb2", "1e3"])
def test_a_body_of_unknown_or_large_size_is_refused(visitor: Visitor, size: str) -> None:
    token = visitor.people.add("ann")
    asked = {"authorization": f"Bearer {token}", "content_type": "application/json", "content_length": size}
    assert visitor.ask("POST", "/api/call", **asked)[0] == 413


@pytest.mark.spec("E3b")
def test_two_authorizations_or_another_scheme_are_nobody(visitor: Visitor) -> None:
    token = visitor.people.add("ann")
    good = f"Bearer {token}"
    assert visitor.ask(authorization=good)[0] == 200
    for given in ([good, good], token, f"Basic {token}", "Bearer", ""):
        assert visitor.ask(authorization=given)[0] == 401


@pytest.mark.spec("E3b")
def test_a_bad_token_is_not_replaced_by_a_good_cookie(visitor: Visitor) -> None:
    session = visitor.people.log_in(visitor.people.create_code())
    assert session is not None
    assert visitor.ask(cookie=f"holdfast-{PORT}={session[0]}", authorization="Bearer x")[0] == 401


@pytest.mark.spec("E3b")
def test_cookies_of_other_programs_on_this_host_do_not_matter(visitor: Visitor) -> None:
    """Ports share cookies: a malformed one, or one of the same name, must not lock a person out."""
    session = visitor.people.log_in(visitor.people.create_code())
    assert session is not None
    own = f"holdfast-{PORT}={session[0]}"
    for cookie in (f'a={{"b":[1]}}; {own}', f"x[]=1; bad name=2;;; {own}", f"holdfast-{PORT}=forged; {own}"):
        assert visitor.ask(cookie=cookie)[0] == 200, cookie
    assert visitor.ask(cookie=f"holdfast-{PORT + 1}={session[0]}")[0] == 401
    many = "; ".join([f"holdfast-{PORT}=x"] * 1000)
    assert len(session_secrets(Headers({"cookie": many}), f"holdfast-{PORT}")) == 4


@pytest.mark.spec("E3b")
def test_a_damaged_list_of_people_is_an_error_that_lets_nobody_in(visitor: Visitor, tmp_path: Path) -> None:
    token = visitor.people.add("ann")
    (tmp_path / "people.db").write_bytes(b"no database" * 1000)
    assert visitor.ask(authorization=f"Bearer {token}")[0] == 503
    assert visitor.app.scopes == []


@pytest.mark.spec("E3b")
def test_a_reply_that_goes_on_learns_that_the_person_was_removed(visitor: Visitor) -> None:
    token = visitor.people.add("ann")
    visitor.ask(authorization=f"Bearer {token}")
    scope: Any = visitor.app.scopes[0]
    assert scope[PERSON].name == "ann"
    assert scope[STILL]() is True
    visitor.people.add("bob")
    assert scope[STILL]() is True
    visitor.people.remove("ann")
    assert scope[STILL]() is False


@pytest.mark.spec("E3b")
def test_the_private_socket_needs_no_token_and_no_host(tmp_path: Path) -> None:
    visitor = Visitor(tmp_path, local=True)
    assert visitor.ask(host="anything")[0] == 200
    assert visitor.app.scopes[0][PERSON].identity.startswith("os:")
    assert visitor.ask(origin="http://evil.example")[0] == 403


@pytest.mark.spec("E3b")
@pytest.mark.parametrize(
    ("given", "origin"),
    [
        ("https://box.example", "https://box.example"),
        ("https://BOX.example:443/", "https://box.example"),
        ("https://box.example:8443", "https://box.example:8443"),
        ("https://[::1]:8443", "https://[::1]:8443"),
    ],
)
def test_an_origin_is_trusted_in_the_form_browsers_send(given: str, origin: str) -> None:
    assert check_origin(given) == origin
    assert origin in Origins.of(PORT, [given]).origins


@pytest.mark.spec("E3b")
@pytest.mark.parametrize(
    "given",
    [
        "http://box.example",
        "https://",
        "https://a/b",
        "https://a?b",
        "https://u@a",
        "https://@a",
        "*",
        "https://*",
        "https://a b",
        "https://a:x",
    ],
)
def test_anything_else_is_no_origin(given: str) -> None:
    with pytest.raises(ConfigError, match="is not an origin"):
        check_origin(given)
