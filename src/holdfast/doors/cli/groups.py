"""Click groups that load a command when it is used, and that have a default command."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

import click

_HELP: Final = ("--help", "-h")


class LazyGroup(click.Group):
    """Commands by name, each given as `module:attribute`."""

    def __init__(self, *args: Any, lazy: Mapping[str, str], **options: Any) -> None:
        super().__init__(*args, **options)
        self._lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        place = self._lazy.get(cmd_name)
        if place is None:
            return None
        module, _, attribute = place.partition(":")
        return getattr(import_module(module), attribute)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in self._lazy and not name.startswith("-") and not ctx.resilient_parsing:
            from holdfast.text.suggest import did_you_mean
            from holdfast.text.visible import visible

            meant = did_you_mean(name, self._lazy)
            hint = f"Did you mean '{meant}'?" if meant else "Run `holdfast --help` for those there are."
            raise click.UsageError(f"There is no command '{visible(name)}'. {hint}")
        return super().resolve_command(ctx, args)


class DefaultGroup(click.Group):
    """A group whose first command is meant when none is named."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] not in _HELP):
            args = [next(iter(self.commands)), *args]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)
