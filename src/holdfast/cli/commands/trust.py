"""`holdfast trust`: trust a file's exact content so that it may loosen the rules; list and revoke trust."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

import click
from msgspec.structs import replace

from holdfast.cli import console
from holdfast.cli.chat.documents import find_document, location
from holdfast.cli.chat.trust_prompt import (
    bullet_lines,
    change_lines,
    changed_options,
    describe_loosening,
    frontmatter_digest,
    loosened_options,
    record_trust,
    review_lines,
)
from holdfast.cli.errors import UsageProblem
from holdfast.cli.json_output import JsonObject, TrustOutput
from holdfast.cli.layout import field_lines, print_table, quoted_field_lines, wrap_sentence
from holdfast.cli.project_context import Flags, warn_about_config, whoami
from holdfast.cli.prompt import confirm
from holdfast.cli.root import DefaultGroup, with_flags
from holdfast.config.layers import LayerReport, load
from holdfast.config.roots import PROJECT_FILE, inside_project
from holdfast.contract.errors import HoldfastError
from holdfast.factory.chat import review_trust
from holdfast.factory.runtime import Project, check_config, load_project
from holdfast.fs.own_paths import user_config_file
from holdfast.rules.policy import MANIFEST, digest_of, manifest_of, parse_manifest, read_skill
from holdfast.store.entries import TrustedContent
from holdfast.text.escape import escape, escape_once


@click.group(cls=DefaultGroup)
def trust() -> None:
    """Trust files so that they may loosen the rules."""


@trust.command("file")
@click.argument("file", required=False, type=click.Path())
@click.option("-y", "--yes", is_flag=True, help="Do not ask; needed without a terminal.")
@with_flags
def trust_file(flags: Flags, file: str | None, yes: bool, as_json: bool) -> int:
    """Trust the current content of a file.

    FILE is the project's holdfast.toml (the default), a document, of which the
    frontmatter is trusted, or a skill's manifest.json. You see what would become
    looser and confirm it. Trust ends with any change to the content.

    \b
    Example:
      holdfast trust
      holdfast trust plan.chat
    """
    project = _project(flags)
    if file is not None and Path(file).name == MANIFEST:
        return _trust_manifest(project, file, yes=yes, as_json=as_json)
    if file is not None and _is_document(file):
        return _trust_document(flags, file, yes=yes, as_json=as_json)
    path = _project_file(project, file)
    whole = load(root=project.root, is_trusted=lambda path, digest: True, flags=flags or None)
    layer = whole.layer("project" if path.name == PROJECT_FILE else "user")
    if layer is None:
        raise UsageProblem(f"There is no {path} to trust. Create one with `holdfast init`.")
    check_config(whole.config)
    changes, effects = changed_options(project.loaded, whole), describe_loosening(project.loaded, whole)
    if not as_json:
        _show(path, layer, changes, effects, whole.notices)
    if not yes and not _confirmed("Trust this content? [y/N] "):
        raise UsageProblem(f"{path} was not trusted. Read it, then run `holdfast trust --yes`.")
    by = whoami()
    project.trust.trust(path, layer.digest, by=by)
    if as_json:
        digest = layer.digest
        console.print_json(
            TrustOutput(
                path=str(path), digest=digest, by=by, at=time.time(), trusted=True, loosens=changes, words=effects
            )
        )
    else:
        console.print_err("Trusted until the file changes.")
    return 0


@trust.command("list")
@with_flags
def list_trusted(flags: Flags, as_json: bool) -> int:
    """List the files you trusted.

    \b
    Example:
      holdfast trust list
    """
    found = _project(flags).trust.list()
    if as_json:
        for item in found:
            console.print_json(_listed(item))
    elif not found:
        console.print_out("No file is trusted.")
    else:
        rows = [[_now(item), escape(item.path), escape(item.by), item.digest[:12]] for item in found]
        print_table(["now", "file", "by", "content"], rows)
    return 0


@trust.command()
@click.argument("file", required=False, type=click.Path())
@with_flags
def revoke(flags: Flags, file: str | None, as_json: bool) -> int:
    """Revoke the trust in a file.

    FILE is the project's holdfast.toml (the default), a document, or a file from
    `holdfast trust list`.

    \b
    Example:
      holdfast trust revoke plan.chat
    """
    project = _project(flags)
    listed = {item.path: item for item in project.trust.list()}
    path = _listed_file(file, listed) or _unlisted(project, file)
    if not project.trust.revoke(path, by=whoami()):
        raise UsageProblem(f"{escape(str(path))} is not trusted. `holdfast trust list` lists the files that are.")
    if as_json:
        console.print_json(replace(_listed(listed[str(path)]), trusted=False))
    else:
        console.print_err(f"{escape(str(path))} is no longer trusted.")
    return 0


def _trust_document(flags: Flags, file: str, *, yes: bool, as_json: bool) -> int:
    path = find_document(file)
    found = review_trust(path, flags=flags or None)
    if found is None:
        raise UsageProblem(f"{location(path)} has no frontmatter, so there is nothing to trust.")
    check_config(found.then.config)
    if not as_json:
        console.print_out_lines(review_lines(found, sys.stdout))
        sys.stdout.flush()
    if not yes and not _confirmed("Trust this frontmatter? [y/N] "):
        raise UsageProblem(
            f"{location(path)} was not trusted. Read it, then run `holdfast trust {location(path)} --yes`."
        )
    loosens, effects = loosened_options(found), describe_loosening(found.now, found.then)
    record_trust(found)
    if as_json:
        path, digest, by = str(found.path), found.digest, whoami()
        console.print_json(
            TrustOutput(path=path, digest=digest, by=by, at=time.time(), trusted=True, loosens=loosens, words=effects)
        )
    else:
        console.print_err("Trusted until the frontmatter changes.")
    return 0


def _trust_manifest(project: Project, file: str, *, yes: bool, as_json: bool) -> int:
    folders = project.loaded.config.tools.skills
    path = manifest_of(Path(file).parent)
    names = [name for name, folder in folders.items() if manifest_of(Path(folder)) == path]
    if not names:
        raise UsageProblem(f"{escape(file)} belongs to no skill in tools.skills. Add the skill there first.")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageProblem(f"Cannot read {path}: {error.strerror}. Correct tools.skills.") from None
    digest, wanted = digest_of(content), parse_manifest(content)
    now = read_skill(path.parent, project.trust.is_trusted).allow
    change = {"from": list(now), "to": list(wanted.allow)}
    loosens: list[JsonObject] = [{"key": f"tools.skills.{name}", **change} for name in names]
    if not as_json:
        console.print_out(f"{escape(str(path))}, content {digest}")
        console.print_out_lines(change_lines(loosens, sys.stdout))
        if not wanted.allow:
            console.print_out(f"It grants no tools: {escape(wanted.reason)}.")
        sys.stdout.flush()
    if not yes and not _confirmed("Trust this manifest? [y/N] "):
        raise UsageProblem(f"{path} was not trusted. Read it, then run `holdfast trust {path} --yes`.")
    by = whoami()
    project.trust.trust(path, digest, by=by)
    if as_json:
        console.print_json(
            TrustOutput(path=str(path), digest=digest, by=by, at=time.time(), trusted=True, loosens=loosens)
        )
    else:
        console.print_err("Trusted until the manifest changes.")
    return 0


def _is_document(file: str) -> bool:
    """Return whether the file is a document: its name is not that of a configuration or a manifest."""
    return Path(file).suffix != ".toml" and Path(file).name != MANIFEST


def _listed_file(file: str | None, listed: Mapping[str, TrustedContent]) -> Path | None:
    for name in () if file is None else (file, os.path.realpath(file)):
        if name in listed:
            return Path(name)
    return None


def _unlisted(project: Project, file: str | None) -> Path:
    is_other = file is not None and (_is_document(file) or Path(file).name == MANIFEST)
    return Path(file) if file is not None and is_other else _project_file(project, file)


def _project(flags: Flags) -> Project:
    project = load_project(flags=flags or None, checked=False)
    warn_about_config(project)
    return project


def _project_file(project: Project, file: str | None) -> Path:
    if project.root is None:
        raise UsageProblem("There is no project here, so there is nothing to trust. Create one with `holdfast init`.")
    path = project.root / PROJECT_FILE
    given = path if file is None else Path(os.path.realpath(Path(file).parent), Path(file).name)
    if given == user_config_file() and inside_project(given, project.root):
        return given
    if given != path:
        raise UsageProblem(f"{escape(str(file))} is not the configuration of this project, which is {path}.")
    return path


def _show(
    path: Path, layer: LayerReport, changes: list[JsonObject], effects: list[str], notices: tuple[str, ...]
) -> None:
    console.print_out(console.paint("Project configuration", "bold"))
    console.print_out_lines(
        (*quoted_field_lines("file", str(path), sys.stdout), *field_lines("content", layer.digest, sys.stdout))
    )
    if not changes and not effects:
        console.print_out("It only tightens the rules, so trusting it changes nothing now.")
    console.print_out_lines(change_lines(changes, sys.stdout))
    if effects:
        console.print_out(console.paint("If you trust it", "bold"))
        console.print_out_lines(bullet_lines(effects, sys.stdout))
    for notice in notices:
        console.print_out_lines(wrap_sentence(f"Note: {escape_once(notice)}", sys.stdout))
    sys.stdout.flush()


def _confirmed(question: str) -> bool:
    return console.can_ask() and asyncio.run(confirm(question))


def _listed(item: TrustedContent) -> TrustOutput:
    return TrustOutput(
        path=item.path, digest=item.digest, by=item.by, at=item.at, trusted=_is_current(item), loosens=[]
    )


def _now(item: TrustedContent) -> str:
    return "trusted" if _is_current(item) else "changed, no longer trusted"


def _is_current(item: TrustedContent) -> bool:
    """Return whether the trusted content is still there: a document's frontmatter, or the whole of another file."""
    path = Path(item.path)
    try:
        if not _is_document(item.path):
            return sha256(path.read_bytes()).hexdigest() == item.digest
        return frontmatter_digest(path) == item.digest
    except (OSError, HoldfastError):
        return False
