"""Command rules in the approval chain: the resolver approves, the cap asks and denies, explain shows the parts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.config.config import ApprovalConfig, Preset
from holdfast.contract.call import Decision
from holdfast.contract.enums import RUNS_COMMANDS, Verdict
from holdfast.contract.errors import ConfigError
from holdfast.contract.json import Args
from holdfast.rules.decider import Decider, DecisionExplanation, explain
from holdfast.rules.from_config import COMMANDS, SHELL_PARTS, DocumentPolicy, standard_caps, standard_chain
from holdfast.rules.resolvers import CONFIG, FRONTMATTER, SANDBOX
from tests.rules.approval_requests import READ, SHELL, approval_request, tool

from .shell.command_judges import rule

PRESET = ("$default", "$shell-readonly")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_text("a")
    return tmp_path


def decider(approval: ApprovalConfig, *, sandboxed: bool = False, **chain: Any) -> Decider:
    made = standard_chain(approval, sandbox_verified=lambda: sandboxed, **chain)
    return Decider(made, standard_caps(approval, made, sandbox_verified=lambda: sandboxed))


def decided(approval: ApprovalConfig, command: str, root: Path, *, sandboxed: bool = False, **chain: Any) -> Decision:
    asked = approval_request(SHELL, {"command": command}, root=root, cwd=str(root))
    decision = decider(approval, sandboxed=sandboxed, **chain).decide(asked)
    assert decision == decider(approval, sandboxed=sandboxed, **chain).judge(asked).decision
    return decision


@pytest.mark.spec("A8", "A11")
def test_by_default_every_shell_command_needs_approval(root: Path) -> None:
    assert decided(ApprovalConfig(), "ls", root).verdict is Verdict.ASK
    assert decided(ApprovalConfig(), "ls", root, sandboxed=True).verdict is Verdict.ASK


@pytest.mark.spec("A11")
def test_the_shell_readonly_preset_approves_commands_that_only_read(root: Path) -> None:
    approval = ApprovalConfig(auto_approve=PRESET)
    outcome = decided(approval, "ls | wc -l", root)
    assert outcome == Decision(Verdict.APPROVE, COMMANDS, "Every part is approved by '$shell-readonly'.")
    assert decided(approval, "ls > f", root).verdict is Verdict.ASK
    assert decided(approval, "git status", root).verdict is Verdict.ASK
    assert decided(approval, "git status", root, sandboxed=True).verdict is Verdict.APPROVE
    replaced = ApprovalConfig(auto_approve=PRESET, presets={"$shell-readonly": Preset(approve=("x",))})
    assert decided(replaced, "ls", root).verdict is Verdict.ASK
    assert decided(ApprovalConfig(auto_approve=PRESET, excluded=("shell.exec",)), "ls", root).verdict is Verdict.ASK


@pytest.mark.spec("A11", "A18")
@pytest.mark.parametrize("auto_approve", [("shell.exec",), ("$default",), PRESET])
def test_asking_and_denying_rules_apply_no_matter_what_approves_the_tool(
    root: Path, auto_approve: tuple[str, ...]
) -> None:
    rules = (rule("git push", "deny"), rule("rm", "ask"))
    approval = ApprovalConfig(auto_approve=auto_approve, auto_approve_sandboxed=True, commands=rules)
    assert decided(approval, "make; git push", root, sandboxed=True) == Decision(
        Verdict.DENY, SHELL_PARTS, "'git push': the rule 'git push' denies it."
    )
    assert decided(approval, "echo $(sudo rm x)", root, sandboxed=True).source == SHELL_PARTS
    assert decided(approval, "echo $(sudo rm x)", root, sandboxed=True).verdict is Verdict.ASK
    assert decided(approval, "$x y", root, sandboxed=True).verdict is Verdict.ASK
    assert decided(approval, "make", root, sandboxed=True).verdict is Verdict.APPROVE


@pytest.mark.spec("A8", "A11", "A18")
def test_without_rules_unknown_commands_do_not_cap_the_sandbox_or_an_explicit_list(root: Path) -> None:
    sandboxed = ApprovalConfig(auto_approve_sandboxed=True)
    assert decided(sandboxed, "$x; for i in a; do $i; done", root, sandboxed=True).source == SANDBOX
    listed = ApprovalConfig(auto_approve=("shell.exec",))
    assert decided(listed, "$x; for i in a; do $i; done", root).source == CONFIG
    assert decided(listed, "ls; " * 1100, root).verdict is Verdict.DENY
    assert decided(sandboxed, "x" * 70_000, root, sandboxed=True).verdict is Verdict.DENY


@pytest.mark.spec("A11", "A18")
def test_the_cap_does_not_probe_the_sandbox(root: Path) -> None:
    def probing() -> bool:
        raise AssertionError("the cap must not probe the sandbox")

    cap, *_ = standard_caps(
        ApprovalConfig(auto_approve=PRESET), standard_chain(ApprovalConfig()), sandbox_verified=probing
    )
    assert cap.judge(approval_request(SHELL, {"command": "git status"}, root=root, cwd=str(root))) is None


@pytest.mark.spec("A2", "A11")
def test_a_document_that_decides_comes_before_the_rules(root: Path) -> None:
    approval = ApprovalConfig(auto_approve=("$default",), commands=(rule("ls"),))
    document = DocumentPolicy(outer=approval, function=lambda name, args, ctx: "deny")
    assert decided(approval, "ls", root, document=document).source == FRONTMATTER
    silent = DocumentPolicy(outer=approval, function=lambda name, args, ctx: None)
    assert decided(approval, "ls", root, document=silent).source == COMMANDS


@pytest.mark.spec("A2", "A11")
def test_an_untrusted_list_removes_approvals_by_rules(root: Path) -> None:
    narrowed = ApprovalConfig(auto_approve=PRESET, narrow=(("$default",),))
    assert decided(narrowed, "ls", root).verdict is Verdict.ASK
    same = ApprovalConfig(auto_approve=PRESET, narrow=(PRESET,))
    assert decided(same, "ls", root).verdict is Verdict.APPROVE
    own = ApprovalConfig(commands=(rule("make test"),), narrow=(PRESET,))
    assert decided(own, "make test", root).verdict is Verdict.ASK


@pytest.mark.spec("A11")
def test_rules_approve_only_own_shell_tools_but_restrict_every_tool_that_runs_commands(root: Path) -> None:
    approval = ApprovalConfig(auto_approve=PRESET, commands=(rule("rm", "deny"),))
    stranger = tool("mcp:x:sh", source="mcp:x", capabilities=frozenset({RUNS_COMMANDS}))
    asked = approval_request(stranger, {"command": "ls"}, root=root, cwd=str(root))
    assert decider(approval).decide(asked).verdict is Verdict.ASK
    asked = approval_request(stranger, {"command": "rm x"}, root=root, cwd=str(root))
    assert decider(approval).decide(asked).verdict is Verdict.DENY
    background = tool("process.start", source="builtin", capabilities=frozenset({RUNS_COMMANDS}))
    asked = approval_request(background, {"command": "sh", "args": ["-c", "rm x"]}, root=root, cwd=str(root))
    assert decider(approval).decide(asked).verdict is Verdict.DENY
    one_name = approval_request(background, {"command": "ls; rm x", "args": []}, root=root, cwd=str(root))
    assert decider(approval).decide(one_name).verdict is Verdict.ASK


@pytest.mark.spec("A11")
@pytest.mark.parametrize(
    (
        "cwd",
        "approved",
    ),
    [("src", True), ("..", False), ("/", False), ("~", False), ("$HOME", False)],
)
def test_the_cwd_argument_of_a_call_is_taken_into_account(root: Path, cwd: str, approved: bool) -> None:
    (root / "src").mkdir()
    asked = approval_request(SHELL, {"command": "ls", "cwd": cwd}, root=root, cwd=str(root))
    outcome = decider(ApprovalConfig(auto_approve=PRESET)).decide(asked)
    assert (outcome.verdict is Verdict.APPROVE) is approved


@pytest.mark.spec("A11")
def test_a_relative_cwd_argument_is_resolved_from_the_project_and_from_the_caller(root: Path) -> None:
    (root / "deep" / "src").mkdir(parents=True)
    made = decider(ApprovalConfig(auto_approve=PRESET))
    args: Args = {"command": "cat ../../a.txt", "cwd": "src"}
    assert made.decide(approval_request(SHELL, args, root=root, cwd=str(root / "deep"))).verdict is Verdict.ASK
    args = {"command": "cat ../a.txt", "cwd": "src"}
    assert made.decide(approval_request(SHELL, args, root=root, cwd=str(root / "deep"))).verdict is Verdict.APPROVE
    asked = approval_request(SHELL, args, root=root, cwd=str(root / "deep"), document="notes.chat")
    assert made.decide(asked).verdict is Verdict.ASK


@pytest.mark.spec("A11")
def test_invalid_rules_are_refused_when_the_chain_is_built() -> None:
    with pytest.raises(ConfigError, match="'git log' should match 'git push'"):
        standard_chain(ApprovalConfig(commands=(rule("git log", match=("git push",)),)))


@pytest.mark.spec("A10", "A11")
def test_explain_shows_every_part_and_its_verdict(root: Path) -> None:
    approval = ApprovalConfig(auto_approve=PRESET, commands=(rule("rm", "deny"),))
    made = decider(approval)
    asked = approval_request(SHELL, {"command": 'ls; echo "$(rm x)" > f'}, root=root, cwd=str(root))
    explanation = explain(None, made.chain, made.caps, asked)
    assert [(part.kind, part.verdict, part.inside) for part in explanation.parts] == [
        ("command", Verdict.APPROVE, ""),
        ("command", Verdict.APPROVE, ""),
        ("command", Verdict.DENY, "$(…)"),
        ("redirection", None, ""),
    ]
    assert [(part.text, part.reason) for part in explanation.parts[2:]] == [
        ("rm x", "the rule 'rm' denies it"),
        ("> f", "it writes to 'f'"),
    ]
    assert msgspec.json.decode(msgspec.json.encode(explanation), type=DecisionExplanation) == explanation
    assert explain(None, made.chain, made.caps, approval_request(READ)).parts == ()


@pytest.mark.spec("A11")
def test_the_parser_is_not_imported_before_the_first_command_is_judged() -> None:
    script = (
        "import sys; from holdfast.config.config import ApprovalConfig; import holdfast.rules.from_config as s;"
        "a = ApprovalConfig(auto_approve=('$shell-readonly',)); c = s.standard_chain(a); s.standard_caps(a, c);"
        "assert not any(name.startswith('tree_sitter') for name in sys.modules);"
        "assert 'holdfast.rules.shell.read_only' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
