"""The seeds of the fuzzer."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.contract.enums import Verdict
from holdfast.fuzz.corpus import HARM, READONLY_CORPUS, SECRETS, TEMPLATES, WRITTEN
from holdfast.fuzz.fuzzer import create_project
from holdfast.rules.shell.judgement import CommandJudge
from tests.rules.shell.command_judges import in_project


@pytest.mark.spec("A11", "E1b")
def test_the_preset_approves_every_seed_in_the_tidy_project(tmp_path: Path) -> None:
    base = tmp_path.resolve()
    create_project(base, tidy=True)
    judge, context = CommandJudge(readers=True, quiet=True), in_project(base / "project")
    refused = {text: judge.judge(text, context).reason for text in READONLY_CORPUS}
    assert [text for text in READONLY_CORPUS if judge.judge(text, context).verdict is not Verdict.APPROVE] == [], (
        refused
    )


@pytest.mark.spec("E1b")
def test_every_template_can_be_filled_in() -> None:
    fields = {"b": "ls", "h": HARM[0], "p": "ls", "a": "", "w": WRITTEN[0], "s": SECRETS[0]}
    for kind, templates in TEMPLATES.items():
        assert all(template.format(**fields) for template in templates), kind
