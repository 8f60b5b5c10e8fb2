"""What shell tools share: which shell, where, and what a person is shown before a command runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from holdfast.contract.call import Precondition, Surroundings
from holdfast.contract.command import Command, Outlook, standard_shell
from holdfast.contract.context import Context
from holdfast.contract.errors import PathRefused
from holdfast.contract.values import Args, Json, digest_of
from holdfast.contract.vocabulary import Risk
from holdfast.text.preview import with_label


def settings(ctx: Context) -> tuple[str, dict[str, str]]:
    """The shell and the variables the tool's configuration names."""
    given: dict[str, Any] = dict(ctx.config() or {})
    shell = given.get("shell")
    env = given.get("env")
    variables = cast(dict[str, Any], env) if isinstance(env, dict) else {}
    chosen = shell if isinstance(shell, str) and shell else standard_shell()
    return chosen, {str(name): str(value) for name, value in variables.items()}


def folder_of(args: Args, ctx: Context) -> str | None:
    """Where to run: a folder of the project; None: where the call was made."""
    given = args.get("cwd")
    if not isinstance(given, str):
        return None
    folder = ctx.path.confine(given)
    if not folder.is_dir():
        raise PathRefused(f"{given} is not a folder; name one in the project, or leave cwd out.")
    return str(folder)


def shown_folder(folder: str | None, ctx: Context) -> str:
    path = Path(folder) if folder is not None else ctx.cwd
    if ctx.root is None or not path.is_relative_to(ctx.root):
        return str(path)
    inside = path.relative_to(ctx.root).as_posix()
    return "the project's root" if inside == "." else f"./{inside}"


def risk_of(outlook: Outlook) -> Risk:
    return Risk.HIGH if outlook.contained_by is None else Risk.MEDIUM


def surroundings(folder: str | None, outlook: Outlook, ctx: Context, *, undo: str, lasts: str = "") -> Surroundings:
    """Where it runs, what contains it, and whether it can be undone."""
    held = "not contained" if outlook.contained_by is None else f"contained by {outlook.contained_by}"
    return Surroundings(
        where=shown_folder(folder, ctx), sandbox=f"{held}; network {outlook.network}", undo=undo, lasts=lasts
    )


def undo_words(outlook: Outlook) -> str:
    if outlook.undo_note is not None:
        return f"cannot be undone: {outlook.undo_note}"
    if outlook.undo_only_in:
        return f"can be undone only in {', '.join(outlook.undo_only_in)}: it runs without a sandbox"
    return "can be undone"


def preview(args: Args, width: int) -> str:
    given = args.get("args")
    words = [str(args.get("command", "")), *(str(word) for word in (given if isinstance(given, list) else ()))]
    return with_label(f"$ {' '.join(words)}", args)


def conditions(command: Command, outlook: Outlook) -> Precondition:
    """What was shown beside the command: the shell and its variables, what holds it, and whether it can be undone.

    All of it comes from the configuration and the machine, which may be others when the approval comes.
    """
    undoable = outlook.undo_note is None
    env = cast(Json, dict(command.env))
    seen: Json = [command.argv[0], env, outlook.contained_by, outlook.network, undoable]
    return Precondition(kind="shell", subject=command.argv[0], value=digest_of(seen))
