"""The login: a real flow against a server that checks every parameter, and attacks on it."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

import pytest
from msgspec.structs import replace

from holdfast.tools.google import oauth
from holdfast.tools.google.endpoints import SCOPES
from holdfast.tools.google.oauth import NO_GRANT, GoogleLoginFailed, GoogleLoginNeeded, Grant
from tests.runtime.support import run
from tests.tools.google.google_server import CLIENT_SECRET, Account, GoogleServer, Reply, browse, facts, no_secret

pytestmark = pytest.mark.spec("B14b")
T = TypeVar("T")


async def accept(url: str) -> bool:
    await browse(url)
    return True


def account_at(there: GoogleServer, folder: Path, **settings: Any) -> Account:
    return Account(folder, there, grant=NO_GRANT, **settings)


def log_in(account: Account, visit: oauth.Visit = accept, *, secret: str = "") -> Grant:
    return run(account.service.login(("gmail", "gcal"), visit, lambda: secret))


def test_a_login_asks_for_the_read_only_scopes_of_the_families_and_stores_the_grant(
    there: GoogleServer, tmp_path: Path
) -> None:
    account = account_at(there, tmp_path)
    grant = log_in(account)
    (page,) = there.asked("/o/oauth2/v2/auth")
    assert page.query["scope"].split() == [SCOPES["gmail"], SCOPES["gcal"]]
    assert grant.families == ("gmail", "gcal") and account.file.read() == grant
    assert there.refused == []
    stored = tmp_path / "logins" / "default.json"
    assert stat.S_IMODE(stored.stat().st_mode) == 0o600 and stat.S_IMODE(stored.parent.stat().st_mode) == 0o700


def test_every_scope_is_read_only() -> None:
    assert all(scope.endswith(".readonly") for scope in SCOPES.values())


def test_the_redirect_goes_to_a_loopback_port_that_is_closed_afterwards(there: GoogleServer, tmp_path: Path) -> None:
    log_in(account_at(there, tmp_path))
    redirect = urlsplit(there.asked("/o/oauth2/v2/auth")[0].query["redirect_uri"])
    assert redirect.hostname == "127.0.0.1" and redirect.port

    async def open_again() -> None:
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", redirect.port)

    run(open_again())


def test_each_login_has_its_own_state_and_verifier(there: GoogleServer, tmp_path: Path) -> None:
    account = account_at(there, tmp_path)
    log_in(account)
    log_in(account)
    first, second = (each.query for each in there.asked("/o/oauth2/v2/auth"))
    assert first["state"] != second["state"] and first["code_challenge"] != second["code_challenge"]


def test_the_client_secret_is_sent_to_the_token_endpoint_only(there: GoogleServer, tmp_path: Path) -> None:
    log_in(account_at(there, tmp_path, has_secret=True), secret=CLIENT_SECRET)
    assert [each.path for each in there.seen if CLIENT_SECRET in str(each)] == ["/token"]


@pytest.mark.parametrize("secret", ["", "wrong"])
def test_a_refused_client_is_said_in_words(there: GoogleServer, tmp_path: Path, secret: str) -> None:
    answer = {"error": "invalid_request", "error_description": "client_secret is missing."}
    there.token_reply = None if secret else Reply(answer, 400)
    account = account_at(there, tmp_path, has_secret=bool(secret))
    with pytest.raises(GoogleLoginFailed, match=r"Check google\.client_id and \[secrets\.google\]"):
        log_in(account, secret=secret)


def log_in_while(account: Account, work: Callable[[str], Coroutine[Any, Any, T]]) -> T:
    """Log in while something happens in the browser, which the end of the login does not interrupt."""

    async def both() -> T:
        tasks: list[asyncio.Task[T]] = []

        async def visit(url: str) -> bool:
            tasks.append(asyncio.create_task(work(url)))
            return True

        await account.service.login(("gmail", "gcal"), visit, no_secret)
        return await tasks[0]

    return run(both())


def test_a_redirect_with_another_state_changes_nothing(there: GoogleServer, tmp_path: Path) -> None:
    account = account_at(there, tmp_path)

    async def browser(url: str) -> list[int]:
        there.redirect = {"state": "guessed"}
        first = await browse(url)
        there.redirect = {}
        return [first[0], (await browse(url))[0]]

    assert log_in_while(account, browser) == [400, 200]
    assert account.file.read().families == ("gmail", "gcal")


def test_a_page_of_another_origin_cannot_end_or_complete_the_login(there: GoogleServer, tmp_path: Path) -> None:
    account, answers = account_at(there, tmp_path), list[int]()

    async def visit(url: str) -> bool:
        callback = parse_qs(urlsplit(url).query)["redirect_uri"][0]
        for query in ("", "?code=evil", "?code=evil&state=", "?error=access_denied", "?code=a&code=b&state=x"):
            answers.append((await browse(callback + query))[0])
        return await accept(url)

    log_in(account, visit)
    assert answers == [400] * 5
    assert [each.form["code"] for each in there.asked("/token")] == ["4/code-1"]


def test_a_second_redirect_is_not_used(there: GoogleServer, tmp_path: Path) -> None:
    there.hold = threading.Event()

    async def browser(url: str) -> list[int]:
        query = parse_qs(urlsplit(url).query)
        first = await browse(url)
        second = await browse(f"{query['redirect_uri'][0]}?state={query['state'][0]}&code=second")
        assert there.hold is not None
        there.hold.set()
        return [first[0], second[0]]

    assert log_in_while(account_at(there, tmp_path), browser)[0] == 200
    assert [each.form["code"] for each in there.asked("/token")] == ["4/code-1"]


def test_a_code_of_another_login_is_refused_by_pkce(there: GoogleServer, tmp_path: Path) -> None:
    account = account_at(there, tmp_path)
    others = {"code_challenge": "x" * 43, "redirect_uri": "http://127.0.0.1:1/callback", "scope": SCOPES["gmail"]}
    there.codes["4/others"] = others
    there.redirect = {"code": "4/others"}
    with pytest.raises(GoogleLoginFailed, match="does not accept the code"):
        log_in(account)
    assert there.refused == ["code"] and account.file.read() == NO_GRANT


def test_the_callback_redirects_nowhere(there: GoogleServer, tmp_path: Path) -> None:
    evil = "https://evil.example/"
    there.redirect = {"redirect": evil, "redirect_uri": evil, "continue": evil, "next": "//evil.example"}
    page = log_in_while(account_at(there, tmp_path), browse)
    assert page == (200, "Login received. You can close this page.\n")


def test_a_login_by_another_issuer_is_refused(there: GoogleServer, tmp_path: Path) -> None:
    there.redirect = {"iss": "https://evil.example"}
    with pytest.raises(GoogleLoginFailed, match=r"came from 'https://evil\.example', which was not asked"):
        log_in(account_at(there, tmp_path))
    there.redirect = {"iss": there.url}
    assert log_in(account_at(there, tmp_path)).refresh_token


@pytest.mark.parametrize(
    ("redirect", "told"),
    [
        ({"error": "access_denied"}, "You did not grant access"),
        ({"error": "bad\u202e"}, r"answered 'bad‹\\u\{202e\}›'"),
    ],
)
def test_an_error_of_the_login_page_is_said(
    there: GoogleServer, tmp_path: Path, redirect: dict[str, str], told: str
) -> None:
    there.redirect = redirect
    with pytest.raises(GoogleLoginFailed, match=told):
        log_in(account_at(there, tmp_path))
    assert not there.asked("/token")


def test_a_declined_login_ends_at_once(there: GoogleServer, tmp_path: Path) -> None:
    async def decline(url: str) -> bool:
        return False

    with pytest.raises(GoogleLoginFailed, match="declined"):
        log_in(account_at(there, tmp_path), decline)
    assert there.seen == []


def test_a_login_that_nobody_completes_ends(
    there: GoogleServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oauth, "LOGIN_SECONDS", 0.05)

    async def leave(url: str) -> bool:
        return True

    with pytest.raises(GoogleLoginFailed, match="No login was completed"):
        log_in(account_at(there, tmp_path), leave)


def test_a_token_with_another_scope_is_refused_and_revoked(there: GoogleServer, tmp_path: Path) -> None:
    there.answer = {"scope": f"{SCOPES['gmail']} https://mail.google.com/"}
    account = account_at(there, tmp_path)
    with pytest.raises(GoogleLoginFailed, match=r"carries more than was asked for \('https://mail\.google\.com/'\)"):
        log_in(account)
    assert account.file.read() == NO_GRANT and there.refreshers == {}
    assert len(there.asked("/revoke")) == 1


def test_access_that_the_user_does_not_grant_is_not_covered(there: GoogleServer, tmp_path: Path) -> None:
    there.untick = SCOPES["gcal"]
    account = account_at(there, tmp_path)
    assert log_in(account).families == ("gmail",)
    result = account.call("gcal.events")
    assert result.error == "The Google login 'default' does not cover gcal. Run `holdfast google login gcal`."
    there.answer = {"scope": "openid"}
    with pytest.raises(GoogleLoginFailed):
        log_in(account)


@pytest.mark.parametrize(
    "answer",
    [
        {"access_token": "a\r\nX-Evil: 1"},
        {"access_token": ""},
        {"access_token": None},
        {"refresh_token": "a b"},
        {"refresh_token": None},
        {"token_type": "mac"},
        {"access_token": 5},
    ],
)
def test_a_token_that_cannot_be_used_is_not_stored(
    there: GoogleServer, tmp_path: Path, answer: dict[str, object]
) -> None:
    there.answer = answer
    account = account_at(there, tmp_path)
    with pytest.raises(GoogleLoginFailed):
        log_in(account)
    assert account.file.read() == NO_GRANT


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (Reply({}, 302, headers={"Location": "https://evil.example/"}), "redirects a request that carries secrets"),
        (Reply(b"not json"), "not a token"),
        (Reply(b"x" * 300_000), "not a token"),
        (Reply(b"", 503), "HTTP 503"),
        (Reply({"error": "x" * 5000}, 400), r"HTTP 400, 'x+…'"),
    ],
)
def test_a_faulty_token_endpoint_is_said_and_never_followed(
    there: GoogleServer, tmp_path: Path, reply: Reply, told: str
) -> None:
    there.token_reply = reply
    with pytest.raises(GoogleLoginFailed, match=told):
        log_in(account_at(there, tmp_path))


def test_a_refresh_keeps_the_rotated_token(there: GoogleServer, tmp_path: Path) -> None:
    account = Account(tmp_path, there, grant=there.grant(expires_at=1.0))
    before = account.file.read()
    token = run(account.service.token("gmail", no_secret))
    after = account.file.read()
    assert token == after.access_token != before.access_token
    assert after.refresh_token != before.refresh_token and after.refresh_token in there.refreshers
    there.rotates, there.lifetime = False, -1
    account.file.write(replace(after, expires_at=1.0))
    run(account.service.token("gmail", no_secret))
    assert account.file.read().refresh_token == after.refresh_token


def test_a_revoked_or_expired_grant_is_said_once_and_needs_a_login(there: GoogleServer, tmp_path: Path) -> None:
    account = Account(tmp_path, there, grant=there.grant(expires_at=1.0))
    there.refreshers.clear()
    told = "Google no longer accepts the login 'default': it was revoked or has expired. Run `holdfast google login`."
    assert account.call("gmail.search", query="a").error == told
    assert account.call("gmail.search", query="a").error == told
    assert there.refreshed() == 1
    assert (account.file.read().refresh_token, account.file.read().access_token) == ("", "")


def test_a_login_service_in_trouble_costs_nobody_the_login(there: GoogleServer, tmp_path: Path) -> None:
    account = Account(tmp_path, there, grant=there.grant(expires_at=1.0))
    there.token_reply = Reply(b"", 503)
    assert "HTTP 503" in (account.call("gmail.search", query="a").error or "")
    there.token_reply = None
    there.pages["/gmail/v1/users/me/messages"] = Reply({})
    assert account.call("gmail.search", query="a").success


def test_a_refresh_that_widens_the_scopes_is_refused(there: GoogleServer, tmp_path: Path) -> None:
    account = Account(tmp_path, there, grant=there.grant(("gmail",), expires_at=1.0))
    there.answer = {"scope": f"{SCOPES['gmail']} {SCOPES['gdrive']}"}
    with pytest.raises(GoogleLoginFailed, match="more than was asked for"):
        run(account.service.token("gmail", no_secret))
    assert account.file.read().families == ("gmail",)


@pytest.mark.parametrize("field", ["client_id", "endpoint"])
def test_tokens_are_not_sent_for_another_client_or_endpoint(there: GoogleServer, tmp_path: Path, field: str) -> None:
    grant = replace(there.grant(expires_at=1.0), **{field: "https://other.example/token"})
    account = Account(tmp_path, there, grant=grant)
    with pytest.raises(GoogleLoginNeeded, match=r"belongs to another google\.client_id or google\.endpoint"):
        run(account.service.token("gmail", no_secret))
    assert there.seen == []


def test_a_logout_revokes_the_grant_and_deletes_it(there: GoogleServer, tmp_path: Path) -> None:
    account = Account(tmp_path, there)
    assert run(account.service.logout(no_secret)) == (True, True)
    assert account.file.read() == NO_GRANT and there.refreshers == {}
    assert run(account.service.logout(no_secret)) == (False, False)
    assert "There is no Google login 'default'" in (account.call("gmail.read", id="m1").error or "")


def test_tokens_codes_and_the_client_secret_are_redacted(there: GoogleServer, tmp_path: Path) -> None:
    account = account_at(there, tmp_path)
    grant = log_in(account)
    assert {grant.access_token, grant.refresh_token, "4/code-1"} <= set(account.registered)
    there.pages["/gmail/v1/users/me/messages"] = Reply({"messages": [{"id": "m1"}]})
    told = f"{grant.access_token} and {grant.refresh_token}"
    there.pages["/gmail/v1/users/me/messages/m1"] = Reply({"id": "m1", "snippet": told})
    output = facts(account.call("gmail.search", query="a"))
    shown = output["messages"][0]["snippet"]
    assert grant.access_token not in shown and grant.refresh_token not in shown and " and " in shown


def test_a_login_that_cannot_be_stored_is_revoked(
    there: GoogleServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = account_at(there, tmp_path)

    def full(kept: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(account.file, "write", full)
    with pytest.raises(GoogleLoginFailed, match="cannot be stored: No space left on device"):
        log_in(account)
    assert there.refreshers == {} and len(there.asked("/revoke")) == 1


def test_a_port_that_cannot_be_opened_is_said(
    there: GoogleServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def none_left(port: int) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(oauth.CallbackServer, "open", none_left)
    with pytest.raises(GoogleLoginFailed, match=r"No port of 127\.0\.0\.1 can be opened for the login: Too many open"):
        log_in(account_at(there, tmp_path))
