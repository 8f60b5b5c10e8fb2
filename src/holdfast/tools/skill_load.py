"""`skill.load`: list the skills, load the instructions of one, or read one of its files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from holdfast.contract.context import Context
from holdfast.contract.errors import SkillRefused
from holdfast.contract.json import Args, Json
from holdfast.contract.result import Result, fail, ok
from holdfast.contract.skills import LoadedSkill, SkillLibrary, SkillSummary
from holdfast.text.escape import clip, escape
from holdfast.text.preview import with_label
from holdfast.tools.schemas import (
    BOOLEAN,
    LABEL,
    STRING,
    STRING_OR_NULL,
    array,
    nullable,
    read_only_tool,
    strict_object,
)

_MAX_LISTED: Final = 200
_LINE: Final = 300


def _execute(args: Args, ctx: Context) -> Result:
    name, file = cast(str | None, args.get("name")), cast(str | None, args.get("file"))
    library = ctx.service(SkillLibrary)
    if name is None:
        return _list(library) if file is None else fail("Give the `name` of the skill that has the file.")
    try:
        return _load(library, name, ctx) if file is None else _read_file(library, name, file, ctx)
    except SkillRefused as error:
        return fail(str(error))


def _list(library: SkillLibrary) -> Result:
    found, others = library.summaries()
    lines = [f"- {item.name}: {clip(escape(item.description), _LINE)}" for item in found[:_MAX_LISTED]]
    head = "Skills, to load by name:" if found else "There are no skills to load here."
    if len(found) > _MAX_LISTED:
        lines.append(f"[{len(found) - _MAX_LISTED} more]")
    if others:
        lines += ["", f"{others} more cannot be loaded; the user can see why with `holdfast tools --skills`."]
    return ok("\n".join((head, *lines)), structured=_output(skills=found[:_MAX_LISTED]))


def _load(library: SkillLibrary, name: str, ctx: Context) -> Result:
    skill = library.load(name)
    text = "\n".join((*_head(skill), "", skill.instructions or "It has no instructions."))
    return ok(text, structured=_output(skill, content=skill.instructions, ctx=ctx))


def _head(skill: LoadedSkill) -> list[str]:
    lines = [f"Skill {skill.name}: {escape(skill.description)}"]
    if skill.files:
        more = ", and more" if skill.more_files else ""
        where = "read them with `file`" if skill.folder is None else f"in {escape(skill.folder)}; `file` reads one"
        lines.append(f"Files ({where}): {', '.join(map(escape, skill.files))}{more}")
    if skill.tools:
        lines.append(f"Tools it names: {', '.join(map(escape, skill.tools))}")
    return lines


def _read_file(library: SkillLibrary, name: str, file: str, ctx: Context) -> Result:
    content = library.read_file(name, file, ctx.sandbox.is_path_secret)
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        return fail(f"'{escape(file)}' of the skill '{escape(name)}' is not UTF-8 text, so it cannot be loaded.")
    return ok(text, structured={**_output(content=text, ctx=ctx), "skill": name, "file": file})


def _output(
    skill: LoadedSkill | None = None,
    *,
    content: str = "",
    ctx: Context | None = None,
    skills: Sequence[SkillSummary] = (),
) -> dict[str, Json]:
    """The typed output. Its content is cut like any output; the runtime keeps the whole text for `output.read`."""
    cut = None if ctx is None else ctx.truncate.head(content)
    return {
        "skill": None if skill is None else skill.name,
        "file": None,
        "content": content if cut is None else cut.content,
        "truncated": cut is not None and cut.truncated,
        "files": [] if skill is None else list(skill.files),
        "tools": [] if skill is None else list(skill.tools or ()),
        "skills": [{"name": item.name, "description": item.description} for item in skills],
    }


def _preview(args: Args, width: int) -> str:
    name, file = args.get("name"), args.get("file")
    body = "list the skills" if name is None else f"{name}" if file is None else f"{name}: {file}"
    return with_label(body, args)


SKILL_LOAD: Final = read_only_tool(
    name="skill.load",
    description=(
        "Load the instructions of a skill before you do a task that it is for. "
        "Without a name, list the skills with what each is for."
    ),
    input_schema=strict_object(
        name=nullable("string", "The skill; null lists the skills.", minLength=1),
        file=nullable("string", "A file of the skill to read, instead of its instructions.", minLength=1),
        label=LABEL,
    ),
    output_schema=strict_object(
        skill=STRING_OR_NULL,
        file=STRING_OR_NULL,
        content=STRING,
        truncated=BOOLEAN,
        files=array(STRING),
        tools=array(STRING),
        skills=array(strict_object(name=STRING, description=STRING)),
    ),
    execute=_execute,
    format_preview=_preview,
    aliases=("load_skill",),
    groups=("skills",),
    profiles=("messaging", "coding"),
)
