"""`holdfast trust`: trust a file's exact content so that it may loosen the rules; list and revoke trust."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final

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
from holdfast.cli.layout import field_lines, print_table, quote, quoted_field_lines, wrap_sentence
from holdfast.cli.project_context import Flags, warn_about_config, whoami
from holdfast.cli.prompt import confirm
from holdfast.cli.root import DefaultGroup, with_flags
from holdfast.config.layers import LayerReport, load
from holdfast.config.roots import PROJECT_FILE, inside_project
from holdfast.contract.errors import HoldfastError
from holdfast.factory.chat import review_trust
from holdfast.factory.runtime import Project, check_config, find_skills, load_project
from holdfast.fs.own_paths import user_config_file
from holdfast.json_output import JsonObject, TrustOutput
from holdfast.rules.skill_file import MANIFEST, SKILL_FILE, InvalidSkill, SkillPermissions, permissions_of
from holdfast.rules.skills import PROJECT_FOLDERS, Skill, SkillContent, read_content
from holdfast.store.entries import TrustedContent
from holdfast.text.escape import escape, escape_once

SKILL_FILES: Final = (SKILL_FILE, MANIFEST)


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
    frontmatter is trusted, or a skill: its folder, SKILL.md or manifest.json. You
    see what would become looser and confirm it. Trust ends with any change to the
    content; that of a skill is its SKILL.md and its manifest.json.

    \b
    Example:
      holdfast trust
      holdfast trust plan.chat
      holdfast trust .agents/skills/release
    """
    project = _project(flags)
    if file is not None and _is_skill(file):
        return _trust_skill(project, file, yes=yes, as_json=as_json)
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


def _trust_skill(project: Project, file: str, *, yes: bool, as_json: bool) -> int:
    skill = _skill_in(project, Path(file) if _is_skill_folder(file) else Path(file).parent)
    content = skill.content
    if skill.state == "invalid" or content is None:
        raise UsageProblem(f"The skill in {escape(str(skill.folder))} is invalid: {escape(skill.problem)}.")
    if skill.origin == "user" and skill.usable:
        raise UsageProblem(f"{escape(str(skill.folder))} is in your configuration folder, so it is trusted already.")
    path, wanted = content.trusted_file, permissions_of(skill.text, content.manifest)
    change = {"from": list(skill.permissions.allow), "to": list(wanted.allow)}
    loosens: list[JsonObject] = [{"key": f"tools.skills.{skill.name}", **change}]
    if not as_json:
        _show_skill(skill, content, wanted, loosens)
    if not yes and not _confirmed("Trust this skill? [y/N] "):
        raise UsageProblem(f"{path} was not trusted. Read it, then run `holdfast trust {path} --yes`.")
    by = whoami()
    project.trust.trust(path, content.digest, by=by)
    if as_json:
        console.print_json(
            TrustOutput(path=str(path), digest=content.digest, by=by, at=time.time(), trusted=True, loosens=loosens)
        )
    else:
        console.print_err("Trusted until the skill changes.")
    return 0


def _show_skill(skill: Skill, content: SkillContent, wanted: SkillPermissions, loosens: list[JsonObject]) -> None:
    console.print_out(f"{escape(str(content.trusted_file))}, content {content.digest}")
    console.print_out_lines(change_lines(loosens, sys.stdout))
    if wanted.within is not None:
        console.print_out(f"A tool must also be in its `allowed-tools`: {escape(', '.join(wanted.within)) or 'none'}.")
    if wanted.dropped:
        console.print_out(f"No tool here is as narrow as {escape(', '.join(wanted.dropped))}, so they allow nothing.")
    if not wanted.allow:
        console.print_out(f"It grants no tools: {escape(wanted.reason)}.")
    if skill.text is not None and content.skill is not None:
        console.print_out(f"{SKILL_FILE} says, and a model that loads the skill is told:")
        console.print_out_lines(quote(content.skill.decode(), sys.stdout).lines)
    sys.stdout.flush()


def _skill_in(project: Project, folder: Path) -> Skill:
    """Return the skill in a folder, as the project knows it."""
    real = Path(os.path.realpath(folder))
    found = [skill for skill in find_skills(project).all() if Path(os.path.realpath(skill.folder)) == real]
    if not found:
        raise UsageProblem(
            f"{escape(str(folder))} is no skill that is found here: it is neither in tools.skills nor below "
            f"{' or '.join(PROJECT_FOLDERS)} of the project. Add the skill there first."
        )
    return found[0]


def _is_skill(file: str) -> bool:
    return Path(file).name in SKILL_FILES or _is_skill_folder(file)


def _is_skill_folder(file: str) -> bool:
    return Path(file).is_dir() and any(Path(file, name).exists() for name in SKILL_FILES)


def _is_document(file: str) -> bool:
    """Return whether the file is a document: its name is not that of a configuration or a file of a skill."""
    return Path(file).suffix != ".toml" and Path(file).name not in SKILL_FILES


def _listed_file(file: str | None, listed: Mapping[str, TrustedContent]) -> Path | None:
    given = () if file is None else (file, os.path.realpath(file))
    inside = (f"{name}/{part}" for name in given for part in SKILL_FILES)
    return next((Path(name) for name in (*given, *inside) if name in listed), None)


def _unlisted(project: Project, file: str | None) -> Path:
    is_other = file is not None and (_is_document(file) or Path(file).name in SKILL_FILES)
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
    """Return whether the trusted content is still there: a document's frontmatter, the two files of a skill, or the
    whole of another file."""
    path = Path(item.path)
    try:
        if path.name in SKILL_FILES:
            found = read_content(path.parent)
            return found.trusted_file == path and found.digest == item.digest
        if not _is_document(item.path):
            return sha256(path.read_bytes()).hexdigest() == item.digest
        return frontmatter_digest(path) == item.digest
    except (OSError, HoldfastError, InvalidSkill):
        return False
