"""References to secrets: `${secret:SCOPE}` in the configuration of MCP servers, and names in `[notify]`."""

from __future__ import annotations

import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.config.config import Config, McpConfig, McpOAuth, McpServer, SecretSource
from holdfast.config.secret_references import check_references, fill, scopes_in
from holdfast.contract.errors import ConfigError
from tests.config.conftest import LoadHere, Write
from tests.config.layer_strategies import to_toml

NEAR = {"command": "serve", "env": {"TOKEN": "${secret:token}"}}
FAR = {"url": "https://far.example", "headers": {"Authorization": "Bearer ${secret:token}"}}


@pytest.fixture(autouse=True)
def two_servers(write_user: Write) -> None:
    write_user(to_toml({"mcp": {"servers": {"near": NEAR, "far": FAR}}, "secrets": {"token": {"env": "TOKEN"}}}))


@pytest.mark.spec("K1", "A5a")
def test_a_reference_to_an_unknown_secret_is_an_error(load_here: LoadHere) -> None:
    check_references(load_here().config)
    for name, said, where in (
        ("near", {"env": {"A": "x ${secret:tokne} y"}}, r"mcp\.servers\.near\.env\.A"),
        ("far", {"headers": {"X Y": "${secret:tokne}"}}, r'mcp\.servers\.far\.headers\."X Y"'),
        ("far", {"oauth": {"client_secret": "${secret:tokne}"}}, r"mcp\.servers\.far\.oauth\.client_secret"),
    ):
        config = load_here(flags={f"mcp.servers.{name}": said}).config
        with pytest.raises(ConfigError, match=rf"^{where}: there is no secret 'tokne'. Did you mean 'token'\?"):
            check_references(config)


@pytest.mark.spec("E7n")
@pytest.mark.parametrize("option", ["webhook_secret", "ntfy_token"])
def test_a_secret_pasted_into_notify_is_an_error_that_does_not_repeat_it(load_here: LoadHere, option: str) -> None:
    check_references(load_here(flags={f"notify.{option}": "token"}).config)
    with pytest.raises(ConfigError, match=rf"^notify\.{option} is not the name of a secret\.") as found:
        check_references(load_here(flags={f"notify.{option}": "tk_pasted"}).config)
    assert "tk_pasted" not in str(found.value)


@pytest.mark.spec("K1", "A5a")
@pytest.mark.parametrize("value", ["${secret:}", "${secret:token", "${secret:to{ken}", "${secret:token}${secret:"])
def test_a_malformed_reference_is_an_error(value: str) -> None:
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
def test_a_reference_in_a_visible_value_is_an_error(server: McpServer) -> None:
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
def test_references_are_replaced_once_and_nothing_else_changes(parts: list[tuple[str, str]]) -> None:
    text = "".join(f"{before}|${{secret:{scope}}}" for before, scope in parts)
    assert scopes_in(text) == tuple(dict.fromkeys(scope for _, scope in parts))
    assert fill(text, lambda scope: f"${{secret:{scope}}}") == text
    assert fill(text, str.swapcase) == "".join(f"{before}|{scope.swapcase()}" for before, scope in parts)


def configured(server: McpServer) -> Config:
    return Config(mcp=McpConfig(servers={"one": server}), secrets={"token": SecretSource(env="TOKEN")})


@pytest.mark.spec("K1", "A5a")
def test_an_oauth_client_secret_may_be_a_reference() -> None:
    login = McpOAuth(client_id="me", client_secret="${secret:token}")
    check_references(configured(McpServer(url="https://far.example", oauth=login)))
