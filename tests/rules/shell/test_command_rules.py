"""Command rules: matching, and the rules that a configuration may contain."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from msgspec.structs import replace

from holdfast.config.config import CommandRule
from holdfast.contract.enums import Verdict
from holdfast.contract.errors import ConfigError
from holdfast.fuzz.corpus import READONLY_CORPUS
from holdfast.fuzz.fuzzer import create_project
from holdfast.rules.shell.judgement import EXAMPLE_CONTEXT, compile_rules

from .command_judges import in_project, judge_with, judged, rule, verdict


@pytest.mark.spec("A11")
@pytest.mark.parametrize("text", READONLY_CORPUS)
def test_the_shipped_preset_approves_commands_that_only_read(text: str, tmp_path: Path) -> None:
    create_project(tmp_path, tidy=True)
    context = in_project(tmp_path / "project")
    assert judged(text, context=context).verdict is Verdict.APPROVE, judged(text, context=context).reason


@pytest.mark.spec("A11")
@pytest.mark.parametrize(
    ("words", "options", "text", "applies"),
    [
        ("make test", (), "make test", True),
        ("make test", (), "make", False),
        ("make test", (), "make test x", False),
        ("make test", (), "make -s test", False),
        ("make test", ("-s",), "make test -s", True),
        ("git log *", (), "git log main notes.txt", True),
        ("git log *", (), "git log --oneline", False),
        ("git log *", ("--oneline",), "git log --oneline main", True),
        ("git log *", ("--format=",), "git log --format=%h main", True),
        ("git log *", ("--format",), "git log --format=%h main", False),
        ("git log *", (), "git log ../other", False),
        ("git log *", (), "git log /etc/passwd", False),
        ("cat *", ("-n",), "cat -n notes.txt", True),
        ("cat *", ("-n",), "cat -nb notes.txt", False),
        ("cat *", (), "cat -", True),
        ("cat *", (), "cat -- -n", False),
        ("sort *", ("-o",), "sort -o notes.txt", False),
        ("find *", ("-exec",), "find . -exec rm", False),
        ("sed -n '1,5p' *", (), "sed -n 1,5p notes.txt", True),
        ("python3 -c 1 *", (), "x", None),
        ("echo 'a b'", (), "echo 'a b'", True),
        ("echo 'a b'", (), "echo a b", False),
    ],
)
def test_an_approving_rule_covers_exactly_its_words_options_and_operands_in_the_project(
    words: str, options: tuple[str, ...], text: str, applies: bool | None
) -> None:
    if applies is None:
        with pytest.raises(ConfigError, match="spell out the whole command"):
            judge_with(rule(words, options=options))
        return
    assert verdict(text, judge_with(rule(words, options=options))) is (Verdict.APPROVE if applies else None)


@pytest.mark.spec("A11")
@pytest.mark.parametrize(
    ("words", "text", "applies"),
    [
        ("git push", "git push --force origin", True),
        ("git push", "git -C x push", True),
        ("git push", "git -c a=b --no-pager push", True),
        ("git push", "git commit -m push", False),
        ("git push", "git pull", False),
        ("git push *", "git push", True),
        ("git push --force", "git push origin --force", True),
        ("git push --force", "git push origin", False),
        ("rm -r", "rm -fr x", True),
        ("rm -r", "rm -f x", False),
        ("rm", "/usr/bin/rm x", True),
        ("docker run", "docker --context x run y", True),
        ("npm publish", "npm publish --tag=x", True),
    ],
)
def test_a_denying_rule_matches_with_options_anywhere(words: str, text: str, applies: bool) -> None:
    assert verdict(text, judge_with(rule(words, "deny"))) is (Verdict.DENY if applies else None)


@pytest.mark.spec("A11")
def test_deny_is_stronger_than_ask_and_ask_than_approve() -> None:
    both = judge_with(rule("git log *"), rule("git log x", "ask"), rule("git log x y", "deny"))
    assert verdict("git log a", both) is Verdict.APPROVE
    assert verdict("git log x", both) is Verdict.ASK
    assert verdict("git log x y", both) is Verdict.DENY
    assert verdict("git log a; git log x; git log x y", both) is Verdict.DENY


@pytest.mark.spec("A11")
@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (rule("*"), "names no program"),
        (rule("a * b"), "must come last"),
        (rule("'a"), "quotes are not balanced"),
        (rule("/bin/ls"), "plain program name"),
        (rule("A=1 ls"), "plain program name"),
        (rule("export A=1"), "changes what later commands mean"),
        (rule("eval *"), "changes what later commands mean"),
        (rule("git *"), "may name a program"),
        (rule("git clone *"), "may name a program"),
        (rule("git -c *"), "may name a program"),
        (rule("python3 *"), "is not known to treat its operands as data"),
        (rule("python3.11 -m *"), "is not known to treat its operands as data"),
        (rule("bash *"), "is not known to treat its operands as data"),
        (rule("sudo *"), "is not known to treat its operands as data"),
        (rule("env *"), "is not known to treat its operands as data"),
        (rule("xargs *"), "is not known to treat its operands as data"),
        (rule("perl *"), "is not known to treat its operands as data"),
        (rule("tee *"), 'operands = "files"'),
        (rule("pytest *"), 'operands = "files"'),
        (rule("no-such-program *"), "is not known to treat its operands as data"),
        (CommandRule(rule="bash *", verdict="approve", operands="files"), "is not known to treat"),
        (rule("git log *", options=("--output=",)), "'--output=' of git"),
        (rule("ls *", options=("la",)), "does not begin with '-'"),
    ],
)
def test_a_rule_that_would_approve_too_much_is_a_configuration_error(given: CommandRule, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as caught:
        compile_rules((given,))
    assert f"'{given.rule}'" in str(caught.value)


@pytest.mark.spec("A11")
def test_the_examples_of_a_rule_are_checked() -> None:
    compile_rules((rule("git log *", match=("git log a",), not_match=("git log; rm x", "git log $(x)")),))
    compile_rules((rule("rm", "deny", match=("echo $(rm x)",), not_match=("echo rm",)),))
    with pytest.raises(ConfigError, match="should match 'git push' and does not"):
        compile_rules((rule("git log *", match=("git log", "git push")),))
    with pytest.raises(ConfigError, match="should not match 'sudo rm x' and does"):
        compile_rules((rule("rm", "deny", not_match=("sudo rm x",)),))


@pytest.mark.spec("A11")
def test_an_exact_rule_may_approve_any_command_but_only_that_one() -> None:
    parsed_words = judge_with(rule("python3 -m pytest"), rule("bash scripts/test.sh"), rule("sudo ls"))
    assert verdict("python3 -m pytest", parsed_words) is Verdict.APPROVE
    assert verdict("python3 -m pytest; bash scripts/test.sh", parsed_words) is Verdict.APPROVE
    assert verdict("sudo ls", parsed_words) is Verdict.APPROVE
    assert verdict("python3 -m pytest tests", parsed_words) is None
    assert verdict("bash scripts/test.sh; bash other.sh", parsed_words) is None


@pytest.mark.spec("A11")
def test_git_is_approved_only_in_a_sandbox() -> None:
    bare = replace(EXAMPLE_CONTEXT, is_sandboxed=lambda: False)
    assert verdict("git status", context=bare) is None
    assert "there is no sandbox" in judged("git status", context=bare).reason
    assert verdict("git log a", judge_with(rule("git log *")), bare) is None
    assert verdict("ls", context=bare) is Verdict.APPROVE


@pytest.mark.spec("A11")
@pytest.mark.parametrize("rule", ["git push; rm", "a | b", "echo $(x)", "git push > f", "rm $x", "a &", "a\nb"])
@pytest.mark.parametrize("verdict", ["approve", "deny"])
def test_a_rule_that_could_never_match_is_refused(rule: str, verdict: Literal["approve", "deny"]) -> None:
    with pytest.raises(ConfigError, match="the words of one command"):
        compile_rules((CommandRule(rule=rule, verdict=verdict),))
    compile_rules((CommandRule(rule=f"echo '{rule}'", verdict="deny"),))
