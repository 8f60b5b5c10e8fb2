"""`holdfast policy`: show the rules in force, explain the decision about a call, and fuzz a rule."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click
from msgspec.structs import asdict

from holdfast.cli import console
from holdfast.cli.arguments import parse_arguments
from holdfast.cli.chat.trust_prompt import bullet_lines
from holdfast.cli.errors import FAILED, UsageProblem
from holdfast.cli.layout import print_table, wrap_sentence
from holdfast.cli.project_context import Flags, open_runtime_for, project_here, servers_for, sources_started
from holdfast.cli.root import DefaultGroup, complete_tool, with_context, with_flags
from holdfast.config.config import SHELL_READONLY, ApprovalConfig
from holdfast.contract.enums import Verdict
from holdfast.json_output import ExplanationOutput as ExplanationOutput
from holdfast.json_output import FuzzingOutput, PolicyOutput
from holdfast.rules.chain import source_name
from holdfast.rules.decider import DecisionExplanation, ExplainedStep
from holdfast.rules.policy_text import policy_toml, trust_note
from holdfast.rules.shell.context import CommandContext
from holdfast.rules.shell.judgement import CommandJudge, compile_rules
from holdfast.rules.shell.parts import JudgedPart
from holdfast.runtime.runtime import Runtime
from holdfast.text.escape import escape, escape_name, escape_once

if TYPE_CHECKING:
    from holdfast.fuzz.fuzzer import Approves, FuzzReport


@click.command()
@click.argument("target", metavar="RULE")
@click.option(
    "--count", type=click.IntRange(1, 1_000_000), default=10_000, show_default=True, help="Number of mutants."
)
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed makes the same mutants.")
@click.option(
    "--shell", type=click.Choice(["bash", "dash"]), default="bash", show_default=True, help="The shell that runs them."
)
@with_flags
def fuzz(flags: Flags, target: str, count: int, seed: int, shell: str, as_json: bool) -> int:
    """Fuzz a rule about shell commands: look for mutants that evade it.

    RULE is an approving rule of approval.commands that has `match` examples, or
    the preset '$shell-readonly'. Its allowed commands are mutated with every known
    evasion. Mutants that would run without asking are run in a sandbox full of
    canaries, and reported if they change, read or run what they must not.

    \b
    Example:
      holdfast policy fuzz '$shell-readonly' --count 1000
    """
    from holdfast.fuzz.fuzzer import fuzz as run_fuzz

    approval = project_here(flags).loaded.config.approval
    with console.progress() as progress:
        report = run_fuzz(
            _base_commands(approval, target),
            _approver(approval, target),
            count=count,
            seed=seed,
            shell=shell,
            on_progress=progress,
        )
    if as_json:
        console.print_json(FuzzingOutput(rule=target, seed=seed, shell=shell, **asdict(report)))
    else:
        _print_report(report)
    return FAILED if report.escapes else 0


def _print_report(report: FuzzReport) -> None:
    for found in report.escapes:
        console.print_out(f"{escape(found.command)}")
        console.print_out(f"  {escape(found.what)}; approved by {escape(found.rule)} ({found.mutation})")
    text = f"{report.mutants} mutants, {report.unasked} would run without asking, {len(report.escapes)} do harm."
    console.print_out(console.paint(text, "red" if report.escapes else "green"))


def _base_commands(approval: ApprovalConfig, target: str) -> tuple[str, ...]:
    from holdfast.fuzz.corpus import READONLY_CORPUS

    if target == SHELL_READONLY:
        return READONLY_CORPUS
    found = next((rule for rule in approval.commands if rule.rule == target), None)
    if found is None or found.verdict != "approve":
        raise UsageProblem(
            f"approval.commands has no approving rule '{escape(target)}'. Name one that it has, or {SHELL_READONLY}."
        )
    if not found.match:
        raise UsageProblem(f"The rule '{escape(target)}' has no `match` examples. Add some to fuzz it.")
    return found.match


def _approver(approval: ApprovalConfig, target: str) -> Approves:
    """Judge by all configured rules, and by the preset if it is fuzzed or in force."""
    readers = SHELL_READONLY in (target, *approval.auto_approve)
    judge = CommandJudge(compile_rules(approval.commands), readers=readers, quiet=True)

    def approves(text: str, place: CommandContext) -> str | None:
        judged = judge.judge(text, place)
        return " and ".join(judged.rules) if judged.verdict is Verdict.APPROVE else None

    return approves


@click.group(cls=DefaultGroup)
def policy() -> None:
    """Show the rules, explain a decision, fuzz a rule."""


@policy.command()
@with_flags
@with_context
def show(flags: Flags, as_json: bool) -> int:
    """Show the rules in force.

    \b
    Example:
      holdfast policy
    """
    project = project_here(flags)
    with open_runtime_for(project, read_only=True) as runtime:
        rules = PolicyOutput.of(runtime, project.loaded.layers)
    if as_json:
        console.print_json(rules)
        return 0
    console.print_out(console.paint("in words", "bold"))
    console.print_out_lines(
        bullet_lines(rules.words or ["only tools without effects will run without asking"], sys.stdout)
    )
    for line in policy_toml(project.loaded.config):
        console.print_out_lines(wrap_sentence(line, sys.stdout, *(("bold",) if line.startswith("[") else ())))
    console.print_out(console.paint("approval chain, in order", "bold"))
    for voice in rules.chain:
        name = escape(source_name(voice["name"]))
        console.print_out(f"  {voice['priority']:>4}  {name}  {escape(voice['description'])}".rstrip())
    console.print_out("        otherwise a person is asked")
    console.print_out(console.paint("caps after that; none can loosen", "bold"))
    for cap in rules.caps:
        console.print_out(f"  {escape(source_name(cap))}")
    console.print_out(console.paint("configuration files", "bold"))
    console.print_out("  built-in defaults")
    for layer in project.loaded.layers:
        note = trust_note(layer)
        console.print_out(
            f"  {layer.name}: {escape(layer.path or 'command line')}{f' ({escape(note)})' if note else ''}"
        )
    return 0


@policy.command()
@click.argument("tool", shell_complete=complete_tool)
@click.argument("words", nargs=-1, metavar="[JSON | - | KEY=VALUE]...")
@click.option("--all", "everything", is_flag=True, help="Show every stage and its answer.")
@with_flags
@with_context
def explain(flags: Flags, tool: str, words: tuple[str, ...], everything: bool, as_json: bool) -> int:
    """Explain what would be decided about a call. Runs nothing.

    Without arguments the tool is judged on its own. With --all the deciding line
    starts with >.

    \b
    Example:
      holdfast policy explain shell.exec command="git push"
    """
    project = project_here(flags)
    with open_runtime_for(project, read_only=True, servers=servers_for(tool)) as runtime:
        explanation = asyncio.run(_explain(runtime, tool, words))
    if explanation.decision.source == "validate":
        raise UsageProblem(explanation.decision.reason)
    if as_json:
        console.print_json(ExplanationOutput.of(explanation))
        return 0
    decision = explanation.decision
    console.print_out(console.paint(f"{escape_name(explanation.tool)}: {decision.verdict}", "bold"))
    console.print_out(f"  {escape(decision.reason)}")
    if explanation.depends:
        console.print_out("  Judged without arguments, which may change the decision. Add the call's arguments.")
    if everything:
        console.print_out()
        print_table(["  stage", "answer", "who", "why"], [_step_row(step) for step in explanation.steps])
    if explanation.parts:
        console.print_out()
        print_table(["  part", "answer", "what", "why"], [_part_row(part) for part in explanation.parts])
    if (machine := project.loaded.layer("machine")) is not None:
        limits = f"{machine.path} sets limits that other files can only tighten: {', '.join(machine.keys)}."
        console.print_out_lines(("", *wrap_sentence(escape_once(limits), sys.stdout)))
    return 0


policy.add_command(fuzz)


async def _explain(runtime: Runtime, tool: str, words: Sequence[str]) -> DecisionExplanation:
    async with sources_started(runtime):
        known = runtime.registry.find(tool)
        args = parse_arguments(words, known.input_schema if known is not None else {}) if words else None
        return await runtime.explain(tool, args)


def _step_row(step: ExplainedStep) -> list[str]:
    stage = step.stage if step.priority is None else f"{step.stage} {step.priority}"
    mark = ">" if step.decided else " "
    return [f"{mark} {stage}", step.answer, escape(source_name(step.source)), escape(step.reason)]


def _part_row(part: JudgedPart) -> list[str]:
    what = f"{part.text} (in {part.inside})" if part.inside else part.text
    return [f"  {part.kind}", str(part.verdict or "pass"), escape(what), escape(part.reason)]
