"""`holdfast google`: log in to Google with read-only access, log out, and show the logins."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import click

from holdfast.cli import console
from holdfast.cli.errors import FAILED, UsageProblem, report
from holdfast.cli.layout import print_message, print_table
from holdfast.cli.project_context import Flags, open_runtime_for, project_here
from holdfast.cli.root import DefaultGroup, with_flags
from holdfast.contract.elicitation import Elicitation, UrlRequest
from holdfast.contract.errors import HoldfastError
from holdfast.factory.google import google_logins, google_service
from holdfast.factory.runtime import Project
from holdfast.json_output import GoogleLoginOutput
from holdfast.tools.google.endpoints import FAMILIES, Family
from holdfast.tools.google.oauth import Grant
from holdfast.tools.google.service import SECRET_SCOPE, Google, needs_packages

if TYPE_CHECKING:
    from holdfast.runtime.runtime import Runtime

_NO_CLIENT: Final = "google.client_id is not configured. `holdfast help google` says how to get one."
_ACCOUNT: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ASKS: Final = "holdfast google login"


@click.group(cls=DefaultGroup)
def google() -> None:
    """Log in to Google with read-only access."""


_with_account = click.option("--account", metavar="NAME", help="The name of the login (default: google.account).")


@click.command()
@with_flags
def status(flags: Flags, as_json: bool) -> int:
    """Show the Google logins that are stored here.

    Nothing is sent: whether Google still accepts a login shows when it is used.

    \b
    Example:
      holdfast google status
    """
    project = project_here(flags)
    config = project.loaded.config
    with open_runtime_for(project, entry_points=False, read_only=True) as runtime:
        names = sorted({*google_logins(), config.google.account})
        found = [_output(google_service(runtime, name), config.google.account) for name in names]
    if as_json:
        for each in found:
            console.print_json(each)
        return 0
    rows = [
        [each.account, "yes" if each.used else "", ", ".join(each.families), each.granted_at or "", each.reason or "ok"]
        for each in found
    ]
    print_table(["account", "used", "families", "granted", "state"], rows)
    return 0


@click.command()
@click.argument("families", nargs=-1, metavar="[FAMILY]...", type=click.Choice(FAMILIES))
@_with_account
@with_flags
def login(flags: Flags, families: tuple[Family, ...], account: str | None, as_json: bool) -> int:
    """Log in to Google, in your browser, with read-only access.

    FAMILY is gmail, gcal, gdocs, gdrive or gtasks; without it, those of
    google.families. Families that the login already covers stay covered.

    \b
    Example:
      holdfast google login gmail gcal
    """
    project = project_here(flags)
    config = project.loaded.config
    _require_client(project, account)
    if not console.can_ask():
        raise UsageProblem("A login needs a terminal. Run `holdfast google login` in one.")
    with open_runtime_for(project, entry_points=False, read_only=True) as runtime:
        service = google_service(runtime, account)
        known = service.grant()
        held = () if known.ended else known.families
        wanted = families or tuple(family for family in FAMILIES if family in config.google.families)
        asked: tuple[Family, ...] = tuple(family for family in FAMILIES if family in {*held, *wanted})
        try:
            grant = asyncio.run(_log_in(runtime, service, asked))
        except HoldfastError as error:
            return report("failed", str(error), FAILED, as_json=as_json)
        output = _output(service, config.google.account)
    if as_json:
        console.print_json(output)
    else:
        print_message(f"Logged in to '{output.account}': {', '.join(grant.families)}.")
        missing = [family for family in asked if family not in grant.families]
        if missing:
            print_message(f"Not granted: {', '.join(missing)}. Log in again to grant it.")
    return 0


@click.command()
@_with_account
@with_flags
def logout(flags: Flags, account: str | None, as_json: bool) -> int:
    """Delete a login, and revoke it at Google.

    \b
    Example:
      holdfast google logout
    """
    project = project_here(flags)
    _require_client(project, account)
    with open_runtime_for(project, entry_points=False, read_only=True) as runtime:
        service = google_service(runtime, account)
        had, revoked = asyncio.run(service.logout(lambda: runtime.secrets.get(SECRET_SCOPE)))
        output = _output(service, project.loaded.config.google.account)
    if as_json:
        console.print_json(output)
    elif not had:
        print_message(f"There is no Google login '{output.account}'.")
    elif revoked:
        print_message(f"Logged out of '{output.account}': the login is deleted here and revoked at Google.")
    else:
        print_message(
            f"The login '{output.account}' is deleted here, but Google did not confirm that it is revoked. Remove the "
            "access at https://myaccount.google.com/connections."
        )
    return 0


async def _log_in(runtime: Runtime, service: Google, families: tuple[Family, ...]) -> Grant:
    from holdfast.cli.elicitation import TerminalElicitor

    runtime.attach(elicitor=TerminalElicitor(runtime))
    message = f"Log in to Google and grant read-only access to: {', '.join(families)}."

    async def visit(url: str) -> bool:
        question = Elicitation(asked_by=_ASKS, questions=(UrlRequest(message=message, url=url),))
        return [reply.action for reply in await runtime.interfaces.elicit(question)] == ["accept"]

    return await service.login(families, visit, lambda: runtime.secrets.get(SECRET_SCOPE))


def _require_client(project: Project, account: str | None) -> None:
    if (missing := needs_packages()) is not None:
        raise UsageProblem(f"This cannot be used: {missing}.")
    if project.loaded.config.google.client_id is None:
        raise UsageProblem(_NO_CLIENT)
    if account is not None and not _ACCOUNT.fullmatch(account):
        raise UsageProblem("The name of a login has up to 64 letters, digits, '-' and '_'.")


def _output(service: Google, used: str) -> GoogleLoginOutput:
    settings, grant = service.settings, service.grant()
    reason = service.problem(grant)
    at = datetime.fromtimestamp(grant.granted_at, UTC).isoformat(timespec="seconds") if grant.granted_at else None
    return GoogleLoginOutput(
        account=settings.account,
        used=settings.account == used,
        logged_in=not reason,
        families=[*grant.families] if grant.refresh_token else [],
        granted_at=at,
        reason=reason,
    )


for command in (status, login, logout):
    google.add_command(command)
