"""`holdfast policy fuzz`: whether anything gets past a rule about commands, found out by trying."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from msgspec.structs import asdict

from holdfast.doors.cli import screen
from holdfast.doors.cli.failures import FAILED, UsageProblem
from holdfast.doors.cli.options import common
from holdfast.doors.cli.outputs import Fuzzing
from holdfast.doors.cli.place import Flags, setting_here
from holdfast.text.visible import visible

if TYPE_CHECKING:
    from holdfast.config.model import ApprovalConfig
    from holdfast.fuzz.run import Approves, FuzzReport


@click.command()
@click.argument("target", metavar="RULE")
@click.option("--count", type=click.IntRange(1, 1_000_000), default=10_000, show_default=True, help="How many mutants.")
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed makes the same mutants.")
@click.option("--shell", type=click.Choice(["bash", "dash"]), default="bash", show_default=True, help="Who runs them.")
@common
@click.pass_obj
def fuzz(flags: Flags, target: str, count: int, seed: int, shell: str, as_json: bool) -> int:
    """Try to get past a rule about shell commands.

    RULE is a rule of approval.commands that approves and has `match`
    examples, or the preset '$shell-readonly'. Allowed commands are mutated
    with every known evasion. What would run unasked is run, in a sandbox full
    of canaries, and reported if it changes, reads or runs what it must not.
    """
    from holdfast.fuzz.run import fuzz as run_fuzz

    approval = setting_here(flags).loaded.config.approval
    with screen.progress() as tell:
        report = run_fuzz(
            _bases(approval, target), _gate(approval, target), count=count, seed=seed, shell=shell, tell=tell
        )
    if as_json:
        screen.put_json(Fuzzing(rule=target, seed=seed, shell=shell, **asdict(report)))
    else:
        _tell(report)
    return FAILED if report.escapes else 0


def _tell(report: FuzzReport) -> None:
    for escape in report.escapes:
        screen.say(f"{visible(escape.command)}")
        screen.say(f"  {visible(escape.what)}; let through by {visible(escape.rule)} ({escape.mutation})")
    words = f"{report.mutants} mutants, {report.unasked} would run unasked, {len(report.escapes)} of them do harm."
    screen.say(screen.paint(words, "red" if report.escapes else "green"))


def _bases(approval: ApprovalConfig, target: str) -> tuple[str, ...]:
    from holdfast.fuzz.corpus import READONLY_CORPUS
    from holdfast.rules.resolvers import SHELL_READONLY

    if target == SHELL_READONLY:
        return READONLY_CORPUS
    found = next((rule for rule in approval.commands if rule.rule == target), None)
    if found is None or found.verdict != "approve":
        raise UsageProblem(
            f"approval.commands has no approving rule '{visible(target)}'; name one that is there, or {SHELL_READONLY}."
        )
    if not found.match:
        raise UsageProblem(f"The rule '{visible(target)}' has no `match` examples to begin with; give it some.")
    return found.match


def _gate(approval: ApprovalConfig, target: str) -> Approves:
    """All configured rules, and the preset if it is what is tried or is in force."""
    from holdfast.contract.vocabulary import Verdict
    from holdfast.rules.resolvers import SHELL_READONLY
    from holdfast.rules.shell.judge import Judge, compiled
    from holdfast.rules.shell.place import Place

    readers = SHELL_READONLY in (target, *approval.auto_approve)
    judge = Judge(compiled(approval.commands), readers=readers, quiet=True)

    def approves(text: str, place: Place) -> str | None:
        judged = judge.judge(text, place)
        return " and ".join(judged.rules) if judged.verdict is Verdict.APPROVE else None

    return approves
