"""A built-in's declaration determines its profiles, groups, presets and surfaces."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

import pytest

import holdfast
from holdfast import Runtime, tools
from holdfast.agent.surface import GIT_READ_ONLY, MUTATION_ENABLED, RETRIEVAL_FIRST, Surface
from holdfast.contract.call import Caller
from holdfast.contract.enums import RUNS_COMMANDS, Profile
from holdfast.contract.tool import Tool
from holdfast.rules.policy import GROUPS, Policy, PolicyRules, ToolMatcher
from holdfast.rules.resolvers import ListPolicy
from holdfast.text.preview import preview
from holdfast.tools import builtin_tools
from tests.runtime.support import run, runtime_in
from tests.syntax import nodes_of

READING = {"file.read", "file.list", "file.find", "code.search", "git.status", "git.diff", "git.log", "system.info",
           "output.read"}  # fmt: skip
PROCESSES = {"process.start", "process.status", "process.output", "process.kill", "process.list"}
MEMORY = {"memory.read", "memory.write", "memory.search", "memory.forget", "memory.list"}
LOOKING = {"browser.text", "browser.find", "browser.screenshot", "browser.wait"}
BROWSER = LOOKING | {"browser.navigate", "browser.back", "browser.click", "browser.type", "browser.select",
                     "browser.close"}  # fmt: skip
GOOGLE = {"gmail.search", "gmail.read", "gcal.events", "gdocs.read", "gdrive.search", "gdrive.read", "gtasks.list"}
MINIMAL = READING | {"calculator", "calculator_async", "tool.search", "web.fetch"}
CODING = MINIMAL | PROCESSES | MEMORY | BROWSER | {"file.write", "file.edit", "shell.exec", "ask.user", "skill.load"}
K8S = {"k8s.pods", "k8s.deployments", "k8s.logs"}
MEDIA = {"media.send", "image.analyze", "audio.transcribe"}
STORAGE = {"minio.share", "minio.ingest", "minio.sync"}
CRON = {"cron.list", "cron.add", "cron.remove"}
FULL = CODING | CRON | GOOGLE | K8S | MEDIA | STORAGE | {"sessions.list", "sessions.delete", "web.search"}
NEW = """
from holdfast.contract.tool import Tool

