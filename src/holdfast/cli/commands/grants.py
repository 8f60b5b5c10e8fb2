"""`holdfast grants`: list the grants, and revoke one."""

from __future__ import annotations

import click

from holdfast.cli import console
from holdfast.cli.layout import print_table
from holdfast.cli.pending_view import age
from holdfast.cli.project_context import Flags, open_grants, whoami
from holdfast.cli.root import DefaultGroup, complete_grant, with_flags
from holdfast.contract.errors import GrantRefused
from holdfast.json_output import GrantOutput
from holdfast.rules.grant_text import describe_grant
from holdfast.text.escape import escape
from holdfast.text.times import format_time


@click.group(cls=DefaultGroup)
def grants() -> None:
    """List and revoke your grants (calls you always allow)."""


@grants.command("list")
@with_flags
def list_grants(flags: Flags, as_json: bool) -> int:
    """List the grants in force here.

    \b
    Example:
      holdfast grants
    """
    with open_grants(flags, read_only=True) as store:
        found = store.list(every=True)
    if as_json:
        for grant in found:
            console.print_json(GrantOutput.of(grant))
    elif not found:
        console.print_out("There are no grants here.")
    else:
        rows = [
            [
                grant.id,
                grant.scope,
                describe_grant(grant.tool, grant.pattern),
                escape(grant.by),
                age(grant.created),
                "" if grant.expires is None else format_time(grant.expires),
            ]
            for grant in found
        ]
        print_table(["id", "scope", "always allowed", "by", "since", "until"], rows)
    return 0


@grants.command()
@click.argument("grant_id", metavar="ID", shell_complete=complete_grant)
@with_flags
def revoke(flags: Flags, grant_id: str, as_json: bool) -> int:
    """Revoke a grant. ID may be the beginning of the id.

    \b
    Example:
      holdfast grants revoke 8c1e
    """
    with open_grants(flags) as store:
        found = [grant for grant in store.list(every=True) if grant.id.startswith(grant_id)]
        if len(found) != 1:
            count = "Several grant ids start" if found else "No grant id starts"
            raise GrantRefused(f"{count} with '{escape(grant_id)}'. `holdfast grants` lists them.")
        store.revoke(found[0].id, by=whoami())
    if as_json:
        console.print_json(GrantOutput.of(found[0]))
    else:
        console.print_err(f"Revoked {found[0].id}: {describe_grant(found[0].tool, found[0].pattern)}")
    return 0
