"""`holdfast notify`: what is configured, and a test message through real channels."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.cli.command_line import Cli
from tests.cli.terminal import Terminal
from tests.notify.test_desktop import install

pytestmark = pytest.mark.spec("E7n")
KEY = "the-signing-key-of-this-test"
CONFIG = """
[notify]
webhook = "{url}/hidden-path"
webhook_secret = "hook"
ntfy = "{url}/hidden-topic"

[secrets.hook]
command = ["/bin/echo", "{key}"]
"""


class Hook(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status = 200
        self.seen: list[tuple[str, str]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Hook)
        self.server.seen.append((self.path, self.rfile.read(int(self.headers["Content-Length"])).decode()))
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
        """Write nothing."""


@pytest.fixture
def hook() -> Iterator[Hook]:
    with Hook() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def configure(cli: Cli, hook: Hook) -> None:
    cli.configure(CONFIG.format(url=hook.url, key=KEY))


def states(lines: list[dict[str, str]]) -> dict[str, str]:
    return {line["channel"]: line["state"] for line in lines}


def test_the_channels_are_listed_and_nothing_is_sent(cli: Cli, hook: Hook) -> None:
    configure(cli, hook)
    done = cli.run("notify", "--json")
    assert states(done.lines) == {"terminal": "off", "desktop": "off", "webhook": "on", "ntfy": "on"}
    assert done.code == 0 and hook.seen == []
    shown = cli.run("notify").out
    assert hook.url in shown and "hidden" not in shown and KEY not in shown


def test_a_test_message_goes_through_every_channel(cli: Cli, hook: Hook) -> None:
    configure(cli, hook)
    recorded = cli.project.parent / "recorded.json"
    install(cli.project.parent / "bin", f"import json, sys\nopen({str(recorded)!r}, 'w').write(json.dumps(sys.argv))")
    env = {"PATH": f"{cli.project.parent / 'bin'}:{cli.env['PATH']}", "DISPLAY": ":0"}
    done = cli.run("notify", "test", "--json", env=env)
    assert states(done.lines) == {"terminal": "off", "desktop": "sent", "webhook": "sent", "ntfy": "sent"}
    assert done.code == 0
    assert sorted(path for path, _ in hook.seen) == ["/", "/hidden-path"]
    assert {json.loads(body).get("event", "ntfy") for _, body in hook.seen} == {"test", "ntfy"}
    assert "holdfast: test notification" in json.loads(recorded.read_text())
    assert KEY not in f"{done.out}{done.err}"


def test_a_channel_that_fails_is_named_with_the_reason_and_the_exit_code_is_1(cli: Cli, hook: Hook) -> None:
    configure(cli, hook)
    hook.status = 500
    done = cli.run("notify", "test")
    assert done.code == 1
    assert "answered with status 500" in done.out and "hidden" not in done.out


def test_the_sequence_is_written_to_the_terminal(cli: Cli) -> None:
    with Terminal(cli, "notify", "test", TERM="xterm-kitty") as person:
        assert person.finish() == 0
        assert "\x1b]9;holdfast: test notification: This channel works." in person.raw
        assert "sent" in person.text


def test_a_person_without_channels_is_told_what_to_do(cli: Cli) -> None:
    done = cli.run("notify", "test")
    assert (done.code, done.sentence) == (0, "No channel is on. `holdfast help notify` says how to configure one.")


def test_a_project_can_neither_add_a_channel_nor_silence_one(cli: Cli, hook: Hook) -> None:
    configure(cli, hook)
    evil = '[notify]\nwebhook = "https://evil.example/"\nquiet = "00:00-23:59"\nterminal = "osc9"\n'
    (cli.project / "holdfast.toml").write_text(evil)
    done = cli.run("notify", "--json")
    assert {line["target"] for line in done.lines} == {"", hook.url}
    assert "notify.webhook" in done.err and "notify.quiet" in done.err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[notify]\nwebhook = "https://hook.example/"\n', "notify.webhook needs notify.webhook_secret"),
        ('[notify]\nntfy = "https://ntfy.example/"\n', "notify.ntfy does not end with a topic"),
        ('[notify]\nwebhook_secret = "pasted-value"\n', "notify.webhook_secret is not the name of a secret"),
        ('[notify]\nquiet = "late"\n', "notify.quiet"),
        ('[notify]\nquiet = "07:00-07:00"\n', "quiet hours must end at another time"),
    ],
)
def test_a_mistake_in_the_configuration_is_one_sentence(cli: Cli, text: str, words: str) -> None:
    cli.configure(text)
    done = cli.run("notify")
    assert done.code != 0 and words in done.sentence
    assert "pasted-value" not in done.err


def test_a_secret_that_is_missing_is_a_failure(cli: Cli, hook: Hook) -> None:
    text = CONFIG.format(url=hook.url, key=KEY).partition("command")[0] + 'env = "NONE"'
    cli.configure(text)
    done = cli.run("notify", "test", "--json")
    assert states(done.lines)["webhook"] == "failed" and done.code == 1
    assert [path for path, _ in hook.seen] == ["/"]


def test_connections_are_in_the_network_log(cli: Cli, hook: Hook) -> None:
    configure(cli, hook)
    cli.run("notify", "test")
    assert {line["by"] for line in cli.run("ledger", "network", "--json").lines} == {"notify webhook", "notify ntfy"}
