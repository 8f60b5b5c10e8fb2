"""Logging in and out, the inbox with its filters, and the forms that answer a call without JavaScript."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.cli.command_line import Cli
from tests.serve.served import WRITE, Daemon, ended, pending, wait_for


@pytest.mark.spec("E3b")
def test_a_code_opens_a_session_and_leads_where_the_person_wanted_to_go(served: Daemon) -> None:
    client = served.client(Origin=served.url, Accept="text/html")
    sent_away = client.get("/?tool=x")
    assert (sent_away.status_code, sent_away.headers["Location"]) == (303, "/login?next=%2F%3Ftool%3Dx")
    reply = client.post("/login", data={"secret": f" {served.code}\n", "next": "/?tool=x"})
    assert (reply.status_code, reply.headers["Location"]) == (303, "/?tool=x")
    cookie = reply.headers["Set-Cookie"]
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie and "Secure" not in cookie
    assert client.get("/").status_code == 200
    assert client.post("/logout", data={"now": ""}).status_code == 303
    assert client.get("/").status_code == 303, "the session has ended, not only the cookie"


@pytest.mark.spec("E3c")
@pytest.mark.parametrize(
    "next_page", ["//evil.example", "/\\evil.example", "https://evil.example", "javascript:x", "/\nx"]
)
def test_a_login_never_leads_to_another_host(served: Daemon, next_page: str) -> None:
    client = served.client(Origin=served.url)
    reply = client.post("/login", data={"secret": served.code, "next": next_page})
    assert reply.headers["Location"] == "/"


@pytest.mark.spec("E3b")
def test_of_two_browsers_with_one_code_one_gets_in(served: Daemon) -> None:
    def log_in(_: int) -> int:
        return served.client(Origin=served.url).post("/login", data={"secret": served.code}).status_code

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(log_in, range(4))) == [303, 401, 401, 401]


@pytest.mark.spec("E3b")
def test_a_person_can_log_in_with_their_token(served: Daemon) -> None:
    token = served.add("ann")
    client = served.logged_in(token)
    assert "ann" in client.get("/").text


@pytest.mark.spec("E3b")
def test_a_removed_person_loses_an_open_stream_at_once(served: Daemon) -> None:
    client = served.client(served.add("ann"))
    with client.stream("GET", "/events") as reply:
        lines = reply.iter_lines()
        assert next(lines) == "retry: 1000"
        assert served.cli.run("serve", "people", "remove", "ann").code == 0
        call_id = served.cli.make_pending(*WRITE)
        assert call_id not in "".join(lines), "the stream ends without the new call"


@pytest.mark.spec("E3")
def test_the_inbox_shows_what_is_pending_and_what_the_filter_keeps(served: Daemon) -> None:
    served.cli.make_pending("file.write", "path=one.txt", "content=x")
    served.cli.make_pending("file.write", "path=two.txt", "content=x")
    client = served.logged_in()
    everything = client.get("/").text
    assert "one.txt" in everything and "two.txt" in everything
    some = client.get("/?text=one").text
    assert "one.txt" in some and "two.txt" not in some
    assert client.get("/?unknown=1&risk=bogus").status_code == 200


@pytest.mark.spec("E3")
def test_forms_answer_a_call(served: Daemon) -> None:
    client = served.logged_in()
    for kind, fields, state in (
        ("approve", {}, "done"),
        ("reject", {"message": "no"}, "rejected"),
        ("respond", {"output": "x", "failed": "1"}, "failed"),
        ("cancel", {}, "cancelled"),
    ):
        served.cli.make_pending(*WRITE)
        (item,) = pending(client)
        address = f"/calls/{item['project']}/{item['call']['call_id']}"
        assert client.get(address).status_code == 200
        reply = client.post(f"{address}/{kind}", data={"digest": item["call"]["digest"], **fields})
        assert (reply.status_code, reply.headers["Location"]) == (303, address), kind
        assert ended(client, item) == state
        (served.cli.project / "notes.txt").unlink(missing_ok=True)


@pytest.mark.spec("E3")
def test_a_form_edits_and_the_call_stays_pending(served: Daemon) -> None:
    served.cli.make_pending(*WRITE)
    client = served.logged_in()
    (item,) = pending(client)
    address = f"/calls/{item['project']}/{item['call']['call_id']}/edit"
    data = {"digest": item["call"]["digest"], "args": '{"path": "b.txt", "content": "y"}'}
    for bad in ("", "[]", "{", '{"path": 1}'):
        assert client.post(address, data={**data, "args": bad}).status_code in (400, 422), bad
    assert client.post(address, data=data).status_code == 303
    (changed,) = pending(client)
    assert changed["call"]["args"]["path"] == "b.txt"


@pytest.mark.spec("E3b")
def test_a_person_who_may_only_look_has_no_buttons_and_no_forms_that_work(served: Daemon) -> None:
    served.cli.make_pending(*WRITE)
    viewer = served.logged_in(served.add("bob", "--view"))
    (item,) = pending(viewer)
    address = f"/calls/{item['project']}/{item['call']['call_id']}"
    assert 'data-answer="approve"' not in viewer.get(address).text
    for kind in ("approve", "reject", "respond", "edit", "cancel"):
        assert viewer.post(f"{address}/{kind}", data={"digest": item["call"]["digest"]}).status_code == 403
    assert pending(viewer) == [item]


@pytest.mark.spec("K3")
def test_a_pending_call_of_an_mcp_client_is_answered_from_the_page(served: Daemon, asking: Cli) -> None:
    process = subprocess.Popen(
        asking.command("mcp", "serve"), cwd=asking.project, env=asking.env,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert process.stdin is not None and process.stdout is not None

    def send(**message: object) -> None:
        assert process.stdin is not None
        process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        process.stdin.flush()

    try:
        about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        send(id=1, method="initialize", params=about)
        assert json.loads(process.stdout.readline())["id"] == 1
        send(method="notifications/initialized")
        arguments = {"path": "notes.txt", "content": "hello"}
        send(id=2, method="tools/call", params={"name": "file--write", "arguments": arguments})
        client = served.logged_in()
        item = wait_for(lambda: next(iter(pending(client)), None), "the call of the MCP client")
        assert item["call"]["caller"]["interface"] == "mcp"
        address = f"/calls/{item['project']}/{item['call']['call_id']}/approve"
        assert client.post(address, data={"digest": item["call"]["digest"]}).status_code == 303
        assert ended(client, item) == "done"
        assert (asking.project / "notes.txt").read_text() == "hello"
    finally:
        process.stdin.close()
        process.stdout.close()
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
