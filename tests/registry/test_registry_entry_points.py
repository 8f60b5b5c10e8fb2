"""Tools of installed packages, with real metadata and modules."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.contract.tool import Tool
from holdfast.registry.registry import Registry, load_entry_points

MODULE = """
from holdfast.contract.tool import Tool

def hello(args):
    return "hello"

static = Tool(name="acme.static", execute=hello, source="builtin")
plain = {"name": "acme.plain"}
several = [Tool(name="acme.one"), {"name": "acme.two"}]
resolver = {"resolve": lambda register, done: (register("acme.late", {}), done())}
mistyped = {"name": "acme.mistyped", "exceute": hello}

def factory():
    return Tool(name="acme.made", execute=hello)

def many():
    yield Tool(name="acme.many1")
    yield Tool(name="acme.many2")

def source(register, done):
    register("acme.found", {})
    done()

async def wrong():
    return []

def raising():
    raise RuntimeError("no licence")

def leaving():
    raise SystemExit(3)
"""

Install = Callable[..., str]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install a package with the given entry points for this test."""
    group = f"holdfast.tools.test{abs(hash(tmp_path))}"
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])

    def install(package: str, body: str = MODULE, **points: str) -> str:
        module = f"{package.replace('-', '_')}_{abs(hash(tmp_path))}"
        (tmp_path / f"{module}.py").write_text(body)
        monkeypatch.delitem(sys.modules, module, raising=False)
        info = tmp_path / f"{package.replace('-', '_')}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        lines = [f"{name} = {module}{target}" for name, target in points.items()]
        (info / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines]))
        return group

    return install


@pytest.mark.spec("T8")
def test_a_package_can_offer_tools_factories_lists_and_sources(install: Install) -> None:
    group = install(
        "acme-tools",
        static=":static",
        plain=":plain",
        several=":several",
        factory=":factory",
        many=":many",
        source=":source",
        resolver=":resolver",
    )
    registry = Registry()
    handle = load_entry_points(registry, group)
    asyncio.run(asyncio.wait_for(registry.wait_ready(), 60))
    assert registry.warnings == []
    assert registry.names() == (
        "acme.found",
        "acme.late",
        "acme.made",
        "acme.many1",
        "acme.many2",
        "acme.one",
        "acme.plain",
        "acme.static",
        "acme.two",
    )
    assert {tool.source for tool in registry.list()} == {"package:acme-tools"}
    handle.remove()
    assert registry.list() == ()


@pytest.mark.spec("R11", "T8")
def test_a_function_with_optional_parameters_is_a_tool_and_not_a_factory(install: Install) -> None:
    body = "def deploy(env='prod'):\n    raise SystemExit(env)\nclass Box:\n    def resolve(self, register, done):\n"
    body += "        register('acme.boxed', {})\n        done()\n"
    registry = Registry()
    load_entry_points(registry, install("acme-deploy", body, deploy=":deploy", box=":Box"))
    asyncio.run(asyncio.wait_for(registry.wait_ready(), 60))
    assert registry.warnings == []
    assert registry.names() == ("acme.boxed", "deploy")


@pytest.mark.spec("T8")
def test_a_package_can_offer_a_whole_module(install: Install) -> None:
    group = install("acme-module", "definitions = [{'name': 'acme.module'}]", everything="")
    registry = Registry()
    load_entry_points(registry, group)
    assert registry.names() == ("acme.module",)


@pytest.mark.spec("T8")
@pytest.mark.parametrize(
    ("target", "words"),
    [
        (":raising", "RuntimeError: no licence"),
        (":leaving", "SystemExit: 3"),
        (":missing", "AttributeError"),
        (":wrong", "must not be async"),
        (":mistyped", "no field 'exceute'"),
        ("_nowhere:x", "ModuleNotFoundError"),
    ],
)
def test_a_broken_package_gives_a_warning_and_others_still_load(install: Install, target: str, words: str) -> None:
    group = install("broken", entry=target)
    install("fine", "definitions = [{'name': 'fine.tool'}]", entry="")
    registry = Registry()
    load_entry_points(registry, group)
    assert registry.names() == ("fine.tool",)
    assert len(registry.warnings) == 1
    assert "Tools 'entry'" in registry.warnings[0]
    assert words in registry.warnings[0]


@pytest.mark.spec("T8", "R2")
def test_a_package_can_neither_replace_a_builtin_nor_claim_to_be_one(install: Install) -> None:
    body = "from holdfast.contract.tool import Tool\nx = Tool(name='file.read', source='builtin')"
    group = install("sly", body, x=":x")
    registry = Registry()
    builtin = Tool(name="file.read", source="builtin")
    registry.register(builtin)
    load_entry_points(registry, group)
    assert registry.list() == (builtin,)
    assert len(registry.warnings) == 1 and "'sly'" in registry.warnings[0]


@pytest.mark.spec("T8")
def test_without_packages_there_is_nothing() -> None:
    registry = Registry()
    load_entry_points(registry, "holdfast.tools.nobody_offers_this")
    assert registry.list() == () and registry.warnings == []
