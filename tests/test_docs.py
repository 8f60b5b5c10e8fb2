"""The documents cannot lie: what they show is run."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from holdfast.config.load import load

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def _blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.mark.spec("T2")
def test_the_python_example_of_the_readme_prints_what_the_readme_says(tmp_path: Path) -> None:
    (program,) = _blocks(README, "python")
    (printed,) = _blocks(README, "text")
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, cwd=tmp_path, check=False
    )
    assert done.stderr == ""
    assert done.stdout == printed


def test_the_configuration_of_the_readme_is_valid(tmp_path: Path) -> None:
    (text,) = _blocks(README, "toml")
    (tmp_path / "holdfast.toml").write_text(text)
    (tmp_path / "user.toml").write_text("")
    loaded = load(root=tmp_path, is_trusted=lambda path, digest: True, user_file=tmp_path / "user.toml")
    assert loaded.config.tools.deny == tuple(tomllib.loads(text)["tools"]["deny"])
    assert loaded.config.approval.auto_approve == ("$readonly",)


def test_links_between_the_documents_lead_somewhere() -> None:
    for document in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name} points to {target}"
