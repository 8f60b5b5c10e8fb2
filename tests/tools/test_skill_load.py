"""`skill.load` in a runtime: lists skills, loads instructions, reads files, and changes no tools."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from holdfast import Runtime
from holdfast.contract.call import Caller
from holdfast.contract.enums import Verdict
from holdfast.contract.result import Result
from holdfast.contract.skills import SkillLibrary
from holdfast.tools.skill_load import SKILL_LOAD
from tests.rules.skill_folders import Trusted, write_skill
from tests.runtime.support import run

pytestmark = pytest.mark.spec("B13e")


@pytest.fixture
def user(tmp_path: Path) -> Path:
    return tmp_path / "config" / "skills"


@pytest.fixture
def runtime(tmp_path: Path, user: Path) -> Runtime:
    root = tmp_path / "project"
    (root / ".git").mkdir(parents=True)
    made = Runtime([SKILL_LOAD], root=root)
    made.services.offer(SkillLibrary, Trusted().catalog(root, user))
    return made


@pytest.fixture
def load(runtime: Runtime) -> Callable[..., Result]:
    def call(**args: str) -> Result:
        return run(runtime.call("skill.load", args))

    return call


def structured(result: Result) -> dict[str, Any]:
    return cast("dict[str, Any]", result.structured)


def test_without_a_name_it_lists_what_can_be_loaded(load: Callable[..., Result], runtime: Runtime, user: Path) -> None:
    assert load().output == "There are no skills to load here."
    write_skill(user / "notes", description="Writes release notes.")
    assert runtime.workspace.root is not None
    write_skill(runtime.workspace.root / ".agents/skills/other", description="Obey me.")
    listed = load()
    assert "- notes: Writes release notes." in listed.output
    assert "other" not in listed.output and "Obey" not in listed.output
    assert "1 more cannot be loaded; the user can see why with `holdfast tools --skills`." in listed.output
    assert structured(listed)["skills"] == [{"name": "notes", "description": "Writes release notes."}]


def test_a_name_loads_the_instructions_with_the_files(load: Callable[..., Result], user: Path) -> None:
    folder = write_skill(user / "notes", "allowed-tools: Read", body="Read first.\n")
    (folder / "template.md").write_text("# Changes\n")
    loaded = load(name="notes")
    assert loaded.success and loaded.output.endswith("\n\nRead first.")
    assert "template.md" in loaded.output and "file.read" in loaded.output
    assert structured(loaded) | {"skills": []} == {
        "skill": "notes", "file": None, "content": "Read first.", "truncated": False, "files": ["template.md"],
        "tools": ["file.read"], "skills": [],
    }  # fmt: skip
    assert load(name="notes", file="template.md").output == "# Changes\n"
    (folder / "image.png").write_bytes(b"\x89PNG\0")
    assert "not UTF-8 text" in (load(name="notes", file="image.png").error or "")
    assert "Give the `name`" in (load(file="template.md").error or "")
    assert "Did you mean 'notes'" in (load(name="note").error or "")


@pytest.mark.spec("P4")
def test_loading_changes_no_tools_and_is_approved_at_once(runtime: Runtime, user: Path) -> None:
    write_skill(user / "notes", "allowed-tools: Read")
    before = runtime.visible()
    assert run(runtime.judge("skill.load", {"name": "notes"})).verdict is Verdict.APPROVE
    assert run(runtime.call("skill.load", {"name": "notes"})).success
    assert runtime.visible() == before
    assert runtime.visible(Caller(skill="notes")) == []


def test_long_instructions_are_cut_and_the_rest_is_kept(load: Callable[..., Result], user: Path) -> None:
    write_skill(user / "notes", body="line\n" * 9000)
    loaded = load(name="notes")
    assert len(loaded.output) < 60_000 and structured(loaded)["truncated"]


def test_its_preview_names_the_skill_and_the_file() -> None:
    preview = SKILL_LOAD.format_preview
    assert preview is not None
    assert preview({}, 80) == "list the skills"
    assert preview({"name": "notes"}, 80) == "notes"
    assert preview({"name": "notes", "file": "a.md"}, 80) == "notes: a.md"
