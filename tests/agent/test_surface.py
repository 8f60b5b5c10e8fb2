"""Surfaces narrow the tools that are shown and that run; plan mode changes nothing."""

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
from tests.agent.scripted_model import LoopHarness, fixed_tool, scripted_reply, use

NAMES = (
    "file.read", "file.list", "file.find", "file.write", "file.edit", "code.search", "git.status", "git.diff",
    "git.log", "shell.exec", "output.read",
)  # fmt: skip

LOOKING = ("file.read", "file.list", "file.find", "code.search")
GIT = ("git.status", "git.diff", "git.log")


def tools() -> list[Tool]:
    """Stand-ins for built-in tools that return their own name."""
    known = {tool.name: tool for tool in builtin_tools()}
    return [fixed_tool(name, name).with_(groups=known[name].groups, effects=known[name].effects) for name in NAMES]


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
def test_a_surface_narrows_the_tools_that_are_shown_and_that_run(
    tmp_path: Path, surface: Surface, shown: set[str]
) -> None:
    calls = [use(name, name, "{}") for name in NAMES]
    harness = LoopHarness(tmp_path, scripted_reply(use("n", "note"), *calls), tools=tools(), surface=surface)
    assert harness.advance(config=Config(approval=ApprovalConfig(auto_approve=("*",)))).kind == "done"
    assert harness.model.tools == [sorted(shown)] * 2
    told = {result.name: result.output for result in harness.results()}
    for name in NAMES:
        assert told[name] == (name if name in shown else f"Tool '{name}' is not allowed by tool policy")
    assert len(harness.notes) == ("note" in shown)


@pytest.mark.spec("P6")
def test_a_surface_adds_no_tools_to_those_of_the_caller(tmp_path: Path) -> None:
    off = fixed_tool("file.list", "off").with_(enabled=False)
    kept = [tool for tool in tools() if tool.name != "file.list"]
    only = Caller(only=frozenset({"file.read", "git.log"}))
    harness = LoopHarness(
        tmp_path, scripted_reply(use("a1", "file.find", "{}")), tools=[*kept, off], surface=RETRIEVAL_FIRST
    )
    harness.options["caller"] = only
    assert harness.advance().kind == "done"
    assert harness.model.tools == [["file.read"]] * 2
    assert harness.results()[0].error
    harness.options["caller"] = None
    harness.user.say("Again.")
    assert harness.advance().kind == "done"
    assert harness.model.tools[-1] == ["code.search", "file.find", "file.read", "output.read"]


@pytest.mark.spec("P6")
def test_a_surface_lasts_for_the_turns_it_is_set_for(tmp_path: Path) -> None:
    harness = LoopHarness(tmp_path, surface=ANSWER_ONLY)
    assert harness.advance().kind == "done"
    harness.options.pop("surface")
    harness.user.say("Again.")
    assert harness.advance().kind == "done"
    assert harness.model.tools == [[], ["ask", "note"]]


@pytest.mark.spec("X17")
def test_a_plan_session_completes_and_changes_nothing(tmp_path: Path) -> None:
    harness = LoopHarness(
        tmp_path,
        scripted_reply(use("a1"), use("a2", "look", "{}"), use("a3", "ask")),
        tools=[fixed_tool("look", "seen")],
    )
    config = Config(approval=ApprovalConfig(auto_approve=("note",)))
    outcome = harness.advance(config=config, plan=True)
    assert (outcome.kind, harness.notes, harness.asks) == ("done", [], [])
    note, look, asked = harness.results()
    assert (look.output, look.error) == ("seen", False)
    for result in (note, asked):
        assert result.error
        assert result.output.startswith("Plan mode: nothing was run or changed. It would do this:\n")
    assert harness.states().count(State.DENIED) == 2
