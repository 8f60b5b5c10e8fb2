"""Everything the README shows is executed: its program, its configuration, its commands and its picture."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from holdfast.config.layers import load
from holdfast.rules.from_config import CommandRules
from scripts.approval_picture import picture
from tests.docs.programs import ROOT, blocks_of, programs_of, run_program

README = ROOT / "README.md"
NOT_RUN = {
    "pip install 'holdfast[all]'": "installs from an index",
    "holdfast chat fix.chat --model ollama:qwen3": "needs a model server",
    "holdfast mcp servers": "tests/mcp runs it with real servers",
    "holdfast mcp review": "tests/mcp runs it with real servers",
    "holdfast mcp install claude": "needs the client; tests/cli/mcp runs it with its configuration file",
}


def _command_lines() -> list[str]:
    shell = [block.text for block in blocks_of(README) if block.language == "sh"]
    return [line.partition("  #")[0].strip() for text in shell for line in text.splitlines()]


@pytest.mark.spec("T2")
def test_the_python_program_prints_what_the_readme_shows(tmp_path: Path) -> None:
    (program,) = programs_of(README)
    printed, errors = run_program(program.source, tmp_path)
    assert errors == ""
    assert printed == program.printed


def test_the_configurations_are_valid(tmp_path: Path) -> None:
    tables = [block.text for block in blocks_of(README) if block.language == "toml"]
    assert len(tables) == 2
    for text in tables:
        (tmp_path / "holdfast.toml").write_text(text)
        (tmp_path / "user.toml").write_text("")
        loaded = load(root=tmp_path, is_trusted=lambda path, digest: True, user_file=tmp_path / "user.toml")
        CommandRules(loaded.config.approval).check()
        assert loaded.config.approval.auto_approve == tuple(tomllib.loads(text)["approval"]["auto_approve"])


@pytest.mark.spec("E1a", "E1b")
def test_the_commands_do_what_the_readme_says(tmp_path: Path) -> None:
    environment = {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "HOME": str(tmp_path / "home"),
        "LANG": "C.UTF-8",
    }
    folder = tmp_path / "demo"

    def shell(line: str) -> tuple[int, str]:
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=folder if folder.exists() else tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    lines = [line for line in _command_lines() if line not in NOT_RUN]
    assert len(lines) + len(NOT_RUN) == len(_command_lines())
    ends: dict[str, int] = {}
    printed: dict[str, str] = {}
    for line in lines:
        pending = re.search(r"[a-z2-7]+-[0-9]+", shell("holdfast pending --json")[1]) if "ID" in line else None
        ends[line], printed[line] = shell(line.replace("ID", pending[0] if pending else "ID"))
        assert "Traceback" not in printed[line]
        if line == "holdfast undo":
            assert (folder / "Makefile").read_text() == "x", "undo asks first"
            assert shell("holdfast undo --yes")[0] == 0
            assert not (folder / "Makefile").exists()
    assert {line: code for line, code in ends.items() if code} == {
        "holdfast call --pending file.write path=Makefile content=x": 4,
        "holdfast undo": 2,
        "holdfast chat fix.chat": 4,
    }, printed


def test_the_example_document_is_what_the_commands_write(tmp_path: Path) -> None:
    """The block in the README is the end of the document that the two commands above it make."""
    text = README.read_text()
    shown = text.partition("````text\n")[2].partition("````")[0]
    environment = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(tmp_path), "LANG": "C.UTF-8"}
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "notes.txt").write_text("one\ntwo\nthree\n")
    chat = [line for line in _command_lines() if line.startswith("holdfast chat ") and line not in NOT_RUN]
    for line in ("holdfast init", *chat):
        subprocess.run(
            ["bash", "-c", line],
            cwd=tmp_path / "demo",
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=120,
            check=False,
        )
    written = (tmp_path / "demo" / "fix.chat").read_text()
    assert written.rstrip().endswith(shown.rstrip())


def test_the_picture_is_drawn_from_a_real_run() -> None:
    drawn = (ROOT / "docs" / "approval.svg").read_text()
    assert drawn == picture(), "out of date: python -m scripts.approval_picture > docs/approval.svg"
    assert "rsync" in drawn and "curl" in drawn
