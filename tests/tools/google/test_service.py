"""Requests to the APIs: only `GET`, only to the configured hosts, with bounded retries and errors in words."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import AbstractAsyncContextManager, ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from holdfast import Config
from holdfast.config.config import SecretSource, ToolsConfig
from holdfast.config.tool_families import GoogleConfig, NetworkConfig
from holdfast.contract.tool import Reach
from holdfast.factory.builtin import configured_tools
from holdfast.net.client import HttpClient, HttpRequest, HttpResponse, Limits
from holdfast.net.network_log import NetworkLog
from holdfast.tools import builtin_tools
from holdfast.tools.google.endpoints import FAMILIES, endpoints
from holdfast.tools.google.service import DEFAULT_SECONDS
from tests.runtime.support import run
from tests.soak import rounds
from tests.tools.google.google_server import Account, GoogleServer, Reply, Seen, no_secret, problem

LIST = "/gmail/v1/users/me/messages"
CALLS: list[tuple[str, dict[str, object]]] = [
    ("gmail.search", {"query": "a"}),
    ("gmail.read", {"id": "m1"}),
    ("gcal.events", {}),
    ("gdocs.read", {"document": "d1"}),
    ("gdrive.search", {"query": "a"}),
    ("gdrive.read", {"file": "f1"}),
    ("gtasks.list", {}),
]


def google_tools() -> set[str]:
    return {tool.name for tool in builtin_tools() if tool.groups and tool.groups[0] in FAMILIES}


def test_the_calls_of_these_tests_cover_every_tool() -> None:
    assert {name for name, _ in CALLS} == google_tools()


@pytest.mark.spec("B14c")
@pytest.mark.parametrize(("name", "args"), CALLS, ids=[name for name, _ in CALLS])
def test_only_get_is_sent_to_the_apis_and_only_to_the_hosts_that_the_tool_names(
    there: GoogleServer, tmp_path: Path, name: str, args: dict[str, object]
) -> None:
    log = NetworkLog(tmp_path / "network.jsonl")
    account = Account(tmp_path, there, log=log, grant=there.grant(expires_at=1.0))
    account.call(name, **args)
    log.close()
    sent = [(each.method, each.path == "/token") for each in there.seen]
    assert set(sent) == {("POST", True), ("GET", False)}
    tool = account.runtime.registry.get(name)
    assert tool is not None and tool.reaches is not None
    assert tool.reaches({}) == Reach((there.entry,))
    assert not tool.mutates_with({})
    logged = (tmp_path / "network.jsonl").read_text()
    assert f'"{name} ' in logged and "google login default" in logged


@pytest.mark.spec("B14c")
def test_each_tool_names_googles_hosts_for_approval() -> None:
    tools = {tool.name: tool for tool in configured_tools(Config())}
    reached = {name: tools[name].reaches for name in google_tools()}
    hosts = {name: set(reach({}).hosts) - {"oauth2.googleapis.com"} for name, reach in reached.items() if reach}
    assert hosts == {
        "gmail.search": {"gmail.googleapis.com"},
        "gmail.read": {"gmail.googleapis.com"},
        "gcal.events": {"www.googleapis.com"},
        "gdocs.read": {"docs.googleapis.com"},
        "gdrive.search": {"www.googleapis.com"},
        "gdrive.read": {"www.googleapis.com"},
        "gtasks.list": {"tasks.googleapis.com"},
    }
    assert all("oauth2.googleapis.com" in reach({}).hosts for reach in reached.values() if reach)
    own = endpoints(None)
    assert (str(own.login), str(own.token)) == (
        "https://accounts.google.com/o/oauth2/v2/auth",
        "https://oauth2.googleapis.com/token",
    )


@pytest.mark.spec("B14c")
def test_a_call_waits_for_approval_of_its_host(there: GoogleServer, tmp_path: Path) -> None:
    account = Account(tmp_path, there, answers=False)
    result = account.call("gmail.search", query="a")
    assert result.exit_code == 4 and there.seen == []
    listed = Config(tools=ToolsConfig(profile="messaging"), network=NetworkConfig(hosts=(there.entry,)))
    account = Account(tmp_path / "2", there, answers=False, config=listed)
    there.pages[LIST] = Reply({})
    assert account.call("gmail.search", query="a").success


@pytest.mark.spec("B14c")
def test_a_redirect_is_not_followed_and_the_token_stays(there: GoogleServer, tmp_path: Path) -> None:
    there.faults = [Reply({}, 302, headers={"Location": f"{there.url}/elsewhere"})]
    told = Account(tmp_path, there).call("gmail.read", id="m1").error or ""
    assert "redirects to another address, which is not followed" in told
    assert not there.asked("/elsewhere")


@pytest.mark.spec("B14c")
def test_results_are_marked_by_where_strangers_can_write() -> None:
    places = {tool.name: tool.sources for tool in builtin_tools() if tool.name in google_tools()}
    assert places == {
        "gmail.search": ("mail",),
        "gmail.read": ("mail",),
        "gcal.events": ("calendar",),
        "gdocs.read": ("documents",),
        "gdrive.search": ("documents",),
        "gdrive.read": ("documents",),
        "gtasks.list": ("documents",),
    }


@pytest.mark.spec("B14d")
@pytest.mark.parametrize(
    "fault",
    [
        problem(429, "rateLimitExceeded"),
        problem(403, "userRateLimitExceeded"),
        problem(500),
        problem(502),
        problem(503, Retry_After="0"),
        Reply(b"<html>bad gateway</html>", 504, "text/html"),
    ],
)
def test_a_temporary_fault_is_tried_again(there: GoogleServer, tmp_path: Path, fault: Reply) -> None:
    there.faults, there.pages[LIST] = [fault, fault], Reply({})
    assert Account(tmp_path, there).call("gmail.search", query="a").success
    assert len(there.asked(LIST)) == 3


@pytest.mark.spec("B14d")
def test_retries_are_bounded(there: GoogleServer, tmp_path: Path) -> None:
    there.faults = [problem(503, message="Backend Error")] * 50
    told = Account(tmp_path, there).call("gmail.search", query="a").error
    assert told == f"{there.entry} has a fault (HTTP 503): 'Backend Error'. Try again later."
    assert len(there.asked(LIST)) == 4


@pytest.mark.spec("B14d")
@pytest.mark.parametrize("form", ["seconds", "date"])
def test_a_wait_beyond_the_time_limit_is_said_and_not_waited_for(
    there: GoogleServer, tmp_path: Path, form: str
) -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    there.faults = [problem(429, "rateLimitExceeded", Retry_After="3600" if form == "seconds" else later)] * 5
    told = Account(tmp_path, there).call("gmail.search", query="a").error or ""
    assert re.search(r"limits how often it is asked: 'It failed\.'\. Try again in 3[56]\d\d seconds\.", told)
    assert len(there.asked(LIST)) == 1


@pytest.mark.spec("B14d")
@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (problem(403, "insufficientPermissions"), "does not cover gmail. Run `holdfast google login gmail`."),
        (problem(403, "accessNotConfigured"), "The Gmail API is not enabled in the Google Cloud project"),
        (problem(403, "dailyLimitExceeded"), "limits how often it is asked"),
        (problem(403, "forbidden", "No\x1b[31m!"), r"Google denies access to message 'm1': 'No‹\x1b›[31m!'."),
        (problem(404, "notFound"), "There is no message 'm1', or the login 'default' cannot see it."),
        (problem(400, "badRequest", "x" * 9000), "HTTP 400"),
        (Reply({"error": "text"}, 418), "HTTP 418"),
        (Reply(b"\xff", 403), "Google denies access to message 'm1'."),
    ],
)
def test_an_error_is_said_in_words(there: GoogleServer, tmp_path: Path, fault: Reply, told: str) -> None:
    there.faults = [fault]
    error = Account(tmp_path, there).call("gmail.read", id="m1").error or ""
    assert told in error and len(error) < 500
    assert len(there.asked(f"{LIST}/m1")) == 1


@pytest.mark.spec("B14d")
def test_the_error_info_of_newer_apis_is_understood(there: GoogleServer, tmp_path: Path) -> None:
    info = {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": "SERVICE_DISABLED",
        "domain": "googleapis.com",
    }
    body = {"code": 403, "message": "Disabled.", "status": "PERMISSION_DENIED", "details": [info]}
    there.faults = [Reply({"error": body}, 403)]
    assert "The Google Docs API is not enabled" in (
        Account(tmp_path, there).call("gdocs.read", document="d1").error or ""
    )


@pytest.mark.spec("B14d")
def test_a_token_that_an_api_refuses_is_renewed_once(there: GoogleServer, tmp_path: Path) -> None:
    account = Account(tmp_path, there)
    there.issued.clear()
    there.pages[LIST] = Reply({})
    assert account.call("gmail.search", query="a").success
    assert there.refreshed() == 1


@pytest.mark.spec("B14d")
def test_a_new_token_that_is_refused_too_needs_a_login(there: GoogleServer, tmp_path: Path) -> None:
    there.faults = [problem(401, "authError")] * 5
    told = Account(tmp_path, there).call("gmail.search", query="a").error
    assert told == "Google rejects the login 'default'. Run `holdfast google login`."
    assert there.refreshed() == 1 and len(there.asked(LIST)) == 2


@pytest.mark.spec("B14d")
def test_requests_that_are_refused_late_renew_the_token_once(there: GoogleServer, tmp_path: Path) -> None:
    """One request is sent with the old token and refused after another one has renewed it."""
    renewed, names = threading.Event(), [f"x{number}" for number in range(5)]

    def listing(_: Seen) -> Reply:
        there.issued.clear()
        return Reply({"messages": [{"id": name} for name in names]})

    def late(seen: Seen) -> Reply:
        if seen.path.endswith("/x0") and not there.refreshed():
            renewed.wait(60)
        elif there.refreshed():
            renewed.set()
        return Reply({"id": seen.path.rpartition("/")[2]})

    there.pages[LIST] = listing
    there.before = late
    for name in names:
        there.pages[f"{LIST}/{name}"] = Reply({"id": name})
    assert Account(tmp_path, there).call("gmail.search", query="a").success
    assert there.refreshed() == 1


@pytest.mark.spec("B14d")
def test_whatever_a_call_waits_for_ends_before_the_call_does(
    there: GoogleServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = Account(tmp_path, there, grant=there.grant(expires_at=1.0))
    locked, request, waits = account.file.locked, HttpClient.request, list[float]()

    def recorded_lock(seconds: float) -> AbstractAsyncContextManager[None]:
        waits.append(seconds)
        return locked(seconds)

    async def recorded_request(self: HttpClient, asked: HttpRequest, limits: Limits, **more: Any) -> HttpResponse:
        waits.append(limits.seconds)
        return await request(self, asked, limits, **more)

    monkeypatch.setattr(account.file, "locked", recorded_lock)
    monkeypatch.setattr(HttpClient, "request", recorded_request)
    there.pages[LIST] = Reply({})
    assert account.call("gmail.search", query="a").success
    assert len(waits) == 3 and max(waits) <= 0.9 * DEFAULT_SECONDS


@pytest.mark.spec("B14i")
def test_calls_at_once_renew_the_token_once(there: GoogleServer, tmp_path: Path) -> None:
    account = Account(tmp_path, there, grant=there.grant(expires_at=1.0))

    async def all_at_once() -> set[str]:
        return set(await asyncio.gather(*(account.service.token("gmail", no_secret) for _ in range(8))))

    assert len(run(all_at_once())) == 1
    assert there.refreshed() == 1


PROCESS = """
import asyncio, sys
from pathlib import Path
from holdfast.net.network import Network
from holdfast.store.login_file import LoginFile
from holdfast.tools.google.oauth import NO_GRANT
from holdfast.tools.google.service import Google, GoogleSettings
from holdfast.tools.extraction.extractor import Extractor

