"""Logins where somebody cheats: the server, its login service, another page in the browser, or who is on the way."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from holdfast.config.config import McpOAuth, McpServer
from holdfast.contract.elicitation import Elicitation, ElicitationReply, UrlRequest
from holdfast.mcp.client.oauth import LoginFailed, LoginNeeded, oauth_for
from holdfast.runtime.runtime import Runtime
from tests.attached import attached
from tests.mcp.client.authorization_server import Authority, authority
from tests.mcp.client.login_fixtures import Person, ask, kept_in, login_of, run

pytestmark = pytest.mark.spec("K1")


@pytest.fixture(scope="module")
def served() -> Iterator[Authority]:
    with authority() as made:
        yield made


@pytest.fixture
def there(served: Authority) -> Authority:
    served.reset()
    return served


def no_token_was_asked_for(there: Authority) -> bool:
    return there.count("authorization_code") == 0


def test_an_answer_with_another_state_is_not_the_answer_and_does_not_end_the_wait(there: Authority) -> None:
    pages: list[int] = []

    async def person(elicitation: Elicitation) -> tuple[ElicitationReply, ...]:
        (visit,) = elicitation.questions
        assert isinstance(visit, UrlRequest)
        redirect = parse_qs(urlsplit(visit.url).query)["redirect_uri"][0]
        async with httpx2.AsyncClient(follow_redirects=True) as browser:
            for query in ("code=theirs&state=theirs", "code=theirs", "state=", "error=access_denied&state=x"):
                pages.append((await browser.get(f"{redirect}?{query}")).status_code)
            pages.append((await browser.get(visit.url)).status_code)
        return (ElicitationReply(action="accept"),)

    assert run(ask(login_of(there, None, runtime=attached(Runtime(), elicitor=person)))) == 200
    assert pages == [400, 400, 400, 400, 200]
    assert there.last("authorization_code")["code"].startswith("code-number-")


@pytest.mark.parametrize("issuer", ["https://evil.example", "http://127.0.0.1", ""])
def test_an_answer_that_names_another_issuer_is_refused(there: Authority, issuer: str) -> None:
    there.page["iss"] = issuer
    person = Person()
    login = login_of(there, person)
    with pytest.raises(LoginFailed, match="iss"):
        run(ask(login))
    with pytest.raises(LoginNeeded):
        run(ask(login))
    assert no_token_was_asked_for(there) and len(person.asked) == 1


def test_an_answer_without_the_issuer_that_was_promised_is_refused(there: Authority) -> None:
    there.metadata["authorization_response_iss_parameter_supported"] = True
    with pytest.raises(LoginFailed, match="missing iss"):
        run(ask(login_of(there, Person())))
    assert no_token_was_asked_for(there)


def test_a_login_service_that_describes_another_one_is_refused(there: Authority) -> None:
    there.metadata["issuer"] = "https://bank.example"
    person = Person()
    with pytest.raises(LoginFailed, match="issuer mismatch"):
        run(ask(login_of(there, person)))
    assert person.asked == []


def test_a_server_that_passes_for_another_resource_is_refused(there: Authority) -> None:
    there.resource["resource"] = "https://bank.example/mcp"
    person = Person()
    with pytest.raises(LoginFailed, match="does not match"):
        run(ask(login_of(there, person)))
    assert person.asked == []


@pytest.mark.parametrize(
    "page",
    [
        "http://login.example/authorize",
        "http://169.254.169.254/latest",
        "https://bank.example@evil.example/authorize",
        "https://:pw@evil.example/authorize",
        "http://localhost.evil.example/authorize",
    ],
)
def test_a_person_is_not_sent_to_a_page_that_is_not_https_or_not_what_it_seems(there: Authority, page: str) -> None:
    there.metadata["authorization_endpoint"] = page
    person = Person()
    with pytest.raises(LoginFailed, match="sends you to"):
        run(ask(login_of(there, person)))
    assert person.asked == []


@pytest.mark.parametrize("page", ["javascript:alert(1)", "file:///etc/passwd", "ftp://x.example/", "not an address"])
def test_a_page_with_another_scheme_is_no_description_of_a_login_service(there: Authority, page: str) -> None:
    there.metadata["authorization_endpoint"] = page
    person = Person()
    with pytest.raises((LoginFailed, LoginNeeded)):
        run(ask(login_of(there, person)))
    assert all(visit.url.startswith(f"{there.base}/authorize") for visit in person.asked)


@pytest.mark.parametrize("endpoint", ["token_endpoint", "registration_endpoint"])
@pytest.mark.parametrize("address", ["http://evil.example/take", "http://10.0.0.1/take"])
def test_nothing_is_sent_to_a_login_service_over_plain_http(there: Authority, endpoint: str, address: str) -> None:
    there.metadata[endpoint] = address
    with pytest.raises(LoginFailed, match="it is not https"):
        run(ask(login_of(there, Person())))


@pytest.mark.parametrize("endpoint", ["token_endpoint", "registration_endpoint"])
def test_a_login_service_that_redirects_elsewhere_is_not_followed(there: Authority, endpoint: str) -> None:
    with authority() as other:
        there.metadata[endpoint] = f"{there.base}/elsewhere"
        there.elsewhere = f"{other.base}/issue"
        with pytest.raises(LoginFailed, match="not followed"):
            run(ask(login_of(there, Person())))
        assert other.seen == []


def test_a_server_on_the_network_cannot_send_us_to_services_of_this_machine(there: Authority) -> None:
    """The 401 of a public server names a description on loopback: it is not fetched."""
    runtime = attached(Runtime(), elicitor=Person())
    login = oauth_for(runtime, "docs", McpServer(url="https://mcp.example/mcp"), None)

    async def work() -> None:
        request = httpx2.Request("POST", "https://mcp.example/mcp")
        flow = login.async_auth_flow(request)
        assert await anext(flow) is request
        where = f'Bearer resource_metadata="{there.base}/.well-known/oauth-protected-resource/mcp"'
        await flow.asend(httpx2.Response(401, headers={"WWW-Authenticate": where}, request=request))

    with pytest.raises(LoginFailed, match="it is not https"):
        run(work())
    assert there.seen == []


def test_a_server_over_plain_http_gets_no_login() -> None:
    runtime = attached(Runtime(), elicitor=Person())
    login = oauth_for(runtime, "docs", McpServer(url="http://mcp.example/mcp"), None)

    async def work() -> None:
        request = httpx2.Request("POST", "http://mcp.example/mcp")
        flow = login.async_auth_flow(request)
        await anext(flow)
        secure = {"WWW-Authenticate": 'Bearer resource_metadata="https://mcp.example/about"'}
        await flow.asend(httpx2.Response(401, headers=secure, request=request))

    with pytest.raises(LoginFailed, match="it is not https"):
        run(work())


@pytest.mark.parametrize(
    ("content", "headers", "said"),
    [
        (b"x" * (1 << 20) + b"x", {}, "more than 1048576 bytes"),
        (gzip.compress(b" " * (1 << 24)), {"Content-Encoding": "gzip"}, "compressed"),
    ],
)
def test_a_login_service_that_sends_too_much_is_not_read_to_the_end(
    there: Authority, content: bytes, headers: dict[str, str], said: str
) -> None:
    there.raw = (content, headers)
    person = Person()
    with pytest.raises(LoginFailed, match=said):
        run(ask(login_of(there, person)))
    assert person.asked == []


@pytest.mark.parametrize("content", [b"", b"\xff" * 100, b"[" * 100_000, b'{"issuer": 7}', b"null"])
def test_nonsense_about_a_login_service_is_as_good_as_nothing(there: Authority, content: bytes) -> None:
    there.raw = (content, {})
    person = Person("decline")
    with pytest.raises(LoginNeeded, match="declined"):
        run(ask(login_of(there, person)))
    assert [visit.url.partition("?")[0] for visit in person.asked] == [f"{there.base}/authorize"]


@pytest.mark.parametrize("token", ["a b", "a\r\nX-Evil: 1", "ключ", "", "\x00"])
def test_a_token_that_cannot_be_a_header_is_refused_and_not_kept(there: Authority, tmp_path: Path, token: str) -> None:
    there.token = token
    with pytest.raises(LoginFailed, match="invalid characters"):
        run(ask(login_of(there, Person(), tmp_path)))
    assert kept_in(tmp_path)["tokens"] is None


@pytest.mark.parametrize("error", ["access_denied", "x\x1b[2J" * 100])
def test_a_refusal_on_the_login_page_is_told_in_one_readable_line(there: Authority, error: str) -> None:
    there.page.update(error=error, code="")
    with pytest.raises(LoginNeeded) as caught:
        run(ask(login_of(there, Person())))
    assert str(caught.value).isprintable() and len(str(caught.value)) < 300
    assert error[:1] in str(caught.value)


def test_what_a_login_service_says_is_told_in_one_readable_line(
    there: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    there.answer_to_code = (400, "\x1b[31mred\x1b[0m\n" * 10_000)
    with pytest.raises(LoginFailed) as caught:
        run(ask(login_of(there, Person())))
    assert str(caught.value).isprintable() and len(str(caught.value)) < 600
    assert caplog.text == ""


def test_a_login_service_that_repeats_the_code_does_not_put_it_into_the_message(there: Authority) -> None:
    there.answer_to_code = (400, "no good: CODE")
    with pytest.raises(LoginFailed, match="no good") as caught:
        run(ask(login_of(there, Person())))
    assert there.last("authorization_code")["code"] not in str(caught.value)


def test_scopes_cannot_paint_over_the_question(there: Authority) -> None:
    there.resource["scopes_supported"] = ["read\n\x1b[2JEverything is fine"] * 50
    person = Person()
    run(ask(login_of(there, person)))
    assert person.asked[0].message.isprintable() and len(person.asked[0].message) < 500


def test_an_endpoint_with_a_query_of_its_own_keeps_it(there: Authority) -> None:
    there.metadata["authorization_endpoint"] = f"{there.base}/authorize?tenant=one"
    assert run(ask(login_of(there, Person()))) == 200
    assert there.last("authorize")["tenant"] == "one" and there.last("authorize")["response_type"] == "code"


def test_a_cancelled_login_leaves_nothing_open_and_is_not_asked_again(there: Authority) -> None:
    asked: list[str] = []

    async def work() -> None:
        begun = asyncio.Event()

        async def person(elicitation: Elicitation) -> tuple[ElicitationReply, ...]:
            (visit,) = elicitation.questions
            assert isinstance(visit, UrlRequest)
            asked.append(visit.url)
            begun.set()
            return (ElicitationReply(action="accept"),)

        login = login_of(there, None, runtime=attached(Runtime(), elicitor=person))
        waiting = asyncio.create_task(ask(login))
        await begun.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        with pytest.raises(httpx2.ConnectError):
            await Person().open(parse_qs(urlsplit(asked[0]).query)["redirect_uri"][0])
        with pytest.raises(LoginNeeded):
            await ask(login)

    run(work())
    assert len(asked) == 1


def test_a_token_is_not_renewed_over_plain_http_whatever_the_file_says(there: Authority, tmp_path: Path) -> None:
    there.lifetime = -1
    run(ask(login_of(there, Person(), tmp_path)))
    (path,) = (tmp_path / "mcp" / "logins").iterdir()
    kept = json.loads(path.read_bytes())
    kept["authorisation"]["token_endpoint"] = "http://evil.example/issue"
    path.write_text(json.dumps(kept))
    with pytest.raises(LoginFailed, match="it is not https"):
        run(ask(login_of(there, None, tmp_path)))


def test_configured_metadata_is_used_only_where_it_is_understood(there: Authority) -> None:
    about_us = "https://holdfast.example/client.json"
    run(ask(login_of(there, Person(), given=McpOAuth(client_metadata_url=about_us))))
    assert there.count("register") == 1
    there.metadata["client_id_metadata_document_supported"] = True
    run(ask(login_of(there, Person(), given=McpOAuth(client_metadata_url=about_us))))
    assert there.count("register") == 1 and there.last("authorize")["client_id"] == about_us
