"""The network of a runtime: one log for its tools, commands, MCP servers, logins and models, and checked rules."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.contract.errors import ConfigError, HoldfastError
from holdfast.factory.chat import open_chat
from holdfast.factory.runtime import build_runtime, load_project
from holdfast.net.gateway import AllowedHost, RefusedHost
from holdfast.net.network import Network
from holdfast.net.network_log import NETWORK_LOG, NetworkEntry, read_log
from holdfast.runtime.runtime import Runtime
from holdfast.runtime.workspace import Workspace
from tests.attached import attached
from tests.factory.chat_project import ChatProject
from tests.mcp.client.authorization_server import Authority, authority
from tests.mcp.client.login_fixtures import Person, ask, login_of
from tests.models.servers.http import Answer, serving
from tests.net.test_network import listening
from tests.runtime.command_helpers import shell_in
from tests.runtime.support import run

pytestmark = pytest.mark.spec("N2c")


def logged(state: Path) -> list[NetworkEntry]:
    entries = list(read_log(state / NETWORK_LOG))
    assert None not in entries
    return [entry for entry in entries if entry is not None]


def configure(chat_project: ChatProject, text: str) -> None:
    file = chat_project.root.parent / "config" / "holdfast" / "config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def state_of(chat_project: ChatProject) -> Path:
    return load_project(chat_project.root).state


def test_the_connections_of_a_model_are_logged(chat_project: ChatProject) -> None:
    async def main() -> int:
        async with serving(Answer()) as server:
            configure(
                chat_project,
                f'[model]\nname = "ollama:some"\nretries = 0\n[model.providers.ollama]\nbase_url = "{server.url}/v1"\n',
            )
            chat_project.write("@You:\nHello.\n")
            async with open_chat(chat_project.document) as chat:
                await chat.loop.advance()
            return int(server.url.rpartition(":")[2])

    port = run(main())
    (entry,) = logged(state_of(chat_project))
    assert (entry.by, entry.host, entry.port, entry.outcome) == ("model ollama", "127.0.0.1", port, "allowed")


def test_the_connections_to_an_mcp_server_are_logged(chat_project: ChatProject) -> None:
    async def main() -> int:
        async with listening() as port:
            configure(chat_project, f'[mcp.servers.docs]\nurl = "http://127.0.0.1:{port}/mcp?key=hidden"\n')
            async with build_runtime(load_project(chat_project.root)) as runtime:
                await runtime.registry.wait_ready()
            return port

    port = run(main())
    entries = logged(state_of(chat_project))
    assert {(entry.by, entry.host, entry.port, entry.outcome) for entry in entries} == {
        ("mcp:docs", "127.0.0.1", port, "allowed")
    }
    assert b"hidden" not in (state_of(chat_project) / NETWORK_LOG).read_bytes()


@pytest.fixture(scope="module")
def there() -> Iterator[Authority]:
    with authority() as made:
        yield made


def test_the_connections_of_a_login_are_logged(there: Authority, tmp_path: Path) -> None:
    async def main() -> int:
        person = Person()
        async with attached(Runtime(workspace=Workspace(state=tmp_path / "state")), elicitor=person) as runtime:
            return await ask(login_of(there, person, tmp_path, runtime=runtime))

    assert run(main()) == 200
    assert {entry.by for entry in logged(tmp_path / "state")} == {"mcp:docs login"}


def test_the_connections_of_a_command_are_logged_with_its_call(tmp_path: Path) -> None:
    client = """
import sys, urllib.request
for url in sys.argv[1:]:
    try:
        urllib.request.urlopen(url, timeout=60)
    except OSError:
        pass
"""
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "client.py").write_text(client)
    python = Path(sys.executable).resolve()

    async def main() -> tuple[int, str]:
        async with listening() as port:
            hosts = {"network": (f"localhost:{port}",)}
            async with shell_in(tmp_path, "required", sandbox=hosts, state=tmp_path / "state") as runtime:
                command = f"{python} -I client.py http://localhost:{port}/ http://127.0.0.1:{port}/"
                result = await runtime.call("shell.exec", {"command": command, "timeout": 60_000})
                assert result.success, result.error
                assert result.call_id is not None
                return port, result.call_id

    port, call = run(main())
    assert [(entry.by, entry.host, entry.port, entry.outcome) for entry in logged(tmp_path / "state")] == [
        (f"shell.exec {call}", "localhost", port, "allowed"),
        (f"shell.exec {call}", "127.0.0.1", port, "refused"),
    ]


def test_a_connection_is_refused_if_the_state_folder_cannot_hold_its_log(chat_project: ChatProject) -> None:
    async def main() -> None:
        async with listening() as port, build_runtime(load_project(chat_project.root)) as runtime:
            (state_of(chat_project) / NETWORK_LOG).mkdir()
            gateway = runtime.network.gateway_to_origin("test", f"http://127.0.0.1:{port}/")
            with pytest.raises(HoldfastError, match=f"{NETWORK_LOG} cannot be written"):
                await gateway.connect("127.0.0.1", port)

    run(main())


@pytest.mark.spec("N2b")
@pytest.mark.parametrize(
    ("option", "said"),
    [
        ('hosts = ["https://example.org/"]', r"network\.hosts names 'https://example\.org/'; use host"),
        ('private = ["10.1.2.3/16"]', r"network\.private names '10\.1\.2\.3/16', which .* use 10\.1\.0\.0/16"),
        ('private = ["localhost:99999"]', r"network\.private names 'localhost:99999'; use host"),
    ],
)
def test_an_invalid_network_rule_is_a_configuration_error(chat_project: ChatProject, option: str, said: str) -> None:
    configure(chat_project, f"[network]\n{option}\n")
    with pytest.raises(ConfigError, match=said):
        load_project(chat_project.root)


@pytest.mark.spec("N2b")
def test_tools_get_the_network_of_the_configuration(chat_project: ChatProject) -> None:
    configure(chat_project, '[network]\nhosts = ["docs.example"]\nprivate = ["10.1.0.0/16"]\n')

    async def main() -> None:
        async with build_runtime(load_project(chat_project.root)) as runtime:
            assert runtime.network is runtime.services.get(Network)
            assert runtime.network.hosts == ("docs.example",)
            assert isinstance(runtime.network.gateway("test").decide("10.1.2.3", 80), AllowedHost)
            assert isinstance(runtime.network.gateway("test").decide("10.2.2.3", 80), RefusedHost)

    run(main())
