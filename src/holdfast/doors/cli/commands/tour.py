"""`holdfast tour`."""

from __future__ import annotations

import click


@click.command()
def tour() -> int:
    """A short tour on real parts: register, call, hold, approve, look back."""
    from holdfast.doors.tour import main

    return main()
