"""The catalogue of skills: where they are found, which of them count, and that nothing outside of them is read."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from holdfast.config.config import Config, PolicyLayer, ToolsConfig
from holdfast.contract.errors import ConfigError, SkillRefused
from holdfast.rules.skill_file import MAX_SKILL_BYTES
from holdfast.rules.skills import SkillCatalog
from tests.rules.skill_folders import BODY, Trusted, write_skill

pytestmark = pytest.mark.spec("B13b")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def user(tmp_path: Path) -> Path:
    return tmp_path / "config" / "skills"


def states(catalog: SkillCatalog) -> dict[str, str]:
    return {f"{skill.name} {skill.origin}": skill.state for skill in catalog.all()}


def never(path: Path) -> bool:
    return False


def test_skills_of_the_user_count_at_once_and_those_of_the_project_only_when_trusted(root: Path, user: Path) -> None:
    trusted = Trusted()
    catalog = trusted.catalog(root, user)
    assert catalog.all() == []
    write_skill(user / "mine")
    folders = [
        write_skill(root / place / place[1:3]) for place in (".agents/skills", ".holdfast/skills", ".claude/skills")
    ]
    write_skill(root / "skills" / "elsewhere")
    assert states(catalog) == {
        "mine user": "ok", "ag project": "untrusted", "ho project": "untrusted", "cl project": "untrusted",
    }  # fmt: skip
    for folder in folders:
        trusted.trust(folder)
    assert set(states(catalog).values()) == {"ok"}


@pytest.mark.spec("P4")
def test_a_change_to_either_file_ends_the_trust_and_says_which_command_renews_it(root: Path, user: Path) -> None:
    trusted = Trusted()
    catalog = trusted.catalog(root, user)
    folder = write_skill(root / ".agents/skills/notes", "allowed-tools: Read")
    asks = f"`holdfast trust {folder}/SKILL.md`"
    with pytest.raises(SkillRefused, match="is not trusted") as refused:
        catalog.load("notes")
    assert asks in str(refused.value)
    trusted.trust(folder)
    assert catalog.load("notes").instructions == BODY.strip()
    original = (folder / "SKILL.md").read_text()
    (folder / "SKILL.md").write_text(original + "And delete it.\n")
    with pytest.raises(SkillRefused, match="changed since you trusted it"):
        catalog.load("notes")
    (folder / "SKILL.md").write_text(original)
    assert catalog.load("notes").name == "notes"
    (folder / "manifest.json").write_text('{"permissions": {"tools": ["*"]}}')
    found = catalog.find("notes")
    assert found is not None and found.state == "changed" and found.permissions.allow == ()


def test_two_files_cannot_be_shifted_into_each_other_without_ending_the_trust(root: Path, user: Path) -> None:
    trusted = Trusted()
    folder = write_skill(root / ".agents/skills/notes", manifest='{"permissions": {}}')
    trusted.trust(folder)
    (folder / "SKILL.md").write_bytes((folder / "SKILL.md").read_bytes() + (folder / "manifest.json").read_bytes())
    (folder / "manifest.json").unlink()
    assert states(trusted.catalog(root, user)) == {"notes project": "changed"}


def test_the_first_of_two_skills_of_one_name_counts_and_the_other_says_so(root: Path, user: Path) -> None:
    trusted = Trusted()
    for folder in (user, root / ".agents/skills", root / ".claude/skills"):
        trusted.trust(write_skill(folder / "notes", body=str(folder)))
    catalog = trusted.catalog(root, user)
    assert catalog.load("notes").instructions == str(user)
    assert [skill.state for skill in catalog.all()] == ["ok", "shadowed", "shadowed"]
    assert str(user / "notes") in catalog.all()[1].problem
    assert catalog.summaries()[0][0].name == "notes" and len(catalog.summaries()[0]) == 1
    (user / "notes" / "SKILL.md").write_text("broken")
    with pytest.raises(SkillRefused, match="front matter"):
        catalog.load("notes")


@pytest.mark.spec("P4")
def test_a_configured_folder_needs_trust_unless_it_is_the_users(root: Path, user: Path) -> None:
    trusted = Trusted()
    here = write_skill(root / "tools" / "notes", "allowed-tools: Read")
    mine = write_skill(user / "mine", "allowed-tools: Read")
    catalog = trusted.catalog(root, user, notes=here, again=mine)
    assert states(catalog) == {"mine user": "ok", "again configured": "ok", "notes configured": "untrusted"}
    trusted.trust(here)
    assert catalog.permissions["notes"].allow == ("file.read",)


def test_user_skills_inside_the_project_need_trust_like_others(root: Path) -> None:
    user = root / "config" / "skills"
    write_skill(user / "mine")
    assert states(Trusted().catalog(root, user)) == {"mine user": "untrusted"}


@pytest.mark.spec("B13f")
def test_links_that_lead_outside_are_invalid_and_links_inside_the_project_are_not(root: Path, user: Path) -> None:
    trusted = Trusted()
    outside = write_skill(root.parent / "outside" / "far")
    inside = write_skill(root / ".agents/skills/near")
    (root / ".claude/skills").mkdir(parents=True)
    (root / ".claude/skills/far").symlink_to(outside)
    (root / ".claude/skills/near").symlink_to(inside)
    user.mkdir(parents=True)
    (user / "far").symlink_to(outside)
    trusted.trust(outside)
    trusted.trust(inside)
    catalog = trusted.catalog(root, user)
    assert [(skill.name, skill.origin, skill.state) for skill in catalog.all()] == [
        ("far", "user", "invalid"), ("far", "project", "shadowed"),
        ("near", "project", "ok"), ("near", "project", "shadowed"),
    ]  # fmt: skip
    assert "outside of" in catalog.all()[0].problem


@pytest.mark.spec("B13f")
@pytest.mark.parametrize("name", ["SKILL.md", "manifest.json"])
def test_a_file_of_the_two_that_is_a_link_makes_the_skill_invalid(root: Path, user: Path, name: str) -> None:
    folder = write_skill(user / "notes", manifest="{}")
    shutil.move(folder / name, root / name)
    (folder / name).symlink_to(root / name)
    found = Trusted().catalog(root, user).find("notes")
    assert found is not None and found.state == "invalid" and f"its {name} is a link" in found.problem


@pytest.mark.spec("B13f")
def test_broken_skills_are_listed_with_the_reason_and_cannot_be_used(root: Path, user: Path) -> None:
    write_skill(user / "renamed", name="other")
    write_skill(user / "yaml", "allowed-tools: &a b")
    write_skill(user / "bytes")
    (user / "bytes" / "SKILL.md").write_bytes(b"---\n\xff\n---\n")
    write_skill(user / "pipe")
    (user / "pipe" / "SKILL.md").unlink()
    os.mkfifo(user / "pipe" / "SKILL.md")
    huge = write_skill(user / "huge") / "SKILL.md"
    with huge.open("ab") as file:
        file.truncate(100 * 1024 * 1024)
    (user / "empty").mkdir()
    catalog = Trusted().catalog(root, user)
    problems = {skill.name: skill.problem for skill in catalog.all() if skill.state == "invalid"}
    expected = {
        "renamed": "its name is 'other', but its folder is 'renamed'",
        "yaml": "'allowed-tools'",
        "bytes": "not UTF-8",
        "pipe": "named pipe",
        "huge": f"larger than {MAX_SKILL_BYTES // 1024} KB",
    }
    assert problems.keys() == expected.keys()
    for name, words in expected.items():
        assert words in problems[name]
        with pytest.raises(SkillRefused, match="cannot be used"):
            catalog.load(name)
        assert catalog.permissions[name].allow == ()


@pytest.mark.spec("B13f")
def test_a_skill_that_was_deleted_is_gone_at_the_next_load(root: Path, user: Path) -> None:
    folder = write_skill(user / "notes")
    catalog = Trusted().catalog(root, user)
    assert catalog.load("notes").name == "notes"
    shutil.rmtree(folder)
    with pytest.raises(SkillRefused, match="There is no skill 'notes'"):
        catalog.load("notes")


def test_a_misspelt_name_gets_a_suggestion(root: Path, user: Path) -> None:
    write_skill(user / "release-notes")
    catalog = Trusted().catalog(root, user)
    with pytest.raises(SkillRefused, match=r"Did you mean 'release-notes'\?"):
        catalog.load("release-note")
    for name in ("", "..", "../config", "a/b", "a\0b", ".hidden", "\x1b[2J", "x" * 10_000):
        with pytest.raises(SkillRefused, match="There is no skill"):
            catalog.load(name)


@pytest.mark.spec("P4")
def test_entering_needs_a_skill_that_can_be_used_and_an_agent_that_exists(root: Path, user: Path) -> None:
    write_skill(user / "notes")
    write_skill(root / ".agents/skills/new")
    catalog = Trusted().catalog(root, user)
    agents = ToolsConfig(agents={"reviewer": PolicyLayer(profile="minimal")})
    catalog.check_entered(Config(skill="notes", agent="reviewer", tools=agents))
    for config, words in (
        (Config(skill="note"), "Did you mean 'notes'"),
        (Config(skill="new"), "`holdfast trust "),
        (Config(agent="reviewr", tools=agents), "Did you mean 'reviewer'"),
        (Config(agent="anyone"), "Add it to tools.agents"),
    ):
        with pytest.raises(ConfigError, match=words):
            catalog.check_entered(config)


def test_the_files_of_a_skill_are_listed_without_hidden_ones_and_links(root: Path, user: Path) -> None:
    folder = write_skill(user / "notes", manifest="{}")
    for name in ("b.md", "scripts/a.py", ".git/config", ".env", "deep/1/2/3/4/5/6/far.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")
    (folder / "link.md").symlink_to("b.md")
    loaded = Trusted().catalog(root, user).load("notes")
    assert loaded.files == ("b.md", "scripts/a.py") and not loaded.more_files
    assert loaded.folder is None
    for number in range(300):
        (folder / f"{number}.txt").touch()
    many = Trusted().catalog(root, user).load("notes")
    assert len(many.files) == 200 and many.more_files


@pytest.mark.spec("B13f")
def test_only_files_inside_the_skill_can_be_read(root: Path, user: Path) -> None:
    folder = write_skill(user / "notes")
    (folder / "references").mkdir()
    (folder / "references" / "a.md").write_text("deep")
    (folder.parent / "config.toml").write_text("secret")
    (folder / "link.md").symlink_to("../config.toml")
    (folder / "up").symlink_to("..")
    catalog = Trusted().catalog(root, user)
    assert catalog.read_file("notes", "references/a.md", never) == b"deep"
    assert catalog.read_file("notes", "./references/../references/a.md", never) == b"deep"
    for file in ("../config.toml", "/etc/passwd", "link.md", "up/config.toml", ".", "references", "a\0b", "nowhere"):
        with pytest.raises(SkillRefused):
            catalog.read_file("notes", file, never)
    with pytest.raises(SkillRefused, match="can hold secrets"):
        catalog.read_file("notes", "references/a.md", lambda path: path == folder / "references" / "a.md")
    with (folder / "big.txt").open("wb") as file:
        file.truncate(100 * 1024 * 1024)
    with pytest.raises(SkillRefused, match="larger than 1024 KB"):
        catalog.read_file("notes", "big.txt", never)
