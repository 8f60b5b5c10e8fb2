"""The twelve attacks on a page of this kind, each refused: over real HTTP, and in Chromium where a browser is needed.

The attacker has a page on another port of 127.0.0.1, which is the same site (the strict cookie is sent along), and on
localhost, which is another site.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Generator

import pytest
from playwright.sync_api import Browser, Page

from holdfast.serve.api import ENDPOINTS
from tests.cli.command_line import Cli, Json
from tests.serve.chromium import Attacker, attacker, chromium, log_in
from tests.serve.served import PATIENCE, WRITE, Daemon, daemon, pending, wait_for
from tests.tools.browser.browsing import needs_chromium

SITES = ("localhost", "127.0.0.1")
pytestmark = pytest.mark.spec("E3c")


@pytest.fixture(scope="module")
def browser() -> Generator[Browser]:
    with chromium("--host-resolver-rules=MAP evil.example 127.0.0.1") as found:
        yield found


@pytest.fixture
def evil() -> Generator[Attacker]:
    with attacker() as found:
        yield found


@pytest.fixture
def item(served: Daemon) -> Json:
    """A pending call, as it is listed."""
    served.cli.make_pending(*WRITE)
    return pending(served.local())[0]


@pytest.fixture
def page(served: Daemon, browser: Browser) -> Generator[Page]:
    """A page of a person who is logged in."""
    context = browser.new_context()
    try:
        page = context.new_page()
        log_in(page, served.url, served.code)
        yield page
    finally:
        context.close()


def address(item: Json, kind: str) -> str:
    return f"/calls/{item['project']}/{item['call']['call_id']}/{kind}"


def raw(served: Daemon, method: str, path: str, body: str | None = None, **headers: str) -> tuple[int, str]:
    """A request with exactly these headers."""
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=30)
    try:
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        given = {"Host": served.host} | {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None:
            given |= {"Content-Length": str(len(body))}
        for name, value in given.items():
            connection.putheader(name, value)
        connection.endheaders(None if body is None else body.encode())
        reply = connection.getresponse()
        return reply.status, reply.read().decode()
    finally:
        connection.close()


def posts_of(page: Page) -> list[str]:
    """Filled with the addresses of forms that the page has sent, when each was answered or refused."""
    sent: list[str] = []
    for event in ("requestfinished", "requestfailed"):
        page.on(event, lambda request: sent.append(request.url) if request.method == "POST" else None)  # pyright: ignore
    return sent


def wait_until(page: Page, sent: list[str]) -> None:
    end = time.monotonic() + PATIENCE
    while not sent and time.monotonic() < end:
        page.wait_for_timeout(10)  # also lets events in
    assert sent, "the browser has sent the form"


def assert_nothing_happened(served: Daemon, item: Json) -> None:
    assert pending(served.local()) == [item]
    assert not (served.cli.project / "notes.txt").exists()


@needs_chromium
def test_attack_1_a_rebound_name_is_not_answered(served: Daemon, item: Json) -> None:
    with chromium("--host-resolver-rules=MAP evil.example 127.0.0.1") as rebinding:
        page = rebinding.new_page()
        reply = page.goto(f"http://evil.example:{served.port}/")
        assert reply is not None and reply.status == 421
        assert page.evaluate("fetch('/api/pending').then(reply => reply.status)") == 421
        assert page.evaluate("fetch('/events').then(reply => reply.status)") == 421
    token = served.add("ann")
    hosts = (
        "evil.example",
        f"evil.example:{served.port}",
        "127.0.0.1",
        "127.0.0.1:1",
        "",
        f"{served.host}.evil.example",
    )
    for host in hosts:
        assert raw(served, "GET", "/api/pending", Host=host, Authorization=f"Bearer {token}")[0] in (400, 421), host
    assert raw(served, "GET", "/api/pending", Authorization=f"Bearer {token}")[0] == 200
    assert_nothing_happened(served, item)


@needs_chromium
@pytest.mark.parametrize("host", SITES)
def test_attack_2_a_form_on_another_site_is_refused(
    served: Daemon, item: Json, page: Page, evil: Attacker, host: str
) -> None:
    evil.pages["/"] = f"""<form id=f method=post action="{served.url}{address(item, "approve")}">
        <input name=digest value="{item["call"]["digest"]}"></form><script>f.submit()</script>"""
    sent = posts_of(page)
    page.goto(evil.url(host))
    wait_until(page, sent)
    assert_nothing_happened(served, item)


@needs_chromium
@pytest.mark.parametrize("host", SITES)
@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded"])
def test_attack_3_json_that_passes_as_text_is_refused(
    served: Daemon, item: Json, page: Page, evil: Attacker, host: str, kind: str
) -> None:
    evil.pages["/"] = "<title>evil</title>"
    page.goto(evil.url(host))
    body = json.dumps({"digest": item["call"]["digest"]})
    send = """([url, kind, body]) => fetch(url, {
        method: 'POST', mode: 'no-cors', credentials: 'include', headers: {'Content-Type': kind}, body
    }).then(reply => reply.type, error => 'failed')"""
    for path in (f"/api{address(item, 'approve')}", address(item, "approve")):
        assert page.evaluate(send, [f"{served.url}{path}", kind, body]) in ("opaque", "failed")
    token = served.add("ann")
    for wrong in ("text/plain", "application/x-www-form-urlencoded", "", "application/json+x"):
        status, _ = raw(
            served,
            "POST",
            f"/api{address(item, 'approve')}",
            body,
            Content_Type=wrong,
            Authorization=f"Bearer {token}",
        )
        assert status == 415, wrong
    assert_nothing_happened(served, item)


@needs_chromium
def test_attack_4_a_wrong_or_null_origin_is_refused(served: Daemon, item: Json, page: Page, evil: Attacker) -> None:
    fields = f"digest={item['call']['digest']}"
    evil.pages["/"] = f"""<iframe sandbox="allow-scripts allow-forms" srcdoc='<form id=f method=post
        action="{served.url}{address(item, "approve")}"><input name=digest value="{item["call"]["digest"]}"></form>
        <script>
        const sent = fetch("{served.url}{address(item, "approve")}", {{method: "POST", mode: "no-cors",
            credentials: "include", body: new URLSearchParams("{fields}")}});
        sent.finally(() => {{ parent.postMessage(origin, "*"); f.submit(); }});
        </script>'></iframe><script>onmessage = event => {{ document.title = event.data }}</script>"""
    page.goto(evil.url("127.0.0.1"))
    page.wait_for_function("document.title == 'null'")
    page.wait_for_load_state("networkidle")
    assert_nothing_happened(served, item)
    cookie = f"holdfast-{served.port}={served.logged_in().cookies[f'holdfast-{served.port}']}"
    form = {"Content_Type": "application/x-www-form-urlencoded", "Cookie": cookie}
    for origin in ("null", "", evil.url("127.0.0.1"), f"https://{served.host}", "http://127.0.0.1", "file://"):
        assert raw(served, "POST", address(item, "approve"), fields, Origin=origin, **form)[0] == 403, origin
    assert raw(served, "POST", address(item, "approve"), fields, **form)[0] == 403, "without any origin"
    for site in ("cross-site", "same-site", "none, cross-site"):
        status, _ = raw(
            served, "POST", address(item, "approve"), fields, Origin=served.url, Sec_Fetch_Site=site, **form
        )
        assert status == 403, site
    assert_nothing_happened(served, item)


