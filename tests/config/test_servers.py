from __future__ import annotations

import string
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import to_builtins

from holdfast.config.config import Config, McpConfig, McpOAuth, McpServer, SecretSource
from holdfast.config.options import IDENTITY as IDENTITY_RULE
from holdfast.config.options import options
from holdfast.config.secret_references import check_references, fill, scopes_in
from holdfast.contract.errors import ConfigError
from tests.config.conftest import LoadHere, Write
from tests.config.layers import to_toml
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
def test_a_server_keeps_its_arguments_in_order_also_those_that_repeat(load_here: LoadHere) -> None:
    assert load_here().config.mcp.servers["near"].args == ("--root", ".", "--also", ".")


@pytest.mark.spec("K1")
def test_layers_merge_key_by_key_what_they_say_of_one_server(load_here: LoadHere) -> None:
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
def test_a_server_told_what_to_run_or_where_it_is_inherits_nothing(
    load_here: LoadHere, write_project: Write, name: str, again: dict[str, Any]
) -> None:
    write_project(to_toml(document(name, **again)))
    assert load_here(trust=True).config.mcp.servers[name] == McpServer(**again)


@pytest.mark.spec("K1")
@pytest.mark.parametrize("given", [{"args": ["--eval", "x"]}, {"cwd": "/tmp"}])
def test_a_layer_cannot_point_the_command_of_another_at_something_else(
    load_here: LoadHere, given: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError, match=r"args and cwd need the command, which another layer sets\. Repeat it here"):
        load_here(document=document("near", **given), document_trusted=True)


@pytest.mark.spec("K1")
def test_limits_on_a_server_that_is_not_there_are_noted_and_anything_else_is_a_mistake(load_here: LoadHere) -> None:
    result = load_here(document=document("typo", enabled=False))
    assert result.config.mcp.servers.keys() == {"near", "far"}
    assert result.notices == ("the document: mcp.servers.typo: there is no such server; nothing was changed.",)
    with pytest.raises(ConfigError, match="give exactly one of command and url"):
        load_here(document=document("typo", env={"A": "b"}))


@pytest.mark.spec("K1")
def test_a_list_of_a_new_server_is_edited_from_its_default(load_here: LoadHere) -> None:
    said = document("new", command="serve", include={"append": ["a"]}, exclude={"append": ["b"]})
    new = load_here(document=said, document_trusted=True).config.mcp.servers["new"]
    assert (new.include, new.exclude) == (("*", "a"), ("b",))


@pytest.mark.spec("K1")
def test_a_list_that_follows_the_sandbox_is_given_whole(load_here: LoadHere) -> None:
    with pytest.raises(ConfigError, match="network: the value so far is that of the sandbox, not a list"):
        load_here(flags={"mcp.servers.new": {"command": "serve", "network": {"append": ["x"]}}})
    given = load_here(flags={"mcp.servers.new": {"command": "serve", "network": {"set": ["x"]}}})
    assert given.config.mcp.servers["new"].network == ("x",)


@pytest.mark.spec("K1")
@pytest.mark.parametrize("limit", [{"network": "off"}, {"network": ["a.example"]}, {"writable": ["$root"]}])
def test_what_bounds_a_program_is_refused_for_an_address(load_here: LoadHere, limit: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="network and writable are for servers with a command"):
        load_here(flags={"mcp.servers.new": {"url": "https://new.example", **limit}})
    with pytest.raises(ConfigError, match="network and writable are for servers with a command"):
        load_here(document=document("far", **limit))


@pytest.mark.spec("K1")
def test_a_server_writes_nowhere_unless_a_folder_is_named(load_here: LoadHere) -> None:
    said = {"command": "serve", "writable": {"append": ["$root/notes"]}}
    servers = load_here(flags={"mcp.servers.a": {"command": "serve"}, "mcp.servers.b": said}).config.mcp.servers
    assert (servers["a"].writable, servers["b"].writable) == ((), ("$root/notes",))