NEW = Tool(
    name="note.read", execute=lambda args: "noted", description="Read a note.", effects=frozenset({"fs.read"}),
    groups=("fs",), profiles=("coding",), presets=("$readonly",), source="builtin",
)
"""
TABLES = ("tools", "models/operator", "models/text_protocol", "agent/guard", "rules/grant_text")
"""The modules that may contain names of built-ins: their own package, and text by and for models and people."""


def in_profile(profile: Profile) -> set[str]:
    return {tool.name for tool in Policy(PolicyRules(profile=profile)).compile(Caller()).visible(builtin_tools())}


def approved_by(preset: str) -> set[str]:
    policy = ListPolicy([preset])
    return {tool.name for tool in builtin_tools() if policy.approves(tool)}


def on(surface: Surface) -> set[str]:
    return {tool.name for tool in surface.select(builtin_tools())}


@pytest.mark.spec("P1")
def test_each_profile_has_the_built_ins_that_the_specification_names() -> None:
    assert in_profile("minimal") == MINIMAL
    named = {"ask.user", "skill.load", "web.search", "media.send"}
    assert in_profile("messaging") == MINIMAL | MEMORY | GOOGLE | named
    assert in_profile("coding") == CODING
    assert in_profile("full") == FULL == {tool.name for tool in builtin_tools()}


@pytest.mark.spec("P2")
@pytest.mark.parametrize(
    ("group", "names"),
    [
        ("fs", {"file.read", "file.list", "file.find", "file.write", "file.edit", "code.search"}),
        ("git", {"git.status", "git.diff", "git.log"}),
        ("runtime", PROCESSES | {"shell.exec"}),
        ("system", {"system.info", "output.read", "calculator", "calculator_async", "ask.user"}),
        ("skills", {"skill.load"}),
        ("sessions", {"sessions.list", "sessions.delete"}),
        ("memory", MEMORY),
        ("media", MEDIA),
        ("web", BROWSER | {"web.fetch", "web.search"}),
        ("browser", BROWSER),
        ("k8s", K8S),
        ("cron", CRON),
        ("gmail", {"gmail.search", "gmail.read"}),
        ("gcal", {"gcal.events"}),
        ("gdocs", {"gdocs.read"}),
        ("gdrive", {"gdrive.search", "gdrive.read"}),
        ("gtasks", {"gtasks.list"}),
    ],
)
def test_each_group_has_the_built_ins_that_the_specification_names(group: str, names: set[str]) -> None:
    listed = ToolMatcher([f"group:{group}"])
    assert {tool.name for tool in builtin_tools() if listed.match(tool)} == names


@pytest.mark.spec("A6")
def test_each_preset_has_the_built_ins_that_the_specification_names() -> None:
    reading = READING | {"process.status", "process.output", "process.list", "skill.load", "sessions.list", "cron.list"}
    reading |= MEDIA | LOOKING | MEMORY - {"memory.write", "memory.forget"}
    assert approved_by("$readonly") == reading
    assert approved_by("$default") == reading | {"file.write", "file.edit", "browser.close"}
    assert approved_by("$shell-readonly") == set()


@pytest.mark.spec("P2")
def test_every_group_of_a_built_in_is_known() -> None:
    assert GROUPS.issuperset(group for tool in builtin_tools() for group in tool.groups)


@pytest.fixture
def new_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "new_builtin.py").write_text(NEW)
    monkeypatch.setattr(tools, "__path__", [*tools.__path__, str(tmp_path)])
    monkeypatch.setattr(tools, "MODULES", (*tools.MODULES, "new_builtin"))
    yield
    sys.modules.pop("holdfast.tools.new_builtin", None)


@pytest.mark.spec("P1", "P2", "A6", "P6")
@pytest.mark.usefixtures("new_module")
def test_a_new_built_in_needs_one_module_only() -> None:
    assert "note.read" in in_profile("coding") - in_profile("minimal") - in_profile("messaging")
    assert "note.read" in approved_by("$readonly") & approved_by("$default")
    assert "note.read" in on(RETRIEVAL_FIRST) & on(MUTATION_ENABLED)
    assert "note.read" not in on(GIT_READ_ONLY)
    runtime = Runtime(tools=builtin_tools())
    assert "note.read" in {tool.name for tool in runtime.visible()}
    assert any(entry["name"] == "note--read" for entry in runtime.access.tool_list("anthropic", Caller()))


def test_every_tool_of_the_package_is_listed() -> None:
    found = [import_module(module.name) for module in walk_packages(tools.__path__, f"{tools.__name__}.")]
    made = {value for module in found for value in vars(module).values() if isinstance(value, Tool)}
    assert made == set(builtin_tools())
    assert {tool.source for tool in made} == {"builtin"}


@pytest.mark.spec("A11")
def test_nothing_recognises_the_shell_by_its_name() -> None:
    names = {tool.name for tool in builtin_tools() if RUNS_COMMANDS in tool.capabilities}
    assert names == {"shell.exec", "process.start"}
    package = Path(holdfast.__file__).parent
    for path in package.rglob("*.py"):
        inside = path.relative_to(package).as_posix()
        if not inside.startswith(TABLES):
            literals = {node.value for node in nodes_of(path) if isinstance(node, ast.Constant)}
            assert not names & literals, inside


@pytest.mark.parametrize(
    ("name", "args", "shown"),
    [
        ("calculator", {"expression": "2 + 2", "label": None}, "calculator: 2 + 2"),
        ("calculator_async", {"expression": "sqrt(16)", "delay": 500}, "calculator_async: sqrt(16)  # 500ms"),
        ("write", {"path": "output.txt", "content": "x" * 2355, "label": "saving log"},
         "write: output.txt  (2.3KB)  # saving log"),
        ("output.read", {"call": "abc-1", "offset": 5}, "output.read: abc-1  +5,500"),
        ("system.info", {}, "system.info"),
    ],
)  # fmt: skip
@pytest.mark.spec("O1", "O3")
def test_builtins_have_their_own_previews(name: str, args: Any, shown: str) -> None:
    found = next(item for item in builtin_tools() if name in item.names)
    assert preview(name, args, 80, found.format_preview) == shown


@pytest.mark.spec("R10")
def test_without_a_root_there_is_no_file_write(tmp_path: Path) -> None:
    assert "file.write" not in [item.name for item in Runtime(tools=builtin_tools()).visible()]
    assert "file.write" in [item.name for item in runtime_in(tmp_path, *builtin_tools()).visible()]
    assert run(Runtime(tools=builtin_tools()).call("file.write", {"path": "a", "content": "b"})).exit_code == 2
