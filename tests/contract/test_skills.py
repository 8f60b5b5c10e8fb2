"""The protocol of skills: the catalogue of a project satisfies it."""

from __future__ import annotations

from pathlib import Path

from holdfast.contract.skills import LoadedSkill, SkillLibrary, SkillSummary
from tests.rules.skill_folders import Trusted, write_skill


def test_the_catalogue_is_a_library(tmp_path: Path) -> None:
    write_skill(tmp_path / "user" / "notes", description="Writes notes.", body="Write.")
    library: SkillLibrary = Trusted().catalog(None, tmp_path / "user")
    assert library.summaries() == ([SkillSummary(name="notes", description="Writes notes.")], 0)
    assert library.load("notes") == LoadedSkill(
        name="notes", description="Writes notes.", instructions="Write.", folder=None
    )
