"""MCP servers in the configuration: how layers merge them, and what an untrusted layer may change."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import to_builtins

from holdfast.config.config import McpServer
from holdfast.config.options import IDENTITY as IDENTITY_RULE
from holdfast.config.options import options
from holdfast.contract.errors import ConfigError
from tests.config.conftest import LoadHere, Write
from tests.config.layer_strategies import to_toml
from tests.config.strictness import looser_options

SERVER = {
    "command": "serve",
    "args": ["--root", ".", "--also", "."],
    "env": {"TOKEN": "${secret:token}", "MODE": "fast"},
    "include": ["read", "write", "list"],
    "exclude": ["drop"],
    "trust": "any",
    "timeout": 100,
    "start_timeout": 10,
    "network": ["a.example", "b.example"],
    "writable": ["$root", "/data"],
}
FAR = {"url": "https://far.example", "headers": {"Authorization": "Bearer ${secret:token}"}}


def document(name: str, **fields: object) -> dict[str, Any]:
    return {"mcp": {"servers": {name: fields}}}


@pytest.fixture(autouse=True)
def two_servers(write_user: Write) -> None:
    write_user(to_toml({"mcp": {"servers": {"near": SERVER, "far": FAR}}, "secrets": {"token": {"env": "TOKEN"}}}))


@pytest.mark.spec("K1")
def test_server_arguments_keep_their_order_and_duplicates(load_here: LoadHere) -> None:
    assert load_here().config.mcp.servers["near"].args == ("--root", ".", "--also", ".")


@pytest.mark.spec("K1")
def test_layers_merge_the_options_of_a_server_key_by_key(load_here: LoadHere) -> None:
    said = document("near", env={"MODE": "slow"}, exclude={"append": ["purge"]}, timeout=200)
    near = load_here(document=said, document_trusted=True).config.mcp.servers["near"]
    assert near.command == "serve" and near.env == {"TOKEN": "${secret:token}", "MODE": "slow"}
    assert near.exclude == ("drop", "purge") and near.timeout == 200


@pytest.mark.spec("K1")
@pytest.mark.parametrize(
    ("name", "again"),
    [
        ("near", {"command": "other"}),
        ("near", {"command": "serve"}),
        ("near", {"url": "https://other.example"}),
        ("far", {"url": "https://other.example"}),
        ("far", {"command": "other"}),
    ],
)
def test_a_new_command_or_url_inherits_nothing(
    load_here: LoadHere, write_project: Write, name: str, again: dict[str, Any]
) -> None:
    write_project(to_toml(document(name, **again)))
    assert load_here(trust=True).config.mcp.servers[name] == McpServer(**again)


@pytest.mark.spec("K1")
@pytest.mark.parametrize("given", [{"args": ["--eval", "x"]}, {"cwd": "/tmp"}])
def test_a_layer_cannot_change_the_arguments_of_another_layers_command(
    load_here: LoadHere, given: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError, match=r"args and cwd need the command, which another layer sets\. Repeat it here"):
        load_here(document=document("near", **given), document_trusted=True)


@pytest.mark.spec("K1")
def test_limits_for_an_unknown_server_give_a_notice_and_anything_else_is_an_error(load_here: LoadHere) -> None:
    result = load_here(document=document("typo", enabled=False))
    assert result.config.mcp.servers.keys() == {"near", "far"}
    assert result.notices == ("the document: mcp.servers.typo: there is no such server; nothing was changed.",)
    with pytest.raises(ConfigError, match="give exactly one of command and url"):
        load_here(document=document("typo", env={"A": "b"}))


@pytest.mark.spec("K1")
def test_edits_to_a_list_of_a_new_server_start_from_its_default(load_here: LoadHere) -> None:
    said = document("new", command="serve", include={"append": ["a"]}, exclude={"append": ["b"]})
    new = load_here(document=said, document_trusted=True).config.mcp.servers["new"]
    assert (new.include, new.exclude) == (("*", "a"), ("b",))


@pytest.mark.spec("K1")
def test_a_list_that_follows_the_sandbox_must_be_given_completely(load_here: LoadHere) -> None:
    with pytest.raises(ConfigError, match="network: the value so far is that of the sandbox, not a list"):
        load_here(flags={"mcp.servers.new": {"command": "serve", "network": {"append": ["x"]}}})
    given = load_here(flags={"mcp.servers.new": {"command": "serve", "network": {"set": ["x"]}}})
    assert given.config.mcp.servers["new"].network == ("x",)


@pytest.mark.spec("K1")
@pytest.mark.parametrize("limit", [{"network": "off"}, {"network": ["a.example"]}, {"writable": ["$root"]}])
def test_process_options_are_refused_for_a_url(load_here: LoadHere, limit: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="network and writable are for servers with a command"):
        load_here(flags={"mcp.servers.new": {"url": "https://new.example", **limit}})
    with pytest.raises(ConfigError, match="network and writable are for servers with a command"):
        load_here(document=document("far", **limit))


@pytest.mark.spec("K1")
def test_a_server_can_write_nowhere_by_default(load_here: LoadHere) -> None:
    said = {"command": "serve", "writable": {"append": ["$root/notes"]}}
    servers = load_here(flags={"mcp.servers.a": {"command": "serve"}, "mcp.servers.b": said}).config.mcp.servers
    assert (servers["a"].writable, servers["b"].writable) == ((), ("$root/notes",))


@pytest.mark.spec("K1")
def test_every_server_option_is_either_part_of_its_identity_or_a_limit(load_here: LoadHere) -> None:
    defaults = to_builtins(McpServer(command="x"))
    limits = [name for name, option in options(McpServer).items() if option.trust is not IDENTITY_RULE]
    assert limits == ["enabled", "include", "exclude", "trust", "start_timeout", "timeout", "network", "writable"]
    for key in limits:
        said = document("typo", **{key: "off" if key == "network" else defaults[key]})
        assert "no such server" in load_here(document=said).notices[0]


TIGHTER: list[tuple[str, object, object]] = [
    ("enabled", False, False),
    ("include", ["read"], ("read",)),
    ("include", ["read", "everything"], ("read",)),
    ("include", ["*"], ("read", "write", "list")),
    ("include", {"append": ["more"]}, ("read", "write", "list")),
    ("exclude", {"append": ["write"]}, ("drop", "write")),
    ("exclude", [], ("drop",)),
    ("trust", "pinned", "pinned"),
    ("timeout", 5, 5),
    ("timeout", 500, 100),
    ("start_timeout", 5, 5),
    ("start_timeout", 50, 10),
    ("network", "off", "off"),
    ("network", "on", ("a.example", "b.example")),
    ("network", ["b.example", "evil.example"], ("b.example",)),
    ("writable", ["/data", "/"], ("/data",)),
    ("writable", [], ()),
]


@pytest.mark.spec("A2", "K1")
@pytest.mark.parametrize(("key", "value", "kept"), TIGHTER)
def test_an_untrusted_layer_can_only_limit_a_server(load_here: LoadHere, key: str, value: object, kept: object) -> None:
    before = load_here().config
    after = load_here(document=document("near", **{key: value})).config
    assert getattr(after.mcp.servers["near"], key) == kept
    assert looser_options(after, before) == []


IDENTITY: list[tuple[str, dict[str, object]]] = [
    ("near", {"command": "evil"}),
    ("near", {"command": "serve", "args": ["--root", "/"]}),
    ("near", {"command": "serve", "cwd": "/tmp"}),
    ("near", {"env": {"LD_PRELOAD": "/tmp/evil.so"}}),
    ("near", {"url": "https://evil.example"}),
    ("far", {"url": "https://evil.example"}),
    ("far", {"headers": {"Authorization": "evil"}}),
    ("far", {"headers": {"X-More": "evil"}}),
    ("far", {"transport": "sse"}),
    ("far", {"protocol": "handshake"}),
    ("far", {"oauth": {"client_id": "evil"}}),
    ("far", {"command": "evil"}),
    ("new", {"command": "evil"}),
    ("new", {"url": "https://evil.example"}),
]


@pytest.mark.spec("A2", "K1")
@pytest.mark.parametrize(("name", "given"), IDENTITY)
def test_an_untrusted_layer_can_neither_add_a_server_nor_change_its_identity(
    load_here: LoadHere, write_project: Write, name: str, given: dict[str, object]
) -> None:
    before = load_here().config
    write_project(to_toml(document(name, **given, timeout=1)))
    result = load_here()
    assert result.config == before
    report = result.layer("project")
    assert report is not None and report.ignored == (f"mcp.servers.{name}",) and not report.applied
    trusted = load_here(trust=True).config
    assert looser_options(trusted, before) == ["mcp.servers"]


@pytest.mark.spec("A2", "K1")
@pytest.mark.parametrize(
    ("key", "value", "kept"),
    [
        ("network", "off", "off"),
        ("network", "on", None),
        ("network", ["a.example"], None),
        ("writable", [], ()),
        ("writable", ["$root"], ()),
    ],
)
def test_an_untrusted_layer_can_only_disable_an_option_that_follows_the_sandbox(
    load_here: LoadHere, write_user: Write, key: str, value: object, kept: object
) -> None:
    write_user(to_toml(document("near", command="serve")))
    before = load_here().config
    result = load_here(document=document("near", **{key: value}))
    assert getattr(result.config.mcp.servers["near"], key) == kept
    trusted = load_here(document=document("near", **{key: value}), document_trusted=True).config
    assert looser_options(trusted, before) == ([] if trusted == result.config else ["mcp.servers"])
    assert (trusted == result.config) is (value in ("off", []))
