"""Surfaces narrow what is shown and what runs; plan mode lets nothing change."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast import Caller, Config, Tool
from holdfast.agent.surface import (
    ANSWER_ONLY,
    GIT_READ_ONLY,
    MUTATION_ENABLED,
    RETRIEVAL_FIRST,
    Surface,
)
from holdfast.config.config import ApprovalConfig
from holdfast.contract.enums import State
from holdfast.tools import builtin_tools
from tests.agent.scripted import Stage, said, saying, use

NAMES = (
    "file.read", "file.list", "file.find", "file.write", "file.edit", "code.search", "git.status", "git.diff",
    "git.log", "shell.exec", "output.read",
)  # fmt: skip

LOOKING = ("file.read", "file.list", "file.find", "code.search")
GIT = ("git.status", "git.diff", "git.log")


def tools() -> list[Tool]:
    """The built-ins of these names, which only say what they are called."""
    known = {tool.name: tool for tool in builtin_tools()}
    return [saying(name, name).with_(groups=known[name].groups, effects=known[name].effects) for name in NAMES]


@pytest.mark.spec("P6")
@pytest.mark.parametrize(
    ("surface", "shown"),
    [
        (RETRIEVAL_FIRST, {*LOOKING, "output.read"}),
        (GIT_READ_ONLY, {*GIT, "output.read"}),
        (MUTATION_ENABLED, {*LOOKING, "file.write", "file.edit", "output.read"}),
        (ANSWER_ONLY, set[str]()),
        (Surface("mine", ("group:git", "shell.*", "note")), {*GIT, "shell.exec", "note"}),
    ],
)
def test_a_surface_narrows_what_is_shown_and_what_runs(tmp_path: Path, surface: Surface, shown: set[str]) -> None:
    calls = [use(name, name, "{}") for name in NAMES]
    stage = Stage(tmp_path, said(use("n", "note"), *calls), tools=tools(), surface=surface)
    assert stage.advance(config=Config(approval=ApprovalConfig(auto_approve=("*",)))).kind == "done"
    assert stage.model.tools == [sorted(shown)] * 2
    told = {result.name: result.output for result in stage.results()}
    for name in NAMES:
        assert told[name] == (name if name in shown else f"Tool '{name}' is not allowed by tool policy")
    assert len(stage.notes) == ("note" in shown)


@pytest.mark.spec("P6")
def test_a_surface_adds_nothing_to_what_the_caller_has(tmp_path: Path) -> None:
    off = saying("file.list", "off").with_(enabled=False)
    kept = [tool for tool in tools() if tool.name != "file.list"]
    only = Caller(only=frozenset({"file.read", "git.log"}))
    stage = Stage(tmp_path, said(use("a1", "file.find", "{}")), tools=[*kept, off], surface=RETRIEVAL_FIRST)
    stage.options["caller"] = only
    assert stage.advance().kind == "done"
    assert stage.model.tools == [["file.read"]] * 2
    assert stage.results()[0].error
    stage.options["caller"] = None
    stage.person.say("Again.")
    assert stage.advance().kind == "done"
    assert stage.model.tools[-1] == ["code.search", "file.find", "file.read", "output.read"]


@pytest.mark.spec("P6")
def test_a_surface_lasts_for_the_turns_it_is_set_for(tmp_path: Path) -> None:
    stage = Stage(tmp_path, surface=ANSWER_ONLY)
    assert stage.advance().kind == "done"
    stage.options.pop("surface")
    stage.person.say("Again.")
    assert stage.advance().kind == "done"
    assert stage.model.tools == [[], ["ask", "note"]]


@pytest.mark.spec("X17")
def test_a_session_that_plans_goes_to_its_end_and_changes_nothing(tmp_path: Path) -> None:
    stage = Stage(tmp_path, said(use("a1"), use("a2", "look", "{}"), use("a3", "ask")), tools=[saying("look", "seen")])
    config = Config(approval=ApprovalConfig(auto_approve=("note",)))
    outcome = stage.advance(config=config, plan=True)
    assert (outcome.kind, stage.notes, stage.asks) == ("done", [], [])
    note, look, asked = stage.results()
    assert (look.output, look.error) == ("seen", False)
    for result in (note, asked):
        assert result.error
        assert result.output.startswith("Plan mode: nothing was run or changed. It would do this:\n")
    assert stage.states().count(State.DENIED) == 2