def test_attack_5_no_get_changes_anything(served: Daemon, item: Json) -> None:
    client = served.logged_in()
    names = {"project": item["project"], "call_id": item["call"]["call_id"], "grant_id": "g1"}
    posts = [endpoint.path.format(**names) for endpoint in ENDPOINTS if endpoint.method == "POST"]
    posts += [address(item, kind) for kind in ("approve", "reject", "respond", "edit", "cancel")] + ["/logout"]
    for path in posts:
        for method in ("GET", "HEAD"):
            reply = client.request(
                method, f"{path}?digest={item['call']['digest']}", headers={"X-HTTP-Method-Override": "POST"}
            )
            assert reply.status_code in (404, 405), path
        for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
            assert client.request(method, path).status_code == 405, path
    assert client.get("/api/projects").status_code == 200, "still logged in"
    assert_nothing_happened(served, item)


@needs_chromium
@pytest.mark.parametrize("host", SITES)
def test_attack_6_events_cannot_be_read_from_another_origin(
    served: Daemon, item: Json, page: Page, evil: Attacker, host: str
) -> None:
    evil.pages["/"] = "<title>evil</title>"
    page.goto(evil.url(host))
    listen = """url => new Promise(done => {
        const source = new EventSource(url, {withCredentials: true});
        for (const name of ['message', 'calls', 'reload', 'open'])
            source.addEventListener(name, event => done('read ' + name));
        source.onerror = () => { source.close(); done('refused'); };
    })"""
    read = """url => fetch(url, {credentials: 'include'}).then(reply => reply.text(), () => 'refused')"""
    for path in ("/events?after=0", "/api/events?after=0"):
        assert page.evaluate(listen, f"{served.url}{path}") == "refused"
        assert page.evaluate(read, f"{served.url}{path}") == "refused"
    assert page.evaluate(read, f"{served.url}/api/pending") == "refused"


