"""The pages about skills and sessions: their files are valid and their commands run in order."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from holdfast.rules.skill_file import parse_manifest, parse_skill_file
from tests.cli.command_line import Cli
from tests.docs.programs import ROOT, Block, blocks_of

SKILLS, SESSIONS = ROOT / "docs" / "skills.md", ROOT / "docs" / "sessions.md"


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli.in_folder(tmp_path)


def blocks(page: Path, language: str) -> list[Block]:
    return [block for block in blocks_of(page) if block.language == language]


def test_the_commands_about_skills_work_in_order(cli: Cli) -> None:
    (skill,) = blocks(SKILLS, "markdown")
    folder = cli.project / ".agents" / "skills" / parse_skill_file(skill.text.encode()).name
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(skill.text)
    printed = ""
    for block in blocks(SKILLS, "sh"):
        for line in block.text.splitlines():
            done = cli.run(*shlex.split(line)[1:])
            assert done.code == 0, (line, done)
            printed += done.out
    assert "untrusted" in printed and '"state":"ok"' in printed.replace(" ", "")
    assert "1. Read `CHANGELOG.md`" in printed and "\n5\n" in printed
    (manifest,) = blocks(SKILLS, "json")
    assert parse_manifest(manifest.text).allow == ("file.read", "git.*")
    (frontmatter,) = blocks(SKILLS, "toml")
    cli.configure('[tools.agents.reviewer]\nprofile = "minimal"\n')
    (cli.project / "both.chat").write_text(f"```toml\n{frontmatter.text}```\n\n@You:\nwhat is 2+3?\n")
    assert cli.run("chat", "both.chat").code == 0


def test_the_commands_about_sessions_work(cli: Cli) -> None:
    cli.run("call", "calculator", "expression=1")
    for block in blocks(SESSIONS, "sh"):
        for line in block.text.splitlines():
            done = cli.run(*shlex.split(line)[1:])
            assert done.code == 0, (line, done)
    assert "cli" in cli.run("--set", 'tools.allow=["sessions.*"]', "call", "sessions.list").out
