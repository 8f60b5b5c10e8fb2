"""`holdfast google`: a login on a terminal, its state, and its end."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.cli.reference import objects
from tests.cli.command_line import Cli
from tests.cli.terminal import Terminal
from tests.tools.google.google_server import CLIENT_ID, CLIENT_SECRET, GoogleServer, Reply, browse, google_server

pytestmark = pytest.mark.spec("B14i")
CONFIG = """
[tools]
profile = "messaging"

[google]
client_id = "{client}"
endpoint = "{url}"

[secrets.google]
command = ["echo", "{secret}"]

[network]
hosts = ["{entry}"]
"""


@pytest.fixture(scope="module")
def served() -> Iterator[GoogleServer]:
    with google_server() as made:
        yield made


@pytest.fixture
def there(served: GoogleServer, cli: Cli) -> GoogleServer:
    served.reset()
    cli.configure(CONFIG.format(client=CLIENT_ID, url=served.url, secret=CLIENT_SECRET, entry=served.entry))
    return served


def logins(cli: Cli) -> list[Path]:
    return sorted(Path(cli.env["XDG_STATE_HOME"], "holdfast", "google", "logins").glob("*.json"))


def log_in(cli: Cli, *args: str) -> str:
    with Terminal(cli, "google", "login", *args, columns=400) as person:
        person.expect("`holdfast google login` asks you:")
        person.expect("[n] no")
        (url,) = re.findall(r"(http://127\.0\.0\.1:\d+/o/oauth2/\S+)", person.text.replace("\n│↳", ""))
        person.press(b"y")
        assert asyncio.run(browse(url))[0] == 200
        assert person.finish() == 0
        return person.text


def test_a_login_can_be_used_shown_and_ended(there: GoogleServer, cli: Cli) -> None:
    there.lifetime = 0
    text = log_in(cli, "gmail")
    assert "Logged in to 'default': gmail." in text and "read-only access to: gmail." in text
    assert [path.name for path in logins(cli)] == ["default.json"]
    (status,) = cli.run("google", "status", "--json").lines
    assert set(status) == set(objects()["google login"])
    assert (status["logged_in"], status["families"], status["used"]) == (True, ["gmail"], True)
    there.pages["/gmail/v1/users/me/messages"] = Reply({})
    done = cli.run("call", "gmail.search", "query=a", "--json")
    assert done.json["output"] == "No message matches 'a'."
    recorded = b"".join(path.read_bytes() for path in Path(cli.env["XDG_STATE_HOME"]).rglob("*") if path.is_file())
    kept = logins(cli)[0].read_bytes()
    for token in (*there.issued, *there.refreshers, CLIENT_SECRET):
        assert recorded.count(token.encode()) == kept.count(token.encode())
    assert there.asked("/token")[-1].form["client_secret"] == CLIENT_SECRET and there.refreshed() == 1
    assert "revoked at Google" in cli.run("google", "logout").err
    assert logins(cli) == [] and there.refreshers == {}
    (status,) = cli.run("google", "--json").lines
    assert not status["logged_in"] and "Run `holdfast google login`" in status["reason"]


def test_a_second_login_keeps_what_the_first_covers(there: GoogleServer, cli: Cli) -> None:
    log_in(cli, "gmail")
    told = json.loads(log_in(cli, "gcal", "--json").rpartition("\n{")[2].join(("{", "")))
    assert told["families"] == ["gmail", "gcal"]
    assert set(cli.run("google", "logout", "--json").json) == set(told) == set(objects()["google login"])


def test_accounts_are_separate(there: GoogleServer, cli: Cli) -> None:
    log_in(cli, "gmail", "--account", "work")
    status = {each["account"]: each for each in cli.run("google", "status", "--json").lines}
    assert {name: each["logged_in"] for name, each in status.items()} == {"default": False, "work": True}
    assert (status["default"]["used"], status["work"]["used"]) == (True, False)


def test_a_declined_login_stores_nothing(there: GoogleServer, cli: Cli) -> None:
    with Terminal(cli, "google", "login", columns=200) as person:
        person.expect("[n] no")
        person.press(b"n")
        assert person.finish() == 1
        assert "The login was declined. Nothing was stored." in person.text
    assert logins(cli) == []


def test_a_login_needs_a_client_a_terminal_and_a_known_family(there: GoogleServer, cli: Cli) -> None:
    assert "A login needs a terminal" in cli.run("google", "login").sentence
    assert cli.run("google", "login", "gphotos").code == 2
    assert "up to 64 letters" in cli.run("google", "logout", "--account", "../x").sentence
    assert "There is no Google login 'default'" in cli.run("google", "logout").err
    cli.configure("")
    assert "google.client_id is not configured" in cli.run("google", "login").sentence


def test_no_tool_reads_the_stored_login(there: GoogleServer, cli: Cli) -> None:
    log_in(cli, "gmail")
    (path,) = logins(cli)
    done = cli.run("--set", 'sandbox.readable=["/"]', "call", "file.read", f"path={path}", "--json")
    assert done.code != 0 and "refresh" not in done.out
