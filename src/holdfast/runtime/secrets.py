"""Secret values: fetched from the configured source when a tool asks, and registered with the redactor."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from subprocess import SubprocessError
from typing import Final

from holdfast import helper_process
from holdfast.config.config import SecretSource
from holdfast.contract.errors import SecretUnavailable

_COMMAND_SECONDS: Final = 15.0


class Secrets:
    def __init__(
        self, sources: Mapping[str, SecretSource], register: Callable[[str, str], None], project: Path
    ) -> None:
        self._sources = sources
        self._register = register
        self._project = project

    @property
    def scopes(self) -> frozenset[str]:
        return frozenset(self._sources)

    def get(self, scope: str) -> str:
        source = self._sources.get(scope)
        if source is None:
            raise SecretUnavailable(
                f"No source is configured for the secret '{scope}'; add [secrets.{scope}] to your user config."
            )
        value = self._fetch(scope, source)
        if not value:
            raise SecretUnavailable(f"The secret '{scope}' has no value; check [secrets.{scope}] in your user config.")
        self._register(scope, value)
        return value

    def _fetch(self, scope: str, source: SecretSource) -> str | None:
        if source.env is not None:
            return os.environ.get(source.env)
        if source.keyring is not None:
            return _from_keyring(scope, source.keyring)
        if source.command is not None:
            return _from_command(scope, source.command, self._project)
        return None


def _from_keyring(scope: str, address: str) -> str | None:
    try:
        import keyring  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise SecretUnavailable(f"The secret '{scope}' is in a keyring; `pip install keyring` to read it.") from None
    service, _, user = address.partition("/")
    value: object = keyring.get_password(service, user)  # pyright: ignore
    return value if isinstance(value, str) else None


def _from_command(scope: str, command: tuple[str, ...], project: Path) -> str:
    try:
        program = helper_process.user_program(command[0], project)
    except helper_process.ProgramRefused as error:
        raise SecretUnavailable(f"The command for the secret '{scope}' cannot be run: {error}") from None
    environment = helper_process.user_environment(project)
    try:
        output = helper_process.run((program, *command[1:]), timeout=_COMMAND_SECONDS, env=environment)
        return output.decode().rstrip("\n")
    except (OSError, SubprocessError, UnicodeDecodeError) as error:
        raise SecretUnavailable(f"The command for the secret '{scope}' failed: {type(error).__name__}.") from None