path, url, client = sys.argv[1:]
made = Google(Network(), GoogleSettings(client_id=client, endpoint=url), LoginFile(Path(path), NO_GRANT),
              register=lambda token: None, extractor=Extractor())
print("ready", flush=True)
sys.stdin.readline()
print(asyncio.run(made.token("gmail", lambda: "")), flush=True)
"""


@contextmanager
def started(account: Account, folder: Path) -> Generator[subprocess.Popen[str]]:
    """A process that asks for a token when it is told to go on."""
    command = [sys.executable, "-c", PROCESS, str(folder / "logins" / "default.json"), str(account.settings.endpoint)]
    with subprocess.Popen(
        [*command, str(account.settings.client_id)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def go_on(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


@pytest.mark.spec("B14i")
def test_processes_renew_the_token_once_and_the_rotated_one_is_kept(there: GoogleServer, tmp_path: Path) -> None:
    account = Account(tmp_path, there, grant=there.grant(expires_at=1.0))
    with ExitStack() as stack:
        processes = [stack.enter_context(started(account, tmp_path)) for _ in range(rounds(3, 12))]
        for process in processes:
            go_on(process)
        tokens = {process.communicate(timeout=60)[0] for process in processes}
    assert tokens == {f"{account.file.read().access_token}\n"}
    assert there.refreshed() == 1 and account.file.read().refresh_token in there.refreshers


@pytest.mark.spec("B14i")
def test_a_process_that_is_killed_during_a_refresh_releases_the_lock_and_leaves_a_whole_file(
    there: GoogleServer, tmp_path: Path
) -> None:
    there.hold, there.rotates = threading.Event(), False
    account = Account(tmp_path, there, grant=there.grant(expires_at=1.0))
    before = account.file.read()
    with started(account, tmp_path) as process:
        go_on(process)

        async def refreshing() -> None:
            while not there.refreshed():  # noqa: ASYNC110 - seen by the thread of the server
                await asyncio.sleep(0.01)

        run(refreshing())
        process.kill()
        process.wait(60)
    assert account.file.read() == before
    there.hold.set()
    assert run(account.service.token("gmail", no_secret)) == account.file.read().access_token


@pytest.mark.spec("B14i")
def test_a_cancelled_call_keeps_the_rotated_token(there: GoogleServer, tmp_path: Path) -> None:
    there.hold = threading.Event()
    account = Account(tmp_path, there, grant=there.grant(expires_at=1.0))

    async def cancelled() -> None:
        task = asyncio.create_task(account.service.token("gmail", no_secret))
        while not there.refreshed():  # noqa: ASYNC110 - seen by the thread of the server
            await asyncio.sleep(0.01)
        task.cancel()
        assert there.hold is not None
        there.hold.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(cancelled())
    assert account.file.read().refresh_token in there.refreshers


@pytest.mark.spec("B14i")
def test_a_login_that_another_process_holds_is_said(there: GoogleServer, tmp_path: Path) -> None:
    account = Account(tmp_path, there, grant=there.grant(expires_at=1.0), lock_seconds=0.05)

    async def held() -> str | None:
        async with account.file.locked(60):
            return (await account.runtime.call("gmail.search", {"query": "a"})).error

    assert run(held()) == "Another process holds the Google login 'default'. Try again."


@pytest.mark.spec("B14i")
def test_a_login_that_cannot_be_stored_is_said(
    there: GoogleServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = Account(tmp_path, there, grant=there.grant(expires_at=1.0))

    def full(kept: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(account.file, "write", full)
    told = account.call("gmail.search", query="a").error or ""
    assert told.startswith("The Google login 'default' cannot be stored: No space left on device.")


def test_a_missing_list_is_said_in_a_sentence(there: GoogleServer, tmp_path: Path) -> None:
    told = Account(tmp_path, there).call("gtasks.list").error
    assert told == "There is no list of tasks, or the login 'default' cannot see it."


def test_an_endpoint_that_cannot_be_used_costs_only_the_google_tools() -> None:
    tools = configured_tools(Config(google=GoogleConfig(client_id="x", endpoint="http://google.example.org")))
    reasons = {tool.name: tool.unavailable() for tool in tools if tool.unavailable is not None}
    assert all((reasons[name] or "").startswith("google.endpoint must be https") for name in google_tools())


def test_a_tool_says_what_is_missing() -> None:
    def reasons(config: Config) -> dict[str, str | None]:
        tools = {tool.name: tool.unavailable for tool in configured_tools(config)}
        return {name: None if (ask := tools[name]) is None else ask() for name in google_tools()}

    assert all("google.client_id" in (reason or "") for reason in reasons(Config()).values())
    some = reasons(Config(google=GoogleConfig(client_id="x", families=("gmail",))))
    assert some["gmail.read"] is None and some["gcal.events"] == "google.families does not name gcal"


def test_the_client_secret_is_required_where_it_is_configured() -> None:
    config = Config(secrets={"google": SecretSource(env="GOOGLE_CLIENT_SECRET")})
    scopes = {
        tool.name: tool.required_secret_scopes for tool in configured_tools(config) if tool.name in google_tools()
    }
    assert set(scopes.values()) == {("google",)}
    assert all(not tool.required_secret_scopes for tool in configured_tools(Config()) if tool.name in google_tools())


@pytest.mark.parametrize("family", FAMILIES)
def test_the_tools_of_a_family_are_in_its_group_and_in_messaging(family: str) -> None:
    found = [tool for tool in builtin_tools() if tool.in_group(family)]
    assert found and all(tool.groups == (family,) and tool.profiles == ("messaging",) for tool in found)


def test_a_result_names_no_token(there: GoogleServer, tmp_path: Path) -> None:
    account = Account(tmp_path, there)
    there.faults = [problem(400, "bad", f"Token {account.file.read().access_token}")]
    result = account.call("gmail.search", query="a")
    assert account.file.read().access_token not in (result.error or "") and "HTTP 400" in (result.error or "")