@needs_chromium
@pytest.mark.parametrize("host", SITES)
def test_attack_7_the_page_cannot_be_framed(served: Daemon, item: Json, page: Page, evil: Attacker, host: str) -> None:
    for tag in ("iframe src", "object data", "embed src"):
        evil.pages["/"] = f'<{tag}="{served.url}/" id=framed>'
        page.goto(evil.url(host))
        framed = [frame for frame in page.frames if frame.parent_frame is not None]
        assert not any(frame.url.startswith(served.url) for frame in framed), tag
    headers = served.logged_in().get("/").headers
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert headers["X-Frame-Options"] == "DENY"


def test_attack_8_a_missing_expired_or_replayed_token_opens_nothing(served: Daemon, item: Json) -> None:
    for given in ({}, {"Authorization": "Bearer"}, {"Authorization": "Bearer x"}, {"Authorization": "Basic eDp5"}):
        with served.client(**given) as client:
            reply = client.get("/api/pending")
            assert reply.status_code == 401
            assert reply.headers["WWW-Authenticate"].startswith("Bearer")
            assert item["call"]["call_id"] not in reply.text
            assert client.post(f"/api{address(item, 'approve')}", json={}).status_code in (401, 403)
    served.logged_in(served.code)
    again = served.client(Origin=served.url).post("/login", data={"secret": served.code})
    assert again.status_code == 401 and "set-cookie" not in again.headers
    token = served.add("ann")
    session = served.client(Origin=served.url)
    assert session.post("/login", data={"secret": served.new_code("--as", "ann")}).status_code == 303
    assert session.get("/api/pending").status_code == 200
    served.cli.run("serve", "people", "remove", "ann")
    assert session.get("/api/pending").status_code == 401
    assert served.client(token).get("/api/pending").status_code == 401
    assert served.client().get("/api/pending?token=x&access_token=x").status_code == 401
    assert_nothing_happened(served, item)


@needs_chromium
def test_attack_9_no_secret_leaks_by_referer_log_or_history(asking: Cli, browser: Browser, evil: Attacker) -> None:
    with daemon(asking) as served:
        context = browser.new_context()
        page = context.new_page()
        sent: list[str] = []
        page.on("request", lambda request: sent.append(f"{request.url} {request.all_headers().get('referer', '')}"))
        page.goto(served.link)
        page.wait_for_load_state("networkidle")
        code = served.new_code()
        log_in(page, served.url, code)
        evil.pages["/"] = "evil"
        page.evaluate("url => { setTimeout(() => { location = url }) }", evil.url())
        page.wait_for_url(f"{evil.url()}/")
        assert [headers.get("Referer") for line, headers in evil.heard if line == "GET /"] == [None]
        assert not any(served.host in headers.get("Referer", "") for _, headers in evil.heard)
        secrets = (served.code, code)
        assert not any(secret in line for secret in secrets for line in sent)
        cookies = context.cookies(served.url)
        assert [(cookie.get("httpOnly"), cookie.get("sameSite")) for cookie in cookies] == [(True, "Strict")]
        page.go_back()
        assert served.client(Origin=served.url).post("/login", data={"secret": code}).status_code == 401
        token = served.add("ann")
        served.client(token).get("/api/nothing")
        served.client(f"{token}x").get("/api/pending")
        assert "500" not in served.client(token).post("/api/call", json={"tool": 7}).text
        context.close()
        assert served.interrupt() == 0
        log = served.log()
        assert not any(secret in log for secret in (*secrets, token))


