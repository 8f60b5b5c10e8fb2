"""The data types of the shell analysis."""

from __future__ import annotations

import pytest

from holdfast.contract.enums import Verdict
from holdfast.contract.widening import Widening
from holdfast.rules.shell.parts import CommandPart, JudgedPart, ShellJudgement, word_set

HOST = Widening(hosts=("example.com",))
SECRETS = Widening(read=("/secrets",))


def judgement(*parts: tuple[str, Widening | None], verdict: Verdict | None = Verdict.APPROVE) -> ShellJudgement:
    judged = [JudgedPart(kind="command", text=rule, verdict=verdict, rule=rule, needs=needs) for rule, needs in parts]
    return ShellJudgement(parts=tuple(judged), verdict=verdict, reason="")


def test_a_word_set_has_the_words_of_a_text() -> None:
    assert word_set(" a b\n  c ") == {"a", "b", "c"}


def test_a_part_is_piped_if_another_command_feeds_it() -> None:
    assert CommandPart(kind="command", text="sort", number=2, piped_from=1).piped
    assert not CommandPart(kind="command", text="sort", number=2).piped


def test_the_rules_of_a_judgement_are_listed_once_in_order() -> None:
    assert judgement(("b", None), ("a", None), ("b", None)).rules == ("b", "a")


@pytest.mark.spec("A11")
def test_the_access_of_a_command_is_that_of_all_its_parts() -> None:
    assert judgement(("push", HOST), ("ls", None), ("cat", SECRETS)).needs == HOST | SECRETS


@pytest.mark.spec("A11")
def test_a_command_needs_no_prompt_only_if_every_part_has_the_same_access() -> None:
    assert judgement(("push", HOST)).needs_all("harmless")
    assert judgement(("push", HOST), ("harmless", None)).needs_all("harmless")
    assert not judgement(("push", HOST), ("other", None)).needs_all("harmless")
    assert not judgement(("show", SECRETS), ("harmless", None)).needs_all("harmless"), "it prints what it can read"
    assert not judgement(("push", HOST), verdict=None).needs_all("harmless")
