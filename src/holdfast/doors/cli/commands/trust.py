"""`holdfast trust`: let a project's file loosen the rules, exactly as its content is now."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec import to_builtins

from holdfast.config.load import load
from holdfast.config.roots import PROJECT_FILE
from holdfast.doors.cli import screen
from holdfast.doors.cli.failures import UsageProblem
from holdfast.doors.cli.groups import DefaultGroup
from holdfast.doors.cli.options import common
from holdfast.doors.cli.place import Flags, in_force, whoami
from holdfast.doors.cli.shapes import Shape
from holdfast.text.visible import visible

if TYPE_CHECKING:
    from holdfast.assemble import Setting
    from holdfast.config.load import LayerReport, Loaded
    from holdfast.store.bodies import TrustedContent


@click.group(cls=DefaultGroup)
def trust() -> None:
    """Files that may loosen the rules: trust, list, take back."""


@trust.command("file")
@click.argument("file", required=False, type=click.Path())
@click.option("-y", "--yes", is_flag=True, help="Do not ask; needed without a terminal.")
@common
@click.pass_obj
def trust_file(flags: Flags, file: str | None, yes: bool, as_json: bool) -> int:
    """Trust the project's holdfast.toml with exactly its present content.

    What would become looser is shown first. This is what `holdfast trust [FILE]`
    does.
    """
    from holdfast.assemble import check_config

    setting = _setting(flags)
    path = _project_file(setting, file)
    whole = load(root=setting.root, is_trusted=lambda path, digest: True, flags=flags or None)
    layer = whole.layer("project")
    if layer is None:
        raise UsageProblem(f"There is no {path} to trust; `holdfast init` writes one.")
    check_config(whole.config)
    changes = _changes(setting.loaded, whole)
    if not as_json:
        _show(path, layer, changes, whole.notices)
    if not yes and not _confirmed():
        raise UsageProblem(f"{path} was not trusted; read it, then run `holdfast trust --yes`.")
    by = whoami()
    setting.trust.trust(path, layer.digest, by=by)
    if as_json:
        screen.put_json(_shape(str(path), layer.digest, by=by, at=time.time(), trusted=True, loosens=changes))
    else:
        screen.note("Trusted. Any change to the file ends this.")
    return 0


@trust.command("list")
@common
@click.pass_obj
def list_trusted(flags: Flags, as_json: bool) -> int:
    """List the files you trusted."""
    found = _setting(flags).trust.list()
    if as_json:
        for item in found:
            screen.put_json(_listed(item))
    elif not found:
        screen.say("No file is trusted.")
    else:
        rows = [[visible(item.path), _now(item), visible(item.by), item.digest[:12]] for item in found]
        screen.put_table(["file", "now", "by", "content"], rows)
    return 0


@trust.command()
@click.argument("file", required=False, type=click.Path())
@common
@click.pass_obj
def revoke(flags: Flags, file: str | None, as_json: bool) -> int:
    """Take back the trust in a file: the project's holdfast.toml, or one that is listed."""
    setting = _setting(flags)
    listed = {item.path: item for item in setting.trust.list()}
    path = Path(file) if file is not None and file in listed else _project_file(setting, file)
    if not setting.trust.revoke(path, by=whoami()):
        raise UsageProblem(f"{path} is not trusted; `holdfast trust list` shows what is.")
    if as_json:
        screen.put_json({**_listed(listed[str(path)]), "trusted": False})
    else:
        screen.note(f"{visible(str(path))} is not trusted any more.")
    return 0


def _setting(flags: Flags) -> Setting:
    from holdfast.assemble import load_setting

    return load_setting(flags=flags or None, checked=False)


def _project_file(setting: Setting, file: str | None) -> Path:
    if setting.root is None:
        raise UsageProblem("There is no project here, so there is nothing to trust; `holdfast init` starts one.")
    path = setting.root / PROJECT_FILE
    if file is not None and Path(os.path.realpath(Path(file).parent), Path(file).name) != path:
        raise UsageProblem(f"{visible(file)} is not the configuration of this project; that would be {path}.")
    return path


def _changes(now: Loaded, then: Loaded) -> list[Shape]:
    """The options that would get another value."""
    before, after = in_force(now.config), in_force(then.config)
    return [
        {"key": key, "from": to_builtins(before[key]), "to": to_builtins(value)}
        for key, value in after.items()
        if value != before[key]
    ]


def _show(path: Path, layer: LayerReport, changes: list[Shape], notices: tuple[str, ...]) -> None:
    screen.say(f"{visible(str(path))}, content {layer.digest}")
    if not changes:
        screen.say("It only tightens: trusting it changes nothing now.")
    for change in changes:
        screen.say(screen.paint(visible(change["key"]), "bold"))
        screen.say(f"  now    {visible(json.dumps(change['from'], ensure_ascii=False))}")
        screen.say(f"  then   {visible(json.dumps(change['to'], ensure_ascii=False))}")
    for notice in notices:
        screen.say(f"Note: {screen.shown(notice)}")
    sys.stdout.flush()


def _confirmed() -> bool:
    if not screen.can_ask():
        return False
    from holdfast.doors.cli.typing_in import read_line

    typed = asyncio.run(read_line("Trust exactly this? [y/n] "))
    return (typed or "").strip().lower() in ("y", "yes")


def _listed(item: TrustedContent) -> Shape:
    return _shape(item.path, item.digest, by=item.by, at=item.at, trusted=_is_current(item), loosens=[])


def _now(item: TrustedContent) -> str:
    return "trusted" if _is_current(item) else "changed since, so not trusted"


def _is_current(item: TrustedContent) -> bool:
    try:
        return sha256(Path(item.path).read_bytes()).hexdigest() == item.digest
    except OSError:
        return False


def _shape(path: str, digest: str, *, by: str, at: float, trusted: bool, loosens: list[Shape]) -> Shape:
    return {"path": path, "digest": digest, "by": by, "at": at, "trusted": trusted, "loosens": loosens}
