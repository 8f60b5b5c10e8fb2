"""`holdfast tour`."""

from __future__ import annotations

import click


@click.command()
def tour() -> int:
    """Take a short tour on real parts."""
    from holdfast.cli.tour import main

    return main()