@pytest.mark.spec("K1")
def test_every_option_of_a_server_is_what_it_is_or_a_limit_that_may_be_said_of_none(load_here: LoadHere) -> None:
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
def test_an_untrusted_layer_can_limit_a_server_and_no_more(
    load_here: LoadHere, key: str, value: object, kept: object
) -> None:
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
def test_an_untrusted_layer_neither_adds_a_server_nor_changes_what_one_is(
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
def test_what_follows_the_sandbox_is_only_shut_by_an_untrusted_layer(
    load_here: LoadHere, write_user: Write, key: str, value: object, kept: object
) -> None:
    write_user(to_toml(document("near", command="serve")))
    before = load_here().config
    result = load_here(document=document("near", **{key: value}))
    assert getattr(result.config.mcp.servers["near"], key) == kept
    trusted = load_here(document=document("near", **{key: value}), document_trusted=True).config
    assert looser_options(trusted, before) == ([] if trusted == result.config else ["mcp.servers"])
    assert (trusted == result.config) is (value in ("off", []))


@pytest.mark.spec("K1", "A5a")
def test_a_reference_names_a_secret_there_is(load_here: LoadHere) -> None:
    check_references(load_here().config)
    for name, said, where in (
        ("near", {"env": {"A": "x ${secret:tokne} y"}}, r"mcp\.servers\.near\.env\.A"),
        ("far", {"headers": {"X Y": "${secret:tokne}"}}, r'mcp\.servers\.far\.headers\."X Y"'),
        ("far", {"oauth": {"client_secret": "${secret:tokne}"}}, r"mcp\.servers\.far\.oauth\.client_secret"),
    ):
        config = load_here(flags={f"mcp.servers.{name}": said}).config
        with pytest.raises(ConfigError, match=rf"^{where}: there is no secret 'tokne'. Did you mean 'token'\?"):
            check_references(config)


@pytest.mark.spec("K1", "A5a")
@pytest.mark.parametrize("value", ["${secret:}", "${secret:token", "${secret:to{ken}", "${secret:token}${secret:"])
def test_a_reference_that_is_not_whole_is_a_mistake(value: str) -> None:
    with pytest.raises(ConfigError, match=r"malformed secret reference\. Write '\$\{secret:SCOPE\}'"):
        check_references(configured(McpServer(command="serve", env={"A": value})))


@pytest.mark.spec("K1", "A5a")
@pytest.mark.parametrize(
    "server",
    [
        McpServer(command="serve", args=("--token", "${secret:token}")),
        McpServer(command="serve-${secret:token}"),
        McpServer(command="serve", cwd="/${secret:token}"),
        McpServer(url="https://far.example/?key=${secret:token}"),
    ],
)
def test_a_secret_cannot_stand_where_others_see_it(server: McpServer) -> None:
    with pytest.raises(ConfigError, match=r"secrets are not allowed here, because others can see this value\. Use env"):
        check_references(configured(server))


@pytest.mark.spec("K1", "A5a")
@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.text("ab${}:secret ", max_size=8).filter(lambda text: "${secret:" not in text),
            st.text(string.ascii_letters, min_size=1, max_size=5),
        ),
        max_size=4,
    )
)
def test_references_are_filled_in_once_and_nothing_else_is(parts: list[tuple[str, str]]) -> None:
    text = "".join(f"{before}|${{secret:{scope}}}" for before, scope in parts)
    assert scopes_in(text) == tuple(dict.fromkeys(scope for _, scope in parts))
    assert fill(text, lambda scope: f"${{secret:{scope}}}") == text
    assert fill(text, str.swapcase) == "".join(f"{before}|{scope.swapcase()}" for before, scope in parts)


def configured(server: McpServer) -> Config:
    return Config(mcp=McpConfig(servers={"one": server}), secrets={"token": SecretSource(env="TOKEN")})


@pytest.mark.spec("K1", "A5a")
def test_a_secret_of_a_login_may_be_referred_to() -> None:
    login = McpOAuth(client_id="me", client_secret="${secret:token}")
    check_references(configured(McpServer(url="https://far.example", oauth=login)))