def test_attack_10_a_stale_digest_or_a_dead_session_answers_nothing(served: Daemon, item: Json) -> None:
    client = served.logged_in()
    for digest in ("", "0" * 64, item["call"]["digest"].upper(), item["call"]["digest"][:-1]):
        reply = client.post(address(item, "approve"), data={"digest": digest}, headers={"Accept": "application/json"})
        assert (reply.status_code, reply.json()["error"]["kind"]) == (409, "stale"), digest
    entries = served.cli.run("ledger", "export").out
    assert client.post("/logout", data={"now": ""}).status_code == 303
    reply = client.post(address(item, "approve"), data={"digest": item["call"]["digest"]})
    assert reply.status_code in (303, 401) and reply.headers.get("location", "/login") == "/login"
    assert_nothing_happened(served, item)
    assert served.cli.run("ledger", "export").out == entries, "nothing was recorded"
    assert served.cli.run("reject", item["call"]["call_id"]).code == 0
    reply = served.logged_in().post(address(item, "approve"), data={"digest": item["call"]["digest"]})
    assert reply.status_code == 409
    assert not (served.cli.project / "notes.txt").exists()


HOSTILE = (
    "<script>window.pwned=1</script><img src=x onerror='window.pwned=1'><svg onload='window.pwned=1'></svg>"
    "</title></textarea></pre><style>body{background:url(http://localhost:1/css)}</style>\"'>"
    "<a href='javascript:window.pwned=1'>x</a>"
    "{{7*7}}\u202e\x1b[31m"
)


@needs_chromium
def test_attack_11_nothing_from_tools_models_or_names_runs_in_the_page(served: Daemon, browser: Browser) -> None:
    local = served.local()
    args = {"path": "<img src=x onerror='window.pwned=1'>.svg", "content": f"<svg>{HOSTILE}</svg>"}
    made = local.post("/api/call", json={"tool": "file.write", "args": args}).json()
    assert made["state"] == "pending", made
    (item,) = pending(local)
    context = browser.new_context()
    try:
        page = context.new_page()
        problems: list[str] = []
        elsewhere: list[str] = []
        page.on("console", lambda said: problems.append(said.text) if "Content Security Policy" in said.text else None)
        page.on("dialog", lambda dialog: problems.append(dialog.message))
        page.on("request", lambda sent: None if sent.url.startswith(served.url) else elsewhere.append(sent.url))
        log_in(page, served.url, served.code)
        for path in (
            "/",
            address(item, "").rstrip("/"),
            "/api/pending",
            f"/?text={HOSTILE[:60]}",
            f"/login?next={HOSTILE[:60]}",
            "/nothing/<script>window.pwned=1</script>",
        ):
            page.goto(f"{served.url}{path}")
            assert page.evaluate("window.pwned") is None, path
            assert page.evaluate("document.querySelectorAll('main script, main svg[onload], main img').length") == 0, (
                path
            )
        assert problems == [] and elsewhere == []
    finally:
        context.close()
    for path in ("/api/pending", f"/api{address(item, '').rstrip('/')}"):
        headers = local.get(path).headers
        assert headers["Content-Type"] == "application/json"
        assert headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("host", ["0.0.0.0", "", "127.0.0.2", "::"])
def test_attack_12_a_bind_beyond_loopback_needs_an_origin_and_a_token(asking: Cli, host: str) -> None:
    refused = asking.run("serve", "--port", "0", "--host", host)
    assert refused.code == 2
    assert "--origin https://HOST" in refused.sentence
    refused = asking.run("serve", "--port", "0", "--host", host, "--origin", "https://box.example")
    assert refused.code == 2
    assert "holdfast serve people add" in refused.sentence
    for origin in ("http://box.example", "box.example", "https://box.example/path", "https://*", "null", "https://a@b"):
        asking.run("serve", "people", "add", "ann")
        refused = asking.run("serve", "--port", "0", "--host", "0.0.0.0", "--origin", origin)
        assert refused.code == 2, origin
        assert "is not an origin" in refused.sentence


@needs_chromium
def test_the_same_browser_is_let_in_by_the_pages_own_form(served: Daemon, item: Json, page: Page) -> None:
    """So that the attacks fail for their own reasons."""
    page.goto(f"{served.url}{address(item, '').rstrip('/')}")
    with page.expect_navigation():  # Chromium may never close a page that is about to leave
        page.evaluate(
            """([action, digest]) => { const form = document.createElement('form'); form.method = 'post';
            form.action = action; const field = document.createElement('input'); field.name = 'digest';
            field.value = digest; form.append(field); document.body.append(form);
            setTimeout(() => form.submit()); }""",
            [address(item, "approve"), item["call"]["digest"]],
        )
    wait_for((served.cli.project / "notes.txt").exists, "the approved call")
