"""`${secret:SCOPE}` in what the configuration says of MCP servers: found, checked and filled in."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from holdfast.config.config import Config, McpServer
from holdfast.config.options import dotted, short_repr
from holdfast.contract.errors import ConfigError
from holdfast.text.suggest import did_you_mean

_OPENING: Final = "${secret:"
_REFERENCE: Final = re.compile(r"\$\{secret:([^{}]+)\}")


def scopes_in(text: str) -> tuple[str, ...]:
    """The scopes a value refers to, each once."""
    return tuple(dict.fromkeys(_REFERENCE.findall(text)))


def fill(text: str, secret: Callable[[str], str]) -> str:
    """The value with its references replaced; what a secret holds is not looked at for further ones."""
    return _REFERENCE.sub(lambda found: secret(found[1]), text)


def check_references(config: Config) -> None:
    """Raise `ConfigError` for a scope that `secrets` does not know, and for one where it would not be filled in."""
    for name, server in config.mcp.servers.items():
        path = dotted("mcp.servers", name)
        for key, value in _filled_in(server):
            _check(f"{path}.{key}", value, config)
        for key, value in _left_alone(server):
            if _OPENING in value:
                raise ConfigError(
                    f"{path}.{key}: a secret cannot stand here, where others can see it; use env, headers or "
                    "oauth.client_secret."
                )


def _check(where: str, value: str, config: Config) -> None:
    if _OPENING in _REFERENCE.sub("", value):
        raise ConfigError(f"{where}: a reference to a secret is written '${{secret:SCOPE}}'; correct it.")
    for scope in scopes_in(value):
        if scope not in config.secrets:
            close = did_you_mean(scope, config.secrets)
            hint = f"did you mean '{close}'?" if close else "add it to [secrets] in your own configuration."
            raise ConfigError(f"{where}: there is no secret {short_repr(scope)}; {hint}")


def _filled_in(server: McpServer) -> Iterator[tuple[str, str]]:
    for key, value in server.env.items():
        yield dotted("env", key), value
    for key, value in server.headers.items():
        yield dotted("headers", key), value
    if server.oauth is not None and server.oauth.client_secret is not None:
        yield "oauth.client_secret", server.oauth.client_secret


def _left_alone(server: McpServer) -> Iterator[tuple[str, str]]:
    yield from (("args", value) for value in server.args)
    yield from ((key, value) for key in ("command", "cwd", "url") if (value := getattr(server, key)) is not None)
