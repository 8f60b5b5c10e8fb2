"""`holdfast init`: the files it writes."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from holdfast.cli.commands.init import FULL, SHORT
from holdfast.config.layers import load
from holdfast.rules.from_config import CommandRules
from tests.cli.command_line import Cli


@pytest.mark.spec("E1a", "E1e")
@pytest.mark.parametrize(("words", "content"), [((), SHORT), (("--full",), FULL)])
def test_init_writes_a_file_that_changes_nothing_and_never_overwrites(
    cli: Cli, words: tuple[str, ...], content: str
) -> None:
    before = cli.run("config", "--json").json["config"]
    done = cli.run("init", *words)
    path = cli.project / "holdfast.toml"
    assert (done.code, done.out) == (0, f"Created {path}.\n")
    assert path.read_text() == content
    assert "  holdfast tour " in done.err and "  holdfast chat new " in done.err
    assert cli.run("config", "--json").json["config"] == before
    again = cli.run("init", *words)
    assert again.code == 2
    assert "already exists" in again.sentence


@pytest.mark.spec("E1e")
def test_the_short_file_is_short() -> None:
    assert len(SHORT.splitlines()) < 15 < len(FULL.splitlines())


@pytest.mark.spec("E1a")
@pytest.mark.parametrize("template", [SHORT, FULL])
def test_every_line_of_the_written_file_can_be_used(tmp_path: Path, template: str) -> None:
    lines = [line.removeprefix("# ") if " = " in line or "[[" in line else line for line in template.splitlines()]
    (tmp_path / "holdfast.toml").write_text("\n".join(lines))
    assert tomllib.loads("\n".join(lines))["approval"]["commands"]
    user = tmp_path / "user.toml"
    user.write_text("")
    loaded = load(root=tmp_path, is_trusted=lambda path, digest: True, user_file=user)
    CommandRules(loaded.config.approval).check()
    assert loaded.config.confirmation.actions == ({"file.write": "confirm"} if template is FULL else {})
    assert loaded.notices == ()
