"""The documents cannot lie: what they show is run."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from holdfast.config.layers import load
from holdfast.rules.from_config import CommandRules

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


def test_the_configurations_of_the_readme_are_valid(tmp_path: Path) -> None:
    commands, policy = _blocks(README, "toml")
    for text in (commands, policy):
        (tmp_path / "holdfast.toml").write_text(text)
        (tmp_path / "user.toml").write_text("")
        loaded = load(root=tmp_path, is_trusted=lambda path, digest: True, user_file=tmp_path / "user.toml")
        CommandRules(loaded.config.approval).check()
        assert loaded.config.approval.auto_approve == tuple(tomllib.loads(text)["approval"]["auto_approve"])


@pytest.mark.spec("E1a", "E1b")
def test_the_commands_of_the_readme_do_what_the_readme_says(tmp_path: Path) -> None:
    environment = {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "HOME": str(tmp_path / "home"),
        "LANG": "C.UTF-8",
    }
    folder = tmp_path / "demo"
    folder.mkdir()

    def shell(line: str) -> tuple[int, str]:
        done = subprocess.run(
            ["bash", "-c", line], cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        return done.returncode, done.stdout + done.stderr

    lines = [line.partition("  #")[0].strip() for line in _blocks(README, "sh")[1].splitlines()]
    assert lines[1] == "mkdir demo && cd demo && holdfast init" and shell("holdfast init")[0] == 0
    ends: dict[str, int] = {}
    for line in lines[2:]:
        held = re.search(r"[a-z2-7]+-[0-9]+", shell("holdfast pending --json")[1])
        code, said = shell(line.replace("ID", held[0] if held else "ID"))
        ends[line] = code
        assert "Traceback" not in said
    assert [line for line, code in ends.items() if code] == [
        "holdfast call --pending file.write path=Makefile content=x",
        "holdfast undo",
    ], "the parked call waits, and undo asks first"
    assert (folder / "Makefile").read_text() == "x"
    assert shell("holdfast undo --yes")[0] == 0
    assert not (folder / "Makefile").exists()


def test_links_between_the_documents_lead_somewhere() -> None:
    for document in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name} points to {target}"
