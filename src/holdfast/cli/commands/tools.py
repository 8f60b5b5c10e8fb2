"""`holdfast tools`: list the tools, or show one."""

from __future__ import annotations

import asyncio
import json
import sys
from itertools import groupby

import click

from holdfast.cli import console
from holdfast.cli.elicitation import attach_silent_elicitor
from holdfast.cli.layout import print_message, print_table, quote, quoted_field_lines
from holdfast.cli.project_context import Flags, open_runtime, project_here, require_server, servers_for, sources_started
from holdfast.cli.root import complete_tool, with_context, with_flags
from holdfast.contract.enums import Verdict
from holdfast.contract.errors import UnknownTool
from holdfast.contract.tool import Tool
from holdfast.factory.runtime import find_skills
from holdfast.json_output import SkillOutput, ToolOutput
from holdfast.rules.decider import AVAILABLE
from holdfast.rules.skills import Skill
from holdfast.runtime.runtime import Runtime
from holdfast.text.escape import escape, escape_name


@click.command()
@click.argument("name", required=False, shell_complete=complete_tool)
@click.option("--skills", is_flag=True, help="List the skills instead: where each is, and whether it can be used.")
@with_flags
@with_context
def tools(flags: Flags, name: str | None, skills: bool, as_json: bool) -> int:
    """List the tools that are available here, or show one in full.

    \b
    Example:
      holdfast tools
      holdfast tools file.edit
      holdfast tools --skills
    """
    if skills:
        if name is not None:
            raise click.UsageError("--skills lists the skills, so it takes no tool name. Leave one of them out.")
        return _list_skills(flags, as_json=as_json)
    servers = None if name is None else servers_for(name)
    with open_runtime(flags, read_only=True, servers=servers) as runtime:
        if runtime.registry.ready:
            if servers and name is not None:
                require_server(runtime, name)
            _list_or_show(runtime, name, as_json=as_json)
        else:
            attach_silent_elicitor(runtime, servers)
            asyncio.run(_when_ready(runtime, name, as_json=as_json))
    return 0


async def _when_ready(runtime: Runtime, name: str | None, *, as_json: bool) -> None:
    """List or show while the sources run: a server's tools disappear when it stops."""
    async with sources_started(runtime):
        if name is not None:
            require_server(runtime, name)
        _list_or_show(runtime, name, as_json=as_json)


def _list_or_show(runtime: Runtime, name: str | None, *, as_json: bool) -> None:
    if name is not None:
        _show(runtime, _find(runtime, name), as_json=as_json)
        return
    found = runtime.visible()
    missing = runtime.access.unavailable(runtime.caller)
    if as_json:
        policy = runtime.access.policy.compile(runtime.caller)
        for tool in [*found, *(tool for tool, _ in missing)]:
            console.print_json(ToolOutput.of(tool, policy.decide(tool)))
        return
    rows = [[tool.name, tool.risk, effects_of(tool), escape(_first_line(tool))] for tool in found]
    print_table(["tool", "risk", "effects", "what it does"], rows)
    waiting = [escape_name(tool.name) for tool in runtime.access.waiting_for_root(runtime.caller)]
    if waiting:
        fix = "Create one with `holdfast init`."
        print_message(f"There is no project here, and these tools need one: {', '.join(waiting)}. {fix}")
    for reason, group in groupby(missing, key=lambda item: item[1]):
        print_message(f"Not available: {', '.join(escape_name(tool.name) for tool, _ in group)}; {reason}")


def _list_skills(flags: Flags, *, as_json: bool) -> int:
    found = find_skills(project_here(flags)).all()
    if as_json:
        for skill in found:
            console.print_json(SkillOutput.of(skill))
        return 0
    if not found:
        print_message("There are no skills here. `holdfast help skills` says where they are found.")
        return 0
    rows = [[escape_name(skill.name), skill.state, _tools_of(skill), escape(_about(skill))] for skill in found]
    print_table(["skill", "state", "its tools", "what it is for"], rows)
    for skill in found:
        if skill.problem:
            print_message(f"{escape_name(skill.name)} ({escape(str(skill.folder))}): {escape(skill.problem)}.")
        if skill.permissions.dropped:
            dropped = ", ".join(map(escape, skill.permissions.dropped))
            print_message(f"{escape_name(skill.name)}: no tool here is as narrow as {dropped}, so they allow nothing.")
    return 0


def _tools_of(skill: Skill) -> str:
    if skill.state in ("untrusted", "changed", "invalid"):
        return "unknown"  # what its file says does not count
    return escape(", ".join(skill.permissions.named)) if skill.usable and skill.permissions.named else "none"


def _about(skill: Skill) -> str:
    return "" if skill.text is None else skill.text.description


def effects_of(tool: Tool) -> str:
    if tool.effects is None:
        return "unknown"
    return ", ".join(sorted(tool.effects)) or "none"


def _find(runtime: Runtime, name: str) -> Tool:
    tool = runtime.registry.find(name)
    if tool is None:
        raise UnknownTool(runtime.access.unknown_tool(name, runtime.caller).error or name)
    return tool


def _show(runtime: Runtime, tool: Tool, *, as_json: bool) -> None:
    policy = runtime.access.policy.compile(runtime.caller).decide(tool)
    if as_json:
        console.print_json(ToolOutput.of(tool, policy))
        return
    console.print_out(console.paint(escape_name(tool.name), "bold"))
    _quote(tool.description)
    facts = {
        "risk": tool.risk,
        "effects": effects_of(tool),
        "source": tool.source,
        "also": ", ".join(tool.aliases),
        "groups": ", ".join(tool.groups),
        "secrets": ", ".join(tool.required_secret_scopes),
        "policy": f"{AVAILABLE if policy.verdict is Verdict.APPROVE else policy.verdict}: {policy.reason}",
        "missing": "" if tool.unavailable is None else tool.unavailable() or "",
        "enabled": "" if runtime.access.is_enabled(tool) else "no; add it to tools.allow",
    }
    for label, value in facts.items():
        console.print_out_lines(quoted_field_lines(label, value, sys.stdout, width=8) if value else ())
    console.print_out()
    console.print_out("arguments (JSON Schema)")
    _quote(_pretty(tool.input_schema))
    if tool.output_schema is not None:
        console.print_out("result (JSON Schema)")
        _quote(_pretty(tool.output_schema))
    sys.stdout.flush()


def _quote(text: str) -> None:
    console.print_out_lines(quote(text, sys.stdout).lines)


def _pretty(schema: object) -> str:
    return json.dumps(schema, indent=2, ensure_ascii=False)


def _first_line(tool: Tool) -> str:
    return tool.description.strip().partition("\n")[0]
