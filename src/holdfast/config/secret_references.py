"""References to secrets: `${secret:SCOPE}` in the configuration of MCP servers, and the names that `[notify]` gives."""

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
    """Return the scopes that a value refers to, without duplicates."""
    return tuple(dict.fromkeys(_REFERENCE.findall(text)))


def fill(text: str, secret: Callable[[str], str]) -> str:
    """Return the value with its references replaced. References inside a secret are not expanded."""
    return _REFERENCE.sub(lambda found: secret(found[1]), text)


def check_references(config: Config) -> None:
    """Raise `ConfigError` for an unknown scope, or for a reference where other processes or servers could see it."""
    _check_notify(config)
    for name, server in config.mcp.servers.items():
        path = dotted("mcp.servers", name)
        for key, value in _values_with_secrets(server):
            _check(f"{path}.{key}", value, config)
        for key, value in _values_without_secrets(server):
            if _OPENING in value:
                raise ConfigError(
                    f"{path}.{key}: secrets are not allowed here, because others can see this value. Use env, headers "
                    "or oauth.client_secret."
                )


def _check_notify(config: Config) -> None:
    notify = config.notify
    for key, scope in (("webhook_secret", notify.webhook_secret), ("ntfy_token", notify.ntfy_token)):
        if scope is not None and scope not in config.secrets:
            # The value is not repeated: it may be the secret itself, pasted here by mistake.
            raise ConfigError(
                f"notify.{key} is not the name of a secret. Add a table [secrets.NAME] to your user configuration, and "
                "write its NAME here, not its value."
            )


def _check(where: str, value: str, config: Config) -> None:
    if _OPENING in _REFERENCE.sub("", value):
        raise ConfigError(f"{where}: malformed secret reference. Write '${{secret:SCOPE}}'.")
    for scope in scopes_in(value):
        if scope not in config.secrets:
            close = did_you_mean(scope, config.secrets)
            hint = f"Did you mean '{close}'?" if close else "Add it to [secrets] in your user configuration."
            raise ConfigError(f"{where}: there is no secret {short_repr(scope)}. {hint}")


def _values_with_secrets(server: McpServer) -> Iterator[tuple[str, str]]:
    for key, value in server.env.items():
        yield dotted("env", key), value
    for key, value in server.headers.items():
        yield dotted("headers", key), value
    if server.oauth is not None and server.oauth.client_secret is not None:
        yield "oauth.client_secret", server.oauth.client_secret


def _values_without_secrets(server: McpServer) -> Iterator[tuple[str, str]]:
    yield from (("args", value) for value in server.args)
    yield from ((key, value) for key in ("command", "cwd", "url") if (value := getattr(server, key)) is not None)
